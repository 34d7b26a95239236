//! The bytes of a committed position in `__consumer_offsets`.
//!
//! Key: group (u8 length and bytes), topic id (u128), partition (u32). No separator that a name could contain. Value: version (u8), offset
//! (u64), leader epoch (u32), commit time (u64, ns). A tombstone takes the position back.

use hermit_proto::{GroupName, LeaderEpoch, Offset, PartitionId, TopicId};

const VALUE_VERSION: u8 = 1;
const TOPIC_SIZE: usize = 16;
const PARTITION_SIZE: usize = 4;
const OFFSET_AT: usize = 1;
const EPOCH_AT: usize = OFFSET_AT + 8;
const TIME_AT: usize = EPOCH_AT + 4;
const VALUE_SIZE: usize = TIME_AT + 8;

/// Whose position it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PositionKey {
    pub(crate) group: GroupName,
    pub(crate) topic: TopicId,
    pub(crate) partition: PartitionId,
}

/// A committed position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committed {
    /// The next offset to read.
    pub offset: Offset,
    /// The leader epoch it was made under; [`LeaderEpoch::UNKNOWN`] where none is known.
    pub leader_epoch: LeaderEpoch,
    /// When, in ns since the Unix epoch by the broker's clock.
    pub committed_at: u64,
}

impl PositionKey {
    pub(super) fn encode(&self) -> Vec<u8> {
        let group = self.group.as_str().as_bytes();
        let mut bytes = Vec::with_capacity(1 + group.len() + TOPIC_SIZE + PARTITION_SIZE);
        // A name has 255 bytes at most.
        bytes.push(u8::try_from(group.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(group);
        bytes.extend_from_slice(&self.topic.0.to_be_bytes());
        bytes.extend_from_slice(&self.partition.0.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first()?;
        let (group, rest) = rest.split_at_checked(usize::from(*length))?;
        let (topic, rest) = rest.split_first_chunk::<TOPIC_SIZE>()?;
        let (partition, rest) = rest.split_first_chunk::<PARTITION_SIZE>()?;
        rest.is_empty().then_some(())?;
        Some(Self {
            group: GroupName::new(group).ok()?,
            topic: TopicId(u128::from_be_bytes(*topic)),
            partition: PartitionId(u32::from_be_bytes(*partition)),
        })
    }
}

impl Committed {
    pub(super) fn encode(&self) -> [u8; VALUE_SIZE] {
        let mut bytes = [0; VALUE_SIZE];
        let fields: [(usize, &[u8]); 4] = [
            (0, &[VALUE_VERSION]),
            (OFFSET_AT, &self.offset.0.to_be_bytes()),
            (EPOCH_AT, &self.leader_epoch.0.to_be_bytes()),
            (TIME_AT, &self.committed_at.to_be_bytes()),
        ];
        for (at, field) in fields {
            if let Some(place) = bytes.get_mut(at..at + field.len()) {
                place.copy_from_slice(field);
            }
        }
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; VALUE_SIZE] = bytes.try_into().ok()?;
        let (version, rest) = bytes.split_first()?;
        (*version == VALUE_VERSION).then_some(())?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let (time, _) = rest.split_first_chunk()?;
        Some(Self {
            offset: Offset(u64::from_be_bytes(*offset)),
            leader_epoch: LeaderEpoch(u32::from_be_bytes(*epoch)),
            committed_at: u64::from_be_bytes(*time),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_come_back_and_other_bytes_are_refused() {
        let key = PositionKey { group: GroupName::new("g:1").unwrap(), topic: TopicId(7), partition: PartitionId(3) };
        let bytes = key.encode();
        assert_eq!(PositionKey::decode(&bytes), Some(key));
        for len in 0..bytes.len() {
            assert_eq!(PositionKey::decode(&bytes[..len]), None);
        }
        assert_eq!(PositionKey::decode(&[bytes, vec![0]].concat()), None);
        let value = Committed { offset: Offset(u64::MAX), leader_epoch: LeaderEpoch(9), committed_at: 77 };
        let bytes = value.encode();
        assert_eq!(Committed::decode(&bytes), Some(value));
        assert_eq!(Committed::decode(&bytes[1..]), None);
        assert_eq!(Committed::decode(&[&[2], &bytes[1..]].concat()), None);
    }
}
