//! `hermit-cli log …`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use hermit_client::Durability;

use super::value;
use crate::quantity::{self, Limit};

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Takes over the data directory of an older HermitMQ. The old files are only read.
    #[command(after_help = "Examples:\n  hermit-cli log import /var/lib/hermitmq --data-dir /mnt/hermit --dry-run\n  \
        hermit-cli log import /var/lib/hermitmq --data-dir /mnt/hermit\n\nStop the older broker first. docs/migrating.md tells all steps.")]
    Import(LogImportArgs),
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
