//! The settings of a producer.

use std::time::Duration;

use hermit_proto::record_set::ZSTD_LEVEL;
use hermit_proto::session::Acks;
use hermit_proto::{Codec, ProducerEpoch, ProducerId};
use tokio::sync::Semaphore;

use super::Producer;
use super::identity::ProducerIdentity;
use super::lane::{LaneConfig, Promise};
use crate::conn::Link;
use crate::error::{Error, Result};

/// The broker recognises the last five batches of a producer in each partition.
const MAX_IDEMPOTENT_IN_FLIGHT: usize = 5;

/// Half of the 24 h for which the broker remembers an idle producer. Once it has forgotten one, a batch with sequence 0 that comes
/// again looks like the first of a new life.
const MAX_DELIVERY_TIMEOUT: Duration = Duration::from_secs(12 * 3600);

/// What each batch costs — wake-ups, and calls into the system on both sides — is then less than a quarter of what its records of 100 bytes do.
const DEFAULT_BATCH_BYTES: usize = 128 << 10;

/// Where records go that have neither a key nor a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keyless {
    /// All to one partition until its batch is sent, then to the next one: fuller batches.
    #[default]
    Sticky,
    /// Each to the next partition.
    RoundRobin,
}

/// The settings of a [`Producer`].
#[derive(Clone, Debug)]
pub struct ProducerBuilder {
    pub(super) link: Link,
    pub(super) acks: Acks,
    pub(super) idempotent: bool,
    pub(super) codec: Codec,
    pub(super) zstd_level: i32,
    batch_bytes: Option<usize>,
    pub(super) linger: Duration,
    pub(super) max_in_flight: usize,
    pub(super) max_buffered_bytes: usize,
    pub(super) delivery_timeout: Duration,
    pub(super) create_topics: bool,
    pub(super) keyless: Keyless,
    pub(super) metadata_max_age: Duration,
    pub(super) resume: Option<ProducerIdentity>,
}

impl ProducerBuilder {
    pub(crate) const fn new(link: Link) -> Self {
        Self {
            link,
            acks: Acks::Committed,
            idempotent: true,
            codec: Codec::None,
            zstd_level: ZSTD_LEVEL,
            batch_bytes: None,
            linger: Duration::from_millis(5),
            max_in_flight: MAX_IDEMPOTENT_IN_FLIGHT,
            max_buffered_bytes: 32 << 20,
            delivery_timeout: Duration::from_secs(120),
            create_topics: true,
            keyless: Keyless::Sticky,
            metadata_max_age: Duration::from_secs(60),
            resume: None,
        }
    }

    /// When a record counts as stored. Default [`Acks::Committed`]: when it is as durable as its topic promises. With [`Acks::None`]
    /// when it was written to the socket: records can be lost without a word.
    #[must_use]
    pub const fn acks(mut self, acks: Acks) -> Self {
        self.acks = acks;
        self
    }

    /// Whether the broker recognises what it stored already, so that retries double nothing. Default `true`; without
    /// effect with [`Acks::None`].
    #[must_use]
    pub const fn idempotent(mut self, idempotent: bool) -> Self {
        self.idempotent = idempotent;
        self
    }

    /// How batches are compressed. Default: not. Topics with compaction hold single records, which are not compressed.
    #[must_use]
    pub const fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// How hard zstd tries: 1, the fastest, to 19, the smallest. Default 3. From about 16 on each batch takes megabytes of memory and ms to compress.
    /// lz4 has one level.
    #[must_use]
    pub const fn zstd_level(mut self, level: i32) -> Self {
        self.zstd_level = level;
        self
    }

