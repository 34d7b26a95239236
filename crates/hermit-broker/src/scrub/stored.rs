//! The file `scrub`: where the pass is. Overwritten in place and never synced; a torn or lost one only means that a pass begins anew.

use std::io;
use std::path::Path;

use hermit_log::disk::{Disk, Open, read_file};
use hermit_proto::{Offset, PartitionId, TopicId, crc32c};

use crate::layout;

const MAGIC: &[u8; 4] = b"HSCR";
const VERSION: u8 = 1;
const BEGAN_AT: usize = MAGIC.len() + 1;
const IS_OVER_AT: usize = BEGAN_AT + 8;
const TOPIC_AT: usize = IS_OVER_AT + 1;
const PARTITION_AT: usize = TOPIC_AT + 16;
const FROM_AT: usize = PARTITION_AT + 4;
const CRC_AT: usize = FROM_AT + 8;
const SIZE: usize = CRC_AT + 4;

/// A place in the order of all segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) topic: TopicId,
    pub(super) partition: PartitionId,
    /// Segments from this base offset on were not verified yet.
    pub(super) from: Offset,
}

/// A pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stored {
    /// In ns since the Unix epoch.
    pub(super) began_at: u64,
    /// `None`: it is over.
    pub(super) next: Option<Place>,
}

impl Stored {
    fn encode(&self) -> Vec<u8> {
        let next = self.next.unwrap_or(Place { topic: TopicId(0), partition: PartitionId(0), from: Offset::ZERO });
        let mut bytes = Vec::with_capacity(SIZE);
        bytes.extend_from_slice(MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.began_at.to_be_bytes());
        bytes.push(self.next.is_none().into());
        bytes.extend_from_slice(&next.topic.0.to_be_bytes());
        bytes.extend_from_slice(&next.partition.0.to_be_bytes());
        bytes.extend_from_slice(&next.from.0.to_be_bytes());
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; SIZE] = bytes.try_into().ok()?;
        let (covered, crc) = bytes.split_last_chunk()?;
        if *crc != crc32c(covered).to_be_bytes() || bytes.first_chunk() != Some(MAGIC) || bytes[MAGIC.len()] != VERSION {
            return None;
        }
        let u64_at = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let place = Place {
            topic: TopicId(u128::from_be_bytes(*bytes.get(TOPIC_AT..)?.first_chunk()?)),
            partition: PartitionId(u32::from_be_bytes(*bytes.get(PARTITION_AT..)?.first_chunk()?)),
            from: Offset(u64_at(FROM_AT)?),
        };
        Some(Self { began_at: u64_at(BEGAN_AT)?, next: (bytes[IS_OVER_AT] == 0).then_some(place) })
    }

    pub(super) fn read(disk: &dyn Disk, data_dir: &Path) -> Option<Self> {
        Self::decode(&read_file(disk, &data_dir.join(layout::SCRUB), SIZE as u64).ok()?)
    }

    pub(super) fn write(&self, disk: &dyn Disk, data_dir: &Path) -> io::Result<()> {
        let file = disk.open(&data_dir.join(layout::SCRUB), Open::CreateOrOpen)?;
        file.write_all_at(&self.encode(), 0)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_is_read_and_a_damaged_one_is_none() {
        let place = Place { topic: TopicId(1 << 100), partition: PartitionId(7), from: Offset(1 << 40) };
        for stored in [Stored { began_at: 5, next: None }, Stored { began_at: u64::MAX, next: Some(place) }] {
            let bytes = stored.encode();
            assert_eq!(Stored::decode(&bytes), Some(stored));
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Stored::decode(&damaged), None, "bit {bit}");
            }
            for len in 0..bytes.len() {
                assert_eq!(Stored::decode(&bytes[..len]), None);
            }
        }
    }
}
