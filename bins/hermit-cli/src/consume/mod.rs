//! `hermit-cli consume …`

mod assign;
mod filter;
mod printer;

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{Client, Consumer, Error};
use tokio::time::{Instant, sleep_until};

pub(crate) use self::assign::partitions;
use self::printer::Printer;
use crate::args::{ConsumeArgs, Output};
use crate::failure::Interrupted;
use crate::signals::Signals;

/// How long what was printed waits for its commit, at most.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// Records that are printed before the output is flushed.
const BATCH_RECORDS: usize = 4096;

/// Prints records until the end that was asked for.
pub(crate) async fn run(client: &Client, args: ConsumeArgs, output: Output) -> Result<()> {
    if args.count == Some(0) {
        return Ok(());
    }
    let mut consumer = assign::assign(client, &args).await?;
    let mut signals = Signals::new()?;
    let mut printer = Printer::new(&args, output);
    let printed = print(&mut consumer, &mut printer, &mut signals).await;
    // Commits what was printed, also where an error ended the work: it must not be printed twice.
    let committed = printer.commit(&consumer).await;
    let skipped = printed?;
    committed?;
    anyhow::ensure!(skipped == 0, "{skipped} damaged ranges were skipped");
    Ok(())
}

/// Prints records; gives the number of damaged ranges that were passed over.
async fn print(consumer: &mut Consumer, printer: &mut Printer<'_>, signals: &mut Signals) -> Result<u64> {
    let mut left = printer.args.count;
    let mut skipped = 0;
    let mut uncommitted_since = None;
    loop {
        let most = left.map_or(BATCH_RECORDS, |left| usize::try_from(left).unwrap_or(BATCH_RECORDS).min(BATCH_RECORDS));
        let commit_due = async {
            match uncommitted_since {
                Some(since) => sleep_until(since + COMMIT_INTERVAL).await,
                None => std::future::pending().await,
            }
        };
        let batch = tokio::select! {
            batch = consumer.recv_batch(most) => batch,
            signal = signals.recv() => return Err(Interrupted { signal }.into()),
            () = commit_due => {
                printer.commit(consumer).await?;
                uncommitted_since = None;
                continue;
            }
        };
        let batch = match batch {
            Ok(batch) => batch,
            Err(damage @ (Error::Corrupt { .. } | Error::BadRecordSet { .. })) if printer.args.skip_damaged => {
                skipped += 1;
                writeln!(io::stderr(), "warning: {damage}").context("standard error")?;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        if batch.is_empty() {
            return Ok(skipped);
        }
        let printed = printer.print(&batch).context("standard output")?;
        uncommitted_since = uncommitted_since.or_else(|| Some(Instant::now()));
        if uncommitted_since.is_some_and(|since| since.elapsed() >= COMMIT_INTERVAL) {
            printer.commit(consumer).await?;
            uncommitted_since = None;
        }
        if let Some(left) = &mut left {
            *left = left.saturating_sub(printed);
            if *left == 0 {
                return Ok(skipped);
            }
        }
    }
}
