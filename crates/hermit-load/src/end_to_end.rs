//! Latency from when a record should have been sent to when a consumer has it.

use std::sync::Arc;
use std::time::Duration;

use hermit_client::{Client, Consumer, Producer, Record, Start};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::check::{Check, Checker, Counts};
use crate::consume::assign;
use crate::error::{Error, Result};
use crate::latency::{Latencies, LatencySummary};
use crate::meter::Meter;
use crate::pace::{Pace, Schedule, be_punctual};
use crate::payload::{Contents, Payloads, check_size};
use crate::produce::{check_batch, check_partitions, check_rate, per_second};
use crate::sender::{Numbering, Values, recycled};
use crate::target::{Compression, Target, new_stream};

/// Producers on a schedule, and consumers at the topic's end, in one process.
///
/// The schedule is open: record `n` is due at `n / rate`, however long those before it take. Records that are due together are sent together. A latency begins
/// when its record was due, so that neither a stalled broker nor a late load hides what a user would have waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndToEndLoad {
    /// Which topic. There are so many connections for producing, and as many for consuming.
    #[serde(flatten)]
    pub target: Target,
    /// Records a second, over all connections. `None`: as fast as can be, with `window` records under way at most.
    #[serde(default)]
    pub rate: Option<f64>,
    /// How long records are sent, in ms.
    #[serde(default = "default_duration")]
    pub duration_ms: u64,
    /// Records that were due so early count for no latency, in ms.
    #[serde(default = "default_warm_up")]
    pub warm_up_ms: u64,
    /// Bytes of each value, at least [`HEAD_BYTES`](crate::HEAD_BYTES).
    #[serde(default = "default_size")]
    pub size_bytes: usize,
    /// What the values are made of.
    #[serde(default)]
    pub contents: Contents,
    /// Records that are handed to the SDK in one call, at most.
    #[serde(default = "default_batch")]
    pub batch_records: usize,
    /// Without a rate: records of each connection that are sent and not received, at most.
    #[serde(default = "default_window")]
    pub window: usize,
    /// How the SDK compresses its batches.
    #[serde(default)]
    pub compression: Compression,
    /// How long to wait for records that are missing at the end, in ms.
    #[serde(default = "default_drain")]
    pub drain_ms: u64,
    /// What is checked of each record, [`Check::Order`] at least.
    #[serde(default)]
    pub check: Check,
}

const fn default_duration() -> u64 {
    10_000
}

const fn default_warm_up() -> u64 {
    1000
}

const fn default_size() -> usize {
    100
}

const fn default_batch() -> usize {
    1000
}

const fn default_window() -> usize {
    50_000
}

const fn default_drain() -> u64 {
    10_000
}

/// What an end-to-end load came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EndToEndReport {
    /// Records that were sent.
    pub sent: u64,
    /// Records that were received, of those that were sent.
    pub received: u64,
    /// Those of them that had come when the last one was due: fewer where the broker did not keep up.
    pub received_in_time: u64,
    /// How long records were sent, in µs.
    pub sending_us: u64,
    /// From the start to the last record received, in µs.
    pub elapsed_us: u64,
    /// What was found. `lost` has those too that never came.
    pub counts: Counts,
    /// Errors of producers and consumers.
    pub failed: u64,
    /// The first one.
    pub first_error: Option<String>,
    /// From when a record was due to its receipt.
    pub latency: LatencySummary,
    /// How late the load's own calls were, from when their first record was due.
    pub lateness: LatencySummary,
}

impl EndToEndReport {
    /// Records a second that were received, up to the last one.
    #[must_use]
    pub fn records_per_second(&self) -> f64 {
        per_second(self.received, self.elapsed_us)
    }

    /// Whether every record came, once, in order and unchanged, and nothing failed.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.failed == 0 && self.received == self.sent && self.counts.is_sound()
    }
}

