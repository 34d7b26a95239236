//! `hermit-cli consume …`

mod assign;
mod filter;
mod member;
mod printer;

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{Client, Consumer, Error, Record};
use tokio::time::{Instant, sleep, sleep_until, timeout};

pub(crate) use self::assign::partitions;
use self::member::Goal;
use self::printer::Printer;
use crate::args::{ConsumeArgs, Output};
use crate::failure::Interrupted;
use crate::signals::Signals;

/// How long what was printed waits for its commit, at most.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// Records that are printed before the output is flushed.
const BATCH_RECORDS: usize = 4096;
/// How long committing and leaving may take at the end, after a signal for example.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a member without records looks whether its group has come to the end.
const GOAL_INTERVAL: Duration = Duration::from_millis(200);

/// Prints records until the end that was asked for.
pub(crate) async fn run(client: &Client, args: ConsumeArgs, output: Output) -> Result<()> {
    if args.count == Some(0) {
        return Ok(());
    }
    let mut printer = Printer::new(&args, output);
    let goal = match &args.group {
        Some(group) if args.joins() => Goal::set(client, &args, group).await?,
        _ => None,
    };
    let consumer = assign::assign(client, &args, printer.printed()).await?;
    let mut reading = Reading { consumer, goal, left: args.count, skipped: 0 };
    let printed = reading.print(&mut printer, &mut Signals::new()?).await;
    let skipped = reading.skipped;
    // Also where an error ended the work: what was printed must not be printed twice.
    let left = timeout(LEAVE_TIMEOUT, leave(&mut printer, reading.consumer)).await;
    printed?;
    left.map_err(|_elapsed| not_committed())??;
    anyhow::ensure!(skipped == 0, "{skipped} damaged ranges were skipped");
    Ok(())
}

/// Commits are tried again for as long as the broker does not take them.
fn not_committed() -> anyhow::Error {
    let seconds = LEAVE_TIMEOUT.as_secs();
    anyhow::anyhow!(
        "the broker took no commit for {seconds} s (does it run, and has its disk room? see `hermit-cli broker describe`): what was printed last may be printed again"
    )
}

/// Commits what was printed, and leaves the group, so that the others go on at once.
async fn leave(printer: &mut Printer<'_>, consumer: Consumer) -> Result<()> {
    let committed = printer.commit(&consumer).await;
    let left = consumer.close().await;
    committed?;
    Ok(left?)
}

struct Reading {
    consumer: Consumer,
    /// Where a group is to end.
    goal: Option<Goal>,
    /// Records that may still be printed.
    left: Option<u64>,
    /// Damaged ranges that were passed over.
    skipped: u64,
}

enum Step {
    Records(Vec<Record>),
    CommitDue,
    LookAgain,
}

impl Reading {
    /// Prints records until the end.
    async fn print(&mut self, printer: &mut Printer<'_>, signals: &mut Signals) -> Result<()> {
        let mut uncommitted_since: Option<Instant> = None;
        loop {
            if let Some(goal) = &self.goal
                && goal.is_reached(&self.consumer).await?
            {
                return Ok(());
            }
            let commit_at = uncommitted_since.map(|since| since + COMMIT_INTERVAL);
            let mut batch = match self.step(printer, signals, commit_at).await? {
                Step::Records(batch) => batch,
                Step::CommitDue => {
                    printer.commit(&self.consumer).await?;
                    uncommitted_since = None;
                    continue;
                }
                Step::LookAgain => continue,
            };
            if batch.is_empty() {
                return Ok(());
            }
            if let Some(goal) = &self.goal {
                batch.retain(|record| goal.takes(record));
            }
            let printed = printer.print(&batch).context("standard output")?;
            uncommitted_since = uncommitted_since.or_else(|| Some(Instant::now()));
            if uncommitted_since.is_some_and(|since| since.elapsed() >= COMMIT_INTERVAL) {
                printer.commit(&self.consumer).await?;
                uncommitted_since = None;
            }
            self.left = self.left.map(|left| left.saturating_sub(printed));
            if self.left == Some(0) {
                return Ok(());
            }
        }
    }

    async fn step(&mut self, printer: &Printer<'_>, signals: &mut Signals, commit_at: Option<Instant>) -> Result<Step> {
        let most = self.left.and_then(|left| usize::try_from(left).ok()).unwrap_or(BATCH_RECORDS).min(BATCH_RECORDS);
        let commit_due = async {
            match commit_at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let look_again = async {
            match self.goal {
                Some(_) => sleep(GOAL_INTERVAL).await,
                None => std::future::pending().await,
            }
        };
        let batch = tokio::select! {
            batch = self.consumer.recv_batch(most) => batch,
            signal = signals.recv() => return Err(Interrupted { signal }.into()),
            () = commit_due => return Ok(Step::CommitDue),
            () = look_again => return Ok(Step::LookAgain),
        };
        match batch {
            Ok(batch) => Ok(Step::Records(batch)),
            Err(damage @ (Error::Corrupt { .. } | Error::BadRecordSet { .. })) if printer.args.skip_damaged => {
                self.skipped += 1;
                warn(&damage)?;
                Ok(Step::LookAgain)
            }
            // The group goes on, and so does its member.
            Err(lost @ (Error::Fenced { .. } | Error::ProcessingTimeout { .. })) => {
                warn(&lost)?;
                Ok(Step::LookAgain)
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn warn(error: &Error) -> Result<()> {
    writeln!(io::stderr(), "warning: {error}").context("standard error")
}