    /// Bytes of records, uncompressed, at which a batch is full. Default 128 KiB, or as much as may be buffered.
    #[must_use]
    pub const fn batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = Some(bytes);
        self
    }

    /// How long a batch waits for more records. Default 5 ms. With 0 it still gathers what comes while its partition
    /// has as many requests in flight as it may have.
    ///
    /// A batch that is full does not wait, nor does one for which [`Producer::flush`] or a sender without room in the buffer waits. Everything else does, also a
    /// record that nothing is in flight before: whoever sends one record after the other, each once the last is stored, waits this long for each, and is better served with 0.
    #[must_use]
    pub const fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Batches in flight for each partition. Default 5, which is the most for an idempotent producer.
    #[must_use]
    pub const fn max_in_flight(mut self, batches: usize) -> Self {
        self.max_in_flight = batches;
        self
    }

    /// Bytes of records that may wait for their answers. Default 32 MiB. When they are used up, sending waits.
    #[must_use]
    pub const fn max_buffered_bytes(mut self, bytes: usize) -> Self {
        self.max_buffered_bytes = bytes;
        self
    }

    /// How long a record may take to be stored, retries included, before it fails. Default 2 min, at most 12 h.
    #[must_use]
    pub const fn delivery_timeout(mut self, timeout: Duration) -> Self {
        self.delivery_timeout = timeout;
        self
    }

    /// Whether topics that are not there are created, if the broker's settings allow. Default `true`.
    #[must_use]
    pub const fn create_topics(mut self, create: bool) -> Self {
        self.create_topics = create;
        self
    }

    /// Where records go that have neither a key nor a partition. Default [`Keyless::Sticky`].
    #[must_use]
    pub const fn keyless(mut self, keyless: Keyless) -> Self {
        self.keyless = keyless;
        self
    }

    /// How long a topic's partitions and settings are taken for known while records are sent to it. Default 60 s. After that they are
    /// asked for again, in the background; at once where something hints at a change: a new connection, a refusal, a record for a partition that
    /// is not known. **Once a topic has more partitions, records with keys go by the new count**, so that a key's records may go to another partition than before.
    #[must_use]
    pub const fn metadata_max_age(mut self, age: Duration) -> Self {
        self.metadata_max_age = age;
        self
    }

    /// Makes this producer the next incarnation of an earlier one, which is fenced: in each partition, from the first record that this one
    /// stores there, the broker refuses what the earlier one still sends, and that fails with [`Error::ProducerFenced`].
    ///
    /// `identity` is what [`Producer::identity`] said of the earlier one. Keep it in a safe place before anything is sent, and keep
    /// this one's before it sends: two incarnations of the same identity are the same producer to the broker.
    ///
    /// ```no_run
    /// # use hermit_client::{Client, ProducerEpoch, ProducerId, ProducerIdentity};
    /// # fn load() -> Option<ProducerIdentity> { None }
    /// # fn keep(identity: ProducerIdentity) {}
    /// # async fn example(client: Client) -> hermit_client::Result<()> {
    /// let mut builder = client.producer();
    /// if let Some(earlier) = load() {
    ///     builder = builder.resume(earlier.id, earlier.epoch);
    /// }
    /// let producer = builder.build()?;
    /// keep(producer.identity().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn resume(mut self, id: ProducerId, epoch: ProducerEpoch) -> Self {
        self.resume = Some(ProducerIdentity { id, epoch });
        self
    }

    /// Starts the producer. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn build(self) -> Result<Producer> {
        self.check()?;
        Ok(Producer::start(self))
    }

    fn check(&self) -> Result<()> {
        let problem = |setting, problem: &str| Err(Error::Config { setting, problem: problem.to_owned() });
        if self.full_batch_bytes() == 0 {
            return problem("batch_bytes", "must be above 0");
        }
        if self.max_in_flight == 0 {
            return problem("max_in_flight", "must be above 0");
        }
        if self.promise() == Promise::Idempotent && self.max_in_flight > MAX_IDEMPOTENT_IN_FLIGHT {
            return problem("max_in_flight", "an idempotent producer has 5 batches in flight at most, which the broker recognises");
        }
        if self.max_buffered_bytes < self.full_batch_bytes() {
            return problem("max_buffered_bytes", "must hold a batch at least: raise it, or lower `batch_bytes`");
        }
        if self.max_buffered_bytes > Semaphore::MAX_PERMITS.min(u32::MAX as usize) {
            return problem("max_buffered_bytes", "must be below 4 GiB");
        }
        if self.delivery_timeout.is_zero() || self.delivery_timeout > MAX_DELIVERY_TIMEOUT {
            return problem(
                "delivery_timeout",
                "must be longer than 0, and 12 h at most: the broker forgets idle producers after 24 h",
            );
        }
        if !(1..=19).contains(&self.zstd_level) {
            return problem("zstd_level", "must be 1 to 19");
        }
        if self.metadata_max_age.is_zero() {
            return problem("metadata_max_age", "must be longer than 0");
        }
        if let Some(identity) = self.resume {
            if self.promise() != Promise::Idempotent {
                return problem(
                    "resume",
                    "only an idempotent producer has an identity: leave it out, or ask for answers and idempotence",
                );
            }
            if !identity.id.is_some() || identity.epoch.0 < 0 {
                return problem("resume", "id and epoch must not be negative: take what `Producer::identity` says");
            }
        }
        Ok(())
    }

    pub(super) fn full_batch_bytes(&self) -> usize {
        self.batch_bytes.unwrap_or_else(|| DEFAULT_BATCH_BYTES.min(self.max_buffered_bytes.max(1)))
    }

    pub(super) fn promise(&self) -> Promise {
        match (self.acks, self.idempotent) {
            (Acks::None, _) => Promise::AtMostOnce,
            (Acks::Committed, false) => Promise::AtLeastOnce,
            (Acks::Committed, true) => Promise::Idempotent,
        }
    }

    pub(super) fn lane_config(&self) -> LaneConfig {
        LaneConfig {
            promise: self.promise(),
            max_in_flight: self.max_in_flight,
            delivery_timeout: self.delivery_timeout,
            backoff: self.link.config().backoff,
            resumed: self.resume.is_some(),
        }
    }
}
