//! `hermit-cli export …` and `hermit-cli import …`

use std::path::PathBuf;

use clap::Args;
use hermit_client::Codec;

use super::{Partitions, value};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  hermit-cli export orders orders.hmq\n  \
    hermit-cli --server a:9092 export orders - | hermit-cli --server b:9092 import orders -\n\n\
    What is there when the command begins is written: keys, values, headers, times, partitions and offsets, with checksums, and the \
    topic's settings.")]
pub(crate) struct ExportArgs {
    /// The topic.
    pub(crate) topic: String,
    /// The file, which must not exist; `-` is standard output.
    pub(crate) file: PathBuf,
    /// Only this partition; can be given several times. Default: all.
    #[arg(long, value_name = "N")]
    pub(crate) partition: Vec<u32>,
    /// How the file is compressed: `none`, `lz4` or `zstd`.
    #[arg(long, value_name = "CODEC", value_parser = value::codec, default_value = "zstd")]
    pub(crate) compression: Codec,
    /// Replace the file if it exists.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Leave damaged records out; they are named on standard error, and the exit status is not 0.
    #[arg(long)]
    pub(crate) skip_damaged: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  hermit-cli import orders orders.hmq\n  \
    hermit-cli import orders orders.hmq --partitions by-key\n\n\
    A topic that is not there is created with the partitions and settings of the exported one. Records keep keys, values, headers, times \
    (to the ms) and their order within a partition; they get new offsets. Importing a file twice stores its records twice.")]
pub(crate) struct ImportArgs {
    /// The topic.
    pub(crate) topic: String,
    /// What `export` wrote; `-` is standard input.
    pub(crate) file: PathBuf,
    /// Whether records `keep` the numbers of their partitions, or go `by-key`.
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    pub(crate) partitions: Partitions,
    /// How batches are compressed: `none`, `lz4` or `zstd`.
    #[arg(long, value_name = "CODEC", value_parser = value::codec, default_value = "none")]
    pub(crate) compression: Codec,
}
