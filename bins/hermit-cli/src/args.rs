//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use hermit_client::{Acks, Codec, Durability, Offset, OnLostPosition};

use crate::format::Format;
use crate::quantity::{self, Limit};

/// Produces to, consumes from and looks after the topics of a HermitMQ broker.
#[derive(Debug, Parser)]
#[command(name = "hermit-cli", version, propagate_version = true)]
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
    /// Creates, lists, describes and deletes topics.
    #[command(subcommand)]
    Topic(TopicCommand),
    /// Sends lines, one record each, from files or standard input.
    Produce(ProduceArgs),
    /// Prints records, and follows what comes.
    Consume(ConsumeArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Creates a topic.
    Create(CreateArgs),
    /// Lists all topics.
    List,
    /// Tells a topic's settings and its partitions' offsets.
    Describe {
        /// The topic.
        topic: String,
    },
    /// Deletes a topic and its data, without asking back.
    Delete {
        /// The topic.
        topic: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name: 1 to 255 bytes of UTF-8, without control characters, not beginning with `__`.
    pub(crate) topic: String,
    /// How many partitions. Default: the broker's.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) partitions: Option<u32>,
    /// What an answered message survives: `sync` a power cut, `os` a crash of the broker. Default: the broker's.
    #[arg(long, value_parser = durability, value_name = "sync|os")]
    pub(crate) durability: Option<Durability>,
    /// Keep only the newest record of each key.
    #[arg(long)]
    pub(crate) compaction: bool,
    /// Delete records this long after they were stored: `90s`, `12h`, `7d`, or `never`.
    #[arg(long, value_parser = quantity::age_ms, value_name = "AGE")]
    pub(crate) retention_age: Option<Limit>,
    /// Delete the oldest when a partition has more bytes: `500MiB`, `10GB`, or `never`.
    #[arg(long, value_parser = quantity::bytes, value_name = "SIZE")]
    pub(crate) retention_bytes: Option<Limit>,
    /// Bytes at which a segment is rolled.
    #[arg(long, value_parser = quantity::bytes, value_name = "SIZE")]
    pub(crate) segment_bytes: Option<Limit>,
}

#[derive(Debug, Args)]
pub(crate) struct ProduceArgs {
    /// The topic. One that is not there is created, if the broker's settings allow.
    pub(crate) topic: String,
    /// What to read; `-` is standard input, which is also the default.
    pub(crate) files: Vec<PathBuf>,
    /// The key is what stands before the first S in the line, the value what stands behind. A line without S has no key.
    #[arg(long, value_name = "S", value_parser = clap::builder::NonEmptyStringValueParser::new(), conflicts_with = "key_column")]
    pub(crate) key_separator: Option<String>,
    /// The key is the N-th field of the line, which is CSV; the value is the whole line.
    #[arg(long, value_name = "N", value_parser = column)]
    pub(crate) key_column: Option<usize>,
    /// Send everything to this partition, whatever the key.
    #[arg(long, value_name = "N")]
    pub(crate) partition: Option<u32>,
    /// How batches are compressed: `none`, `lz4` or `zstd`.
    #[arg(long, value_name = "CODEC", value_parser = codec, default_value = "none")]
    pub(crate) codec: Codec,
    /// When a record counts as sent: `committed`, when it is as durable as the topic promises, or `none`, when it is written to the socket.
    #[arg(long, value_name = "ACKS", value_parser = acks, default_value = "committed")]
    pub(crate) acks: Acks,
}

#[derive(Debug, Args)]
pub(crate) struct ConsumeArgs {
    /// The topic.
    pub(crate) topic: String,
    /// Only this partition; can be given several times. Default: all.
    #[arg(long, value_name = "N", action = ArgAction::Append)]
    pub(crate) partition: Vec<u32>,
    /// Begin where this group committed, and commit for it what was printed.
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Where to begin: `earliest`, `latest` or an offset. Default: where the group committed, else `earliest`.
    #[arg(long, value_name = "FROM", value_parser = from, allow_negative_numbers = true)]
    pub(crate) from: Option<From>,
    /// Where to end: `end`, at what was there when the command began. Default: follow what comes.
    #[arg(long, value_enum)]
    pub(crate) until: Option<Until>,
    /// End after N records.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// How to print a record: %t topic, %p partition, %o offset, %T time in ms, %k key, %s value, %h headers, %K and %S sizes of key and
    /// value (-1: none), %% percent; \n, \t, \r, \0, \\, \xHH.
    #[arg(long, default_value = r"%s\n")]
    pub(crate) format: Format,
    /// Go on behind damaged records; they are named on standard error, and the exit status is not 0.
    #[arg(long)]
    pub(crate) skip_damaged: bool,
    /// Where to go on if the log does not reach the position any more: `earliest`, `latest`, or `epoch-end`, behind the last record that
    /// is still the same. Default: end with an error.
    #[arg(long, value_name = "WHERE", value_parser = on_lost_position)]
    pub(crate) on_lost_position: Option<OnLostPosition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Earliest,
    Latest,
    Offset(Offset),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Until {
    End,
}

fn address(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("write it as HOST:PORT, such as 127.0.0.1:9092".to_owned()),
    }
}

fn column(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|column| *column > 0).ok_or_else(|| "columns count from 1".to_owned())
}

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "sync" => Ok(Durability::Sync),
        "os" => Ok(Durability::Os),
        _ => Err("it is `sync` or `os`".to_owned()),
    }
}

