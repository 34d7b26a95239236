//! Good clients: producers that count, and consumers that know what must come.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use hermit_proto::{PartitionId, ProducedFrame, TopicId};
use tokio::time::{Instant, sleep, timeout_at};

use crate::wire::{Session, V1Consumer, V1Producer};

/// Between two records of a producer.
const PACE: Duration = Duration::from_secs(1);
/// Bytes of a record besides what it tells.
const FILLER: [u8; 200] = [b'.'; 200];
/// More than a run takes.
const CREDIT_BYTES: u64 = 1 << 40;
/// Errors that are kept; the first ones tell.
const MOST_ERRORS: usize = 20;

/// What all clients did.
#[derive(Debug, Default)]
pub(super) struct Tally {
    produced: AtomicU64,
    consumed: AtomicU64,
    closed: AtomicU64,
    latencies: Mutex<Vec<Duration>>,
    errors: Mutex<Vec<String>>,
}

impl Tally {
    pub(super) fn produced(&self) -> u64 {
        self.produced.load(Ordering::Relaxed)
    }

    pub(super) fn consumed(&self) -> u64 {
        self.consumed.load(Ordering::Relaxed)
    }

    pub(super) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn closes(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn latencies(&self) -> Vec<Duration> {
        std::mem::take(&mut *self.latencies.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn errors(&self) -> Vec<String> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fails(&self, error: String) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if errors.len() < MOST_ERRORS {
            errors.push(error);
        }
    }
}

/// A good client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) number: usize,
    pub(super) address: SocketAddr,
    pub(super) name: String,
    pub(super) topic: TopicId,
    pub(super) until: Instant,
}

impl Client {
    /// One of four kinds, to the end of the run.
    pub(super) async fn run(self, tally: Arc<Tally>) {
        let (done, what) = match self.number % 4 {
            0 => (self.produce_v1(&tally).await, "version-1 producer"),
            1 => (self.produce_v2(&tally).await, "version-2 producer"),
            2 => (self.consume_v1(&tally).await, "version-1 consumer"),
            _ => (self.consume_v2(&tally).await, "version-2 consumer"),
        };
        if let Err(error) = done {
            tally.fails(format!("{what} {}: {error:#}", self.number));
        }
    }

    /// The times at which a producer sends: each has its own within the second.
    fn times(&self) -> impl Iterator<Item = Instant> + use<> {
        let (first, until) = (Instant::now() + PACE * u32::try_from(self.number % 97).unwrap_or_default() / 97, self.until);
        (0..).map(move |number| first + PACE * number).take_while(move |at| *at < until)
    }

    async fn produce_v1(&self, tally: &Tally) -> Result<()> {
        let mut producer = V1Producer::open(self.address, &self.name).await?;
        for (sequence, at) in self.times().enumerate() {
            tokio::time::sleep_until(at).await;
            producer.produce(&self.record(sequence)).await?;
            tally.produced.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn produce_v2(&self, tally: &Tally) -> Result<()> {
        let mut session = Session::open(self.address).await?;
        for (sequence, at) in self.times().enumerate() {
            tokio::time::sleep_until(at).await;
            let frame = ProducedFrame::message(0, None, &self.record(sequence)).to_vec()?;
            session.produce(self.topic, PartitionId(0), &frame).await?;
            tally.produced.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    async fn consume_v1(&self, tally: &Tally) -> Result<()> {
        let mut consumer = V1Consumer::open(self.address, "crowd", &self.name).await?;
        let mut seen = Seen::default();
        while let Ok(frame) = timeout_at(self.until, consumer.frame()).await {
            frame?;
            seen.check(consumer.body(), tally)?;
        }
        Ok(())
    }

    async fn consume_v2(&self, tally: &Tally) -> Result<()> {
        let mut session = Session::open(self.address).await?;
        let mut reading = session.subscribe(self.topic, PartitionId(0), CREDIT_BYTES).await?;
        let mut seen = Seen::default();
        loop {
            let mut fault = None;
            let check = |record: &[u8]| {
                if let Err(error) = seen.check(record, tally) {
                    fault.get_or_insert(error);
                }
            };
            // What comes is a sign of life in both directions: no heartbeat is needed.
            match timeout_at(self.until, session.delivery_with(&mut reading, check)).await {
                Ok(delivered) => delivered?,
                Err(_over) => return Ok(()),
            }
            if let Some(fault) = fault {
                return Err(fault);
            }
        }
    }

    fn record(&self, sequence: usize) -> Vec<u8> {
        let mut record = format!("{} {sequence} {} ", self.number, now_micros()).into_bytes();
        record.extend_from_slice(&FILLER);
        record
    }
}

/// What a consumer has had of each producer.
#[derive(Debug, Default)]
struct Seen(HashMap<u64, u64>);

impl Seen {
    fn check(&mut self, record: &[u8], tally: &Tally) -> Result<()> {
        let text = std::str::from_utf8(record).context("a record is not what was sent")?;
        let mut words = text.split(' ');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).context("a record is not what was sent");
        let (producer, sequence, sent_micros) = (number()?, number()?, number()?);
        ensure!(words.next().map(str::as_bytes) == Some(&FILLER[..]), "a record was changed");
        let next = self.0.entry(producer).or_default();
        ensure!(sequence == *next, "record {sequence} of producer {producer} came where {next} follows");
        *next += 1;
        tally.consumed.fetch_add(1, Ordering::Relaxed);
        let latency = Duration::from_micros(now_micros().saturating_sub(sent_micros));
        tally.latencies.lock().unwrap_or_else(PoisonError::into_inner).push(latency);
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "producer and consumer compare times of this machine")]
fn now_micros() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// Waits a while before coming again.
pub(super) async fn rest() {
    sleep(Duration::from_millis(fastrand::u64(200..1000))).await;
}
