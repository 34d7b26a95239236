//! Batches: gathering records, and turning them into frames.

use bytes::{Bytes, BytesMut};
use hermit_proto::record_set::{RecordSetBuilder, RecordSetError};
use hermit_proto::{Codec, FrameError, PREFIX_SIZE, ProducedFrame, ProducerStamp};
use tokio::time::Instant;

use super::delivery::{Completer, Delivery, Stored};
use super::record::ProducerRecord;

/// A batch that takes more records.
#[derive(Debug)]
pub(super) struct OpenBatch {
    gathered: Gathered,
    created: Instant,
    result: Completer,
    cost_bytes: usize,
}

#[derive(Debug)]
enum Gathered {
    Set(RecordSetBuilder),
    /// A frame for each record.
    Singles {
        records: Vec<Single>,
        frames_bytes: usize,
    },
}

#[derive(Debug)]
struct Single {
    timestamp: u64,
    key: Option<Bytes>,
    /// `None` is a tombstone.
    value: Option<Bytes>,
}

impl OpenBatch {
    pub(super) fn set(frame_timestamp: u64, created: Instant, result: Completer) -> Self {
        let gathered = Gathered::Set(RecordSetBuilder::new(frame_timestamp));
        Self { gathered, created, result, cost_bytes: 0 }
    }

    /// With room for so many bytes.
    pub(super) fn with_room(mut self, bytes: usize) -> Self {
        if let Gathered::Set(builder) = &mut self.gathered {
            builder.reserve(bytes);
        }
        self
    }

    pub(super) fn singles(created: Instant, result: Completer) -> Self {
        let gathered = Gathered::Singles { records: Vec::new(), frames_bytes: 0 };
        Self { gathered, created, result, cost_bytes: 0 }
    }

    pub(super) const fn created(&self) -> Instant {
        self.created
    }

    #[inline]
    pub(super) fn record_count(&self) -> u32 {
        match &self.gathered {
            Gathered::Set(builder) => builder.count(),
            Gathered::Singles { records, .. } => u32::try_from(records.len()).unwrap_or(u32::MAX),
        }
    }

    /// Whether it has a frame for each record.
    #[inline]
    pub(super) const fn is_singles(&self) -> bool {
        matches!(self.gathered, Gathered::Singles { .. })
    }

    /// Bytes of frames, uncompressed.
    #[inline]
    pub(super) fn len_bytes(&self) -> usize {
        match &self.gathered {
            Gathered::Set(builder) => builder.len_bytes(),
            Gathered::Singles { frames_bytes, .. } => *frames_bytes,
        }
    }

    /// Bytes that the record would add.
    pub(super) fn added_bytes(&self, record: &ProducerRecord<'_>, timestamp: u64) -> usize {
        match &self.gathered {
            Gathered::Set(builder) => builder.added_bytes(&record.in_set(timestamp)),
            Gathered::Singles { .. } => single_bytes(record),
        }
    }

    /// To tell how the batch fared.
    #[inline]
    pub(super) const fn completer(&self) -> &Completer {
        &self.result
    }

    /// Copies the record in, and gives its index. `cost_bytes` of the producer's buffer belong to it until the batch is done.
    #[inline]
    pub(super) fn append(&mut self, record: &ProducerRecord<'_>, timestamp: u64, cost_bytes: usize) -> Result<u32, RecordSetError> {
        let index = self.record_count();
        match &mut self.gathered {
            Gathered::Set(builder) => builder.append(&record.in_set(timestamp))?,
            Gathered::Singles { records, frames_bytes } => {
                records.push(Single {
                    timestamp,
                    key: record.key.map(Bytes::copy_from_slice),
                    value: record.value.map(Bytes::copy_from_slice),
                });
                *frames_bytes = frames_bytes.saturating_add(single_bytes(record));
            }
        }
        self.cost_bytes = self.cost_bytes.saturating_add(cost_bytes);
        Ok(index)
    }

