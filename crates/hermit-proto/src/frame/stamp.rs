//! What a producer and the broker write into a frame, and what ties it to its partition.

use crate::header::put;
use crate::ids::{LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, Sequence, TopicId};

pub(super) const SALT_SIZE: usize = 16 + 4;

/// Who made an idempotent frame, and where it stands in that producer's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProducerStamp {
    /// The producer's id, not below 0.
    pub id: ProducerId,
    /// Its incarnation, not below 0.
    pub epoch: ProducerEpoch,
    /// The sequence of the frame's first record, not below 0.
    pub first_sequence: Sequence,
}

/// What the broker writes into a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokerStamp {
    /// The offset of the first record.
    pub offset: Offset,
    /// The leader epoch of the append.
    pub leader_epoch: LeaderEpoch,
    /// Nanoseconds since the Unix epoch by the broker's clock; never falls within a partition.
    pub append_time: u64,
    /// Log bytes from the flushed end, at the append, to the frame's first byte; `u32::MAX` stands for that many or more.
    pub flushed_distance: u32,
}

/// Ties the frame CRC to one partition, so that a frame copied from another is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSalt(pub(super) [u8; SALT_SIZE]);

impl FrameSalt {
    /// The salt of a partition.
    #[must_use]
    pub const fn new(topic: TopicId, partition: PartitionId) -> Self {
        let mut salt = [0; SALT_SIZE];
        put(&mut salt, 0, &topic.0.to_be_bytes());
        put(&mut salt, 16, &partition.0.to_be_bytes());
        Self(salt)
    }

    /// Its bytes, for other checksums that are to hold for one partition alone.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