impl EndToEndLoad {
    /// Values of 100 random bytes for 10 s, as fast as can be.
    #[must_use]
    pub const fn new(target: Target) -> Self {
        Self {
            target,
            rate: None,
            duration_ms: default_duration(),
            warm_up_ms: default_warm_up(),
            size_bytes: default_size(),
            contents: Contents::Random,
            batch_records: default_batch(),
            window: default_window(),
            compression: Compression::None,
            drain_ms: default_drain(),
            check: Check::Contents,
        }
    }

    fn check(&self) -> Result<()> {
        self.target.check()?;
        check_size(self.size_bytes)?;
        check_batch(self.batch_records)?;
        check_rate(self.rate)?;
        if self.check == Check::Nothing {
            return Err(Error::config("check", "must be `order` or `contents`: latencies are told by the records' heads"));
        }
        if self.window < self.batch_records || self.window > Semaphore::MAX_PERMITS {
            return Err(Error::config("window", "must hold the records of a call"));
        }
        Ok(())
    }

    /// Connects, and puts the consumers to the topic's present end. The topic is created if it is not there and the broker's settings allow.
    ///
    /// # Errors
    /// [`Error::Config`]; [`Error::Client`] where there is no broker, or no topic.
    pub async fn prepare(self) -> Result<ReadyEndToEndLoad> {
        self.check()?;
        let (mut producers, mut consumers, mut partitions) = (Vec::new(), Vec::new(), 0);
        for index in 0..self.target.connections {
            let client = self.target.connect().await?;
            let room = self.size_bytes.saturating_add(256).saturating_mul(self.batch_records).saturating_mul(4);
            let room = room.clamp(32 << 20, 1 << 30).max(2 * self.size_bytes);
            let builder = client.producer().codec(self.compression.codec()).linger(Duration::ZERO);
            let producer = builder.max_buffered_bytes(room).build()?;
            producer.prepare(&self.target.topic).await?;
            producer.identity().await?;
            producers.push((client, producer));

            let client = self.target.connect().await?;
            if partitions == 0 {
                partitions = client.admin().describe_topic(&self.target.topic).await?.partitions.len();
                check_partitions(partitions)?;
            }
            let mut consumer = client.consumer().build()?;
            assign(&client, &mut consumer, &self.target, index, Start::Latest).await?;
            consumers.push((client, consumer));
        }
        Ok(ReadyEndToEndLoad { load: self, producers, consumers, partitions })
    }
}

/// An end-to-end load whose connections stand.
#[derive(Debug)]
pub struct ReadyEndToEndLoad {
    load: EndToEndLoad,
    producers: Vec<(Client, Producer)>,
    consumers: Vec<(Client, Consumer)>,
    partitions: usize,
}

impl ReadyEndToEndLoad {
    /// Sends from threads of their own, and receives in tasks of the runtime. The meter counts records received.
    ///
    /// # Errors
    /// [`Error::Ended`]. Errors of producers and consumers are counted in the report.
    pub async fn run(self, meter: &Meter) -> Result<EndToEndReport> {
        let Self { load, producers, consumers, partitions } = self;
        let shared = Shared::new(load, producers.len(), partitions, meter);
        let mut receiving = JoinSet::new();
        let mut clients = Vec::new();
        for (client, consumer) in consumers {
            clients.push(client);
            let checker = Checker::new(Payloads::new(shared.load.contents), shared.load.check);
            receiving.spawn(Receiver { shared: shared.clone(), consumer, checker, found: Received::new() }.run());
        }
        let mut sending = JoinSet::new();
        let runtime = Handle::current();
        for (index, (client, producer)) in producers.into_iter().enumerate() {
            clients.push(client);
            let (shared, runtime) = (shared.clone(), runtime.clone());
            sending.spawn_blocking(move || {
                be_punctual();
                runtime.block_on(Sender { shared, producer, index, lateness: Latencies::new() }.run())
            });
        }
        let (mut report, mut lateness) = (EndToEndReport::default(), Latencies::new());
        while let Some(ended) = sending.join_next().await {
            let (sent, late, error) = ended.map_err(Error::ended)?;
            report.sent += sent;
            lateness.merge(&late);
            note(&mut report, error);
        }
        report.sending_us = us(shared.begin.elapsed());
        report.received_in_time = shared.meter.records();
        shared.drain(report.sent).await;
        let mut all = Received::new();
        while let Some(ended) = receiving.join_next().await {
            let (received, counts) = ended.map_err(Error::ended)?;
            report.counts.add(&counts);
            all.merge(received);
        }
        note(&mut report, all.error);
        report.received = all.records;
        // What never came leaves no gap that a later one would show.
        report.counts.lost = report.counts.lost.max(report.sent.saturating_sub(report.received));
        report.elapsed_us = us(all.last);
        report.latency = all.latencies.summary();
        report.lateness = lateness.summary();
        for client in clients {
            client.close().await;
        }
        Ok(report)
    }
}

