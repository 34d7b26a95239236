//! The file that `export` writes and `import` reads.
//!
//! All numbers are big-endian.
//!
//! | part | bytes |
//! | --- | --- |
//! | head | `HMQTOPIC`, version u32 = 1, size u32, so many bytes of JSON (the topic as `topic describe --output json` tells it), CRC-32C u32 over all of that |
//! | block, as often as need be | the partition u32, then one frame of protocol version 2 with a record set, both its checksums made; its salt is the topic's id and the partition |
//! | end | 2³²−1 u32, count of all records u64, CRC-32C u32 over those twelve bytes |
//!
//! A record's offset is that of its frame plus its place in it, and its time as precise as it was in the topic. The frame's append time and
//! leader epoch are those of its first record.

mod head;
mod read;
mod write;

pub(crate) use head::Head;
pub(crate) use read::{Block, TopicReader};
pub(crate) use write::{Stored, TopicWriter};

const MAGIC: &[u8; 8] = b"HMQTOPIC";
const VERSION: u32 = 1;
/// Stands in a partition's place where the file ends. No topic has so many.
const END: u32 = u32::MAX;

#[cfg(test)]
mod tests;
