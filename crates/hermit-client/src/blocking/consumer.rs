//! Reading records.

use std::sync::Arc;
use std::time::Duration;

use hermit_proto::{Offset, PartitionId};

use super::{Runtime, settings};
use crate::admin::Committed;
use crate::consumer::{OnDamage, OnLostPosition, Position, Record, Start};
use crate::error::Result;

/// Reads records, and commits what was processed; see [`crate::Consumer`].
#[derive(Debug)]
pub struct Consumer {
    inner: crate::Consumer,
    runtime: Arc<Runtime>,
}

impl Consumer {
    /// Adds a partition, to be read from `start`.
    ///
    /// # Errors
    /// As [`crate::Consumer::assign`].
    pub fn assign(&mut self, topic: &str, partition: impl Into<PartitionId>, start: Start) -> Result<()> {
        self.runtime.run(self.inner.assign(topic, partition, start))
    }

    /// Adds all partitions that the topic has now.
    ///
    /// # Errors
    /// As [`crate::Consumer::assign_topic`].
    pub fn assign_topic(&mut self, topic: &str, start: Start) -> Result<()> {
        self.runtime.run(self.inner.assign_topic(topic, start))
    }

    /// Takes a partition away.
    ///
    /// # Errors
    /// As [`crate::Consumer::unassign`].
    pub fn unassign(&mut self, topic: &str, partition: impl Into<PartitionId>) -> Result<()> {
        self.runtime.enter(|| self.inner.unassign(topic, partition))
    }

    /// The next record, waiting for it. `None` when nothing more can come.
    ///
    /// # Errors
    /// As [`crate::Consumer::recv`].
    pub fn recv(&mut self) -> Result<Option<Record>> {
        self.runtime.run(self.inner.recv())
    }

    /// As [`Consumer::recv`], but not longer than `patience`; `None` also where nothing came by then.
    ///
    /// # Errors
    /// As [`crate::Consumer::recv`].
    pub fn recv_timeout(&mut self, patience: Duration) -> Result<Option<Record>> {
        // Receiving can be cancelled without losing a record.
        self.runtime.run(async { tokio::time::timeout(patience, self.inner.recv()).await.unwrap_or(Ok(None)) })
    }

    /// The next record and those behind it that need no waiting, `max` at most.
    ///
    /// # Errors
    /// As [`crate::Consumer::recv_batch`].
    pub fn recv_batch(&mut self, max: usize) -> Result<Vec<Record>> {
        self.runtime.run(self.inner.recv_batch(max))
    }

    /// Commits every partition up to the last record handed out.
    ///
    /// # Errors
    /// As [`crate::Consumer::commit`].
    pub fn commit(&self) -> Result<()> {
        self.runtime.run(self.inner.commit())
    }

    /// Commits a record as processed, and with it all before it in its partition.
    ///
    /// # Errors
    /// As [`crate::Consumer::commit_through`].
    pub fn commit_through(&self, record: &Record) -> Result<()> {
        self.runtime.run(self.inner.commit_through(record))
    }

    /// Commits positions, of assigned partitions.
    ///
    /// # Errors
    /// As [`crate::Consumer::commit_positions`].
    pub fn commit_positions(&self, positions: &[Position]) -> Result<()> {
        self.runtime.run(self.inner.commit_positions(positions))
    }

    /// What the group has committed for an assigned partition.
    ///
    /// # Errors
    /// As [`crate::Consumer::committed`].
    pub fn committed(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Option<Committed>> {
        self.runtime.run(self.inner.committed(topic, partition))
    }

    /// The partitions that are assigned.
    pub fn assignment(&self) -> impl Iterator<Item = (&str, PartitionId)> {
        self.inner.assignment()
    }

    /// Where reading goes on in a partition.
    ///
    /// # Errors
    /// As [`crate::Consumer::position`].
    pub fn position(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Position> {
        self.inner.position(topic, partition)
    }

    /// Where reading goes on in all partitions.
    #[must_use]
    pub fn positions(&self) -> Vec<Position> {
        self.inner.positions()
    }

    /// Goes on at another offset.
    ///
    /// # Errors
    /// As [`crate::Consumer::seek`].
    pub fn seek(&mut self, topic: &str, partition: impl Into<PartitionId>, offset: impl Into<Offset>) -> Result<()> {
        self.runtime.enter(|| self.inner.seek(topic, partition, offset))
    }

    /// Ends a partition before `end`.
    ///
    /// # Errors
    /// As [`crate::Consumer::stop_at`].
    pub fn stop_at(&mut self, topic: &str, partition: impl Into<PartitionId>, end: impl Into<Offset>) -> Result<()> {
        self.runtime.enter(|| self.inner.stop_at(topic, partition, end))
    }

    /// Ends all partitions where they end now.
    ///
    /// # Errors
    /// As [`crate::Consumer::stop_at_present_end`].
    pub fn stop_at_present_end(&mut self) -> Result<()> {
        self.runtime.run(self.inner.stop_at_present_end())
    }

    /// Records between the position and the end of a partition, as far as is known.
    ///
    /// # Errors
    /// As [`crate::Consumer::lag`].
    pub fn lag(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Option<u64>> {
        self.inner.lag(topic, partition)
    }
}

/// As [`Consumer::recv`], one after the other, until nothing more can come.
impl Iterator for Consumer {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.recv().transpose()
    }
}

/// The settings of a [`Consumer`].
#[derive(Clone, Debug)]
pub struct ConsumerBuilder {
    pub(super) inner: crate::ConsumerBuilder,
    pub(super) runtime: Arc<Runtime>,
}

settings! { ConsumerBuilder of ConsumerBuilder:
    group(group: impl Into<String>),
    prefetch_bytes(bytes: u64),
    max_unpacked_bytes(bytes: usize),
    on_damage(policy: OnDamage),
    on_lost_position(policy: OnLostPosition),
}

impl ConsumerBuilder {
    /// Makes the consumer.
    ///
    /// # Errors
    /// As [`crate::ConsumerBuilder::build`].
    pub fn build(self) -> Result<Consumer> {
        let inner = self.runtime.enter(|| self.inner.build())?;
        Ok(Consumer { inner, runtime: self.runtime })
    }
}
