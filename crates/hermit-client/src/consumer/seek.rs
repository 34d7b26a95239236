//! Going elsewhere within a partition, and standing still.

use std::time::SystemTime;

use hermit_proto::{LeaderEpoch, Offset, PartitionId};

use super::assignment::not_assigned;
use super::{Consumer, Start};
use crate::error::Result;

impl Consumer {
    /// Goes on at another offset; also begins again after an error stopped the partition.
    ///
    /// # Errors
    /// [`Error::NotAssigned`](crate::Error::NotAssigned). An offset that is not there is reported by [`Consumer::recv`].
    pub fn seek(&mut self, topic: &str, partition: impl Into<PartitionId>, offset: impl Into<Offset>) -> Result<()> {
        self.go_to(topic, partition.into(), offset.into(), LeaderEpoch::UNKNOWN)
    }

    /// Goes on at a place that is looked up: the oldest record, the last hundred, what the group has committed, …
    ///
    /// # Errors
    /// [`Error::NotAssigned`](crate::Error::NotAssigned); [`Error::NoGroup`](crate::Error::NoGroup) for [`Start::Committed`];
    /// [`Error::Refused`](crate::Error::Refused); connection errors.
    pub async fn seek_to(&mut self, topic: &str, partition: impl Into<PartitionId>, start: Start) -> Result<()> {
        let partition = partition.into();
        let slot = self.slot_of(topic, partition)?;
        let id = self.assignments.get(&slot).ok_or_else(|| not_assigned(topic, partition))?.topic_id;
        let (offset, epoch) = self.find_start(id, partition, start).await?;
        self.go_to(topic, partition, offset, epoch)
    }

    /// Goes on at the first record that the broker appended at `time` or later, or behind the newest if there is none.
    ///
    /// # Errors
    /// As [`Consumer::seek_to`].
    pub async fn seek_to_time(&mut self, topic: &str, partition: impl Into<PartitionId>, time: SystemTime) -> Result<()> {
        self.seek_to(topic, partition, Start::at(time)).await
    }

    fn go_to(&mut self, topic: &str, partition: PartitionId, offset: Offset, epoch: LeaderEpoch) -> Result<()> {
        let slot = self.slot_of(topic, partition)?;
        self.unsubscribe(slot);
        if let Some(assignment) = self.assignments.get_mut(&slot) {
            assignment.seek(offset, epoch);
            if let Some(shared) = &self.group {
                shared.with(|state| state.seek(assignment.key()));
            }
        }
        Ok(())
    }

    /// Hands out nothing more of this partition until [`Consumer::resume`]. What was received of it and not handed out is dropped, and
    /// nothing more is received; it is fetched again later.
    ///
    /// # Errors
    /// [`Error::NotAssigned`](crate::Error::NotAssigned).
    pub fn pause(&mut self, topic: &str, partition: impl Into<PartitionId>) -> Result<()> {
        self.set_paused(topic, partition.into(), true)
    }

    /// Goes on where [`Consumer::pause`] stopped.
    ///
    /// # Errors
    /// [`Error::NotAssigned`](crate::Error::NotAssigned).
    pub fn resume(&mut self, topic: &str, partition: impl Into<PartitionId>) -> Result<()> {
        self.set_paused(topic, partition.into(), false)
    }

    fn set_paused(&mut self, topic: &str, partition: PartitionId, paused: bool) -> Result<()> {
        let slot = self.slot_of(topic, partition)?;
        if paused {
            self.unsubscribe(slot);
        }
        if let Some(assignment) = self.assignments.get_mut(&slot) {
            assignment.paused = paused;
        }
        Ok(())
    }

    /// Whether the partition was paused.
    ///
    /// # Errors
    /// [`Error::NotAssigned`](crate::Error::NotAssigned).
    pub fn is_paused(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<bool> {
        let slot = self.slot_of(topic, partition.into())?;
        Ok(self.assignments.get(&slot).is_some_and(|assignment| assignment.paused))
    }
}
