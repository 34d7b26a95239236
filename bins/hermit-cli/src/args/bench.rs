//! `hermit-cli bench …`

use clap::{Args, Subcommand, ValueEnum};
use hermit_client::Acks;
use hermit_load::{Check, Compression, Contents, HEAD_BYTES, Results, StartAt};

use super::produce::acks;
use crate::quantity;

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Sends records as fast as can be, or at a rate.
    Produce(BenchProduceArgs),
    /// Receives records as fast as can be, and checks them. Commits nothing.
    Consume(BenchConsumeArgs),
    /// Measures how long records take from when they should have been sent to a consumer.
    E2e(EndToEndArgs),
}

impl BenchCommand {
    pub(crate) fn topic(&self) -> &str {
        match self {
            Self::Produce(args) => &args.topic,
            Self::Consume(args) => &args.topic,
            Self::E2e(args) => &args.topic,
        }
    }
}

/// What is sent, and over what.
#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Bytes of each value: 16 and more.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "100")]
    pub(crate) size: usize,
    /// What values are made of: `random` bytes, which no codec makes smaller, or `text`.
    #[arg(long, value_name = "WHAT", value_parser = contents, default_value = "random")]
    pub(crate) contents: Contents,
    /// Records that are handed over together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), default_value_t = 1000)]
    pub(crate) batch: u32,
    /// How batches are compressed: `none`, `lz4` or `zstd`.
    #[arg(long, value_name = "CODEC", value_parser = compression, default_value = "none")]
    pub(crate) compression: Compression,
    /// Connections that divide the load.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), default_value_t = 1)]
    pub(crate) connections: u32,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  hermit-cli bench produce load --records 10000000\n  \
    hermit-cli bench produce load --duration 1m --rate 50000 --size 1KiB --connections 4\n  \
    hermit-cli bench produce load --batch 1 --in-flight 1              one after the other\n\n\
    The records stay in the topic, as the first 16 bytes of each say which one it is; `bench consume` checks them. Without --rate a latency is that of a \
    call. With it, it begins when the record was due, and calls that are held up count for those behind them.")]
pub(crate) struct BenchProduceArgs {
    /// The topic. One that is not there is created, if the broker's settings allow.
    pub(crate) topic: String,
    /// Stop after so many records.
    #[arg(long, value_name = "N")]
    pub(crate) records: Option<u64>,
    /// Stop after this time, such as `30s`. Default: 10s, if --records is not given.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Milliseconds>,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
    /// Records a second. Default: as fast as can be.
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Calls of each connection that wait for their results, at most.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), default_value_t = 64)]
    pub(crate) in_flight: u32,
    /// For what there is a result: for each `batch`, or each `record`.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(crate) results: ResultsFor,
    /// Give records one of so many keys on each connection. Default: no keys, batches go to the partitions in turn.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub(crate) keys: Option<u32>,
    /// When a record counts as sent: `committed`, when it is as durable as the topic promises, or `none`, when it is written to the socket.
    #[arg(long, value_name = "ACKS", value_parser = acks, default_value = "committed")]
    pub(crate) acks: Acks,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  hermit-cli bench consume load\n  \
    hermit-cli bench consume load --from latest --duration 30s\n  \
    hermit-cli bench consume load --group measured --connections 4 --duration 30s\n\n\
    Records that `bench` sent are checked: which are lost, doubled, out of order or changed makes the exit status 1. Those of others are counted. Without a \
    group nothing is committed, and without --records or --duration it ends at the present end of the topic.")]
