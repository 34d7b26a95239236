//! Producing.

mod run;

use std::time::Duration;

use hermit_client::{Acks, Client, Producer};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

pub use self::run::ReadyProduceLoad;
use crate::error::{Error, Result};
use crate::latency::LatencySummary;
use crate::payload::{Contents, check_size};
use crate::target::{Compression, Target};

/// A producing load. Fields that are left out of its serialized form are as of [`ProduceLoad::new`].
///
/// It ends after `records` or `duration_ms`, whichever comes first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProduceLoad {
    /// Where to.
    #[serde(flatten)]
    pub target: Target,
    /// How many records, over all connections; `None`: no limit.
    #[serde(default)]
    pub records: Option<u64>,
    /// How long records are sent, in ms; `None`: no limit.
    #[serde(default)]
    pub duration_ms: Option<u64>,
    /// Bytes of each value, at least [`HEAD_BYTES`](crate::HEAD_BYTES).
    #[serde(default = "default_size")]
    pub size_bytes: usize,
    /// What the values are made of.
    #[serde(default)]
    pub contents: Contents,
    /// Records that are handed to the SDK in one call, or, with a result for each, that are waited for together.
    #[serde(default = "default_batch")]
    pub batch_records: usize,
    /// Calls of one connection that wait for their results, at most. 1: each waits for the one before.
    #[serde(default = "default_in_flight")]
    pub in_flight: usize,
    /// For what there is a result.
    #[serde(default)]
    pub results: Results,
    /// Where records go.
    #[serde(default)]
    pub spread: Spread,
    /// How the SDK compresses its batches.
    #[serde(default)]
    pub compression: Compression,
    /// Records a second, over all connections; latencies are those since a record should have been sent. `None`: as fast as can be.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Whether the broker answers when a record is as durable as its topic promises. If not, a record counts when it is written to the socket.
    #[serde(default = "yes")]
    pub acknowledged: bool,
    /// How long the SDK's batch waits for more records, in ms.
    #[serde(default)]
    pub linger_ms: u64,
    /// Bytes at which the SDK's batch is full; `None`: its default.
    #[serde(default)]
    pub batch_bytes: Option<usize>,
    /// Bytes that the SDK may buffer on each connection; `None`: its default, or room for some calls if that is more.
    #[serde(default)]
    pub max_buffered_bytes: Option<usize>,
}

const fn default_size() -> usize {
    100
}

const fn default_batch() -> usize {
    1000
}

const fn default_in_flight() -> usize {
    64
}

const fn yes() -> bool {
    true
}

/// For what a producer gets a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Results {
    /// For the records of a call that went into the same batch (`TopicProducer::enqueue_batch`).
    #[default]
    PerBatch,
    /// For each record (`TopicProducer::enqueue`).
    PerRecord,
}

/// Where records go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// The records of a call to one partition, those of the next to the next one.
    #[default]
    Partitions,
    /// Each record has one of so many keys (of each connection, 65,536 at most), one after the other, and goes where its key belongs.
    Keys(u32),
}

/// What a producing load came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProduceReport {
    /// Records that were stored, or with `acknowledged: false` sent.
    pub records: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Records that failed.
    pub failed: u64,
    /// Why the first one did.
    pub first_error: Option<String>,
    /// From the first call to the last result, in µs.
    pub elapsed_us: u64,
    /// From a call, or with a rate from when its first record should have been sent, to its result; counted for each record.
    pub latency: LatencySummary,
    /// With a rate: how late the load's own calls were.
    pub lateness: LatencySummary,
}

impl ProduceReport {
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

#[expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]
pub(crate) fn per_second(count: u64, elapsed_us: u64) -> f64 {
    if elapsed_us == 0 { 0.0 } else { count as f64 * 1e6 / elapsed_us as f64 }
}

impl ProduceLoad {
    /// Values of 100 random bytes in calls of 1,000, with a result for each batch, as fast as can be, without end.
    #[must_use]
    pub const fn new(target: Target) -> Self {
        Self {
            target,
            records: None,
            duration_ms: None,
            size_bytes: default_size(),
            contents: Contents::Random,
            batch_records: default_batch(),
            in_flight: default_in_flight(),
            results: Results::PerBatch,
            spread: Spread::Partitions,
            compression: Compression::None,
            rate: None,
            acknowledged: true,
            linger_ms: 0,
            batch_bytes: None,
            max_buffered_bytes: None,
        }
    }

    fn check(&self) -> Result<()> {
        self.target.check()?;
        check_size(self.size_bytes)?;
        check_batch(self.batch_records)?;
        check_rate(self.rate)?;
        if self.in_flight == 0 || self.in_flight > Semaphore::MAX_PERMITS {
            return Err(Error::config("in_flight", "must be above 0"));
        }
        match self.spread {
            Spread::Keys(0 | 65_537..) => Err(Error::config("spread", "keys must be 1 to 65,536")),
            _ => Ok(()),
        }
    }

    /// Connects and looks the topic up, so that the run measures sending alone.
    ///
    /// # Errors
    /// [`Error::Config`]; [`Error::Client`] where there is no broker, or no topic.
    pub async fn prepare(self) -> Result<ReadyProduceLoad> {
        self.check()?;
        let mut ends = Vec::with_capacity(self.target.connections);
        let mut partitions = 0;
        for _ in 0..self.target.connections {
            let client = self.target.connect().await?;
            let producer = self.producer(&client)?;
            let producer = producer.topic(&self.target.topic).await?;
            if self.acknowledged {
                producer.producer().identity().await?;
            }
            if ends.is_empty() {
                partitions = client.admin().describe_topic(&self.target.topic).await?.partitions.len();
                check_partitions(partitions)?;
            }
            ends.push((client, producer));
        }
        Ok(ReadyProduceLoad { load: self, ends, partitions })
    }

    fn producer(&self, client: &Client) -> Result<Producer> {
        let mut builder = client.producer().codec(self.compression.codec()).linger(Duration::from_millis(self.linger_ms));
        if !self.acknowledged {
            builder = builder.acks(Acks::None);
        }
        if let Some(bytes) = self.batch_bytes {
            builder = builder.batch_bytes(bytes);
        }
        let some_calls = self.size_bytes.saturating_add(256).saturating_mul(self.batch_records).saturating_mul(4);
        let room = self.max_buffered_bytes.unwrap_or_else(|| some_calls.clamp(32 << 20, 1 << 30).max(2 * self.size_bytes));
        Ok(builder.max_buffered_bytes(room).build()?)
    }
}

pub(crate) fn check_batch(records: usize) -> Result<()> {
    match records {
        1..=1_000_000 => Ok(()),
        _ => Err(Error::config("batch_records", "must be 1 to 1,000,000")),
    }
}

pub(crate) fn check_rate(rate: Option<f64>) -> Result<()> {
    match rate {
        Some(rate) if !(rate > 0.0 && rate <= 1e9) => Err(Error::config("rate", "must be above 0, and 10⁹ at most")),
        _ => Ok(()),
    }
}

pub(crate) fn check_partitions(partitions: usize) -> Result<()> {
    match partitions {
        0..=65_536 => Ok(()),
        _ => Err(Error::config("topic", "must have 65,536 partitions at most")),
    }
}
