//! Settings: flags over environment over file over defaults. What is mis-spelt, not allowed or contradictory refuses the start, and all of it is told at once.

mod contradictions;
mod environment;
mod file;
pub(crate) mod finding;
mod first_administrator;
mod flags;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod gather;
mod http;
mod in_force;
mod log;
mod names;
mod older;
mod otlp;
mod outside;
mod packaging;
mod quantity;
mod reach;
mod reference;
mod settle;
mod show;
mod small_file;
pub(crate) mod table;
mod tls;
mod value;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use hermit_broker::{BrokerConfig, FirstAdministrator, TlsConfig};
use rustix::fs::{Mode, OFlags};

use finding::{Findings, Origin};
use flags::{Asked, Output};
use gather::{Gathered, Origins};

use crate::health::Question;

pub(crate) use flags::Flags;
pub(crate) use http::HttpAddress;
pub(crate) use in_force::{NamedValue, described};
pub(crate) use otlp::OtlpSettings;
pub(crate) use small_file::read_small;
pub(crate) use table::{ImportName, LogFormatName};

/// All settings, each with a value that is allowed.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) broker: BrokerConfig,
    pub(crate) listen: String,
    /// Where HTTP is served, if anywhere.
    pub(crate) http: Option<HttpAddress>,
    /// TLS for HTTP, if there is any.
    pub(crate) http_tls: Option<TlsConfig>,
    /// Whether it is meant that other machines need no login.
    pub(crate) insecure: bool,
    pub(crate) threads: usize,
    pub(crate) log: String,
    pub(crate) log_format: LogFormatName,
    /// Whether `/metrics` shows each partition.
    pub(crate) metrics_per_partition: bool,
    pub(crate) otlp: OtlpSettings,
    pub(crate) import: ImportName,
    /// Where those stand that somebody has given.
    pub(crate) origins: Origins,
    /// What the operator should know about the settings.
    pub(crate) notes: Vec<String>,
}

/// What the process was asked to do.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Nothing but checking the settings, and telling these notes about them.
    Check(Vec<String>),
    /// Printing this, and telling these notes.
    Print(String, Vec<String>),
    /// Asking the broker that runs with these settings.
    Health(Box<Settings>, Question),
    /// Serving, with settings that can be read again.
    Run(Box<Settings>, Sources),
}

/// Where settings come from: flags, environment and file, of which only the file can be another one later.
#[derive(Debug)]
pub(crate) struct Sources(Flags);

/// The command line of the process.
pub(crate) fn flags() -> Flags {
    flags::parse(std::env::args_os().collect())
}

/// Reads environment and file, too.
pub(crate) fn invocation(flags: Flags) -> Result<Invocation, Findings> {
    let asked = flags.asked.clone();
    match &asked {
        // Whatever file and environment say.
        Asked::Completions(shell) if flags.are_sound() => return Ok(Invocation::Print(packaging::completions(*shell), Vec::new())),
        Asked::Man(dir) if flags.are_sound() => {
            return packaging::man(dir).map(|told| Invocation::Print(told, Vec::new()));
        }
        _ => {}
    }
    let sources = Sources(flags);
    let mut gathered = sources.gather(read);
    if asked == Asked::Reference && gathered.findings.is_empty() {
        return Ok(Invocation::Print(reference::reference(), Vec::new()));
    }
    let mut settings = gathered.settle();
    if let Asked::Health(question) = asked {
        // What a running broker's settings name is that one's to look at.
        return Ok(Invocation::Health(Box::new(gathered.finish(settings)?), question));
    }
    gathered.look_outside(&settings);
    gathered.appoint(&mut settings);
    let settings = gathered.finish(settings)?;
    Ok(match asked {
        Asked::Check | Asked::Reference | Asked::Health(_) | Asked::Completions(_) | Asked::Man(_) => {
            Invocation::Check(settings.notes)
        }
        Asked::Config(Output::Toml) => Invocation::Print(settings.to_toml(), settings.notes),
        Asked::Config(Output::Json) => Invocation::Print(settings.to_json(), settings.notes),
        Asked::Run => Invocation::Run(Box::new(settings), sources),
    })
}

