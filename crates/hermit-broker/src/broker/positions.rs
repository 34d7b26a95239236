//! Committed positions of consumer groups.

use std::sync::Arc;

use hermit_proto::session::Durability;
use hermit_proto::{Generation, GroupName, LeaderEpoch, MemberId, Offset, PartitionId, TopicId, TopicName};

use super::Broker;
use crate::error::BrokerError;
use crate::groups::TopicPartition;
use crate::offsets::{Committed, OFFSETS_TOPIC, Offsets, PositionKey, ReplayReport};
use crate::partition::{Partition, Ticket};
use crate::topic::TopicSettings;

/// Segments of the offsets topic are small, so that compaction, which leaves the active one alone, has something to work on.
const OFFSETS_SEGMENT_BYTES: u64 = 16 << 20;

/// The settings of `__consumer_offsets`.
pub(crate) fn offsets_settings() -> TopicSettings {
    TopicSettings {
        durability: Durability::Sync,
        compaction: true,
        segment_bytes: OFFSETS_SEGMENT_BYTES,
        ..TopicSettings::default()
    }
}

/// A position to commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// The next offset to read.
    pub offset: Offset,
    /// The leader epoch of the last record read; [`LeaderEpoch::UNKNOWN`] stands for the current one.
    pub leader_epoch: LeaderEpoch,
}

/// How positions fared that were committed together.
#[derive(Debug)]
pub(crate) struct Stored {
    /// One for each, in order.
    pub(crate) results: Vec<Result<(), BrokerError>>,
    /// Tells when those that passed are stored; none where none has.
    pub(crate) ticket: Option<Ticket>,
}

impl Broker {
    /// Opens `__consumer_offsets`, and creates it where it is missing. What is wrong with it does not keep the broker from starting.
    pub(super) fn open_positions(&self) -> (ReplayReport, Option<BrokerError>) {
        match self.open_offsets() {
            Ok((offsets, report)) => {
                *self.inner.offsets.write() = Some(Arc::new(offsets));
                (report, None)
            }
            Err(error) => (ReplayReport::default(), Some(error)),
        }
    }

    fn open_offsets(&self) -> Result<(Offsets, ReplayReport), BrokerError> {
        let limits = self.limits();
        Offsets::open(self.offsets_topic()?, limits, self.monotonic())
    }

    fn offsets_topic(&self) -> Result<Arc<Partition>, BrokerError> {
        let name = TopicName::new(OFFSETS_TOPIC)?;
        let topic = match self.topic(&name) {
            Ok(topic) => topic,
            Err(_missing) => self.create(name, 1, offsets_settings())?,
        };
        topic.partition(PartitionId(0)).cloned()
    }

    pub(crate) fn offsets(&self) -> Option<Arc<Offsets>> {
        self.inner.offsets.read().clone()
    }

    /// The positions, opened now if they could not be at start.
    pub(super) fn offsets_now(&self) -> Result<Arc<Offsets>, BrokerError> {
        if let Some(offsets) = self.offsets() {
            return Ok(offsets);
        }
        // One opens them, and the others wait: two would not know of each other's commits.
        let mut slot = self.inner.offsets.write();
        if let Some(offsets) = &*slot {
            return Ok(Arc::clone(offsets));
        }
        let (offsets, _report) = self.open_offsets()?;
        Ok(Arc::clone(slot.insert(Arc::new(offsets))))
    }

    /// Commits positions in nobody's name, all of them or none. They are stored once the ticket says so.
    ///
    /// # Errors
    /// [`BrokerError::GroupActive`] where the group has members; the first position that does not pass, with [`BrokerError::UnknownTopic`],
    /// [`BrokerError::UnknownPartition`], [`BrokerError::InternalTopic`] or [`BrokerError::CommitBeyondEnd`]; what the log refuses.
    pub fn commit(&self, group: &GroupName, positions: &[Position]) -> Result<Ticket, BrokerError> {
        self.check_writable()?;
        let offsets = self.offsets_now()?;
        let entries = positions.iter().map(|position| self.entry(group, position)).collect::<Result<Vec<_>, _>>()?;
        self.inner.groups.while_inactive(group, || offsets.commit(&entries, self.monotonic()))?
    }

    /// Commits positions, each of which passes or not, for a member, or in nobody's name.
    pub(crate) fn commit_each(
        &self,
        group: &GroupName,
        member: MemberId,
        positions: &[(Position, Generation)],
    ) -> Result<Stored, BrokerError> {
        self.check_writable()?;
        // Opening the positions may create their topic, for which no group may be locked.
        let offsets = self.offsets_now()?;
        let entries: Vec<_> = positions.iter().map(|(position, _)| self.entry(group, position)).collect();
        let store = |owns: &dyn Fn(TopicPartition, Generation) -> bool| {
            let (mut results, mut good) = (Vec::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
            for (entry, (position, generation)) in entries.into_iter().zip(positions) {
                let (topic, partition, generation) = (position.topic, position.partition, *generation);
                results.push(match entry {
                    Ok(entry) if owns((topic, partition), generation) => {
                        good.push(entry);
                        Ok(())
                    }
                    Ok(_) => Err(BrokerError::StaleGeneration { topic, partition, generation }),
                    Err(error) => Err(error),
                });
            }
            let ticket = if good.is_empty() { None } else { Some(offsets.commit(&good, self.monotonic())?) };
            Ok(Stored { results, ticket })
        };
        if member.is_some() {
            self.inner.groups.commit_as(group, member, store)?
        } else {
            self.inner.groups.while_inactive(group, || store(&|_, _| true))?
        }
    }

    /// A position as it is stored. What it names exists, belongs to clients, and can be read.
    fn entry(&self, group: &GroupName, position: &Position) -> Result<(PositionKey, Committed), BrokerError> {
        let partition = self.writable(position.topic, position.partition)?;
        let log = partition.log()?;
        // The log's own, which is the first to move: what a reader was told must be good enough here.
        let high_watermark = log.bounds().high_watermark;
        if position.offset > high_watermark {
            return Err(BrokerError::CommitBeyondEnd { offset: position.offset, high_watermark });
        }
        // One that is not known, or cannot be yet, would hide that the position's history was lost.
        let leader_epoch = position.leader_epoch.min(log.leader_epoch());
        let key = PositionKey { group: group.clone(), topic: position.topic, partition: position.partition };
        Ok((key, Committed { offset: position.offset, leader_epoch, committed_at: self.inner.env.clock.now() }))
    }

    /// The position that a group has stored; `None` where it never did.
    ///
    /// # Errors
    /// The positions cannot be read at all.
    pub fn committed(&self, group: &GroupName, topic: TopicId, partition: PartitionId) -> Result<Option<Committed>, BrokerError> {
        Ok(self.offsets_now()?.committed(&PositionKey { group: group.clone(), topic, partition }))
    }

    /// All positions that a group has stored.
    ///
    /// # Errors
    /// The positions cannot be read at all.
    pub fn committed_of_group(&self, group: &GroupName) -> Result<Vec<(TopicId, PartitionId, Committed)>, BrokerError> {
        Ok(self.offsets_now()?.of_group(group))
    }

    /// Where the positions' log must have been flushed to, so that nothing that was committed for these partitions is still on its way.
    pub(crate) fn pending_commits(
        &self,
        group: &GroupName,
        partitions: &[(TopicId, PartitionId)],
    ) -> Result<Option<(Arc<Partition>, Offset)>, BrokerError> {
        let offsets = self.offsets_now()?;
        Ok(offsets.pending_until(group, partitions).map(|until| (Arc::clone(offsets.partition()), until)))
    }
}
