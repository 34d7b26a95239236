//! `hermit-cli log …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hermit_client::Durability;

use super::value;
use crate::quantity::{self, Limit};

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Tells what a data directory holds: offsets, segments, bytes, and damage that the headers show. Nothing is changed.
    #[command(
        after_help = "Example:\n  hermit-cli log inspect ./hermit-data --topic orders\n\nThe broker must be stopped. The exit status is 1 if \
        something is damaged."
    )]
    Inspect(DirArgs),
    /// Reads every byte of a data directory, and checks all checksums. Nothing is changed.
    #[command(
        after_help = "Example:\n  hermit-cli log verify ./hermit-data\n\nThe broker must be stopped. The exit status is 1 if something is damaged."
    )]
    Verify(DirArgs),
    /// Makes indexes and other derived files again, and drops damage for good if it is told to.
    #[command(
        after_help = "Examples:\n  hermit-cli log repair ./hermit-data --dry-run\n  hermit-cli log repair ./hermit-data --topic orders --drop-damage\n\n\
        The broker must be stopped. What is replaced is kept beside it. The exit status is 1 if damage is left; consumers are told of \
        that when they come to it."
    )]
    Repair(RepairArgs),
    /// To be run once a backup was put back, before the broker is started: so that it gives nothing out again that it gave out since the backup.
    #[command(
        after_help = "Example:\n  hermit-cli log restored /var/lib/hermitmq\n\nWithout it clients that were there may read other records under the offsets that they \
        know, and records of new producers may pass for repetitions of old ones. Records, positions, users and rules are not changed. docs/operations.md tells how to restore."
    )]
    Restored(RestoredArgs),
    /// Takes over the data directory of an older HermitMQ. The old files are only read.
    #[command(after_help = "Examples:\n  hermit-cli log import /var/lib/hermitmq --data-dir /mnt/hermit --dry-run\n  \
        hermit-cli log import /var/lib/hermitmq --data-dir /mnt/hermit\n\nStop the older broker first. docs/migrating.md tells all steps.")]
    Import(LogImportArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DirArgs {
    /// The data directory, of a broker that is stopped.
    pub(crate) data_dir: PathBuf,
    /// Only this topic.
    #[arg(long)]
    pub(crate) topic: Option<String>,
    /// Only partitions with this number.
    #[arg(long, value_name = "N")]
    pub(crate) partition: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) dir: DirArgs,
    /// Drop what is damaged for good: readable records stay, consumers pass over the rest without being told.
    #[arg(long)]
    pub(crate) drop_damage: bool,
    /// Only tell what would be done.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RestoredArgs {
    /// The data directory, of a broker that is not started yet.
    pub(crate) data_dir: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct LogImportArgs {
    /// The old data directory.
    pub(crate) old_dir: PathBuf,
    /// The new one, which must hold no broker's data yet. Default: the old one, beside the old files.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Only tell what would be imported, and what is damaged. Nothing is written.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// What an answered message survives in the imported topics from now on: `sync` a power cut, `os` a crash of the broker.
    #[arg(long, value_parser = value::durability, value_name = "sync|os", default_value = "sync")]
    pub(crate) durability: Durability,
    /// The largest key and payload together; as `max_frame_bytes` of the new broker's settings. Default: 50MiB.
    #[arg(long, value_parser = quantity::bytes, value_name = "SIZE")]
    pub(crate) max_frame_bytes: Option<Limit>,
}
