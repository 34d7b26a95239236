//! The command line: a flag for each setting, and what else can be asked. Everything that is wrong with it is found at once.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use super::environment::with_unit;
use super::finding::{Origin, excerpt};
use super::gather::Gathered;
use super::names;
use super::table::{Setting, settings};
use super::value::Raw;
use crate::health::Question;

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Asked {
    /// A broker.
    Run,
    /// Whether the settings are valid.
    Check,
    /// The settings in force.
    Config(Output),
    /// The manual's table of settings.
    Reference,
    /// How the broker is that runs with the same settings.
    Health(Question),
    /// What a shell needs to complete the command line.
    Completions(Shell),
    /// The manual's pages, written to this directory.
    Man(PathBuf),
}

/// How settings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Toml,
    Json,
}

/// The command line as far as it could be read.
#[derive(Debug)]
pub(crate) struct Flags {
    pub(super) asked: Asked,
    pub(super) config: Option<PathBuf>,
    matches: ArgMatches,
    /// What is wrong with it.
    errors: Vec<(String, String)>,
    /// Flags from before values had units, as they were given.
    former: Vec<String>,
}

const ABOUT: &str = "A message broker: an append-only, checksummed log, and nothing else to run.";
const LONG_ABOUT: &str = "A message broker: an append-only, checksummed log, and nothing else to run.

Every setting can also be given in the environment, as HERMITD_ and its name in capitals, and in the file of --config. Flags win over the
environment, and that over the file. The first administrator's password is given by the environment alone: HERMITD_ADMIN_PASSWORD, or
HERMITD_ADMIN_PASSWORD_FILE. SIGHUP reads file and certificates again. Exit status of a broker: 0 after a stop, 78 where
the settings are wrong, so that another start would end like this one, and 1 for all else.";

const SUBCOMMANDS: [&str; 4] = ["config", "health", "completions", "man"];

/// The whole command line.
pub(super) fn command() -> Command {
    let config = Arg::new("config").long("config").value_name("FILE").action(ArgAction::Append).global(true);
    let config = config.help("A TOML file with settings, named as the flags are with `_` for `-`; or the JSON file of an older HermitMQ [environment: HERMITD_CONFIG]");
    let check = Arg::new("check").long("check").action(ArgAction::SetTrue);
    let check = check.help("Only check the settings, and what they name: certificates, addresses, the data directory. Exit status 0: a broker could start; 1: it could not");
    let reference = Arg::new("reference").long("reference").action(ArgAction::SetTrue);
    let reference = reference.help("Print what every setting means, as the manual has it (Markdown)");
    let output = Arg::new("output").long("output").value_name("FORMAT").value_parser(["toml", "json"]).default_value("toml");
    let output = output.help("`toml`, which is a settings file, or `json`");
    let print = Command::new("config").arg(reference).arg(output);
    let print = print.about("Prints the settings in force, each with where it comes from");
    let ready = Arg::new("ready").long("ready").action(ArgAction::SetTrue);
    let ready = ready.help("Ask whether it serves clients, not only whether it is alive");
    let health = Command::new("health").arg(ready);
    let health = health.about("Asks the broker that runs with the same settings how it is, over HTTP. Exit status 0: well; 1: it is not, or does not answer");
    let shell = Arg::new("shell").required(true).value_parser(value_parser!(Shell)).help("The shell");
    let completions = Command::new("completions").arg(shell).about("Prints what a shell needs to complete this command line");
    let dir = Arg::new("dir").required(true).value_name("DIR").value_parser(value_parser!(PathBuf));
    let dir = dir.help("The directory, which is made if it is not there. Files of the same names are replaced");
    let man = Command::new("man").arg(dir).about("Writes the manual pages to a directory");
    let mut command = Command::new("hermitd").version(env!("CARGO_PKG_VERSION")).about(ABOUT).long_about(LONG_ABOUT);
    command = command.arg(config).arg(check).subcommands([print, health, completions, man]).next_help_heading("Settings");
    for setting in settings() {
        command = command.arg(argument(setting));
    }
    command
}

