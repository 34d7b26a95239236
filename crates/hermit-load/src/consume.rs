//! Consuming.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hermit_client::{AutoCommit, Client, Consumer, PartitionId, Start};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::check::{Check, Checker, Counts};
use crate::error::{Error, Result};
use crate::latency::{Latencies, LatencySummary};
use crate::meter::Meter;
use crate::produce::per_second;
use crate::target::Target;

/// A consuming load. Its connections divide the partitions among them.
///
/// It ends after `records` or `duration_ms`, or with `until_end` at the topic's end, whichever comes first. Nothing is committed, unless it is a
/// member of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConsumeLoad {
    /// Where from.
    #[serde(flatten)]
    pub target: Target,
    /// How many records, over all connections and with what one call brings too much; `None`: no limit.
    #[serde(default)]
    pub records: Option<u64>,
    /// How long, in ms; `None`: no limit.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// Whether it ends where the topic ended when it began.
    #[serde(default)]
    pub until_end: bool,
    /// Where it begins.
    #[serde(default)]
    pub start: StartAt,
    /// Whether records are taken each by itself, to be kept (`Consumer::recv_batch`), rather than borrowed, as many as came together
    /// (`Consumer::recv_records`).
    #[serde(default)]
    pub owned: bool,
    /// What is checked.
    #[serde(default)]
    pub check: Check,
    /// A group, whose members the connections become: they begin where it is, and commit what they received.
    #[serde(default)]
    pub group: Option<String>,
    /// Bytes that the SDK may receive ahead, for each connection; `None`: its default.
    #[serde(default)]
    pub prefetch_bytes: Option<u64>,
}

/// Owned records that are taken in one call, at most.
const OWNED_AT_ONCE: usize = 4096;

/// Where a consumer begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartAt {
    /// With the first record that is there.
    #[default]
    Earliest,
    /// With what comes.
    Latest,
    /// At this offset of each partition.
    Offset(u64),
}

impl StartAt {
    pub(crate) const fn start(self) -> Start {
        match self {
            Self::Earliest => Start::Earliest,
            Self::Latest => Start::Latest,
            Self::Offset(offset) => Start::Offset(hermit_client::Offset(offset)),
        }
    }
}

/// What a consuming load came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConsumeReport {
    /// Records that were received.
    pub records: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// From the start to the last record, in µs.
    pub elapsed_us: u64,
    /// From the start to the first record, in µs.
    pub first_us: u64,
    /// What was found.
    pub counts: Counts,
    /// Errors of the consumers, which ended them.
    pub failed: u64,
    /// The first one.
    pub first_error: Option<String>,
    /// From the broker's append of a record of each call to its receipt, by the wall clocks of both; counted once for each call. Of use to who reads at the end.
    pub age: LatencySummary,
}

impl ConsumeReport {
    /// Records a second.
    #[must_use]
    pub fn records_per_second(&self) -> f64 {
        per_second(self.records, self.elapsed_us)
    }

    /// Bytes of values a second.
    #[must_use]
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.elapsed_us)
    }
}

impl ConsumeLoad {
    /// From the first record, without end, everything checked.
    #[must_use]
    pub const fn new(target: Target) -> Self {
        Self {
            target,
            records: None,
            duration_ms: None,
            until_end: false,
            start: StartAt::Earliest,
            owned: false,
            check: Check::Contents,
            group: None,
            prefetch_bytes: None,
        }
    }

    /// Connects and finds the positions, so that the run measures receiving alone. Members of a group join when it runs.
    ///
    /// # Errors
    /// [`Error::Config`]; [`Error::Client`] where there is no broker, or no topic.
    pub async fn prepare(self) -> Result<ReadyConsumeLoad> {
        self.target.check()?;
        if self.until_end && self.group.is_some() {
            return Err(Error::config("until_end", "is for consumers without a group: name a number of records, or a duration"));
        }
        let mut ends = Vec::with_capacity(self.target.connections);
        for index in 0..self.target.connections {
            let client = self.target.connect().await?;
            let mut builder = client.consumer();
            if let Some(bytes) = self.prefetch_bytes {
                builder = builder.prefetch_bytes(bytes);
            }
            let consumer = match &self.group {
                Some(group) => builder.group(group).auto_commit(AutoCommit::Processed).build()?,
                None => {
                    let mut consumer = builder.build()?;
                    assign(&client, &mut consumer, &self.target, index, self.start.start()).await?;
                    if self.until_end {
                        consumer.stop_at_present_end().await?;
                    }
                    consumer
                }
            };
            ends.push((client, consumer));
        }
        Ok(ReadyConsumeLoad { load: self, ends })
    }
}

/// Assigns the partitions of the `index`-th connection: every n-th.
pub(crate) async fn assign(client: &Client, consumer: &mut Consumer, target: &Target, index: usize, start: Start) -> Result<()> {
    let topic = client.admin().describe_topic(&target.topic).await?;
    for partition in topic.partitions.iter().skip(index).step_by(target.connections) {
        consumer.assign(&target.topic, PartitionId(partition.partition.0), start).await?;
    }
    Ok(())
}

/// A consuming load whose connections stand.
#[derive(Debug)]
pub struct ReadyConsumeLoad {
    load: ConsumeLoad,
    ends: Vec<(Client, Consumer)>,
}

