//! Consumers of version 1: every frame's offset is looked at, and of its payload both ends, or all, or nothing.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};

use anyhow::{Result, ensure};
use hermit_proto::v1::Handshake;
use hermit_proto::{Crc32c, GroupName, HEADER_SIZE, Header, PartitionId, TopicName, magic};
use serde::{Deserialize, Serialize};

use super::{READ_BYTES, Until, connect, passes, read_some};
use crate::tally::{Ends, Tally, whole_digest};
use crate::worker::Outcome;

/// What a consumer does with what it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// Counts bytes.
    Nothing,
    /// Version 1: looks at every header, and at both ends of every payload. Version 2: at the heads of deliveries.
    Heads,
    /// Looks at every byte, and checks every checksum there is.
    All,
}

/// The load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consume {
    /// The broker.
    pub address: SocketAddr,
    /// The topic.
    pub topic: String,
    /// The group; it has committed nothing.
    pub group: String,
    /// One consumer for each partition from 0, of which it reads so many frames and bytes in a pass.
    pub partitions: Vec<Extent>,
    /// Records of a frame.
    pub records: u32,
    /// What it looks at.
    pub check: Check,
    /// `Count` is passes; in a given time as many whole passes as begin in it.
    pub until: Until,
}

/// What a partition holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Frames.
    pub frames: u64,
    /// Their bytes as a consumer gets them.
    pub bytes: u64,
}

impl Consume {
    pub(super) fn run(&self) -> Result<Outcome> {
        passes(&self.partitions, self.records, self.until, READ_BYTES, |partition, extent, buffer| {
            self.pass(partition, extent, buffer)
        })
    }

    fn pass(&self, partition: PartitionId, extent: Extent, buffer: &mut [u8]) -> Result<Tally> {
        let mut stream = connect(self.address)?;
        let mut bytes = Vec::new();
        let (group, topic) = (GroupName::new(&self.group)?, TopicName::new(&self.topic)?);
        Handshake::Consumer { group, topic, partition }.encode(&mut bytes);
        stream.write_all(&bytes)?;
        read_pass(&mut stream, buffer, extent, self.check, self.records)
    }
}

fn read_pass(stream: &mut TcpStream, buffer: &mut [u8], extent: Extent, check: Check, records: u32) -> Result<Tally> {
    let mut left = extent.bytes;
    let mut frames = Frames::new(check == Check::All, records);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = read_some(stream, &mut buffer[..most])?;
        left -= read as u64;
        if check != Check::Nothing {
            frames.take(&buffer[..read])?;
        }
    }
    if check == Check::Nothing {
        return Ok(Tally::default());
    }
    ensure!(frames.within == 0 && frames.head.is_empty(), "the frames do not end where they should");
    Ok(frames.tally)
}

/// Frames as they come in, in pieces.
struct Frames {
    whole: bool,
    records: u32,
    next_offset: u64,
    /// The beginning of a header.
    head: Vec<u8>,
    /// Bytes of the present body that have not come yet, and all of them.
    within: u64,
    body_bytes: u64,
    ends: Ends,
    crc: Crc32c,
    tally: Tally,
}

impl Frames {
    fn new(whole: bool, records: u32) -> Self {
        let (ends, crc, tally) = (Ends::default(), Crc32c::new(), Tally::default());
        Self { whole, records, next_offset: 0, head: Vec::with_capacity(HEADER_SIZE), within: 0, body_bytes: 0, ends, crc, tally }
    }

    fn take(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            if self.within > 0 {
                bytes = self.body(bytes);
            } else if let Some((header, rest)) = bytes.split_first_chunk().filter(|_whole| self.head.is_empty()) {
                self.begin(header)?;
                bytes = rest;
            } else {
                let missing = (HEADER_SIZE - self.head.len()).min(bytes.len());
                self.head.extend_from_slice(&bytes[..missing]);
                bytes = &bytes[missing..];
                let Some(header) = self.head.first_chunk().copied() else { return Ok(()) };
                self.head.clear();
                self.begin(&header)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn begin(&mut self, header: &[u8; HEADER_SIZE]) -> Result<()> {
        let header = Header::decode(header);
        let fits = header.magic == magic::DATA_V1 && header.offset == self.next_offset && header.record_count == self.records;
        ensure!(fits, "not the frame at offset {}, of {} records: {header:?}", self.next_offset, self.records);
        self.next_offset += u64::from(self.records);
        self.body_bytes = header.body_bytes();
        self.within = self.body_bytes;
        if self.within == 0 {
            self.end();
        }
        Ok(())
    }

    #[inline]
    fn body<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let take = usize::try_from(self.within).unwrap_or(usize::MAX).min(bytes.len());
        let (piece, rest) = bytes.split_at(take);
        if self.whole {
            self.crc.update(piece);
        } else {
            self.ends.push(piece);
        }
        self.within -= take as u64;
        if self.within == 0 {
            self.end();
        }
        rest
    }

    #[inline]
    fn end(&mut self) {
        let digest = if self.whole {
            whole_digest(std::mem::take(&mut self.crc).finish(), self.body_bytes)
        } else {
            std::mem::take(&mut self.ends).digest(self.body_bytes)
        };
        self.tally.add(self.tally.frames, self.records, self.body_bytes, digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::material::{Material, Protocol, Shape};

    /// What a consumer gets for the frames of a material.
    fn consumed(material: &Material, count: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in 0..count {
            let mut frame = material.frame(number).to_vec();
            frame[9..17].copy_from_slice(&(number * u64::from(material.shape.records)).to_be_bytes());
            bytes.extend(frame);
        }
        bytes
    }

    #[test]
    fn frames_come_in_any_pieces_and_are_what_was_sent() {
        for whole in [false, true] {
            let material = Material::new(Shape::v1(100, 2), whole).unwrap();
            let bytes = consumed(&material, 3);
            for cut in 0..bytes.len() {
                let mut frames = Frames::new(whole, 2);
                frames.take(&bytes[..cut]).unwrap();
                frames.take(&bytes[cut..]).unwrap();
                frames.tally.check(&material.expected(Protocol::V1, 3), true).unwrap();
            }
        }
    }

    #[test]
    fn another_offset_and_a_damaged_payload_are_found() {
        let material = Material::new(Shape::v1(100, 1), true).unwrap();
        let mut bytes = consumed(&material, 3);
        let size = bytes.len() / 3;
        bytes[size + 29 + 50] ^= 1;
        let mut frames = Frames::new(true, 1);
        frames.take(&bytes).unwrap();
        frames.tally.check(&material.expected(Protocol::V1, 3), true).unwrap_err();
        bytes.drain(size..2 * size);
        Frames::new(true, 1).take(&bytes).unwrap_err();
    }
}
