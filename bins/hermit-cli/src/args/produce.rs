//! `hermit-cli produce …`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hermit_client::{Acks, Codec};

use super::value;
use crate::escape::{unescape, unescape_some};
use crate::time;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProduceArgs {
    /// The topic. One that is not there is created, if the broker's settings allow.
    pub(crate) topic: String,
    /// What to read; `-` is standard input, which is also the default.
    pub(crate) files: Vec<PathBuf>,
    /// Each line is a JSON object: key, value, headers, timestamp, partition, as `consume --output json` prints them.
    #[arg(long, conflicts_with_all = ["delimiter", "whole", "key", "key_separator", "key_column", "timestamp"])]
    pub(crate) json: bool,
    /// Where a record ends, in place of a line break: bytes, with \n, \t, \r, \0, \\ and \xHH.
    #[arg(long, value_name = "BYTES", value_parser = Bytes::some, allow_hyphen_values = true)]
    pub(crate) delimiter: Option<Bytes>,
    /// Each file is one record.
    #[arg(long, conflicts_with_all = ["delimiter", "key_separator", "key_column"])]
    pub(crate) whole: bool,
    /// The key of every record: bytes, with escapes as for --delimiter.
    #[arg(long, value_name = "BYTES", value_parser = Bytes::any, conflicts_with_all = ["key_separator", "key_column"])]
    pub(crate) key: Option<Bytes>,
    /// The key is what stands before the first S in the line, the value what stands behind. A line without S has no key. Escapes as for
    /// --delimiter.
    #[arg(long, value_name = "S", value_parser = Bytes::some, allow_hyphen_values = true, conflicts_with = "key_column")]
    pub(crate) key_separator: Option<Bytes>,
    /// The key is the N-th field of the line, which is CSV; the value is the whole line.
    #[arg(long, value_name = "N", value_parser = column)]
    pub(crate) key_column: Option<usize>,
    /// A header for every record; can be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = header)]
    pub(crate) header: Vec<(String, String)>,
    /// The time of every record: RFC 3339, or how long ago. Default: now.
    #[arg(long, value_name = "TIME", value_parser = timestamp)]
    pub(crate) timestamp: Option<u64>,
    /// Send everything to this partition, whatever the key.
    #[arg(long, value_name = "N")]
    pub(crate) partition: Option<u32>,
    /// With --json: `keep` the partitions that the records name, or choose them `by-key`.
    #[arg(long, value_enum, value_name = "HOW", default_value_t, requires = "json", conflicts_with = "partition")]
    pub(crate) partitions: Partitions,
    /// How batches are compressed: `none`, `lz4` or `zstd`.
    #[arg(long, alias = "codec", value_name = "CODEC", value_parser = value::codec, default_value = "none")]
    pub(crate) compression: Codec,
    /// When a record counts as sent: `committed`, when it is as durable as the topic promises, or `none`, when it is written to the socket.
    #[arg(long, value_name = "ACKS", value_parser = acks, default_value = "committed")]
    pub(crate) acks: Acks,
}

const EXAMPLES: &str = r#"Examples:
  hermit-cli produce orders orders.csv --key-column 1
  tail -F app.log | hermit-cli produce logs --compression zstd
  echo '{"key":"7","value":"paid","headers":[{"name":"by","value":"web"}]}' | hermit-cli produce orders --json
  find . -print0 | hermit-cli produce names --delimiter '\0'
  hermit-cli produce images --whole --key logo --header type=image/png logo.png

With --json a line has `value`, and may have `key`, `headers`, `partition` and one of `timestamp` (RFC 3339), `timestamp_ms` and
`timestamp_ns`. null is no key, and a value that is null is a tombstone; "" is empty. What is not UTF-8 stands in base64, in `key_base64` and
`value_base64`. `headers` is an object, or a list of {"name", "value" or "value_base64"}. `topic`, `offset`, `append_time_ns` and
`leader_epoch`, which `consume --output json` prints, are passed over; every other field is an error."#;

/// Bytes of the command line. (A bare `Vec<u8>` would be several values to clap.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    fn any(text: &str) -> Result<Self, String> {
        unescape(text).map(Self)
    }

    fn some(text: &str) -> Result<Self, String> {
        unescape_some(text).map(Self)
    }
}

/// What becomes of the partitions that records name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Partitions {
    /// A record goes to the partition of the same number.
    #[default]
    Keep,
    /// A record goes where its key belongs; without a key, anywhere.
    ByKey,
}

fn column(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|column| *column > 0).ok_or_else(|| "columns count from 1".to_owned())
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write it as NAME=VALUE".to_owned()),
    }
}

fn timestamp(text: &str) -> Result<u64, String> {
    time::moment_ns(text).ok_or_else(|| format!("it is {}", time::FORMS))
}

pub(super) fn acks(text: &str) -> Result<Acks, String> {
    match text {
        "committed" => Ok(Acks::Committed),
        "none" => Ok(Acks::None),
        _ => Err("it is `committed` or `none`".to_owned()),
    }
}
