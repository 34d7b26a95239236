//! `hermit-cli log restored …`

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_broker::offline::OfflineDir;
use serde_json::json;

use crate::args::{Output, RestoredArgs};
use crate::time;

/// Has the broker give out nothing again that it gave out since the backup.
pub(super) fn run(args: &RestoredArgs, output: Output) -> Result<()> {
    let epoch = OfflineDir::open(&args.data_dir)?.move_on(Duration::from_nanos(time::now_ns()))?;
    let line = match output {
        Output::Text => {
            format!("the next start goes on behind leader epoch {epoch}, and behind all producer ids that were given out")
        }
        Output::Json => json!({ "leader_epoch": epoch.0 }).to_string(),
    };
    writeln!(std::io::stdout(), "{line}").context("standard output")
}