    /// Compresses, and takes no more records.
    pub(super) fn seal(self, codec: Codec, zstd_level: i32, deadline: Instant) -> Batch {
        let record_count = self.record_count();
        let body = match self.gathered {
            Gathered::Set(builder) => {
                let timestamp = builder.frame_timestamp();
                let compressed = if codec == Codec::None { None } else { builder.finish_at(codec, zstd_level).ok() };
                match compressed.filter(|payload| payload.len() < builder.len_bytes()) {
                    Some(payload) => Body::Set { timestamp, codec, payload: payload.into() },
                    // What does not shrink travels as it is.
                    None => Body::Set { timestamp, codec: Codec::None, payload: without_surplus(builder.into_bytes()).into() },
                }
            }
            Gathered::Singles { records, .. } => Body::Singles(records),
        };
        Batch { body, record_count, cost_bytes: self.cost_bytes, deadline, result: self.result, torn: false }
    }
}

/// What it has room for beside its content is charged to nobody.
fn without_surplus(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() < bytes.capacity() / 2 {
        bytes.shrink_to_fit();
    }
    bytes
}

/// Bytes of a frame with this record alone.
fn single_bytes(record: &ProducerRecord<'_>) -> usize {
    PREFIX_SIZE.saturating_add(record.data_bytes())
}

/// A batch that is complete.
#[derive(Debug)]
pub(super) struct Batch {
    body: Body,
    record_count: u32,
    cost_bytes: usize,
    deadline: Instant,
    result: Completer,
    /// Its first records were stored apart from the rest.
    torn: bool,
}

#[derive(Debug)]
enum Body {
    Set { timestamp: u64, codec: Codec, payload: Bytes },
    Singles(Vec<Single>),
}

/// Frames in two pieces, so that the larger part is not copied.
#[derive(Debug)]
pub(super) struct EncodedFrames {
    pub(super) head: BytesMut,
    pub(super) tail: Bytes,
}

impl Batch {
    pub(super) const fn record_count(&self) -> u32 {
        self.record_count
    }

    pub(super) const fn cost_bytes(&self) -> usize {
        self.cost_bytes
    }

    /// When the records have to be stored.
    pub(super) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// A handle onto the batch's result.
    pub(super) fn delivery(&self) -> Delivery {
        self.result.delivery(0, 0)
    }

    pub(super) fn finish(self, outcome: Stored) {
        // Offsets count from the first record, whose offset is not known then.
        self.result.finish(if self.torn { outcome.map(|_base| None) } else { outcome });
    }

    /// Takes out the first `count` records, which are stored. `false` where they are not apart: in a set.
    pub(super) fn cut_front(&mut self, count: u32) -> bool {
        match &mut self.body {
            Body::Singles(records) if (count as usize) < records.len() => {
                records.drain(..count as usize);
                self.record_count = self.record_count.saturating_sub(count);
                self.torn = true;
                true
            }
            _ => false,
        }
    }

    /// The frames. `stamp` is that of the first record.
    pub(super) fn encode(&self, stamp: Option<ProducerStamp>) -> Result<EncodedFrames, FrameError> {
        let mut head = BytesMut::with_capacity(PREFIX_SIZE);
        match &self.body {
            Body::Set { timestamp, codec, payload } => {
                let frame = ProducedFrame::record_set(*timestamp, *codec, self.record_count, payload);
                head.extend_from_slice(&ProducedFrame { producer: stamp, ..frame }.prefix()?);
                Ok(EncodedFrames { head, tail: payload.clone() })
            }
            Body::Singles(records) => {
                let Some((last, before)) = records.split_last() else {
                    return Ok(EncodedFrames { head, tail: Bytes::new() });
                };
                let mut stamp = stamp;
                for record in before {
                    record.encode_head(stamp, &mut head)?;
                    head.extend_from_slice(record.value.as_deref().unwrap_or_default());
                    stamp = stamp.map(|stamp| ProducerStamp { first_sequence: stamp.first_sequence.advance(1), ..stamp });
                }
                last.encode_head(stamp, &mut head)?;
                Ok(EncodedFrames { head, tail: last.value.clone().unwrap_or_default() })
            }
        }
    }
}

impl Single {
    /// All but the payload.
    fn encode_head(&self, producer: Option<ProducerStamp>, out: &mut BytesMut) -> Result<(), FrameError> {
        let key = self.key.as_deref();
        let frame = match (&self.value, key) {
            (None, Some(key)) => ProducedFrame::tombstone(self.timestamp, key),
            (value, key) => ProducedFrame::message(self.timestamp, key, value.as_deref().unwrap_or_default()),
        };
        out.extend_from_slice(&ProducedFrame { producer, ..frame }.prefix()?);
        out.extend_from_slice(key.unwrap_or_default());
        Ok(())
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
