//! Settings: flags over environment over file over defaults. What is mis-spelt or not allowed refuses the start.

mod access;
mod describe;
mod file;
mod first_administrator;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod http;
mod in_force;
mod log;
#[cfg(test)]
mod manual;
mod names;
mod older;
mod reach;
mod settle;
mod table;
mod tls;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser};
use hermit_broker::BrokerConfig;

use older::Older;
use table::Given;

pub(crate) use http::HttpAddress;
pub(crate) use table::ImportName;

/// A message broker: an append-only, checksummed log, and nothing else to run.
///
/// Every setting can also be given in the environment, as HERMITD_ and its name in capitals, and in the file of --config. Flags win over the
/// environment, and that over the file. The first administrator's password is given by the environment alone: HERMITD_ADMIN_PASSWORD, or
/// HERMITD_ADMIN_PASSWORD_FILE.
#[derive(Debug, Parser)]
#[command(name = "hermitd", version)]
struct Cli {
    /// A TOML file with settings, named as the flags are with `_` for `-`; or the JSON file of an older HermitMQ.
    #[arg(long, value_name = "FILE", env = "HERMITD_CONFIG")]
    config: Option<PathBuf>,
    /// Only check the settings.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    given: Given,
}

/// All settings, each with a value that is allowed.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) broker: BrokerConfig,
    pub(crate) listen: String,
    /// Where HTTP is served, if anywhere.
    pub(crate) http: Option<HttpAddress>,
    /// Whether it is meant that other machines need no login.
    pub(crate) insecure: bool,
    pub(crate) threads: usize,
    pub(crate) log: String,
    pub(crate) import: ImportName,
    /// What the operator should know about the settings.
    pub(crate) notes: Vec<String>,
}

/// What the process was asked to do.
#[derive(Debug)]
pub(crate) enum Invocation {
    /// Nothing but checking the settings, and telling these notes about them.
    Check(Vec<String>),
    Run(Box<Settings>),
}

/// Reads flags, environment and file.
pub(crate) fn from_process() -> anyhow::Result<Invocation> {
    let environment = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let parsed = Cli::try_parse();
    if let Err(error) = &parsed
        && matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
    {
        error.exit();
    }
    if let Some(unknown) = names::unknown_variable(environment) {
        bail!("{unknown}");
    }
    let cli = parsed.unwrap_or_else(|error| match bad_variable(&error) {
        Some(message) => Cli::command().error(error.kind(), message).exit(),
        None => error.exit(),
    });
    let mut settings = resolve(&cli)?;
    if let Some(found) = first_administrator::find(|name| std::env::var_os(name))? {
        settings.appoint(found)?;
    }
    Ok(if cli.check { Invocation::Check(settings.notes) } else { Invocation::Run(Box::new(settings)) })
}

