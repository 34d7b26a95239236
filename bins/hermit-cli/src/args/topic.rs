//! `hermit-cli topic …`

use clap::{Args, Subcommand};
use hermit_client::Durability;

use super::value;
use crate::quantity::{self, Limit};

#[derive(Debug, Subcommand)]
pub(crate) enum TopicCommand {
    /// Creates a topic.
    #[command(after_help = "Example:\n  hermit-cli topic create orders --partitions 4 --retention-age 7d")]
    Create(CreateArgs),
    /// Lists all topics and their partition counts.
    #[command(after_help = "Example:\n  hermit-cli topic list")]
    List,
    /// Tells a topic's settings and its partitions' offsets and bytes.
    #[command(after_help = "Example:\n  hermit-cli topic describe orders")]
    Describe {
        /// The topic.
        topic: String,
    },
    /// Deletes a topic and its data, without asking back.
    #[command(after_help = "Example:\n  hermit-cli topic delete orders")]
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
    /// Keep only the newest record of each key.
    #[arg(long)]
    pub(crate) compaction: bool,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

/// The settings that `create` and `alter` share.
#[derive(Debug, Args)]
pub(crate) struct Settings {
    /// What an answered message survives: `sync` a power cut, `os` a crash of the broker. Default of a new topic: the broker's.
    #[arg(long, value_parser = value::durability, value_name = "sync|os")]
    pub(crate) durability: Option<Durability>,
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
