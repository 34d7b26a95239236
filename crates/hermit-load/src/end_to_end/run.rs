//! Sending on a schedule, and receiving.

use std::sync::Arc;
use std::time::Duration;

use hermit_client::{Client, Consumer, Producer, Records};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{EndToEndLoad, EndToEndReport};
use crate::check::{Checker, Counts};
use crate::error::{Error, Result};
use crate::latency::Latencies;
use crate::meter::Meter;
use crate::pace::{Pace, Schedule, be_punctual};
use crate::payload::Payloads;
use crate::sender::{Numbering, Values, recycled};
use crate::target::new_stream;

/// An end-to-end load whose connections stand.
#[derive(Debug)]
pub struct ReadyEndToEndLoad {
    pub(super) load: EndToEndLoad,
    pub(super) producers: Vec<(Client, Producer)>,
    pub(super) consumers: Vec<(Client, Consumer)>,
    pub(super) partitions: usize,
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
            let checker = Checker::new(shared.load.check);
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
                batch = self.consumer.recv_records() => batch,
            };
            match batch {
                Ok(None) => break,
                Ok(Some(records)) => self.take(&records),
                Err(error) => {
                    self.found.error = Some(error.to_string());
                    break;
                }
            }
        }
        (self.found, *self.checker.counts())
    }

    fn take(&mut self, records: &Records) {
        let now = Instant::now();
        let counted_from = self.shared.begin + Duration::from_millis(self.shared.load.warm_up_ms);
        let (mut ours, mut bytes) = (0, 0);
        // Mostly those of a batch are of one connection.
        let (mut connection, mut of_connection) = (None, 0_usize);
        for record in records {
            let value = record.value;
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