fn us(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn note(report: &mut EndToEndReport, error: Option<String>) {
    report.failed += u64::from(error.is_some());
    report.first_error = report.first_error.take().or(error);
}

/// What all parts of the load know.
#[derive(Debug)]
struct Shared {
    load: EndToEndLoad,
    begin: Instant,
    /// The first connection's stream, and each connection's schedule.
    stream: u32,
    schedules: Vec<Schedule>,
    partitions: usize,
    /// Without a rate: what each connection may send before more was received.
    windows: Vec<Semaphore>,
    meter: Meter,
    /// Ends the consumers.
    done: Meter,
}

impl Shared {
    fn new(load: EndToEndLoad, connections: usize, partitions: usize, meter: &Meter) -> Arc<Self> {
        let begin = Instant::now();
        let end = begin + Duration::from_millis(load.duration_ms);
        let count = u32::try_from(connections).unwrap_or(1);
        let schedule = |index: u32| {
            let rate = load.rate.map(|rate| rate / f64::from(count));
            // Connections take turns rather than send all at once.
            let offset = load.rate.map_or(0.0, |rate| f64::from(index) / rate);
            Schedule::new(begin + Duration::from_secs_f64(offset), rate, None, Some(end))
        };
        Arc::new(Self {
            begin,
            stream: new_stream(),
            schedules: (0..count).map(schedule).collect(),
            partitions,
            windows: (0..count).map(|_connection| Semaphore::new(load.window)).collect(),
            meter: meter.clone(),
            done: Meter::default(),
            load,
        })
    }

    /// Waits until so many records were received, as long as that may take.
    async fn drain(&self, sent: u64) {
        let limit = Instant::now() + Duration::from_millis(self.load.drain_ms);
        while self.meter.records() < sent && Instant::now() < limit && !self.meter.is_stopped() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.done.stop();
    }

    /// The connection that a stream belongs to, if it is one of this load.
    fn connection(&self, stream: u32) -> Option<usize> {
        let index = stream.wrapping_sub(self.stream) as usize;
        (index < self.schedules.len()).then_some(index)
    }
}

struct Sender {
    shared: Arc<Shared>,
    producer: Producer,
    index: usize,
    lateness: Latencies,
}

impl Sender {
    /// Gives how many records were sent.
    async fn run(mut self) -> (u64, Latencies, Option<String>) {
        let shared = self.shared.clone();
        let Some((schedule, window)) = shared.schedules.get(self.index).zip(shared.windows.get(self.index)) else {
            return (0, self.lateness, None);
        };
        let load = &shared.load;
        let stream = shared.stream.wrapping_add(u32::try_from(self.index).unwrap_or_default());
        let mut numbering = Numbering::by_partition(stream, shared.partitions);
        let mut values = Values::new(Payloads::new(load.contents), load.size_bytes);
        let (mut pace, mut spare, mut sent, mut failure) = (Pace::new(*schedule), Vec::new(), 0, None);
        while let Some(due) = pace.next(load.batch_records as u64, &shared.meter) {
            if load.rate.is_none() {
                let permits = u32::try_from(due.count).unwrap_or(u32::MAX);
                let end = shared.begin + Duration::from_millis(load.duration_ms);
                match tokio::time::timeout_at(end, window.acquire_many(permits)).await {
                    Ok(Ok(permit)) => permit.forget(),
                    // The time is over.
                    _ => break,
                }
            } else {
                self.lateness.record(Instant::now().saturating_duration_since(due.intended), 1);
            }
            values.fill(
                &mut numbering,
                (due.first..).take(usize::try_from(due.count).unwrap_or(usize::MAX)).map(|number| lane(number, shared.partitions)),
            );
            let records = values.records(&numbering, spare);
            // Whether it fares well, `close` says.
            let handed_over = self.producer.enqueue_batch(&load.target.topic, &records).await.map(drop);
            spare = recycled(records);
            sent += due.count;
            if let Err(error) = handed_over {
                failure = Some(error.to_string());
                break;
            }
        }
        if let Err(error) = self.producer.close().await {
            failure.get_or_insert_with(|| error.to_string());
        }
        (sent, self.lateness, failure)
    }
}

/// Record `n` of a connection goes to partition `n mod partitions`, so that lane and sequence tell its number, and that when it was due.
fn lane(number: u64, partitions: usize) -> u16 {
    u16::try_from(number % (partitions.max(1) as u64)).unwrap_or_default()
}

#[derive(Debug)]
struct Received {
    records: u64,
    last: Duration,
    latencies: Latencies,
    error: Option<String>,
}

impl Received {
    fn new() -> Self {
        Self { records: 0, last: Duration::ZERO, latencies: Latencies::new(), error: None }
    }

    fn merge(&mut self, other: Self) {
        self.records += other.records;
        self.last = self.last.max(other.last);
        self.latencies.merge(&other.latencies);
        self.error = self.error.take().or(other.error);
    }
}

struct Receiver {
    shared: Arc<Shared>,
    consumer: Consumer,
    checker: Checker,
    found: Received,
}

impl Receiver {
    async fn run(mut self) -> (Received, Counts) {
        let shared = self.shared.clone();
        let mut done = std::pin::pin!(shared.done.stopped());
        loop {
            let batch = tokio::select! {
                biased;
                () = &mut done => break,
                batch = self.consumer.recv_batch(4096) => batch,
            };
            match batch {
                Ok(batch) if batch.is_empty() => break,
                Ok(batch) => self.take(&batch),
                Err(error) => {
                    self.found.error = Some(error.to_string());
                    break;
                }
            }
        }
        (self.found, *self.checker.counts())
    }

    fn take(&mut self, batch: &[Record]) {
        let now = Instant::now();
        let counted_from = self.shared.begin + Duration::from_millis(self.shared.load.warm_up_ms);
        let (mut ours, mut bytes) = (0, 0);
        // Mostly those of a batch are of one connection.
        let (mut connection, mut of_connection) = (None, 0_usize);
        for record in batch {
            let value = record.value.as_deref();
            let Some(id) = self.checker.check(value) else { continue };
            let Some(index) = self.shared.connection(id.stream) else { continue };
            ours += 1;
            bytes += value.map_or(0, <[u8]>::len) as u64;
            if connection != Some(index) {
                self.give_back(connection, std::mem::take(&mut of_connection));
                connection = Some(index);
            }
            of_connection += 1;
            let Some(schedule) = self.shared.schedules.get(index).filter(|_| self.shared.load.rate.is_some()) else { continue };
            let due = schedule.intended(id.sequence * self.shared.partitions as u64 + u64::from(id.lane));
            if due >= counted_from {
                self.found.latencies.record(now.saturating_duration_since(due), 1);
            }
        }
        self.give_back(connection, of_connection);
        self.found.records += ours;
        self.found.last = now.saturating_duration_since(self.shared.begin);
        self.shared.meter.add(ours, bytes);
    }

    /// Lets a connection send so many records more.
    fn give_back(&self, connection: Option<usize>, records: usize) {
        if self.shared.load.rate.is_none()
            && let Some(window) = connection.and_then(|index| self.shared.windows.get(index))
        {
            window.add_permits(records);
        }
    }
}
