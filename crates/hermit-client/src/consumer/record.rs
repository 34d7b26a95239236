//! What a consumer hands out.

use std::sync::Arc;

use bytes::Bytes;
use hermit_proto::{Generation, LeaderEpoch, Offset, PartitionId, TopicId};

use super::group::Tenure;

/// A record. Key, value and header values are slices of what came over the network, or of the unpacked record set: holding on
/// to one holds on to its neighbours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: PartitionId,
    /// The record's offset.
    pub offset: Offset,
    /// The producer's time, in ns since the Unix epoch; to the millisecond within record sets.
    pub timestamp: u64,
    /// When the broker appended it, in ns since the Unix epoch.
    pub append_time: u64,
    /// `None` is not the same as empty.
    pub key: Option<Bytes>,
    /// `None`, a tombstone, is not the same as empty.
    pub value: Option<Bytes>,
    /// Names and values.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// The leader epoch it was appended under.
    pub leader_epoch: LeaderEpoch,
    /// Offsets that it takes: more than 1 for what a version-1 producer sent as one block.
    pub(super) span: u32,
    pub(super) topic_id: TopicId,
    pub(super) generation: Generation,
    pub(super) tenure: Tenure,
}

impl Record {
    /// The offset behind the record: the position to commit once it is processed.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        Offset(self.offset.0.saturating_add(self.span as u64))
    }

    /// Since which generation of the group its partition is this member's; 0 for a partition that was assigned by hand. A later owner of
    /// the partition has a higher one: a store that remembers the highest and refuses lower ones is safe from members that were fenced and do not
    /// know it yet.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// How many offsets the record takes: more than 1 for what a version-1 producer sent as one block.
    #[must_use]
    pub const fn span(&self) -> u32 {
        self.span
    }
}

/// A place in a partition, to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: PartitionId,
    /// The next offset to read.
    pub offset: Offset,
    /// The leader epoch of the record before it; [`LeaderEpoch::UNKNOWN`] where there is none.
    pub leader_epoch: LeaderEpoch,
}

impl From<&Record> for Position {
    /// The place behind the record.
    fn from(record: &Record) -> Self {
        Self {
            topic: record.topic.clone(),
            partition: record.partition,
            offset: record.next_offset(),
            leader_epoch: record.leader_epoch,
        }
    }
}
