//! Appending to partitions, and who may: space, producer ids and hooks are asked before the log is.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hermit_log::Batch;
use hermit_proto::{ProducerEpoch, ProducerId};

use super::{Broker, Phase};
use crate::error::BrokerError;
use crate::hooks::Client;
use crate::partition::{Partition, Ticket};

impl Broker {
    /// Checks frames before they are appended: sizes, fields, and the producer's checksums.
    ///
    /// # Errors
    /// [`BrokerError::Log`] with the first bad frame.
    pub fn parse(&self, frames: bytes::BytesMut) -> Result<Batch, BrokerError> {
        let mut batch = Batch::default();
        self.parse_into(frames, &mut batch)?;
        Ok(batch)
    }

    /// As [`Broker::parse`], in the room of an earlier batch.
    pub(crate) fn parse_into(&self, frames: bytes::BytesMut, batch: &mut Batch) -> Result<(), BrokerError> {
        batch.parse_into(frames, &self.limits().frame_limits())?;
        crate::record_sets::check(batch, 0)
    }

    /// As [`Broker::parse`], behind the frames of a batch, which stays as it is where these are refused.
    pub(crate) fn parse_more(&self, frames: &[u8], batch: &mut Batch) -> Result<(), BrokerError> {
        let count = batch.frames().len();
        batch.parse_more(frames, &self.limits().frame_limits())?;
        crate::record_sets::check(batch, count).inspect_err(|_refused| batch.truncate(count))
    }

    /// Appends a batch. The ticket tells when it is as durable as the topic promises.
    ///
    /// # Errors
    /// What the log refuses, [`BrokerError::LowSpace`] while the disk is nearly full, [`BrokerError::UnknownProducer`] for an id that was
    /// never given out, and [`BrokerError::Rejected`] where a hook says so.
    pub fn append(&self, partition: &Arc<Partition>, batch: &mut Batch) -> Result<Ticket, BrokerError> {
        self.append_from(partition, batch, None)
    }

    /// As [`Broker::append`], for a client.
    pub(crate) fn append_from(
        &self,
        partition: &Arc<Partition>,
        batch: &mut Batch,
        client: Option<Client<'_>>,
    ) -> Result<Ticket, BrokerError> {
        self.check_writable()?;
        self.check_producers(batch)?;
        self.ask_hooks(partition, batch, client)?;
        let appended = Ticket::append(partition, batch);
        if let Err(error) = &appended {
            if error.is_disk_full() {
                self.check_space();
            }
            self.tell_waiting();
        }
        appended
    }

    /// An id that nobody was given yet would be somebody's later, whose first frames would then be taken for repetitions.
    fn check_producers(&self, batch: &Batch) -> Result<(), BrokerError> {
        let end = ProducerId(self.inner.producers_end.load(Ordering::Acquire));
        let mut ids = batch.frames().iter().filter_map(|frame| Some(frame.prefix.producer()?.id));
        ids.find(|id| *id >= end).map_or(Ok(()), |id| Err(BrokerError::UnknownProducer { id }))
    }

    pub(super) fn check_writable(&self) -> Result<(), BrokerError> {
        if *self.inner.phase.borrow() >= Phase::Closed {
            return Err(BrokerError::ShuttingDown);
        }
        if self.inner.low_space.load(Ordering::Relaxed) {
            let low_bytes = self.limits_in_force().disk_low_bytes;
            let free_bytes = self.inner.env.disk.free_bytes(&self.inner.config.data_dir).unwrap_or(0);
            return Err(BrokerError::LowSpace { free_bytes, low_bytes });
        }
        Ok(())
    }

    /// A producer id that nobody has, or the next epoch of one that was given out.
    ///
    /// # Errors
    /// [`BrokerError::UnknownProducer`]; [`BrokerError::Io`] where the manifest cannot be written.
    pub fn init_producer(&self, id: ProducerId, epoch: ProducerEpoch) -> Result<(ProducerId, ProducerEpoch), BrokerError> {
        let mut manifest = self.manifest()?;
        let mut producers = self.inner.producers.lock();
        let given = producers.init(&mut manifest, id, epoch)?;
        self.inner.producers_end.store(producers.end().0, Ordering::Release);
        Ok(given)
    }
}
