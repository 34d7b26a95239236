//! `hermit-cli produce …`

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use hermit_client::{Client, PartitionId, Producer, ProducerRecord};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::args::{Output, ProduceArgs};
use crate::key::KeyRule;
use crate::lines::{self, Block};

/// Records that wait to be sent may take so much, and more if the broker takes larger ones.
const MIN_BUFFERED_BYTES: usize = 32 << 20;

/// Sends every line, and waits until all are stored.
pub(crate) async fn run(client: &Client, args: ProduceArgs, output: Output) -> Result<()> {
    // The broker would refuse it too, but only with the first records.
    anyhow::ensure!(!args.topic.starts_with("__"), "names that begin with `__` are the broker's own: choose another topic");
    let progress = progress(&args);
    let sent = send_all(client, &args, &progress).await;
    // Also before an error is told.
    progress.finish_and_clear();
    let sent = sent?;
    if output == Output::Json {
        let summary = json!({ "topic": args.topic, "records": sent.records, "bytes": sent.bytes });
        writeln!(io::stdout(), "{summary}").context("standard output")?;
    }
    Ok(())
}

async fn send_all(client: &Client, args: &ProduceArgs, progress: &ProgressBar) -> Result<Sent> {
    let max_line_bytes = client.broker().await?.limits.max_frame_bytes;
    // Whatever the broker takes has to fit.
    let max_buffered_bytes = (max_line_bytes as usize).clamp(MIN_BUFFERED_BYTES, u32::MAX as usize);
    let producer = client.producer().codec(args.codec).acks(args.acks).max_buffered_bytes(max_buffered_bytes).build()?;
    let rule = match (&args.key_separator, args.key_column) {
        (Some(separator), _) => KeyRule::Separator(separator.clone().into_bytes()),
        (None, Some(column)) => KeyRule::Column(column),
        (None, None) => KeyRule::None,
    };
    let mut sent = Sent::default();
    let mut blocks = lines::read(args.files.clone(), max_line_bytes.into());
    while let Some(block) = blocks.recv().await {
        let block = match block {
            Ok(block) => block,
            Err(error) => {
                // What was read before is sent all the same.
                producer.close().await?;
                return Err(error);
            }
        };
        send(&producer, &args.topic, &block, &rule, args.partition.map(PartitionId), &mut sent).await?;
        progress.set_position(sent.bytes);
        progress.set_message(sent.records.to_string());
        if let Some(error) = producer.failure() {
            return Err(error.into());
        }
    }
    producer.close().await?;
    Ok(sent)
}

#[derive(Debug, Default)]
struct Sent {
    records: u64,
    /// Line breaks included.
    bytes: u64,
}

async fn send(
    producer: &Producer,
    topic: &str,
    block: &Block,
    rule: &KeyRule,
    partition: Option<PartitionId>,
    sent: &mut Sent,
) -> Result<()> {
    let mut unquoted = Vec::new();
    for (number, line) in block.lines() {
        let place = || format!("line {number} of {}", block.source);
        let (key, value) = match rule.apply(line, &mut unquoted) {
            Ok(split) => split,
            Err(missing) => {
                let found = missing.found;
                let plural = if found == 1 { "" } else { "s" };
                producer.close().await?;
                return Err(anyhow::anyhow!("{} has {found} column{plural}, and no column {}", place(), missing.wanted));
            }
        };
        let record = ProducerRecord { partition, key, value: Some(value), ..ProducerRecord::default() };
        // Failures are told by `flush` and `failure`; nobody waits for a single line.
        drop(producer.enqueue(topic, record).await.with_context(place)?);
        sent.records += 1;
    }
    sent.bytes += block.text.len() as u64;
    Ok(())
}

/// A bar where somebody can see it: for files of known size, else a count.
fn progress(args: &ProduceArgs) -> ProgressBar {
    if !io::stderr().is_terminal() || (args.files.is_empty() && io::stdin().is_terminal()) {
        return ProgressBar::hidden();
    }
    let size = |file: &Path| std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
    let total: Option<u64> = args.files.iter().map(|file| size(file)).sum();
    let total = total.filter(|total| *total > 0);
    let template = match total {
        Some(_) => "{bar:40} {bytes}/{total_bytes}, {msg} records, {bytes_per_sec}, {eta} to go",
        None => "{spinner} {bytes}, {msg} records, {bytes_per_sec}",
    };
    // Nothing is drawn before all is set: neither another style, nor one without its number.
    let mut bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden()).with_message("0");
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar = bar.with_style(style);
    }
    bar.set_draw_target(ProgressDrawTarget::stderr());
    bar
}
