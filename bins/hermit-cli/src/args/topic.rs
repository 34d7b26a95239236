//! `hermit-cli topic …`

use clap::{Args, Subcommand};
use hermit_client::Durability;

use super::value;
use crate::place::{self, Place};
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
    /// Changes a topic's settings. What is not named stays.
    #[command(after_help = "Examples:\n  hermit-cli topic alter orders --retention-age 30d --compaction off\n  \
        hermit-cli topic alter orders --retention-age default     as the broker's setting, also when that changes")]
    Alter(AlterArgs),
    /// Deletes a topic's oldest records.
    #[command(after_help = "Examples:\n  hermit-cli topic trim orders --before 30d --dry-run\n  \
        hermit-cli topic trim orders --partition 0 --before 1000")]
    Trim(TrimArgs),
    /// Adds partitions to a topic. They can never be removed again.
    #[command(after_help = "Example:\n  hermit-cli topic add-partitions orders --to 8")]
    AddPartitions(AddPartitionsArgs),
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
    /// Delete records this long after they were stored: `90s`, `1h 30min`, `7d`, `never`, or `default`: as the broker's setting, also when that changes.
    #[arg(long, value_parser = quantity::retained_ms, value_name = "AGE")]
    pub(crate) retention_age: Option<Limit>,
    /// Delete the oldest when a partition has more bytes: `500 MiB`, `10GB`, `never`, or `default`, as above.
    #[arg(long, value_parser = quantity::retained_bytes, value_name = "SIZE")]
    pub(crate) retention_bytes: Option<Limit>,
    /// Bytes at which a segment is rolled: `64 MiB`, `1GB`.
    #[arg(long, value_parser = quantity::bytes, value_name = "SIZE")]
    pub(crate) segment_bytes: Option<Limit>,
}

#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["compaction", "durability", "retention_age", "retention_bytes", "segment_bytes"]))]
pub(crate) struct AlterArgs {
    /// The topic.
    pub(crate) topic: String,
    /// Keep only the newest record of each key: `on` or `off`.
    #[arg(long, value_parser = value::switch, value_name = "on|off")]
    pub(crate) compaction: Option<bool>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Args)]
pub(crate) struct TrimArgs {
    /// The topic.
    pub(crate) topic: String,
    /// Only this partition; can be given several times. Default: all.
    #[arg(long, value_name = "N")]
    pub(crate) partition: Vec<u32>,
    /// Delete what stands before this: an offset, `latest` (everything that is there now), -N (all but the last N), a time such as
    /// 2026-01-31T12:00:00Z, or an age such as 30d.
    #[arg(long, value_name = "WHERE", value_parser = place::place, allow_negative_numbers = true)]
    pub(crate) before: Place,
    /// Only tell what would be deleted.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct AddPartitionsArgs {
    /// The topic.
    pub(crate) topic: String,
    /// How many partitions it is to have in all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) to: u32,
}
