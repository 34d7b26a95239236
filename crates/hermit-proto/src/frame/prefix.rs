//! Header and extension: decoding, checks, the broker's half and its checksum.

use super::attributes::{Attributes, Codec};
use super::error::{FrameError, FrameLimits};
use super::layout::{
    APPEND_TIME_AT, ATTRIBUTES_AT, BODY_CRC_AT, FIRST_SEQUENCE_AT, FLUSHED_DISTANCE_AT, FRAME_CRC_AT, LEADER_EPOCH_AT, PREFIX_SIZE,
    PRODUCER_EPOCH_AT, PRODUCER_ID_AT,
};
use super::stamp::{BrokerStamp, FrameSalt, ProducerStamp, SALT_SIZE};
use crate::crc::crc32c;
use crate::header::{Header, OFFSET_AT, magic, put, take};
use crate::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence};

/// The extension's fields; big-endian on the wire, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Codec and flags.
    pub attributes: Attributes,
    /// −1 without a producer.
    pub producer_epoch: ProducerEpoch,
    /// −1 without a producer.
    pub producer_id: ProducerId,
    /// −1 without a producer.
    pub first_sequence: Sequence,
    /// Over all that the producer made.
    pub body_crc: u32,
    /// See [`BrokerStamp`]; 0 from the producer, as are the three fields that follow.
    pub leader_epoch: LeaderEpoch,
    /// See [`BrokerStamp`].
    pub append_time: u64,
    /// See [`BrokerStamp`].
    pub flushed_distance: u32,
    /// Over salt, header and extension.
    pub frame_crc: u32,
}

/// Header and extension: all that stands before the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FramePrefix {
    /// The 29-byte header.
    pub header: Header,
    /// The 40-byte extension.
    pub extension: Extension,
}

impl FramePrefix {
    /// Reads the fields; nothing is checked.
    #[must_use]
    pub const fn decode(bytes: &[u8; PREFIX_SIZE]) -> Self {
        Self {
            header: Header::decode(&take(bytes, 0)),
            extension: Extension {
                attributes: Attributes(u16::from_be_bytes(take(bytes, ATTRIBUTES_AT))),
                producer_epoch: ProducerEpoch(i16::from_be_bytes(take(bytes, PRODUCER_EPOCH_AT))),
                producer_id: ProducerId(i64::from_be_bytes(take(bytes, PRODUCER_ID_AT))),
                first_sequence: Sequence(i32::from_be_bytes(take(bytes, FIRST_SEQUENCE_AT))),
                body_crc: u32::from_be_bytes(take(bytes, BODY_CRC_AT)),
                leader_epoch: LeaderEpoch(u32::from_be_bytes(take(bytes, LEADER_EPOCH_AT))),
                append_time: u64::from_be_bytes(take(bytes, APPEND_TIME_AT)),
                flushed_distance: u32::from_be_bytes(take(bytes, FLUSHED_DISTANCE_AT)),
                frame_crc: u32::from_be_bytes(take(bytes, FRAME_CRC_AT)),
            },
        }
    }

    /// The 69 bytes.
    #[must_use]
    pub const fn encode(&self) -> [u8; PREFIX_SIZE] {
        let mut bytes = [0; PREFIX_SIZE];
        put(&mut bytes, 0, &self.header.encode());
        put(&mut bytes, ATTRIBUTES_AT, &self.extension.attributes.0.to_be_bytes());
        put(&mut bytes, PRODUCER_EPOCH_AT, &self.extension.producer_epoch.0.to_be_bytes());
        put(&mut bytes, PRODUCER_ID_AT, &self.extension.producer_id.0.to_be_bytes());
        put(&mut bytes, FIRST_SEQUENCE_AT, &self.extension.first_sequence.0.to_be_bytes());
        put(&mut bytes, BODY_CRC_AT, &self.extension.body_crc.to_be_bytes());
        put(&mut bytes, LEADER_EPOCH_AT, &self.extension.leader_epoch.0.to_be_bytes());
        put(&mut bytes, APPEND_TIME_AT, &self.extension.append_time.to_be_bytes());
        put(&mut bytes, FLUSHED_DISTANCE_AT, &self.extension.flushed_distance.to_be_bytes());
        put(&mut bytes, FRAME_CRC_AT, &self.extension.frame_crc.to_be_bytes());
        bytes
    }

    /// Writes the broker's fields and the frame CRC into a frame's first 69 bytes, in place.
    pub fn stamp(bytes: &mut [u8; PREFIX_SIZE], stamp: &BrokerStamp, salt: &FrameSalt) {
        put(bytes, OFFSET_AT, &stamp.offset.0.to_be_bytes());
        put(bytes, LEADER_EPOCH_AT, &stamp.leader_epoch.0.to_be_bytes());
        put(bytes, APPEND_TIME_AT, &stamp.append_time.to_be_bytes());
        put(bytes, FLUSHED_DISTANCE_AT, &stamp.flushed_distance.to_be_bytes());
        let crc = frame_crc(bytes, salt);
        put(bytes, FRAME_CRC_AT, &crc.to_be_bytes());
    }