fn resolve(cli: &Cli) -> anyhow::Result<Settings> {
    let Some(path) = &cli.config else {
        return cli.given.clone().settle().and_then(Settings::checked).map_err(|error| with_place(error, None));
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let path = path.display().to_string();
    if older::is_older(&path, &text) {
        return resolve_older(cli, &path, &text);
    }
    let from_file = file::parse(&path, &text)?;
    let settled = cli.given.or(&from_file).settle().and_then(Settings::checked);
    settled.map_err(|error| with_place(error, Some((&path, &text))))
}

impl Settings {
    /// Checks what the settings name outside of themselves.
    fn checked(self) -> anyhow::Result<Self> {
        let mut checked = self.with_reach_checked()?.with_tls_checked()?;
        checked.notes.extend(writable_by_others(&checked.broker.data_dir));
        Ok(checked)
    }

    /// Takes over what the environment says of the first administrator.
    fn appoint(&mut self, found: first_administrator::Found) -> anyhow::Result<()> {
        if !self.broker.access.enabled {
            let note = "a first administrator is given, but nobody has to log in: set `authentication` to \"on\", or leave HERMITD_ADMIN_… out";
            self.notes.push(note.to_owned());
            return Ok(());
        }
        self.notes.extend(found.file.as_deref().and_then(open_to_others));
        self.broker.access.first_administrator = found.administrator;
        Ok(self.broker.check()?)
    }
}

/// What to say of a file with a secret that not only its owner can read.
fn open_to_others(path: &Path) -> Option<String> {
    let mode = std::fs::metadata(path).ok()?.permissions().mode();
    let open = mode & 0o077 != 0;
    open.then(|| format!("{} holds a secret, and others than its owner may read or write it: chmod 600", path.display()))
}

/// The broker makes the directory for itself alone, but one that is there may be anybody's.
fn writable_by_others(dir: &Path) -> Option<String> {
    let mode = std::fs::metadata(dir).ok()?.permissions().mode();
    let note = "others than its owner may write to the data directory, and put users, rules and data of theirs in place of those that are there: chmod 700";
    (mode & 0o022 != 0).then(|| format!("{}: {note}", dir.display()))
}

fn resolve_older(cli: &Cli, path: &str, text: &str) -> anyhow::Result<Settings> {
    let older = older::parse(path, text)?;
    let settled = cli.given.or(&older.given).settle().and_then(Settings::checked);
    let mut settings = settled.map_err(|error| match unplaced(&error).as_deref().and_then(|setting| older.origin(setting)) {
        Some((line, key)) => anyhow!("{path}:{line}: `{key}`, which gives {error:#}"),
        None => with_place(error, None),
    })?;
    settings.notes.extend(notes(cli, path, &older));
    Ok(settings)
}

/// What an old file's keys mean now, where that is not plain.
fn notes(cli: &Cli, path: &str, older: &Older) -> Vec<String> {
    let mut notes: Vec<_> = older.ignored.iter().map(|key| format!("{path}: `{key}` has no meaning any more")).collect();
    if let Some(interval) = older.given.os_flush_interval_ms.filter(|_given| cli.given.durability.is_none()) {
        let interval = cli.given.os_flush_interval_ms.unwrap_or(interval);
        notes.push(format!(
            "{path}: `storage.flush_interval_ms` means durability = \"os\": messages are answered before they are on disk, and a power cut or a crash of the machine \
             loses those of the last {interval} ms. Leave it out, or set --durability sync, and an answer means disk"
        ));
    }
    notes
}

/// The setting that an error begins with, where it came neither by a flag nor by the environment.
fn unplaced(error: &anyhow::Error) -> Option<String> {
    let message = format!("{error:#}");
    let setting = message.strip_prefix('`')?.split('`').next()?;
    let given = is_flag_given(&format!("--{}", setting.replace('_', "-"))) || std::env::var_os(names::variable(setting)).is_some();
    (!given).then(|| setting.to_owned())
}

/// The message for a value that is none and came from the environment; for one from a flag, clap's own is right.
fn bad_variable(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let flag = argument.split_whitespace().next()?;
    let variable = names::variable(&flag.strip_prefix("--")?.replace('-', "_"));
    if is_flag_given(flag) || std::env::var_os(&variable).is_none() {
        return None;
    }
    let text = error.render().to_string().replace(&format!("'{argument}'"), &format!("the environment variable {variable}"));
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    Some(text.split("\n\n").next()?.trim_end().to_owned())
}

/// Puts in front of an error, which begins with the setting in backquotes, where its value comes from.
fn with_place(error: anyhow::Error, file: Option<(&str, &str)>) -> anyhow::Error {
    let message = format!("{error:#}");
    let Some(setting) = message.strip_prefix('`').and_then(|rest| rest.split('`').next()) else { return error };
    if is_flag_given(&format!("--{}", setting.replace('_', "-"))) {
        return error;
    }
    let variable = names::variable(setting);
    if std::env::var_os(&variable).is_some() {
        return anyhow!("{variable}: {message}");
    }
    match file.and_then(|(path, text)| Some((path, file::line_of(setting, text)?))) {
        Some((path, line)) => anyhow!("{path}:{line}: {message}"),
        None => error,
    }
}

fn is_flag_given(flag: &str) -> bool {
    let arguments = std::env::args_os().filter_map(|argument| argument.into_string().ok());
    arguments.into_iter().any(|argument| argument.split('=').next() == Some(flag))
}