fn codec(text: &str) -> Result<Codec, String> {
    match text {
        "none" => Ok(Codec::None),
        "lz4" => Ok(Codec::Lz4),
        "zstd" => Ok(Codec::Zstd),
        _ => Err("it is `none`, `lz4` or `zstd`".to_owned()),
    }
}

fn acks(text: &str) -> Result<Acks, String> {
    match text {
        "committed" => Ok(Acks::Committed),
        "none" => Ok(Acks::None),
        _ => Err("it is `committed` or `none`".to_owned()),
    }
}

fn from(text: &str) -> Result<From, String> {
    match text {
        "earliest" => Ok(From::Earliest),
        "latest" => Ok(From::Latest),
        _ => text
            .parse()
            .map(|offset| From::Offset(Offset(offset)))
            .map_err(|_not_a_number| "it is `earliest`, `latest` or an offset, such as 0".to_owned()),
    }
}

fn on_lost_position(text: &str) -> Result<OnLostPosition, String> {
    match text {
        "earliest" => Ok(OnLostPosition::Earliest),
        "latest" => Ok(OnLostPosition::Latest),
        "epoch-end" => Ok(OnLostPosition::EpochEnd),
        _ => Err("it is `earliest`, `latest` or `epoch-end`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn global_options_may_stand_anywhere() {
        let cli = Cli::try_parse_from(["hermit-cli", "topic", "list", "--server", "[::1]:7", "--output", "json"]).unwrap();
        assert_eq!((cli.server.as_str(), cli.output), ("[::1]:7", Output::Json));
    }

    #[test]
    fn nonsense_is_a_usage_error() {
        let bad: [&[&str]; 11] = [
            &["consume", "t", "--output", "json", "--format", "%s"],
            &["--output", "json", "consume", "t", "--format", "%s"],
            &["consume", "t", "--from", "yesterday"],
            &["consume", "t", "--format", "%y"],
            &["consume", "t", "--until", "tomorrow"],
            &["produce", "t", "--key-column", "0"],
            &["produce", "t", "--key-column", "1", "--key-separator", ":"],
            &["produce", "t", "--codec", "gzip"],
            &["topic", "create", "t", "--partitions", "0"],
            &["topic", "create", "t", "--retention-age", "7 moons"],
            &["--server", "localhost", "topic", "list"],
        ];
        for arguments in bad {
            let read = Cli::read([&["hermit-cli"], arguments].concat());
            assert_eq!(read.unwrap_err().exit_code(), 2, "{arguments:?}");
        }
        let negative = Cli::read(["hermit-cli", "consume", "t", "--from", "-1"]).unwrap_err().to_string();
        assert!(negative.contains("it is `earliest`, `latest` or an offset"), "{negative}");
        Cli::read(["hermit-cli", "consume", "t", "--output", "json"]).unwrap();
    }
}
