//! What is sent: incompressible payloads, made once, the same in every process of a run, so that whoever reads them knows what they should be.

use std::ops::Range;

use anyhow::{Result, ensure};
pub use hermit_load::Compression;
use hermit_proto::record_set::{NewRecord, RecordSetBuilder};
use hermit_proto::{HEADER_SIZE, Header, PREFIX_SIZE, ProducedFrame, magic};
use serde::{Deserialize, Serialize};

use crate::drive::v1_consume::Extent;
use crate::tally::{Tally, digest};

/// Incompressible bytes that payloads are cut from.
const POOL_BYTES: usize = 4 << 20;
/// How far apart the beginnings of payloads that follow each other lie: a prime, so that they differ.
const POOL_STEP: usize = 4099;
/// About as much is written at a time.
const CHUNK_BYTES: usize = 256 << 10;
/// Payloads of a chunk differ, also where one would fill it.
const MIN_FRAMES: usize = 4;

/// Which protocol the frames are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Version 1.
    V1,
    /// Version 2.
    V2,
}

/// The form of the frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Who they are made for.
    pub protocol: Protocol,
    /// Bytes of a record's value.
    pub payload_bytes: usize,
    /// Records of a frame. Version 1 has them in one opaque payload, version 2 in a record set, but for 1: that is a raw message.
    pub records: u32,
    /// Of record sets.
    #[serde(default)]
    pub compression: Compression,
}

impl Shape {
    /// Frames of version 1.
    #[must_use]
    pub const fn v1(payload_bytes: usize, records: u32) -> Self {
        Self { protocol: Protocol::V1, payload_bytes, records, compression: Compression::None }
    }

    /// Frames of version 2, not compressed.
    #[must_use]
    pub const fn v2(payload_bytes: usize, records: u32) -> Self {
        Self { protocol: Protocol::V2, payload_bytes, records, compression: Compression::None }
    }
}

/// Frames, back to back, as they are sent, again and again.
#[derive(Debug)]
pub struct Material {
    /// All of them.
    pub bytes: Vec<u8>,
    /// Where each lies in `bytes`.
    pub frames: Vec<Range<usize>>,
    /// The digest of each frame's payload.
    pub digests: Vec<u64>,
    /// The digest of each record's value.
    record_digests: Vec<u64>,
    /// Bytes of each frame's payload.
    pub payload_bytes: Vec<usize>,
    /// The form.
    pub shape: Shape,
}

impl Material {
    /// Makes the frames of a form. `whole` digests take all bytes of a payload, others only both its ends.
    ///
    /// # Errors
    ///
    /// When a payload is too large.
    pub fn new(shape: Shape, whole: bool) -> Result<Self> {
        let per_frame = shape.payload_bytes * shape.records as usize;
        ensure!(
            shape.records > 0 && per_frame < POOL_BYTES,
            "{} records of {} bytes are not made",
            shape.records,
            shape.payload_bytes
        );
        let pool = pool();
        let count = (CHUNK_BYTES / (per_frame + PREFIX_SIZE)).max(MIN_FRAMES);
        let mut material = Self {
            bytes: Vec::new(),
            frames: Vec::new(),
            digests: Vec::new(),
            record_digests: Vec::new(),
            payload_bytes: Vec::new(),
            shape,
        };
        for number in 0..count {
            let at = number * POOL_STEP % (POOL_BYTES - per_frame);
            material.push(&pool[at..at + per_frame], whole)?;
        }
        Ok(material)
    }

    fn push(&mut self, values: &[u8], whole: bool) -> Result<()> {
        let (start, shape) = (self.bytes.len(), self.shape);
        let payload = match shape.protocol {
            Protocol::V2 if shape.records > 1 => record_set(values, shape)?,
            _ => values.to_vec(),
        };
        match shape.protocol {
            Protocol::V1 => {
                let payload_size = u32::try_from(payload.len())?;
                let records = shape.records;
                let header =
                    Header { magic: magic::DATA_V1, timestamp: 1, offset: 0, key_size: 0, payload_size, record_count: records };
                self.bytes.extend_from_slice(&header.encode());
                self.bytes.extend_from_slice(&payload);
            }
            Protocol::V2 if shape.records > 1 => {
                ProducedFrame::record_set(TIMESTAMP, shape.compression.codec(), shape.records, &payload)
                    .encode_into(&mut self.bytes)?;
            }
            Protocol::V2 => ProducedFrame::message(TIMESTAMP, None, &payload).encode_into(&mut self.bytes)?,
        }
        self.frames.push(start..self.bytes.len());
        self.digests.push(digest(&payload, whole));
        self.record_digests.extend(values.chunks(shape.payload_bytes).map(|value| digest(value, whole)));
        self.payload_bytes.push(payload.len());
        Ok(())
    }