impl Sources {
    /// The settings as they are given now, checked as at a start. A settings file must be a regular one: a pipe has been read to its end at the start.
    ///
    /// # Errors
    /// All that is wrong.
    pub(crate) fn read_again(&self) -> Result<Settings, Findings> {
        let mut gathered = self.gather(read_regular);
        let settings = gathered.settle();
        gathered.look_outside(&settings);
        gathered.finish(settings)
    }

    #[cfg(test)]
    pub(crate) fn of_file(file: &Path) -> Self {
        Self(flags::parse(vec!["hermitd".into(), "--config".into(), file.into()]))
    }

    fn gather(&self, read: Reader) -> Gathered {
        let mut gathered = Gathered::default();
        let (file, origin) = match (&self.0.config, std::env::var_os("HERMITD_CONFIG")) {
            (Some(file), _) => (Some(file.clone()), Origin::Flag("--config".to_owned())),
            (None, file) => (file.map(PathBuf::from), Origin::Variable("HERMITD_CONFIG".to_owned())),
        };
        if let Some(file) = file {
            gathered.take_file(&file, origin, read);
        }
        environment::take(std::env::vars_os(), &mut gathered);
        self.0.take(&mut gathered);
        gathered
    }
}

/// A longer file is the wrong one.
const MAX_FILE_BYTES: u64 = 1 << 20;

impl Gathered {
    fn take_file(&mut self, path: &Path, origin: Origin, read: Reader) {
        let shown = path.display().to_string();
        match read(path) {
            Ok(text) if older::is_older(&shown, &text) => older::take(&shown, &text, self),
            Ok(text) => file::take(&shown, &text, self),
            Err(error) => self.findings.add(origin, format!("{shown} cannot be read: {error}")),
        }
    }

    /// Takes over what the environment says of the first administrator.
    fn appoint(&mut self, settings: &mut Settings) {
        let found = match first_administrator::find(|name| std::env::var_os(name)) {
            Ok(Some(found)) => found,
            Ok(None) => return,
            Err(error) => return self.findings.add(Origin::Default, format!("{error:#}")),
        };
        if !settings.broker.access.enabled {
            let note = "a first administrator is given, but nobody has to log in: set `authentication` to \"on\", or leave HERMITD_ADMIN_… out";
            self.notes.push(note.to_owned());
            return;
        }
        self.notes.extend(found.file.as_deref().and_then(outside::open_to_others));
        if let FirstAdministrator::Missing { why } = &found.administrator {
            self.notes.push(format!("{why}: it is needed only where nobody may administer the broker yet"));
        }
        settings.broker.access.first_administrator = found.administrator;
        if self.findings.is_empty()
            && let Err(error) = settings.broker.check()
        {
            self.findings.add(Origin::Default, error.to_string());
        }
    }

    /// The settings, if nothing is wrong.
    fn finish(self, settings: Settings) -> Result<Settings, Findings> {
        if !self.findings.is_empty() {
            return Err(self.findings);
        }
        Ok(Settings { origins: self.origins, notes: self.notes, ..settings })
    }
}

/// How the settings file is read.
type Reader = fn(&Path) -> io::Result<String>;

fn read(path: &Path) -> io::Result<String> {
    read_all(File::open(path)?)
}

/// Never waits for a writer, and takes nothing out of a pipe.
fn read_regular(path: &Path) -> io::Result<String> {
    let refuse =
        || io::Error::other("it is no regular file, and cannot be read a second time: give the settings in a file, or restart");
    if !std::fs::metadata(path)?.is_file() {
        return Err(refuse());
    }
    // Another one may be there by now.
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let file = File::from(file);
    if file.metadata()?.is_file() { read_all(file) } else { Err(refuse()) }
}

fn read_all(file: File) -> io::Result<String> {
    read_small(file, MAX_FILE_BYTES, "the settings file")
}
