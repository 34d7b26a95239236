//! `hermit-cli consume …`

use std::collections::BTreeMap;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{Client, Consumer, Error, Offset, OnDamage, OnLostPosition, Otherwise, PartitionId, Position, Record, Start};
use tokio::time::{Instant, sleep_until};

use crate::args::{ConsumeArgs, From, Output, Until};
use crate::failure::Interrupted;
use crate::signals::Signals;
use crate::text;

/// How long what was printed waits for its commit, at most.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// Records that are printed before the output is flushed.
const BATCH_RECORDS: usize = 4096;

/// Prints records until the end that was asked for.
pub(crate) async fn run(client: &Client, args: ConsumeArgs, output: Output) -> Result<()> {
    if args.count == Some(0) {
        return Ok(());
    }
    let mut consumer = assign(client, &args).await?;
    let mut signals = Signals::new()?;
    let out = BufWriter::with_capacity(256 << 10, io::stdout().lock());
    let mut printer = Printer { args: &args, output, out, printed: BTreeMap::new() };
    let printed = print(&mut consumer, &mut printer, &mut signals).await;
    // Commits what was printed, also where an error ended the work: it must not be printed twice.
    let committed = printer.commit(&consumer).await;
    let skipped = printed?;
    committed?;
    anyhow::ensure!(skipped == 0, "{skipped} damaged ranges were skipped");
    Ok(())
}

async fn assign(client: &Client, args: &ConsumeArgs) -> Result<Consumer> {
    let on_damage = if args.skip_damaged { OnDamage::Skip } else { OnDamage::Stop };
    let mut builder = client.consumer().on_damage(on_damage).on_lost_position(args.on_lost_position.unwrap_or_default());
    if let Some(group) = &args.group {
        builder = builder.group(group);
    }
    let mut consumer = builder.build()?;
    let start = match (args.from, &args.group) {
        (Some(From::Earliest), _) | (None, None) => Start::Earliest,
        (Some(From::Latest), _) => Start::Latest,
        (Some(From::Offset(offset)), _) => Start::Offset(offset),
        (None, Some(_)) => Start::Committed { or: Otherwise::Earliest },
    };
    let beyond = match (start, args.until) {
        (Start::Offset(offset), Some(Until::End)) => starts_beyond_end(client, args, offset).await?,
        _ => Vec::new(),
    };
    if args.partition.is_empty() {
        consumer.assign_topic(&args.topic, start).await?;
    }
    for partition in &args.partition {
        consumer.assign(&args.topic, *partition, start).await?;
    }
    for (partition, log_start) in beyond {
        // Elsewhere, `latest` and `epoch-end`, there is nothing up to the present end.
        if args.on_lost_position == Some(OnLostPosition::Earliest) {
            consumer.seek(&args.topic, partition, log_start)?;
        }
    }
    if args.until == Some(Until::End) {
        consumer.stop_at_present_end().await?;
    }
    Ok(consumer)
}

/// The partitions whose present end lies before the position, and where their logs start: a consumer that stops at that end would
/// never ask the broker for the position. An error, as it would be from the broker, unless another place to go on was chosen.
async fn starts_beyond_end(client: &Client, args: &ConsumeArgs, position: Offset) -> Result<Vec<(PartitionId, Offset)>> {
    let topic = client.admin().describe_topic(&args.topic).await?;
    let asked = |partition: PartitionId| args.partition.is_empty() || args.partition.contains(&partition.0);
    let mut beyond = Vec::new();
    for found in topic.partitions.iter().filter(|found| asked(found.partition) && found.high_watermark < position) {
        if args.on_lost_position.is_none() {
            return Err(Error::OutOfRange {
                topic: args.topic.as_str().into(),
                partition: found.partition,
                position,
                log_start: found.log_start,
                high_watermark: found.high_watermark,
            }
            .into());
        }
        beyond.push((found.partition, found.log_start));
    }
    Ok(beyond)
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
        printer.print(&batch).context("standard output")?;
        uncommitted_since = uncommitted_since.or_else(|| Some(Instant::now()));
        if uncommitted_since.is_some_and(|since| since.elapsed() >= COMMIT_INTERVAL) {
            printer.commit(consumer).await?;
            uncommitted_since = None;
        }
        if let Some(left) = &mut left {
            *left = left.saturating_sub(batch.len() as u64);
            if *left == 0 {
                return Ok(skipped);
            }
        }
    }
}

struct Printer<'a> {
    args: &'a ConsumeArgs,
    output: Output,
    out: BufWriter<StdoutLock<'static>>,
    /// How far the partitions were printed since the last commit.
    printed: BTreeMap<PartitionId, Position>,
}

impl Printer<'_> {
    fn print(&mut self, batch: &[Record]) -> io::Result<()> {
        for record in batch {
            match self.output {
                Output::Text => self.args.format.write(record, &mut self.out)?,
                Output::Json => {
                    serde_json::to_writer(&mut self.out, &text::record(record))?;
                    self.out.write_all(b"\n")?;
                }
            }
        }
        self.out.flush()?;
        // Only what the output has taken: what was not printed must come again.
        for record in batch {
            self.printed.insert(record.partition, Position::from(record));
        }
        Ok(())
    }

    /// Commits what was printed, if there is a group.
    async fn commit(&mut self, consumer: &Consumer) -> Result<()> {
        let printed: Vec<_> = std::mem::take(&mut self.printed).into_values().collect();
        if self.args.group.is_some() {
            consumer.commit_positions(&printed).await?;
        }
        Ok(())
    }
}