    /// The frame that is the `number`th to be sent.
    #[must_use]
    pub fn frame(&self, number: u64) -> &[u8] {
        &self.bytes[self.frames[self.index(number)].clone()]
    }

    fn index(&self, number: u64) -> usize {
        usize::try_from(number % self.frames.len() as u64).unwrap_or(0)
    }

    /// Bytes of the first `count` frames as they are sent.
    #[must_use]
    pub fn sent_bytes(&self, count: u64) -> u64 {
        let cycle = self.bytes.len() as u64;
        let frames = self.frames.len() as u64;
        let rest = self.index(count);
        count / frames * cycle + self.frames.get(rest).map_or(0, |frame| frame.start as u64)
    }

    /// What a consumer gets of the first `count` frames.
    #[must_use]
    pub fn extent(&self, reader: Protocol, count: u64) -> Extent {
        let extension = count * (PREFIX_SIZE - HEADER_SIZE) as u64;
        let sent = self.sent_bytes(count);
        let shape = self.shape;
        match (shape.protocol, reader) {
            (Protocol::V1, Protocol::V2) => Extent { frames: count, bytes: sent + extension },
            (Protocol::V2, Protocol::V1) if shape.records > 1 => {
                let records = count * u64::from(shape.records);
                Extent { frames: records, bytes: records * (HEADER_SIZE + shape.payload_bytes) as u64 }
            }
            (Protocol::V2, Protocol::V1) => Extent { frames: count, bytes: sent - extension },
            _ => Extent { frames: count, bytes: sent },
        }
    }

    /// Whether a reader of that version gets a frame for each record of a set.
    #[must_use]
    pub fn unfolds(&self, reader: Protocol) -> bool {
        reader == Protocol::V1 && self.shape.protocol == Protocol::V2 && self.shape.records > 1
    }

    /// What a reader of the first `count` frames should find.
    #[must_use]
    pub fn expected(&self, reader: Protocol, count: u64) -> Tally {
        let mut tally = Tally::default();
        for number in 0..count {
            let index = self.index(number);
            if self.unfolds(reader) {
                let records = self.shape.records as usize;
                for digest in &self.record_digests[index * records..(index + 1) * records] {
                    tally.add(tally.frames, 1, self.shape.payload_bytes as u64, *digest);
                }
            } else {
                tally.add(number, self.shape.records, self.payload_bytes[index] as u64, self.digests[index]);
            }
        }
        tally
    }
}

/// A fixed time: frames that are sent again and again are the same bytes.
const TIMESTAMP: u64 = 1_700_000_000_000_000_000;
const TIMESTAMP_MS: i64 = 1_700_000_000_000;

fn pool() -> Vec<u8> {
    let mut pool = vec![0; POOL_BYTES];
    fastrand::Rng::with_seed(20_26).fill(&mut pool);
    pool
}

fn record_set(values: &[u8], shape: Shape) -> Result<Vec<u8>> {
    let mut set = RecordSetBuilder::new(TIMESTAMP);
    for record in 0..shape.records as usize {
        let value = &values[record * shape.payload_bytes..(record + 1) * shape.payload_bytes];
        set.append(&NewRecord { timestamp_ms: TIMESTAMP_MS, key: None, value: Some(value), headers: &[] })?;
    }
    Ok(set.finish(shape.compression.codec())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_proto::{FrameLimits, FrameView};

    #[test]
    fn the_same_in_every_process_and_counted_right() {
        for shape in [Shape::v1(16, 1), Shape::v1(100, 10), Shape::v2(100, 1), Shape::v2(100, 100), Shape::v2(1 << 20, 1)] {
            let (one, two) = (Material::new(shape, false).unwrap(), Material::new(shape, false).unwrap());
            assert_eq!(one.bytes, two.bytes);
            let count = one.frames.len() as u64;
            let sent: u64 = (0..count + 3).map(|number| one.frame(number).len() as u64).sum();
            assert_eq!(one.sent_bytes(count + 3), sent, "{shape:?}");
            assert_eq!(one.expected(shape.protocol, count + 3).records, (count + 3) * u64::from(shape.records));
        }
    }

    #[test]
    fn frames_of_version_2_are_sound() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let material = Material::new(Shape { compression, ..Shape::v2(100, 100) }, true).unwrap();
            let (frame, rest) = FrameView::split(&material.bytes, &FrameLimits::default()).unwrap();
            frame.verify_body().unwrap();
            assert_eq!(rest.len() + material.frames[0].len(), material.bytes.len());
        }
    }
}
