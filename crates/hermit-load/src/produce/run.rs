//! Sending, and waiting for results.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hermit_client::{BatchDelivery, Client, Delivery, ProducerRecord, TopicProducer};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{ProduceLoad, ProduceReport, Results, Spread};
use crate::error::{Error, Result};
use crate::latency::Latencies;
use crate::meter::Meter;
use crate::pace::{Due, Pace, Schedule, be_punctual};
use crate::payload::Payloads;
use crate::sender::{Numbering, Values, recycled};
use crate::target::{new_stream, share};

/// A producing load whose connections stand.
#[derive(Debug)]
pub struct ReadyProduceLoad {
    pub(super) load: ProduceLoad,
    pub(super) ends: Vec<(Client, TopicProducer)>,
    pub(super) partitions: usize,
}

impl ReadyProduceLoad {
    /// Sends, and waits for all results. Without a rate it runs in tasks of the runtime, with one in threads of their own.
    ///
    /// # Errors
    /// [`Error::Ended`]. Records that fail are counted in the report.
    pub async fn run(self, meter: &Meter) -> Result<ProduceReport> {
        let Self { load, ends, partitions } = self;
        let (begin, stream, connections) = (Instant::now(), new_stream(), ends.len());
        let end = load.duration_ms.map(|ms| begin + Duration::from_millis(ms));
        let load = Arc::new(load);
        let mut running = JoinSet::new();
        let mut clients = Vec::with_capacity(connections);
        for (index, (client, producer)) in ends.into_iter().enumerate() {
            clients.push(client);
            let number = u32::try_from(index).unwrap_or_default();
            let stream = stream.wrapping_add(number);
            let rate = load.rate.map(|rate| rate / f64::from(u32::try_from(connections).unwrap_or(1)));
            // Connections take turns rather than send all at once.
            let offset = rate.map_or(Duration::ZERO, |rate| {
                Duration::from_secs_f64(1.0 / rate).mul_f64(f64::from(number)) / u32::try_from(connections).unwrap_or(1)
            });
            let records = load.records.map(|records| share(records, index, connections));
            let line = Line {
                load: load.clone(),
                producer,
                numbering: match load.spread {
                    Spread::Partitions => Numbering::by_partition(stream, partitions),
                    Spread::Keys(keys) => Numbering::by_key(stream, keys as usize),
                },
                pace: Pace::new(Schedule::new(begin + offset, rate, records, end)),
                turn: u64::from(number),
                tally: Arc::new(Mutex::new(Tally::new())),
                meter: meter.clone(),
            };
            line.start(&mut running);
        }
        let mut all = Tally::new();
        while let Some(ended) = running.join_next().await {
            all.merge(ended.map_err(Error::ended)??);
        }
        let elapsed = begin.elapsed();
        for client in clients {
            client.close().await;
        }
        Ok(all.report(load.size_bytes, elapsed))
    }
}

/// What is known of results.
#[derive(Debug)]
struct Tally {
    records: u64,
    failed: u64,
    first_error: Option<String>,
    latencies: Latencies,
    lateness: Latencies,
}

impl Tally {
    fn new() -> Self {
        Self { records: 0, failed: 0, first_error: None, latencies: Latencies::new(), lateness: Latencies::new() }
    }

    fn stored(&mut self, records: u64, latency: Duration) {
        self.records += records;
        self.latencies.record(latency, records);
    }

    fn fail(&mut self, records: u64, error: &hermit_client::Error) {
        self.failed += records;
        self.first_error.get_or_insert_with(|| error.to_string());
    }

    fn merge(&mut self, other: Self) {
        self.records += other.records;
        self.failed += other.failed;
        self.first_error = self.first_error.take().or(other.first_error);
        self.latencies.merge(&other.latencies);
        self.lateness.merge(&other.lateness);
    }

    fn report(self, size_bytes: usize, elapsed: Duration) -> ProduceReport {
        ProduceReport {
            records: self.records,
            bytes: self.records * size_bytes as u64,
            failed: self.failed,
            first_error: self.first_error,
            elapsed_us: u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX),
            latency: self.latencies.summary(),
            lateness: self.lateness.summary(),
        }
    }
}

/// One connection's part of the load.
struct Line {
    load: Arc<ProduceLoad>,
    producer: TopicProducer,
    numbering: Numbering,
    pace: Pace,
    /// Calls, or with keys records, so far; from another start on each connection.
    turn: u64,
    tally: Arc<Mutex<Tally>>,
    meter: Meter,
}

/// What was handed over in one call.
enum Sent {
    Batch(BatchDelivery),
    Records(Vec<Delivery>),
}

impl Line {
    fn start(self, running: &mut JoinSet<Result<Tally>>) {
        if self.load.rate.is_none() {
            running.spawn(self.run());
            return;
        }
        let runtime = Handle::current();
        // Its naps block the thread.
        running.spawn_blocking(move || {
            be_punctual();
            runtime.block_on(self.run())
        });
    }