    /// Checks the frame CRC over a frame's first 69 bytes, then reads them. What it returns is what a broker wrote for this
    /// partition, sizes included; the body may still be damaged.
    ///
    /// # Errors
    /// [`FrameError::Magic`] and [`FrameError::FrameCrc`].
    pub fn verify(bytes: &[u8; PREFIX_SIZE], salt: &FrameSalt) -> Result<Self, FrameError> {
        let prefix = Self::decode(bytes);
        if prefix.header.magic != magic::DATA_V2 {
            return Err(FrameError::Magic(prefix.header.magic));
        }
        let (expected, actual) = (prefix.extension.frame_crc, frame_crc(bytes, salt));
        if expected != actual {
            return Err(FrameError::FrameCrc { expected, actual });
        }
        Ok(prefix)
    }

    /// Checks sizes and counts against limits, and that no field contradicts another.
    ///
    /// # Errors
    /// Every [`FrameError`] but `Truncated` and the checksums'.
    pub fn check(&self, limits: &FrameLimits) -> Result<(), FrameError> {
        let Header { key_size, payload_size, record_count, .. } = self.header;
        if self.header.magic != magic::DATA_V2 {
            return Err(FrameError::Magic(self.header.magic));
        }
        let body_bytes = self.header.body_bytes();
        if body_bytes > limits.max_body_bytes {
            return Err(FrameError::TooLarge { body_bytes, limit_bytes: limits.max_body_bytes });
        }
        if record_count > limits.max_record_count {
            return Err(FrameError::TooManyRecords { count: record_count, limit: limits.max_record_count });
        }
        let attributes = self.extension.attributes;
        let reserved = attributes.0 & !Attributes::KNOWN;
        if reserved != 0 {
            return Err(FrameError::ReservedAttributes(reserved));
        }
        let Some(codec) = attributes.codec() else {
            return Err(FrameError::UnknownCodec(attributes.0 & Attributes::CODEC_MASK));
        };
        let record_set = attributes.has(Attributes::RECORD_SET);
        let has_key = attributes.has(Attributes::HAS_KEY);
        let tombstone = attributes.has(Attributes::TOMBSTONE);
        let control = attributes.has(Attributes::CONTROL);
        let producer = &self.extension;
        let contradictions = [
            (codec != Codec::None && !record_set, "a codec without a record set"),
            (key_size > 0 && !has_key, "key bytes without the key flag"),
            (record_set && has_key, "a record set keeps its keys inside"),
            (
                tombstone && (payload_size > 0 || !has_key || record_set || record_count != 1),
                "a tombstone is one key without payload",
            ),
            (control && (record_set || tombstone), "a control frame is no data"),
            (control != (record_count == 0), "record count 0 is for control frames, and they have no other"),
            (producer.producer_id.0 < -1, "a producer id below -1"),
            (
                producer.producer_id.is_some() && (producer.producer_epoch.0 < 0 || producer.first_sequence.0 < 0),
                "a producer id without epoch and sequence",
            ),
            (
                !producer.producer_id.is_some() && (producer.producer_epoch.0 != -1 || producer.first_sequence.0 != -1),
                "epoch or sequence without a producer id (-1 each)",
            ),
        ];
        match contradictions.iter().find(|(found, _)| *found) {
            Some((_, what)) => Err(FrameError::Contradiction(what)),
            None => Ok(()),
        }
    }

    /// Bytes of the whole frame; cannot overflow.
    #[must_use]
    pub const fn frame_bytes(&self) -> u64 {
        PREFIX_SIZE as u64 + self.header.body_bytes()
    }

    /// The offset of the first record.
    #[must_use]
    pub const fn offset(&self) -> Offset {
        Offset(self.header.offset)
    }

    /// The offset behind the frame; saturates, which no accepted frame reaches.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        Offset(self.header.offset.saturating_add(self.header.record_count as u64))
    }

    /// The producer's stamp, if the frame is idempotent.
    #[must_use]
    pub const fn producer(&self) -> Option<ProducerStamp> {
        let Extension { producer_id, producer_epoch, first_sequence, .. } = self.extension;
        if producer_id.is_some() { Some(ProducerStamp { id: producer_id, epoch: producer_epoch, first_sequence }) } else { None }
    }

    /// Whether all bits of `flags` ([`Attributes`]) are set.
    #[must_use]
    pub const fn has(&self, flags: u16) -> bool {
        self.extension.attributes.has(flags)
    }
}

fn frame_crc(bytes: &[u8; PREFIX_SIZE], salt: &FrameSalt) -> u32 {
    let mut covered = [0; SALT_SIZE + FRAME_CRC_AT];
    put(&mut covered, 0, &salt.0);
    put(&mut covered, SALT_SIZE, &take::<PREFIX_SIZE, FRAME_CRC_AT>(bytes, 0));
    crc32c(&covered)
}
