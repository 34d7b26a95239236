//! Produce: data frames for one partition.

use bytes::BytesMut;

use super::body::{BodyError, BodyReader, BodyWriter, EncodeError};
use super::message::{Message, Response, session_header};
use super::operation::Operation;
use crate::header::{HEADER_SIZE, magic, put};
use crate::ids::{CorrelationId, Offset, PartitionId, TopicId};

/// When a produce request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Acks {
    /// Only if it is refused. Number 0.
    None,
    /// When the records are as durable as the topic promises. Number 1.
    Committed,
}

/// Where the frames go: the key of a produce request. The payload is version-2 data frames back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProduceTarget {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// When to answer.
    pub acks: Acks,
}

const TOPIC_AT: usize = 0;
const PARTITION_AT: usize = TOPIC_AT + 16;
const ACKS_AT: usize = PARTITION_AT + 4;

impl ProduceTarget {
    /// Bytes of the key.
    pub const KEY_SIZE: usize = ACKS_AT + 1;
    /// Bytes of header and key.
    pub const HEAD_SIZE: usize = HEADER_SIZE + Self::KEY_SIZE;
    /// The operation.
    pub const OPERATION: Operation = Operation::Produce;

    /// Header and key of a request with `frames_bytes` bytes of frames, so that these need not be copied.
    ///
    /// # Errors
    /// [`EncodeError`] if the frames have 2³² bytes or more.
    pub fn encode_head(&self, correlation: CorrelationId, frames_bytes: usize) -> Result<[u8; Self::HEAD_SIZE], EncodeError> {
        // KEY_SIZE is 21.
        const KEY_SIZE: u32 = 21;
        const { assert!(KEY_SIZE as usize == Self::KEY_SIZE) };
        let header = session_header(magic::REQUEST, correlation, KEY_SIZE, frames_bytes as u64, Self::OPERATION.number())?;
        let mut head = [0; Self::HEAD_SIZE];
        put(&mut head, 0, &header.encode());
        put(&mut head, HEADER_SIZE + TOPIC_AT, &self.topic.0.to_be_bytes());
        put(&mut head, HEADER_SIZE + PARTITION_AT, &self.partition.0.to_be_bytes());
        put(&mut head, HEADER_SIZE + ACKS_AT, &[u8::from(self.acks == Acks::Committed)]);
        Ok(head)
    }

    /// Appends the whole request.
    ///
    /// # Errors
    /// [`EncodeError`] if the frames have 2³² bytes or more.
    pub fn encode(&self, correlation: CorrelationId, frames: &[u8], out: &mut BytesMut) -> Result<(), EncodeError> {
        let head = self.encode_head(correlation, frames.len())?;
        out.reserve(Self::HEAD_SIZE.saturating_add(frames.len()));
        out.extend_from_slice(&head);
        out.extend_from_slice(frames);
        Ok(())
    }

    /// Reads the key.
    ///
    /// # Errors
    /// [`BodyError`] names the field at fault.
    pub fn decode(key: &[u8]) -> Result<Self, BodyError> {
        // "The key of a produce request has 21 bytes."
        if key.len() != Self::KEY_SIZE {
            return Err(BodyError::KeySize { expected: Self::KEY_SIZE, found: key.len() });
        }
        let mut fields = BodyReader::new(key);
        let topic = TopicId(fields.u128("topic")?);
        let partition = PartitionId(fields.u32("partition")?);
        let acks = if fields.flag("acks")? { Acks::Committed } else { Acks::None };
        Ok(Self { topic, partition, acks })
    }
}

/// The frames are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProduceResponse {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset behind the last record (exclusive).
    pub end_offset: Offset,
    /// When the broker appended them, in ns since the Unix epoch.
    pub append_time: u64,
    /// Whether they were stored by an earlier request of the same idempotent producer; the offsets are those of then.
    pub duplicate: bool,
}

impl Message for ProduceResponse {
    const OPERATION: Operation = Operation::Produce;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u64(self.base_offset.0);
        body.u64(self.end_offset.0);
        body.u64(self.append_time);
        body.flag(self.duplicate);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            base_offset: Offset(body.u64("base_offset")?),
            end_offset: Offset(body.u64("end_offset")?),
            append_time: body.u64("append_time")?,
            duplicate: body.flag("duplicate")?,
        })
    }
}

impl Response for ProduceResponse {}
