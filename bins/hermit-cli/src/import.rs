//! `hermit-cli import …`

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use hermit_client::{Client, Delivery, Error, Producer, ProducerRecord};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::args::{ImportArgs, Output, Partitions};
use crate::produce::{buffered_bytes, refuse_internal};
use crate::text::counted;
use crate::topic_file::{Block, Head, TopicReader};

const BUFFER_BYTES: usize = 256 << 10;
/// Blocks that may wait to be sent.
const WAITING_BLOCKS: usize = 4;
/// Answers that may be waited for; when there are more, those to the older half are awaited.
const WINDOW_RECORDS: usize = 64 << 10;

/// Sends what a file holds, and waits until all is stored.
pub(crate) async fn run(client: &Client, args: ImportArgs, output: Output) -> Result<()> {
    refuse_internal(&args.topic)?;
    let max_frame_bytes = client.broker().await?.limits.max_frame_bytes;
    let name = if args.file.as_os_str() == "-" { "standard input".to_owned() } else { args.file.display().to_string() };
    let (head, mut blocks) = read(&args.file, max_frame_bytes as usize);
    let head = head.await.context("cannot read")?.with_context(|| name.clone())?;
    ready(client, &args, &head).await?;

    let builder = client.producer().codec(args.compression).max_buffered_bytes(buffered_bytes(max_frame_bytes));
    let mut importer = Importer { producer: builder.build()?, args: &args, window: VecDeque::new(), stored: 0, failure: None };
    let sent = importer.send_all(&mut blocks).await;
    let closed = importer.producer.close().await;
    importer.settle(0).await;
    let stored = importer.stored;
    // What refused the records is the cause of all that follows it.
    let done = match (importer.failure, closed, sent) {
        (Some(error), _, _) | (None, Err(error), _) => Err(error.into()),
        (None, Ok(()), sent) => sent,
    };
    done.with_context(|| format!("{name}, after {} were stored", counted(stored, "record")))?;
    let told = match output {
        Output::Text => format!("imported {} into {}", counted(stored, "record"), args.topic),
        Output::Json => json!({ "topic": args.topic, "records": stored }).to_string(),
    };
    writeln!(io::stdout(), "{told}").context("standard output")
}

/// Reads and checks the file in a thread of its own. What comes after the head waits for whoever takes it.
fn read(file: &Path, max_record_bytes: usize) -> (oneshot::Receiver<Result<Head>>, mpsc::Receiver<Result<Block>>) {
    let (head_sender, head) = oneshot::channel();
    let (sender, blocks) = mpsc::channel(WAITING_BLOCKS);
    let file = file.to_owned();
    std::thread::spawn(move || {
        let opened: io::Result<Box<dyn Read>> = match file.as_os_str() == "-" {
            true => Ok(Box::new(io::stdin().lock())),
            false => File::open(&file).map(|file| Box::new(file) as Box<dyn Read>),
        };
        let reader = opened
            .context("cannot read it")
            .and_then(|input| TopicReader::new(BufReader::with_capacity(BUFFER_BYTES, input), max_record_bytes));
        let (head, mut reader) = match reader {
            Ok(reader) => (Ok(reader.head().clone()), Some(reader)),
            Err(error) => (Err(error), None),
        };
        drop(head_sender.send(head));
        while let Some(block) = reader.as_mut().and_then(|reader| reader.next_block().transpose()) {
            let last = block.is_err();
            if sender.blocking_send(block).is_err() || last {
                return;
            }
        }
    });
    (head, blocks)
}

/// Makes sure that the topic is there, and has room for the file's partitions.
async fn ready(client: &Client, args: &ImportArgs, head: &Head) -> Result<()> {
    let admin = client.admin();
    let partitions = match admin.describe_topic(&args.topic).await {
        Ok(found) => found.partitions.len(),
        Err(Error::UnknownTopic { .. }) => admin.create_topic(&args.topic, head.partitions, head.config).await?.partitions as usize,
        Err(error) => return Err(error.into()),
    };
    ensure!(
        args.partitions == Partitions::ByKey || head.partitions as usize <= partitions,
        "topic `{}` has {}, and the file {}: add some with `hermit-cli topic add-partitions {} --to {}`, or say --partitions by-key",
        args.topic,
        counted(partitions as u64, "partition"),
        head.partitions,
        args.topic,
        head.partitions,
    );
    Ok(())
}

struct Importer<'a> {
    producer: Producer,
    args: &'a ImportArgs,
    /// Answers that are waited for, in the order of the file.
    window: VecDeque<Delivery>,
    stored: u64,
    failure: Option<Error>,
}

impl Importer<'_> {
    async fn send_all(&mut self, blocks: &mut mpsc::Receiver<Result<Block>>) -> Result<()> {
        while let Some(block) = blocks.recv().await {
            self.send(&block?).await?;
            if self.failure.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn send(&mut self, block: &Block) -> Result<()> {
        for (offset, record) in (block.first.0..).zip(block.records()?) {
            let headers: Vec<_> = record.headers.collect();
            let record = ProducerRecord {
                partition: (self.args.partitions == Partitions::Keep).then_some(block.partition),
                key: record.key,
                value: record.value,
                headers: &headers,
                timestamp: Some(record.timestamp_ns(block.timestamp)),
            };
            let place = || anyhow!("the record of partition {}, offset {offset}", block.partition);
            self.window.push_back(self.producer.enqueue(&self.args.topic, record).await.with_context(place)?);
        }
        if self.window.len() > WINDOW_RECORDS {
            self.settle(WINDOW_RECORDS / 2).await;
        }
        Ok(())
    }

    /// Awaits answers until so many are left.
    async fn settle(&mut self, left: usize) {
        while self.window.len() > left
            && let Some(delivery) = self.window.pop_front()
        {
            match delivery.await {
                Ok(_stored) => self.stored += 1,
                Err(error) => self.failure = self.failure.take().or(Some(error)),
            }
        }
    }
}
