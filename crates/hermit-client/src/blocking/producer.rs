//! Sending records.

use std::sync::Arc;
use std::time::Duration;

use hermit_proto::session::Acks;
use hermit_proto::{Codec, ProducerEpoch, ProducerId};

use super::{Runtime, settings};
use crate::error::{Error, Result};
use crate::producer::{BatchMetadata, BatchOutcome, Keyless, ProducerIdentity, ProducerRecord, RecordMetadata};

/// Sends records in batches, and tells of each where it was stored; see [`crate::Producer`]. Cheap to clone.
///
/// Close it: when the program ends, or the client and all that was made from it are dropped, what is still gathered is gone.
#[derive(Clone, Debug)]
pub struct Producer {
    inner: crate::Producer,
    runtime: Arc<Runtime>,
}

impl Producer {
    /// Sends a record and waits until it is stored. One record at a time costs a way to the broker and its disk for each:
    /// where many are to be sent, use [`Producer::send_batch`] or [`Producer::enqueue`].
    ///
    /// # Errors
    /// As [`crate::Producer::send`].
    pub fn send(&self, topic: &str, record: ProducerRecord<'_>) -> Result<RecordMetadata> {
        self.runtime.run(self.inner.send(topic, record))
    }

    /// Sends records and waits until all are stored; gives one result for each batch that they went into.
    ///
    /// # Errors
    /// As [`crate::Producer::send_batch`].
    pub fn send_batch(&self, topic: &str, records: &[ProducerRecord<'_>]) -> Result<Vec<BatchMetadata>> {
        self.runtime.run(self.inner.send_batch(topic, records))
    }

    /// Copies a record into its batch, waiting for room in the buffer if need be; the answer comes with [`Delivery::wait`].
    ///
    /// # Errors
    /// As [`crate::Producer::enqueue`].
    pub fn enqueue(&self, topic: &str, record: ProducerRecord<'_>) -> Result<Delivery> {
        // Most of the time there is nothing to wait for, and no runtime to be entered.
        let inner = match self.inner.try_enqueue(topic, record) {
            Err(Error::WouldWait { .. } | Error::UnknownPartition { .. }) => self.runtime.run(self.inner.enqueue(topic, record))?,
            done => done?,
        };
        Ok(Delivery { inner, runtime: self.runtime.clone() })
    }

    /// As [`Producer::enqueue`], but without waiting.
    ///
    /// # Errors
    /// As [`crate::Producer::try_enqueue`].
    pub fn try_enqueue(&self, topic: &str, record: ProducerRecord<'_>) -> Result<Delivery> {
        let inner = self.inner.try_enqueue(topic, record)?;
        Ok(Delivery { inner, runtime: self.runtime.clone() })
    }

    /// Copies records into their batches, waiting for room in the buffer if need be.
    ///
    /// # Errors
    /// As [`crate::Producer::enqueue_batch`].
    pub fn enqueue_batch(&self, topic: &str, records: &[ProducerRecord<'_>]) -> Result<BatchDelivery> {
        let inner = self.runtime.run(self.inner.enqueue_batch(topic, records))?;
        Ok(BatchDelivery { inner, runtime: self.runtime.clone() })
    }

    /// Looks a topic up now, so that [`Producer::try_enqueue`] can take records for it.
    ///
    /// # Errors
    /// As [`crate::Producer::prepare`].
    pub fn prepare(&self, topic: &str) -> Result<()> {
        self.runtime.run(self.inner.prepare(topic))
    }

    /// Sends what is gathered, and waits until every record enqueued before has its answer.
    ///
    /// # Errors
    /// As [`crate::Producer::flush`].
    pub fn flush(&self) -> Result<()> {
        self.runtime.run(self.inner.flush())
    }

    /// The first failure of any record since the last flush, if there is one already.
    #[must_use]
    pub fn failure(&self) -> Option<Error> {
        self.inner.failure()
    }

    /// Bytes of records that wait for their answers.
    #[must_use]
    pub fn buffered_bytes(&self) -> usize {
        self.inner.buffered_bytes()
    }

    /// Who this producer is to the broker; see [`crate::Producer::identity`].
    ///
    /// # Errors
    /// As [`crate::Producer::identity`].
    pub fn identity(&self) -> Result<ProducerIdentity> {
        self.runtime.run(self.inner.identity())
    }

    /// Flushes, and takes no more records, from no clone.
    ///
    /// # Errors
    /// As [`crate::Producer::close`].
    pub fn close(&self) -> Result<()> {
        self.runtime.run(self.inner.close())
    }
}

/// A record that was handed to the producer; see [`crate::Delivery`].
#[derive(Debug)]
#[must_use = "the record is on its way, but whether it arrives is only known by `wait`, or by `flush`"]
pub struct Delivery {
    inner: crate::Delivery,
    runtime: Arc<Runtime>,
}

impl Delivery {
    /// Waits until the record is stored.
    ///
    /// # Errors
    /// As [`crate::Producer::send`].
    pub fn wait(self) -> Result<RecordMetadata> {
        self.runtime.run(self.inner)
    }
}

/// Many records that were handed to the producer together; see [`crate::BatchDelivery`].
#[derive(Debug)]
#[must_use = "the records are on their way, but whether they arrive is only known by `wait`, or by `flush`"]
pub struct BatchDelivery {
    inner: crate::BatchDelivery,
    runtime: Arc<Runtime>,
}

impl BatchDelivery {
    /// Waits until all are stored; gives one result for each batch that they went into.
    ///
    /// # Errors
    /// As [`crate::Producer::send_batch`].
    pub fn wait(self) -> Result<Vec<BatchMetadata>> {
        self.runtime.run(self.inner)
    }

    /// Waits for all, and tells of each part how it fared.
    ///
    /// # Errors
    /// [`Error::WithinRuntime`].
    pub fn outcomes(self) -> Result<Vec<BatchOutcome>> {
        self.runtime.run(async { Ok(self.inner.outcomes().await) })
    }
}

/// The settings of a [`Producer`].
#[derive(Clone, Debug)]
pub struct ProducerBuilder {
    pub(super) inner: crate::ProducerBuilder,
    pub(super) runtime: Arc<Runtime>,
}

settings! { ProducerBuilder of ProducerBuilder:
    acks(acks: Acks),
    idempotent(idempotent: bool),
    codec(codec: Codec),
    zstd_level(level: i32),
    batch_bytes(bytes: usize),
    linger(linger: Duration),
    max_in_flight(batches: usize),
    max_buffered_bytes(bytes: usize),
    delivery_timeout(timeout: Duration),
    create_topics(create: bool),
    keyless(keyless: Keyless),
    metadata_max_age(age: Duration),
    resume(id: ProducerId, epoch: ProducerEpoch),
}

impl ProducerBuilder {
    /// Starts the producer.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub fn build(self) -> Result<Producer> {
        let inner = self.runtime.enter(|| self.inner.build())?;
        Ok(Producer { inner, runtime: self.runtime })
    }
}