fn argument(setting: &'static Setting) -> Arg {
    let argument = Arg::new(setting.name).long(setting.flag.as_str()).value_name(setting.placeholder);
    let argument =
        argument.help(setting.meaning.trim_end_matches('.')).action(ArgAction::Append).allow_negative_numbers(true).global(true);
    if setting.is_switch { argument.num_args(0..=1).require_equals(true).default_missing_value("true") } else { argument }
}

/// Reads a command line, the program's name included. Help and version are printed, and end the process.
pub(super) fn parse(mut arguments: Vec<OsString>) -> Flags {
    let (mut errors, mut former) = (Vec::new(), Vec::new());
    // Each round but the last takes an argument out, or a former name away.
    loop {
        let error = match command().try_get_matches_from(&arguments) {
            Ok(matches) => return read(matches, errors, former),
            Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => error.exit(),
            Err(error) => error,
        };
        let at = place(&error, &arguments);
        if let Some(at) = at
            && let Some(given) = rename(&mut arguments, at)
        {
            former.push(given);
            continue;
        }
        let written = at.and_then(|at| arguments.get(at)).map(|argument| argument.to_string_lossy().into_owned());
        errors.push(told(&error, written.as_deref()));
        let Some(at) = at else {
            // What is wrong cannot be found among the arguments: nothing more can be said of them.
            return read(command().get_matches_from(["hermitd"]), errors, former);
        };
        let has_value = written.is_some_and(|written| written.starts_with("--") && !written.contains('='));
        let is_subcommand = |argument: &OsString| SUBCOMMANDS.iter().any(|name| argument == name);
        let is_secret = arguments.get(at).is_some_and(|flag| is_of_a_secret(&flag.to_string_lossy()));
        // Behind the flag of a secret is a secret, whatever it looks like, and is not to be told as an argument that is not known.
        let is_value =
            |argument: &OsString| is_secret || (!argument.to_string_lossy().starts_with('-') && !is_subcommand(argument));
        if has_value && arguments.get(at + 1).is_some_and(is_value) {
            arguments.remove(at + 1);
        }
        arguments.remove(at);
    }
}

/// Where the argument stands that an error is about.
fn place(error: &clap::Error, arguments: &[OsString]) -> Option<usize> {
    let named = [ContextKind::InvalidSubcommand, ContextKind::InvalidArg].into_iter().find_map(|kind| match error.get(kind) {
        Some(ContextValue::String(argument)) => Some(argument.as_str()),
        Some(ContextValue::Strings(arguments)) => arguments.first().map(String::as_str),
        _ => None,
    })?;
    // Behind the flag there may be what stands for its value.
    let flag = if named.starts_with('-') { named.split([' ', '=']).next()? } else { named };
    let is_it = |argument: &OsString| {
        let argument = argument.to_string_lossy();
        argument == named || argument.split('=').next() == Some(flag)
    };
    arguments.iter().skip(1).position(is_it).map(|at| at + 1)
}

/// Gives a flag from before values had units its name of today. The flag as it was, if it was one.
fn rename(arguments: &mut [OsString], at: usize) -> Option<String> {
    let written = arguments.get(at)?.to_str()?.to_owned();
    let (flag, value) = written.split_once('=').map_or((written.as_str(), None), |(flag, value)| (flag, Some(value)));
    let (setting, unit) = names::formerly(&flag.strip_prefix("--")?.replace('-', "_"))?;
    let mut renamed = names::flag(setting.name);
    match value {
        Some(value) => renamed = format!("{renamed}={}", with_unit(value, unit)),
        None => {
            if let Some(next) = arguments.get_mut(at + 1)
                && let Some(value) = next.to_str()
            {
                *next = with_unit(value, unit).into();
            }
        }
    }
    *arguments.get_mut(at)? = renamed.into();
    Some(flag.to_owned())
}

