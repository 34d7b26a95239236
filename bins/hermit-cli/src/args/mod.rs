//! The command line.

mod bench;
mod consume;
mod group;
mod log;
mod produce;
mod topic;
mod transfer;
mod value;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use bench::{BenchCommand, BenchConsumeArgs, BenchProduceArgs, EndToEndArgs};
pub(crate) use consume::{ConsumeArgs, HeaderFilter, Until};
pub(crate) use group::{GroupCommand, SeekArgs};
pub(crate) use log::{DirArgs, LogCommand, LogImportArgs, RepairArgs};
pub(crate) use produce::{Partitions, ProduceArgs};
pub(crate) use topic::{AddPartitionsArgs, AlterArgs, CreateArgs, Settings, TopicCommand, TrimArgs};
pub(crate) use transfer::{ExportArgs, ImportArgs};

/// Produces to, consumes from and looks after the topics of a HermitMQ broker.
#[derive(Debug, Parser)]
#[command(name = "hermit-cli", version, propagate_version = true, after_help = EXAMPLES)]
pub(crate) struct Cli {
    /// The broker's address.
    #[arg(long, env = "HERMIT_SERVER", default_value = "127.0.0.1:9092", value_name = "ADDR", value_parser = address, global = true)]
    pub(crate) server: String,
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
  hermit-cli bench e2e load --rate 10000           how long a record takes to a consumer
  hermit-cli --server a:9092 export orders - | hermit-cli --server b:9092 import orders -

`hermit-cli COMMAND --help` says more about each. The exit status is 0 if all was done, 1 if not, 2 for a command line that
cannot be understood, and 128 + N if signal N ended it.";

impl Cli {
    /// Reads a command line, the program's name first.
    pub(crate) fn read(arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let matches = command.try_get_matches_from_mut(arguments)?;
        let cli = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
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
    /// Tells about the broker.
    #[command(subcommand)]
    Broker(BrokerCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum BrokerCommand {
    /// Tells the broker's version, load and settings.
    #[command(after_help = "Example:\n  hermit-cli broker describe --output json")]
    Describe,
}

fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("write it as HOST:PORT, such as 127.0.0.1:9092".to_owned()),
    }
}

#[cfg(test)]
mod tests;
