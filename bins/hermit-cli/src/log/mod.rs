//! `hermit-cli log …`: data directories, without a broker.

mod import;

use anyhow::Result;

use crate::args::{LogCommand, Output};

/// Runs one of the log commands.
pub(crate) fn run(command: &LogCommand, output: Output) -> Result<()> {
    match command {
        LogCommand::Import(args) => import::run(args, output),
    }
}
