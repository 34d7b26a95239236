//! Producers of the SDK, idempotent: one by one, and many at a time.

use std::time::Duration;

use anyhow::Result;
use hermit_client::{Client, Delivery, Error, PartitionId, Producer, ProducerRecord};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::place::{Pace, Place};
use super::recorder::{Numbering, Recorder};
use super::{Task, payload};
use crate::check::history::{Happened, Message};

/// Messages in a batch at most.
const BATCH: usize = 32;
/// So small that a kill finds several under way.
const BATCH_BYTES: usize = 4 << 10;
const BUFFERED_BYTES: usize = 4 << 20;
/// Added partitions are to be used soon.
const METADATA_MAX_AGE: Duration = Duration::from_secs(1);

/// How a producer sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// In batches, each to one partition.
    pub(super) batches: bool,
    /// How long it tries.
    pub(super) delivery_timeout: Duration,
}

pub(super) async fn run(mut context: Task, place: Place, manner: Manner, pace: Pace) -> Result<()> {
    while !*context.stop.borrow() {
        let client = context.target.client()?;
        let messages = context.random.usize(200..5000);
        let sender = Sender { producer: build(&client, manner)?, place: &place, pace };
        if manner.batches {
            sender.send_batches(&mut context, messages).await;
        } else {
            sender.send_singly(&mut context, messages).await;
        }
        client.close().await;
    }
    Ok(())
}

pub(super) fn build(client: &Client, manner: Manner) -> Result<Producer> {
    let builder = client.producer().batch_bytes(BATCH_BYTES).max_buffered_bytes(BUFFERED_BYTES).create_topics(false);
    Ok(builder.metadata_max_age(METADATA_MAX_AGE).delivery_timeout(manner.delivery_timeout).build()?)
}

pub(super) struct Sender<'a> {
    pub(super) producer: Producer,
    pub(super) place: &'a Place,
    pub(super) pace: Pace,
}

impl Sender<'_> {
    /// Sends so many messages, each with a call of its own, and settles all.
    pub(super) async fn send_singly(&self, context: &mut Task, messages: usize) {
        let mut numbers = Numbering::new(&context.recorder);
        let (sent, deliveries) = mpsc::unbounded_channel();
        let settling = tokio::spawn(settle_all(context.recorder.clone(), self.place.clone(), deliveries));
        for _ in 0..messages {
            if *context.stop.borrow() {
                break;
            }
            let (message, payload) = self.next(context, &mut numbers);
            let key = match self.place.keys {
                Some(keys) => format!("{}-{}", message.producer, message.number % keys),
                None => context.random.u32(0..256).to_string(),
            };
            match self.producer.enqueue(self.place.name.as_str(), ProducerRecord::new(&payload).key(&key)).await {
                Ok(delivery) => drop(sent.send((message, delivery))),
                Err(error) => settle(&context.recorder, message, &error),
            }
            let rest = self.pace.rest(&mut context.random, 1);
            sleep(rest).await;
        }
        drop(sent);
        // What is not known of it the deliveries tell.
        drop(settling.await);
    }

    async fn send_batches(&self, context: &mut Task, messages: usize) {
        let mut numbers = Numbering::new(&context.recorder);
        let mut settling = tokio::task::JoinSet::new();
        let mut sent = 0;
        while sent < messages && !*context.stop.borrow() {
            let count = context.random.usize(1..=BATCH);
            let partition = PartitionId(context.random.u32(0..self.place.partitions));
            let batch: Vec<_> = (0..count).map(|_| self.next(context, &mut numbers)).collect();
            let records: Vec<_> = batch.iter().map(|(_, payload)| ProducerRecord::new(payload).partition(partition)).collect();
            let messages: Vec<Message> = batch.iter().map(|(message, _)| *message).collect();
            match self.producer.enqueue_batch(self.place.name.as_str(), &records).await {
                Ok(delivery) => {
                    let (recorder, place) = (context.recorder.clone(), self.place.clone());
                    settling.spawn(async move { settle_batch(&recorder, &place, &messages, delivery.outcomes().await) });
                }
                Err(error) => messages.iter().for_each(|message| settle(&context.recorder, *message, &error)),
            }
            sent += count;
            let rest = self.pace.rest(&mut context.random, count);
            sleep(rest).await;
        }
        while settling.join_next().await.is_some() {}
    }

    fn next(&self, context: &mut Task, numbers: &mut Numbering) -> (Message, Vec<u8>) {
        let (message, topic) = (numbers.next(), self.place.topic);
        let payload = payload::make(topic, message, payload::size(&mut context.random, self.pace.max_bytes));
        context.recorder.note(Happened::Sends { message, topic });
        (message, payload)
    }
}

async fn settle_all(recorder: Recorder, place: Place, mut deliveries: mpsc::UnboundedReceiver<(Message, Delivery)>) {
    while let Some((message, delivery)) = deliveries.recv().await {
        match delivery.await {
            Ok(stored) => match stored.offset {
                Some(offset) => {
                    let part = place.part(stored.partition);
                    recorder.note(Happened::Stored { message, part, offset: offset.0 });
                }
                // It is stored, says the broker, and does not say where any more.
                None => {
                    recorder.note(Happened::Unanswered { message });
                }
            },
            Err(error) => settle(&recorder, message, &error),
        }
    }
}

fn settle_batch(recorder: &Recorder, place: &Place, messages: &[Message], outcomes: Vec<hermit_client::BatchOutcome>) {
    let mut rest = messages.iter();
    for outcome in outcomes {
        let count = usize::try_from(outcome.records).unwrap_or(usize::MAX);
        for (message, at) in rest.by_ref().take(count).zip(0_u64..) {
            match &outcome.result {
                Ok(stored) => match stored.first_offset {
                    Some(first) => {
                        let part = place.part(stored.partition);
                        recorder.note(Happened::Stored { message: *message, part, offset: first.0 + at });
                    }
                    None => {
                        recorder.note(Happened::Unanswered { message: *message });
                    }
                },
                Err(error) => settle(recorder, *message, error),
            }
        }
    }
}

/// What an error says of a message: only two leave it open.
fn settle(recorder: &Recorder, message: Message, error: &Error) {
    match error {
        Error::OutcomeUnknown { .. } | Error::Closed { .. } => recorder.note(Happened::Unanswered { message }),
        _ => recorder.note(Happened::Refused { message }),
    };
    if !error.is_retryable() && !matches!(error, Error::OutcomeUnknown { .. }) {
        recorder.problem(format!("{message} failed: {error}"));
    }
}