    async fn run(mut self) -> Result<Tally> {
        let window = Arc::new(Semaphore::new(self.load.in_flight));
        let mut values = Values::new(Payloads::new(self.load.contents), self.load.size_bytes);
        let mut spare = Vec::new();
        while let Some(due) = self.pace.next(self.load.batch_records as u64, &self.meter) {
            let permit = window.clone().acquire_owned().await.map_err(Error::ended)?;
            let lanes = lanes_of(&self.numbering, &mut self.turn, due.count);
            values.fill(&mut self.numbering, lanes);
            let records = values.records(&self.numbering, spare);
            let begun = Instant::now();
            let since = if self.load.rate.is_some() { self.note_lateness(&due, begun) } else { begun };
            let sent = send(&self.load, &mut self.producer, &self.tally, &records).await;
            spare = recycled(records);
            self.follow(sent, since, due.count, permit).await;
        }
        // All permits are back when all results are there.
        let all = u32::try_from(self.load.in_flight).unwrap_or(u32::MAX);
        drop(window.acquire_many(all).await.map_err(Error::ended)?);
        let closed = self.producer.producer().close().await;
        let mut tally = lock(&self.tally);
        if let Err(error) = closed
            && tally.failed == 0
        {
            tally.fail(1, &error);
        }
        Ok(std::mem::replace(&mut *tally, Tally::new()))
    }

    fn note_lateness(&self, due: &Due, now: Instant) -> Instant {
        lock(&self.tally).lateness.record(now.saturating_duration_since(due.intended), 1);
        due.intended
    }

    /// Waits for the results in a task of its own, so that they are timed when they come; where nothing else goes on meanwhile, here.
    async fn follow(&self, sent: Result<Sent, hermit_client::Error>, since: Instant, count: u64, permit: OwnedSemaphorePermit) {
        let (tally, meter, size_bytes) = (self.tally.clone(), self.meter.clone(), self.load.size_bytes as u64);
        let wait = async move {
            let stored = match sent {
                Ok(Sent::Batch(delivery)) => batch_results(delivery, since, &tally).await,
                Ok(Sent::Records(deliveries)) => record_results(deliveries, since, &tally).await,
                Err(error) => {
                    lock(&tally).fail(count, &error);
                    // What is refused at once would be again: not without a pause.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    0
                }
            };
            meter.add(stored, stored * size_bytes);
            drop(permit);
        };
        if self.load.in_flight == 1 {
            wait.await;
        } else {
            tokio::spawn(wait);
        }
    }
}

/// Hands records over.
async fn send(
    load: &ProduceLoad,
    producer: &mut TopicProducer,
    tally: &Mutex<Tally>,
    records: &[ProducerRecord<'_>],
) -> Result<Sent, hermit_client::Error> {
    match load.results {
        Results::PerBatch => producer.enqueue_batch(records).await.map(Sent::Batch),
        Results::PerRecord => {
            let mut deliveries = Vec::with_capacity(records.len());
            for record in records {
                match producer.enqueue(*record).await {
                    Ok(delivery) => deliveries.push(delivery),
                    Err(error) => {
                        lock(tally).fail((records.len() - deliveries.len()) as u64, &error);
                        break;
                    }
                }
            }
            Ok(Sent::Records(deliveries))
        }
    }
}

/// The lanes of the next records: all the same, or with keys one after the other.
fn lanes_of(numbering: &Numbering, turn: &mut u64, count: u64) -> impl Iterator<Item = u16> + use<> {
    let (lanes, by_key, first) = (numbering.lanes().max(1), numbering.has_keys(), *turn);
    *turn = turn.wrapping_add(if by_key { count } else { 1 });
    (0..count).map(move |index| {
        let lane = if by_key { first.wrapping_add(index) % lanes } else { first % lanes };
        u16::try_from(lane).unwrap_or_default()
    })
}

async fn batch_results(delivery: BatchDelivery, since: Instant, tally: &Mutex<Tally>) -> u64 {
    let outcomes = delivery.outcomes().await;
    let latency = since.elapsed();
    let mut tally = lock(tally);
    let mut stored = 0;
    for outcome in outcomes {
        match outcome.result {
            Ok(_stored) => stored += u64::from(outcome.records),
            Err(error) => tally.fail(outcome.records.into(), &error),
        }
    }
    tally.stored(stored, latency);
    stored
}

async fn record_results(deliveries: Vec<Delivery>, since: Instant, tally: &Mutex<Tally>) -> u64 {
    let (mut stored, mut of_batch, mut latency) = (0, 0, Duration::ZERO);
    for mut delivery in deliveries {
        // A record of the batch before is there at once, at the same time.
        let ready = std::future::poll_fn(|context| std::task::Poll::Ready(std::pin::Pin::new(&mut delivery).poll(context))).await;
        let result = match ready {
            std::task::Poll::Ready(result) => result,
            std::task::Poll::Pending => {
                lock(tally).stored(std::mem::take(&mut of_batch), latency);
                let result = delivery.await;
                latency = since.elapsed();
                result
            }
        };
        match result {
            Ok(_stored) => {
                if latency.is_zero() {
                    latency = since.elapsed();
                }
                (stored, of_batch) = (stored + 1, of_batch + 1);
            }
            Err(error) => lock(tally).fail(1, &error),
        }
    }
    lock(tally).stored(of_batch, latency);
    stored
}

fn lock(tally: &Mutex<Tally>) -> std::sync::MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
