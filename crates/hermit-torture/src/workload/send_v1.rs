//! Producers of version 1: many frames under way on a raw socket, and each sent once.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use hermit_proto::v1::{ANSWER_SIZE, Answer, Handshake};
use hermit_proto::{Header, PartitionId, magic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{sleep, timeout};

use super::place::{Pace, Place};
use super::recorder::Numbering;
use super::{Task, payload};
use crate::check::history::{Happened, Message};

/// Frames that are under way at most.
const WINDOW: usize = 64;
/// Messages of one write at most.
const BURST: usize = 16;
/// Before a broker that is away is tried again.
const AWAY: Duration = Duration::from_millis(50);
/// After a refusal: what is refused for now may be taken later.
const REFUSED: Duration = Duration::from_millis(20);
/// Answers that have not come by then do not come: the broker may be paused.
const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

pub(super) async fn run(mut context: Task, place: Place, partition: PartitionId, pace: Pace) -> Result<()> {
    let handshake = Handshake::Producer { topic: place.name.clone(), partition };
    while !*context.stop.borrow() {
        let Some(stream) = context.target.v1(&handshake).await else {
            sleep(AWAY).await;
            continue;
        };
        let connection = Connection { place: &place, partition, pace, flight: Mutex::default() };
        connection.run(&mut context, stream).await;
    }
    Ok(())
}

struct Connection<'a> {
    place: &'a Place,
    partition: PartitionId,
    pace: Pace,
    flight: Mutex<Flight>,
}

/// What was sent and has no answer yet, in order.
#[derive(Debug, Default)]
struct Flight {
    messages: VecDeque<Message>,
    refused: bool,
}

impl Connection<'_> {
    fn flight(&self) -> std::sync::MutexGuard<'_, Flight> {
        self.flight.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends until told to stop, until the connection breaks, or for as long as it was going to.
    async fn run(&self, context: &mut Task, stream: TcpStream) {
        let messages = context.random.usize(50..4000);
        // Every other connection waits for its last answers; the others are cut.
        let waits = context.random.bool();
        let (read, write) = stream.into_split();
        let reader = context.clone();
        tokio::select! {
            () = self.answers(&reader, read) => {}
            () = self.send(context, write, messages, waits) => {}
        }
        for message in std::mem::take(&mut self.flight().messages) {
            context.recorder.note(Happened::Unanswered { message });
        }
    }

    async fn send(&self, context: &mut Task, mut write: OwnedWriteHalf, messages: usize, waits: bool) {
        let mut numbers = Numbering::new(&context.recorder);
        let mut sent = 0;
        while sent < messages && !*context.stop.borrow() {
            let free = WINDOW - self.flight().messages.len();
            let burst = context.random.usize(1..=BURST).min(free);
            let mut bytes = Vec::new();
            for _ in 0..burst {
                self.frame(context, numbers.next(), &mut bytes);
            }
            sent += burst;
            if write.write_all(&bytes).await.is_err() {
                return;
            }
            let rest = if std::mem::take(&mut self.flight().refused) { REFUSED } else { Duration::ZERO };
            sleep(rest + self.pace.rest(&mut context.random, burst.max(1))).await;
        }
        if waits || *context.stop.borrow() {
            // The broker answers what it has, and closes.
            if write.shutdown().await.is_ok() && timeout(ANSWERS_WITHIN, pending::<()>()).await.is_err() {
                context.recorder.problem("a version-1 producer's last answers do not come".to_owned());
            }
        }
    }

    fn frame(&self, context: &mut Task, message: Message, bytes: &mut Vec<u8>) {
        let topic = self.place.topic;
        let payload = payload::make(topic, message, payload::size(&mut context.random, self.pace.max_bytes));
        let key = self.place.keys.map(|keys| format!("{}-{}", message.producer, message.number % keys)).unwrap_or_default();
        // An opaque frame of several records takes as many offsets.
        let record_count = if self.place.keys.is_none() && context.random.u8(0..8) == 0 { context.random.u32(0..4) } else { 1 };
        let (Ok(key_size), Ok(payload_size)) = (u32::try_from(key.len()), u32::try_from(payload.len())) else { return };
        let header = Header { magic: magic::DATA_V1, timestamp: 0, offset: 0, key_size, payload_size, record_count };
        bytes.extend(header.encode());
        bytes.extend(key.as_bytes());
        bytes.extend(&payload);
        self.flight().messages.push_back(message);
        context.recorder.note(Happened::Sends { message, topic });
    }

    /// Takes answers until the connection ends.
    async fn answers(&self, context: &Task, mut read: OwnedReadHalf) {
        let part = self.place.part(self.partition);
        let mut bytes = [0; ANSWER_SIZE];
        while read.read_exact(&mut bytes).await.is_ok() {
            let Some(message) = self.flight().messages.pop_front() else {
                context.recorder.problem(format!("an answer too many, {bytes:?}, from {part:?}"));
                return;
            };
            match Answer::decode(&bytes) {
                Ok(Answer::Stored(offset)) => {
                    context.recorder.note(Happened::Stored { message, part, offset: offset.0 });
                }
                Ok(Answer::Refused) => {
                    context.recorder.note(Happened::Refused { message });
                    self.flight().refused = true;
                }
                Err(error) => {
                    context.recorder.note(Happened::Unanswered { message });
                    context.recorder.problem(format!("an answer from {part:?}: {error}"));
                    return;
                }
            }
        }
    }
}