/// The argument and what is wrong with it. Never its value, unless that is all there is: it may be a secret that somebody believed to have a flag.
fn told(error: &clap::Error, written: Option<&str>) -> (String, String) {
    let argument = excerpt(written.and_then(|written| written.split('=').next()).unwrap_or("the command line"));
    let message = match (error.kind(), written) {
        (ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand, Some(written)) => match written.strip_prefix("--") {
            Some(name) => {
                let name = name.split('=').next().unwrap_or_default();
                let mut known: Vec<_> = names::known().iter().map(|name| name.replace('_', "-")).collect();
                known.extend(["config", "check", "help", "version"].map(str::to_owned));
                match names::nearest(name, &known) {
                    _ if is_of_a_secret(name) => "there is no such flag; passwords are given by the environment alone, see `hermitd --help`, and what stands on a command \
                         line is seen by others on this machine: if this was a password, choose another"
                        .to_owned(),
                    Some(meant) => format!("there is no such flag; did you mean --{meant}?"),
                    None => "there is no such flag; `hermitd --help` lists them".to_owned(),
                }
            }
            None => "there is nothing of that name; `hermitd config`, `health`, `completions` or `man`, and flags can be given"
                .to_owned(),
        },
        (
            ErrorKind::InvalidValue | ErrorKind::NoEquals | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues,
            Some("--output"),
        ) => "give toml or json".to_owned(),
        (ErrorKind::InvalidValue | ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues, Some(_)) => {
            "it needs a value".to_owned()
        }
        _ => plain(error),
    };
    (argument, message)
}

/// Whether somebody may believe that a flag of this name takes a secret.
fn is_of_a_secret(flag: &str) -> bool {
    let flag = flag.to_ascii_lowercase();
    ["pass", "pasw", "pwd", "secret", "token"].iter().any(|part| flag.contains(part))
}

/// Clap's own words, on one line.
fn plain(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    excerpt(text.split("\n\n").next().unwrap_or_default().trim_end())
}

fn read(matches: ArgMatches, mut errors: Vec<(String, String)>, former: Vec<String>) -> Flags {
    let asked = match matches.subcommand() {
        Some(("health", matches)) => Asked::Health(if matches.get_flag("ready") { Question::Ready } else { Question::Alive }),
        Some(("completions", matches)) => matches.get_one("shell").copied().map_or(Asked::Run, Asked::Completions),
        Some(("man", matches)) => matches.get_one::<PathBuf>("dir").cloned().map_or(Asked::Run, Asked::Man),
        Some((_, config)) if config.get_flag("reference") => Asked::Reference,
        Some((_, config)) => match config.get_one::<String>("output").map(String::as_str) {
            Some("json") => Asked::Config(Output::Json),
            _ => Asked::Config(Output::Toml),
        },
        None if matches.get_flag("check") => Asked::Check,
        None => Asked::Run,
    };
    if matches.subcommand_name() == Some("config") && matches.get_flag("check") {
        errors.push(("--check".to_owned(), "`hermitd config` checks the settings anyway: leave --check out".to_owned()));
    }
    let files: Vec<_> = given(&matches, "config");
    if files.len() > 1 {
        errors.push(("--config".to_owned(), "it is given twice: leave one out".to_owned()));
    }
    let config = files.last().map(PathBuf::from);
    Flags { asked, config, matches, errors, former }
}

/// The values of an argument, before and behind the subcommand.
fn given(matches: &ArgMatches, argument: &str) -> Vec<String> {
    matches.get_many::<String>(argument).unwrap_or_default().cloned().collect()
}

impl Flags {
    /// Whether they ask for a broker, and not for a check of its settings or the like.
    pub(crate) fn asks_for_broker(&self) -> bool {
        self.asked == Asked::Run
    }

    /// Whether nothing is wrong with the command line.
    pub(super) const fn are_sound(&self) -> bool {
        self.errors.is_empty()
    }

    /// Takes what the flags say.
    pub(super) fn take(&self, gathered: &mut Gathered) {
        for (argument, message) in &self.errors {
            gathered.findings.add(Origin::Flag(argument.clone()), message.clone());
        }
        for setting in settings() {
            let flag = Origin::Flag(names::flag(setting.name));
            let values = given(&self.matches, setting.name);
            if values.len() > 1 {
                gathered.findings.add(flag.clone(), "it is given twice: leave one out");
            }
            for value in &values {
                gathered.take(setting.name, Raw::Text(value), flag.clone(), value);
            }
        }
        for written in &self.former {
            if let Some((setting, unit)) = names::formerly(&written.trim_start_matches('-').replace('-', "_")) {
                gathered.note_former(&Origin::Flag(written.clone()), written, setting, unit);
            }
        }
    }
}