pub(crate) struct BenchConsumeArgs {
    /// The topic.
    pub(crate) topic: String,
    /// Stop after so many records, and what one call brings too much.
    #[arg(long, value_name = "N")]
    pub(crate) records: Option<u64>,
    /// Stop after this time, such as `30s`.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) duration: Option<Milliseconds>,
    /// Where to begin: `earliest`, `latest`, or an offset of each partition.
    #[arg(long, value_name = "WHERE", value_parser = start, default_value = "earliest", conflicts_with = "group")]
    pub(crate) from: StartAt,
    /// Read as members of this group, from where it is, and commit what was received.
    #[arg(long, value_name = "GROUP")]
    pub(crate) group: Option<String>,
    /// Take records each by itself, to be kept, rather than borrowed together: what that costs.
    #[arg(long)]
    pub(crate) owned: bool,
    /// Connections that divide the partitions among them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000), default_value_t = 1)]
    pub(crate) connections: u32,
    /// What is checked of each record besides its checksums: `contents`, the `order`, or `nothing`.
    #[arg(long, value_name = "WHAT", value_parser = check, default_value = "contents")]
    pub(crate) check: Check,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  hermit-cli bench e2e load --rate 10000\n  \
    hermit-cli bench e2e load --max-rate --duration 3s\n\n\
    Record n is due n/rate seconds after the start, whatever becomes of those before it, and its latency begins when it is due: what waits behind a \
    stalled call counts. The consumers begin at the topic's present end and commit nothing; the records stay in the topic. The exit status is 1 \
    if any is lost, doubled, out of order or changed.")]
pub(crate) struct EndToEndArgs {
    /// The topic. One that is not there is created, if the broker's settings allow.
    pub(crate) topic: String,
    /// Records a second.
    #[arg(long, value_name = "N", value_parser = rate, default_value = "1000", conflicts_with = "max_rate")]
    pub(crate) rate: f64,
    /// Find the largest rate at which records arrive as fast as they are due; takes some times the duration.
    #[arg(long)]
    pub(crate) max_rate: bool,
    /// How long records are sent. Those of the first tenth count for no latency.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(crate) duration: Milliseconds,
    #[command(flatten)]
    pub(crate) load: LoadArgs,
}

/// For what there is a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResultsFor {
    #[default]
    Batch,
    Record,
}

impl From<ResultsFor> for Results {
    fn from(results: ResultsFor) -> Self {
        match results {
            ResultsFor::Batch => Self::PerBatch,
            ResultsFor::Record => Self::PerRecord,
        }
    }
}

/// A time of which there is an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Milliseconds(pub(crate) u64);

fn duration(text: &str) -> Result<Milliseconds, String> {
    let ms = quantity::finite_age_ms(text).filter(|ms| (1..=365 * 86_400_000).contains(ms));
    ms.map(Milliseconds).ok_or_else(|| "write it as `500ms`, `30s` or `5m`".to_owned())
}

fn size(text: &str) -> Result<usize, String> {
    let bytes = quantity::bytes(text).ok().and_then(|limit| usize::try_from(limit.0).ok());
    let fits = bytes.filter(|bytes| (HEAD_BYTES..=1 << 30).contains(bytes));
    fits.ok_or_else(|| format!("write it as `100` or `64KiB`; it is {HEAD_BYTES} at least, and 1GiB at most"))
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1e9);
    rate.ok_or_else(|| "it is a number of records a second, above 0".to_owned())
}

fn start(text: &str) -> Result<StartAt, String> {
    match text {
        "earliest" => Ok(StartAt::Earliest),
        "latest" => Ok(StartAt::Latest),
        _ => text.parse().map(StartAt::Offset).map_err(|_not_a_number| "it is `earliest`, `latest` or an offset".to_owned()),
    }
}

fn contents(text: &str) -> Result<Contents, String> {
    match text {
        "random" => Ok(Contents::Random),
        "text" => Ok(Contents::Text),
        _ => Err("it is `random` or `text`".to_owned()),
    }
}

fn check(text: &str) -> Result<Check, String> {
    match text {
        "nothing" => Ok(Check::Nothing),
        "order" => Ok(Check::Order),
        "contents" => Ok(Check::Contents),
        _ => Err("it is `contents`, `order` or `nothing`".to_owned()),
    }
}

fn compression(text: &str) -> Result<Compression, String> {
    match text {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        _ => Err("it is `none`, `lz4` or `zstd`".to_owned()),
    }
}
