//! The command line.

mod acl;
mod bench;
mod connection;
mod consume;
mod group;
mod log;
mod observe;
mod packaging;
mod produce;
mod profile;
mod topic;
mod transfer;
mod user;
mod value;

use std::ffi::OsString;

use clap::builder::Resettable;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use acl::AclCommand;
pub(crate) use bench::{BenchCommand, BenchConsumeArgs, BenchProduceArgs, EndToEndArgs};
pub(crate) use connection::{ConnectionArgs, DEFAULT_SERVER, Login, TOKEN, address};
pub(crate) use consume::{ConsumeArgs, HeaderFilter, Until};
pub(crate) use group::{GroupCommand, SeekArgs};
pub(crate) use log::{DirArgs, LogCommand, LogImportArgs, RepairArgs, RestoredArgs};
pub(crate) use observe::{StatusArgs, TopArgs};
pub(crate) use packaging::{CompletionsArgs, ManArgs};
pub(crate) use produce::{Partitions, ProduceArgs};
pub(crate) use profile::ProfileCommand;
pub(crate) use topic::{AddPartitionsArgs, AlterArgs, CreateArgs, Settings, TopicCommand, TrimArgs};
pub(crate) use transfer::{ExportArgs, ImportArgs};
pub(crate) use user::{AddUserArgs, NewPasswordArgs, PasswdArgs, TokenCommand, UserCommand};

/// Produces to, consumes from and looks after the topics of a HermitMQ broker.
#[derive(Debug, Parser)]
#[command(name = "hermit-cli", version, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// How answers are printed: for people, or one JSON value a line.
    #[arg(long, value_enum, default_value_t, value_name = "FORM", global = true)]
    pub(crate) output: Output,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  hermit-cli topic create orders --partitions 4
  echo 'hello' | hermit-cli produce orders
  hermit-cli consume orders --until end
  hermit-cli consume orders --group billing        several of these share the partitions
  hermit-cli group describe billing                who reads what, and how far behind
  hermit-cli status
  hermit-cli top
  hermit-cli bench e2e load --rate 10000           how long a record takes to a consumer
  hermit-cli user add alice
  hermit-cli acl add alice --topic orders --allow produce,consume
  hermit-cli --server a:9092 export orders - | hermit-cli --server b:9092 import orders -

`hermit-cli COMMAND --help` says more about each. The exit status is 0 if all was done, 1 if not, 2 for a command line that
cannot be understood, and 128 + N if signal N ended it.";

impl Cli {
    /// Reads a command line, the program's name first.
    pub(crate) fn read(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, clap::Error> {
        let mut command = Self::command().mut_args(without_empty_variable);
        let matches = command.try_get_matches_from_mut(arguments)?;
        let mut cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        if let Err(problem) = cli.connection.choose(&matches) {
            return Err(command.error(ErrorKind::ArgumentConflict, problem));
        }
        let format = matches.subcommand_matches("consume").and_then(|consume| consume.value_source("format"));
        if cli.output == Output::Json && format == Some(ValueSource::CommandLine) {
            let problem = "`--format` cannot be used with `--output json`, whose form is fixed";
            return Err(command.error(ErrorKind::ArgumentConflict, problem));
        }
        if let Command::Consume(args) = &cli.command
            && let Some(problem) = args.contradiction()
        {
            return Err(command.error(ErrorKind::ArgumentConflict, problem));
        }
        Ok(cli)
    }
}

/// A variable without a value says nothing, as if it were not there.
fn without_empty_variable(argument: Arg) -> Arg {
    match argument.get_env().and_then(std::env::var_os) {
        Some(value) if value.is_empty() => argument.env(Resettable::Reset),
        _ => argument,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Creates, lists, describes, alters, trims and deletes topics.
    #[command(subcommand)]
    Topic(TopicCommand),
    /// Lists, describes, moves and deletes consumer groups.
    #[command(subcommand)]
    Group(GroupCommand),
    /// Sends records from files or standard input: lines, JSON, or whole files.
    Produce(ProduceArgs),
    /// Prints records, and follows what comes.
    Consume(ConsumeArgs),
    /// Writes a topic to a file, to be read by `import`.
    Export(ExportArgs),
    /// Sends what `export` wrote to a topic.
    Import(ImportArgs),
    /// Measures what a topic carries: producing, consuming, and latency end to end, with every record checked.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Looks after data directories, without a broker.
    #[command(subcommand)]
    Log(LogCommand),
    /// Tells how the broker fares, on one screen; the exit status says whether something needs acting on.
    Status(StatusArgs),
    /// Shows topics, groups and what the broker uses, live.
    Top(TopArgs),
    /// Tells about the broker.
    #[command(subcommand)]
    Broker(BrokerCommand),
    /// Creates, lists, changes and deletes users and their tokens.
    #[command(subcommand)]
    User(UserCommand),
    /// Says what users may do.
    #[command(subcommand)]
    Acl(AclCommand),
    /// Lists, shows and chooses profiles: how brokers are reached and who asks, by name.
    #[command(subcommand, after_help = profile::ABOUT_FILE)]
    Profile(ProfileCommand),
    /// Prints what a shell needs to complete these commands.
    Completions(CompletionsArgs),
    /// Writes the manual pages of all commands to a directory.
    Man(ManArgs),
}

impl Command {
    /// Whether it is about a broker, so that a profile counts.
    pub(crate) const fn needs_broker(&self) -> bool {
        !matches!(self, Self::Log(_) | Self::Profile(_) | Self::Completions(_) | Self::Man(_))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum BrokerCommand {
    /// Tells the broker's version, load and settings.
    #[command(after_help = "Example:\n  hermit-cli broker describe --output json")]
    Describe,
}

#[cfg(test)]
mod tests;