impl ReadyConsumeLoad {
    /// Receives, in tasks of the runtime.
    ///
    /// # Errors
    /// [`Error::Ended`]; [`Error::Client`] where a group cannot be joined. Errors of receiving are counted in the report.
    pub async fn run(self, meter: &Meter) -> Result<ConsumeReport> {
        let Self { load, ends } = self;
        let begin = Instant::now();
        let load = Arc::new(load);
        let left = Arc::new(AtomicU64::new(load.records.unwrap_or(u64::MAX)));
        // Ends this run when all records are there, and is no end of the caller's meter.
        let done = Meter::default();
        let mut running = JoinSet::new();
        let mut clients = Vec::with_capacity(ends.len());
        for (client, consumer) in ends {
            clients.push(client);
            let line = Line {
                load: load.clone(),
                checker: Checker::new(load.check),
                consumer,
                begin,
                left: left.clone(),
                done: done.clone(),
                meter: meter.clone(),
                found: Found::default(),
                age: Latencies::new(),
            };
            running.spawn(line.run());
        }
        let (mut report, mut age) = (ConsumeReport::default(), Latencies::new());
        while let Some(ended) = running.join_next().await {
            let (found, counts, ages) = ended.map_err(Error::ended)??;
            found.add_to(&mut report);
            report.counts.add(&counts);
            age.merge(&ages);
        }
        report.age = age.summary();
        for client in clients {
            client.close().await;
        }
        Ok(report)
    }
}

#[derive(Debug, Default)]
struct Found {
    records: u64,
    bytes: u64,
    first: Duration,
    last: Duration,
    error: Option<String>,
}

impl Found {
    fn add_to(self, report: &mut ConsumeReport) {
        let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if self.records > 0 {
            let first = us(self.first);
            report.first_us = if report.records == 0 { first } else { report.first_us.min(first) };
        }
        report.records += self.records;
        report.bytes += self.bytes;
        report.elapsed_us = report.elapsed_us.max(us(self.last));
        report.failed += u64::from(self.error.is_some());
        report.first_error = report.first_error.take().or(self.error);
    }
}

/// One connection's part of the load.
struct Line {
    load: Arc<ConsumeLoad>,
    checker: Checker,
    consumer: Consumer,
    begin: Instant,
    left: Arc<AtomicU64>,
    done: Meter,
    meter: Meter,
    found: Found,
    age: Latencies,
}

impl Line {
    async fn run(mut self) -> Result<(Found, Counts, Latencies)> {
        if self.load.group.is_some() {
            self.consumer.subscribe(self.load.target.topic.as_str()).await?;
        }
        let (done, meter) = (self.done.clone(), self.meter.clone());
        let mut stopped = std::pin::pin!(async {
            tokio::select! { () = done.stopped() => {}, () = meter.stopped() => {} }
        });
        let timeout = self.load.duration_ms.map_or(Duration::MAX, Duration::from_millis);
        let mut timeout = std::pin::pin!(tokio::time::sleep(timeout));
        if self.load.records == Some(0) {
            self.done.stop();
        }
        loop {
            let more = tokio::select! {
                biased;
                () = &mut stopped => break,
                () = &mut timeout => break,
                more = self.receive() => more,
            };
            match more {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.found.error = Some(error.to_string());
                    break;
                }
            }
        }
        if self.load.group.is_some() {
            // The last call's records count as processed by a next one; what that brings is not committed.
            drop(self.consumer.try_recv_records());
            self.consumer.close().await?;
        }
        Ok((self.found, *self.checker.counts(), self.age))
    }

    /// Takes in what comes next. `false` when nothing more can come.
    async fn receive(&mut self) -> Result<bool, hermit_client::Error> {
        if self.load.owned {
            let batch = self.consumer.recv_batch(OWNED_AT_ONCE).await?;
            let Some(first) = batch.first() else { return Ok(false) };
            let append_time = first.append_time;
            self.take(batch.iter().map(|record| record.value.as_deref()), append_time);
        } else {
            let Some(records) = self.consumer.recv_records().await? else { return Ok(false) };
            self.take(records.iter().map(|record| record.value), records.append_time());
        }
        Ok(true)
    }

    fn take<'a>(&mut self, values: impl Iterator<Item = Option<&'a [u8]>>, append_time: u64) {
        let (mut records, mut bytes) = (0, 0);
        for value in values {
            (records, bytes) = (records + 1, bytes + value.map_or(0, <[u8]>::len) as u64);
            self.checker.check(value);
        }
        let now = self.begin.elapsed();
        self.age.record(Duration::from_nanos(wall_clock_ns().saturating_sub(append_time)), 1);
        if self.found.records == 0 {
            self.found.first = now;
        }
        self.found.records += records;
        self.found.bytes += bytes;
        self.found.last = now;
        self.meter.add(records, bytes);
        let before = self.left.fetch_sub(records, Ordering::Relaxed);
        // Below 0 it wraps round: who comes late finds it near the top, with a limit far below.
        if self.load.records.is_some_and(|all| before <= records || before > all) {
            self.done.stop();
        }
    }
}

fn wall_clock_ns() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "the broker's time of append is one of the wall clock")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
