//! `hermit-cli produce …`

use std::io::{self, Write};

use anyhow::{Context, Result, anyhow};
use hermit_client::{Client, PartitionId, Producer, ProducerRecord};
use hermit_proto::INTERNAL_PREFIX;
use indicatif::ProgressBar;
use serde_json::json;

use crate::args::{Output, Partitions, ProduceArgs};
use crate::json_record::{self, JsonRecord};
use crate::key::KeyRule;
use crate::lines::{self, Block, Split};
use crate::progress;

/// Records that wait to be sent may take so much, and more if the broker takes larger ones.
const MIN_BUFFERED_BYTES: usize = 32 << 20;
/// The bytes that JSON takes at most for one of a record (`\u0000`), and for names and numbers.
const JSON_BYTES_PER_BYTE: u64 = 6;
const JSON_FIXED_BYTES: u64 = 1 << 20;

/// Sends every record, and waits until all are stored.
pub(crate) async fn run(client: &Client, args: ProduceArgs, output: Output) -> Result<()> {
    refuse_internal(&args.topic)?;
    let progress = progress::of_reading(&args.files);
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

/// The broker would refuse it too, but only with the first records.
pub(crate) fn refuse_internal(topic: &str) -> Result<()> {
    anyhow::ensure!(
        !topic.starts_with(INTERNAL_PREFIX),
        "names that begin with `{INTERNAL_PREFIX}` are the broker's own: choose another topic"
    );
    Ok(())
}

/// Bytes that a producer may buffer: whatever the broker takes has to fit.
pub(crate) fn buffered_bytes(max_frame_bytes: u32) -> usize {
    (max_frame_bytes as usize).clamp(MIN_BUFFERED_BYTES, u32::MAX as usize)
}

async fn send_all(client: &Client, args: &ProduceArgs, progress: &ProgressBar) -> Result<Sent> {
    let max_frame_bytes = client.broker().await?.limits.max_frame_bytes;
    let builder = client.producer().codec(args.compression).acks(args.acks);
    let producer = builder.max_buffered_bytes(buffered_bytes(max_frame_bytes)).build()?;
    let split = split(args);
    let max_record_bytes = match args.json {
        true => u64::from(max_frame_bytes).saturating_mul(JSON_BYTES_PER_BYTE).saturating_add(JSON_FIXED_BYTES),
        false => max_frame_bytes.into(),
    };
    let mut sender = Sender { producer: &producer, args, rule: key_rule(args), split: &split, sent: Sent::default() };
    let mut blocks = lines::read(args.files.clone(), split.clone(), max_record_bytes);
    while let Some(block) = blocks.recv().await {
        let sent = match block {
            Ok(block) => sender.send_block(&block).await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            // What was read before is sent all the same.
            producer.close().await?;
            return Err(error);
        }
        progress.set_position(sender.sent.bytes);
        progress.set_message(sender.sent.records.to_string());
        if let Some(error) = producer.failure() {
            return Err(error.into());
        }
    }
    producer.close().await?;
    Ok(sender.sent)
}

fn split(args: &ProduceArgs) -> Split {
    match &args.delimiter {
        _ if args.whole => Split::Whole,
        Some(delimiter) => Split::Delimiter(delimiter.0.clone()),
        None => Split::line_break(),
    }
}

fn key_rule(args: &ProduceArgs) -> KeyRule {
    match (&args.key_separator, args.key_column) {
        (Some(separator), _) => KeyRule::Separator(separator.0.clone()),
        (None, Some(column)) => KeyRule::Column(column),
        (None, None) => KeyRule::None,
    }
}

#[derive(Debug, Default)]
struct Sent {
    records: u64,
    /// Of the input, delimiters included.
    bytes: u64,
}

/// Turns pieces of input into records.
struct Sender<'a> {
    producer: &'a Producer,
    args: &'a ProduceArgs,
    rule: KeyRule,
    split: &'a Split,
    sent: Sent,
}

impl Sender<'_> {
    async fn send_block(&mut self, block: &Block) -> Result<()> {
        let mut unquoted = Vec::new();
        for (number, piece) in block.records(self.split) {
            let place = || block.place(number, self.split);
            if self.args.json {
                // A blank line has nothing to lose.
                if !piece.trim_ascii().is_empty() {
                    let record = json_record::parse(piece).map_err(|problem| anyhow!("{}: {problem}", place()))?;
                    self.send_json(&record).await.with_context(place)?;
                    self.sent.records += 1;
                }
            } else {
                let (key, value) = self.rule.apply(piece, &mut unquoted).map_err(|missing| anyhow!("{} {missing}", place()))?;
                self.send_plain(key, value).await.with_context(place)?;
                self.sent.records += 1;
            }
        }
        self.sent.bytes += block.text.len() as u64;
        Ok(())
    }

    async fn send_plain(&self, key: Option<&[u8]>, value: &[u8]) -> Result<()> {
        let headers = self.headers(&[]);
        let record = ProducerRecord {
            partition: self.args.partition.map(PartitionId),
            key: key.or(self.args.key.as_ref().map(|key| &*key.0)),
            value: Some(value),
            headers: &headers,
            timestamp: self.args.timestamp,
        };
        self.enqueue(record).await
    }

    async fn send_json(&self, record: &JsonRecord) -> Result<()> {
        let own = record.partition.filter(|_partition| self.args.partitions == Partitions::Keep);
        let headers = self.headers(&record.headers);
        let record = ProducerRecord {
            partition: self.args.partition.or(own).map(PartitionId),
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
            timestamp: record.timestamp,
        };
        self.enqueue(record).await
    }

    /// The record's headers, and behind them those of the command line.
    fn headers<'b>(&'b self, own: &'b [(String, Option<Vec<u8>>)]) -> Vec<(&'b str, Option<&'b [u8]>)> {
        let own = own.iter().map(|(name, value)| (name.as_str(), value.as_deref()));
        own.chain(self.args.header.iter().map(|(name, value)| (name.as_str(), Some(value.as_bytes())))).collect()
    }

    async fn enqueue(&self, record: ProducerRecord<'_>) -> Result<()> {
        // Failures are told by `flush` and `failure`; nobody waits for a single line.
        drop(self.producer.enqueue(&self.args.topic, record).await?);
        Ok(())
    }
}
