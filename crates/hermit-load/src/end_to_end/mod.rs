//! Latency from when a record should have been sent to when a consumer has it.

mod run;

use std::time::Duration;

use hermit_client::Start;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

pub use self::run::ReadyEndToEndLoad;
use crate::check::{Check, Counts};
use crate::consume::assign;
use crate::error::{Error, Result};
use crate::latency::LatencySummary;
use crate::payload::{Contents, check_size};
use crate::produce::{check_batch, check_partitions, check_rate, per_second};
use crate::target::{Compression, Target};

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
