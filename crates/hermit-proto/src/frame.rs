//! The version-2 data frame: header, 40-byte extension, key, payload (`docs/protocol.md`, "The version-2 data frame").
//!
//! The producer makes its half once, under the *body CRC*; the broker fills in its half with [`FramePrefix::stamp`], under the *frame
//! CRC*, without touching key or payload. The extension stands before the key, so that [`PREFIX_SIZE`] bytes tell all there is to know.

use crate::crc::{Crc32c, crc32c};
use crate::header::{HEADER_SIZE, Header, OFFSET_AT, magic, put, take};
use crate::ids::{LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, Sequence, TopicId};

/// Bytes of the extension.
pub const EXTENSION_SIZE: usize = 40;
/// Bytes before the key: header and extension.
pub const PREFIX_SIZE: usize = HEADER_SIZE + EXTENSION_SIZE;

const ATTRIBUTES_AT: usize = HEADER_SIZE;
const PRODUCER_EPOCH_AT: usize = ATTRIBUTES_AT + 2;
const PRODUCER_ID_AT: usize = PRODUCER_EPOCH_AT + 2;
const FIRST_SEQUENCE_AT: usize = PRODUCER_ID_AT + 8;
const BODY_CRC_AT: usize = FIRST_SEQUENCE_AT + 4;
const LEADER_EPOCH_AT: usize = BODY_CRC_AT + 4;
const APPEND_TIME_AT: usize = LEADER_EPOCH_AT + 4;
const FLUSHED_DISTANCE_AT: usize = APPEND_TIME_AT + 8;
const FRAME_CRC_AT: usize = FLUSHED_DISTANCE_AT + 4;
const _: () = assert!(FRAME_CRC_AT + 4 == PREFIX_SIZE);

const TIMESTAMP_AT: usize = 1;
const SIZES_AT: usize = OFFSET_AT + 8;
/// The producer's fields: the timestamp, and all from the sizes to the first sequence.
const PRODUCER_FIELDS_SIZE: usize = 8 + (BODY_CRC_AT - SIZES_AT);
const SALT_SIZE: usize = 16 + 4;

/// How a record set is compressed; Kafka's codec numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not compressed.
    #[default]
    None,
    /// LZ4, frame format.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Codec {
    /// The number in the attributes.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::None => 0,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// The codec of a number, or `None` for one that is not spoken.
    #[must_use]
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The attribute bits of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(pub u16);

impl Attributes {
    const CODEC_MASK: u16 = 0b111;
    /// The payload is a record set.
    pub const RECORD_SET: u16 = 1 << 3;
    /// The frame has a key, if perhaps an empty one.
    pub const HAS_KEY: u16 = 1 << 4;
    /// The key's earlier values are void.
    pub const TOMBSTONE: u16 = 1 << 5;
    /// Not data: takes no offset.
    pub const CONTROL: u16 = 1 << 6;
    /// The broker made the body CRC, for a producer that could not.
    pub const CHECKSUM_BY_BROKER: u16 = 1 << 7;
    const KNOWN: u16 =
        Self::CODEC_MASK | Self::RECORD_SET | Self::HAS_KEY | Self::TOMBSTONE | Self::CONTROL | Self::CHECKSUM_BY_BROKER;

    /// Whether all bits of `flags` are set.
    #[must_use]
    pub const fn has(self, flags: u16) -> bool {
        self.0 & flags == flags
    }

    /// These attributes with the bits of `flags` set as well.
    #[must_use]
    pub const fn with(self, flags: u16) -> Self {
        Self(self.0 | flags)
    }

    /// These attributes with the codec's number.
    #[must_use]
    pub const fn with_codec(self, codec: Codec) -> Self {
        Self(self.0 & !Self::CODEC_MASK | codec.number())
    }

    /// The codec, or `None` for a number that is not spoken.
    #[must_use]
    pub const fn codec(self) -> Option<Codec> {
        Codec::from_number(self.0 & Self::CODEC_MASK)
    }
}

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
pub struct FrameSalt([u8; SALT_SIZE]);

impl FrameSalt {
    /// The salt of a partition.
    #[must_use]
    pub const fn new(topic: TopicId, partition: PartitionId) -> Self {
        let mut salt = [0; SALT_SIZE];
        put(&mut salt, 0, &topic.0.to_be_bytes());
        put(&mut salt, 16, &partition.0.to_be_bytes());
        Self(salt)
    }
}

/// What is wrong with a frame. All but `Truncated` are the sender's fault, or the disk's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes end within the frame.
    #[error("the frame needs {needed_bytes} bytes, {have_bytes} are there")]
    Truncated {
        /// Bytes that are needed to go on; the whole frame's once its prefix is there.
        needed_bytes: u64,
        /// Bytes that are there.
        have_bytes: u64,
    },
    /// Not a version-2 data frame.
    #[error("magic {0:#04x} is not a version-2 data frame (0x02)")]
    Magic(u8),
    /// Key and payload together are over the limit.
    #[error("key and payload have {body_bytes} bytes, the limit is {limit_bytes}")]
    TooLarge {
        /// Key and payload together.
        body_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The frame would take more offsets than the limit.
    #[error("record count {count} is over the limit of {limit}")]
    TooManyRecords {
        /// The frame's record count.
        count: u32,
        /// The limit.
        limit: u32,
    },
    /// Attribute bits that have no meaning yet.
    #[error("reserved attribute bits {0:#06x} are set")]
    ReservedAttributes(u16),
    /// A codec number that is not spoken.
    #[error("compression codec {0} is not supported; use none (0), lz4 (3) or zstd (4)")]
    UnknownCodec(u16),
    /// Fields that contradict each other.
    #[error("contradictory frame: {0}")]
    Contradiction(&'static str),
    /// The producer's checksum does not match.
    #[error("the body CRC is {expected:#010x}, the bytes give {actual:#010x}")]
    BodyCrc {
        /// As the frame says.
        expected: u32,
        /// As computed.
        actual: u32,
    },
    /// The broker's checksum does not match.
    #[error("the frame CRC is {expected:#010x}, the bytes give {actual:#010x}")]
    FrameCrc {
        /// As the frame says.
        expected: u32,
        /// As computed.
        actual: u32,
    },
}

/// Limits on what a frame may declare, checked before anything is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// Key and payload together, in bytes.
    pub max_body_bytes: u64,
    /// Offsets that one frame may take.
    pub max_record_count: u32,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self { max_body_bytes: 50 << 20, max_record_count: 1_000_000 }
    }
}

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

fn body_crc(prefix: &[u8; PREFIX_SIZE], body: [&[u8]; 2]) -> u32 {
    let mut fields = [0; PRODUCER_FIELDS_SIZE];
    put(&mut fields, 0, &take::<PREFIX_SIZE, 8>(prefix, TIMESTAMP_AT));
    put(&mut fields, 8, &take::<PREFIX_SIZE, { BODY_CRC_AT - SIZES_AT }>(prefix, SIZES_AT));
    let mut crc = Crc32c::new();
    crc.update(&fields);
    for part in body {
        crc.update(part);
    }
    crc.finish()
}

/// What a producer says in a frame; key and payload stay where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducedFrame<'a> {
    /// Nanoseconds since the Unix epoch by the producer's clock.
    pub timestamp: u64,
    /// Codec and flags; [`Attributes::HAS_KEY`] is set from `key`.
    pub attributes: Attributes,
    /// Offsets that the frame takes.
    pub record_count: u32,
    /// For idempotent producers.
    pub producer: Option<ProducerStamp>,
    /// `None` is not the same as empty.
    pub key: Option<&'a [u8]>,
    /// The message, or the record set.
    pub payload: &'a [u8],
}

impl<'a> ProducedFrame<'a> {
    /// One raw message.
    #[must_use]
    pub const fn message(timestamp: u64, key: Option<&'a [u8]>, payload: &'a [u8]) -> Self {
        Self { timestamp, attributes: Attributes(0), record_count: 1, producer: None, key, payload }
    }

    /// A tombstone: the key's earlier values are void.
    #[must_use]
    pub const fn tombstone(timestamp: u64, key: &'a [u8]) -> Self {
        Self { attributes: Attributes(Attributes::TOMBSTONE), ..Self::message(timestamp, Some(key), &[]) }
    }

    /// A record set of `record_count` records, compressed with `codec`.
    #[must_use]
    pub const fn record_set(timestamp: u64, codec: Codec, record_count: u32, payload: &'a [u8]) -> Self {
        let attributes = Attributes(Attributes::RECORD_SET).with_codec(codec);
        Self { timestamp, attributes, record_count, producer: None, key: None, payload }
    }

    /// Header and extension with the body CRC; the broker's fields are 0. Key and payload follow them.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] where key or payload does not fit its 32-bit size.
    pub fn prefix(&self) -> Result<[u8; PREFIX_SIZE], FrameError> {
        let key = self.key.unwrap_or_default();
        let too_large = || FrameError::TooLarge {
            body_bytes: (key.len() as u64).saturating_add(self.payload.len() as u64),
            limit_bytes: u64::from(u32::MAX),
        };
        let key_size = u32::try_from(key.len()).map_err(|_over_u32| too_large())?;
        let payload_size = u32::try_from(self.payload.len()).map_err(|_over_u32| too_large())?;
        let attributes = if self.key.is_some() { self.attributes.with(Attributes::HAS_KEY) } else { self.attributes };
        let none = ProducerStamp { id: ProducerId::NONE, epoch: ProducerEpoch(-1), first_sequence: Sequence(-1) };
        let producer = self.producer.unwrap_or(none);
        let prefix = FramePrefix {
            header: Header {
                magic: magic::DATA_V2,
                timestamp: self.timestamp,
                offset: 0,
                key_size,
                payload_size,
                record_count: self.record_count,
            },
            extension: Extension {
                attributes,
                producer_epoch: producer.epoch,
                producer_id: producer.id,
                first_sequence: producer.first_sequence,
                body_crc: 0,
                leader_epoch: LeaderEpoch(0),
                append_time: 0,
                flushed_distance: 0,
                frame_crc: 0,
            },
        };
        let mut bytes = prefix.encode();
        let crc = body_crc(&bytes, [key, self.payload]);
        put(&mut bytes, BODY_CRC_AT, &crc.to_be_bytes());
        Ok(bytes)
    }

    /// Appends the whole frame to `out`.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] where key or payload does not fit its 32-bit size.
    pub fn encode_into(&self, out: &mut impl Extend<u8>) -> Result<(), FrameError> {
        let prefix = self.prefix()?;
        out.extend(prefix);
        out.extend(self.key.unwrap_or_default().iter().copied());
        out.extend(self.payload.iter().copied());
        Ok(())
    }

    /// The whole frame.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] where key or payload does not fit its 32-bit size.
    pub fn to_vec(&self) -> Result<Vec<u8>, FrameError> {
        let prefix = self.prefix()?;
        let key = self.key.unwrap_or_default();
        let mut frame = Vec::with_capacity(PREFIX_SIZE.saturating_add(key.len()).saturating_add(self.payload.len()));
        frame.extend_from_slice(&prefix);
        frame.extend_from_slice(key);
        frame.extend_from_slice(self.payload);
        Ok(frame)
    }
}

/// A whole frame within a buffer.
#[derive(Clone, Copy, Debug)]
pub struct FrameView<'a> {
    /// Header and extension, decoded.
    pub prefix: FramePrefix,
    bytes: &'a [u8],
}

impl<'a> FrameView<'a> {
    /// The frame at the start of `bytes`, checked but for its checksums, and the bytes behind it.
    ///
    /// # Errors
    /// Every [`FrameError`] but the checksums'; the limits are checked before the body is asked for.
    pub fn split(bytes: &'a [u8], limits: &FrameLimits) -> Result<(Self, &'a [u8]), FrameError> {
        let have_bytes = bytes.len() as u64;
        let Some(prefix) = bytes.first_chunk::<PREFIX_SIZE>() else {
            return Err(FrameError::Truncated { needed_bytes: PREFIX_SIZE as u64, have_bytes });
        };
        let prefix = FramePrefix::decode(prefix);
        prefix.check(limits)?;
        let needed_bytes = prefix.frame_bytes();
        let split = usize::try_from(needed_bytes).ok().and_then(|size| bytes.split_at_checked(size));
        let Some((frame, rest)) = split else {
            return Err(FrameError::Truncated { needed_bytes, have_bytes });
        };
        Ok((Self { prefix, bytes: frame }, rest))
    }

    /// The frame that is exactly `bytes`, without a check of its fields: for what a frame CRC vouched for, perhaps under other limits
    /// than today's. `None` where the sizes do not fit.
    #[must_use]
    pub fn trusted(bytes: &'a [u8]) -> Option<Self> {
        let prefix = FramePrefix::decode(bytes.first_chunk()?);
        (prefix.frame_bytes() == bytes.len() as u64).then_some(Self { prefix, bytes })
    }

    /// The frame's bytes, prefix and all.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn body(&self) -> &'a [u8] {
        self.bytes.get(PREFIX_SIZE..).unwrap_or_default()
    }

    /// The key; `None` is not the same as empty.
    #[must_use]
    pub fn key(&self) -> Option<&'a [u8]> {
        if !self.prefix.has(Attributes::HAS_KEY) {
            return None;
        }
        self.body().get(..self.prefix.header.key_size as usize)
    }

    /// The message, or the record set.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        self.body().get(self.prefix.header.key_size as usize..).unwrap_or_default()
    }

    /// Checks the producer's checksum.
    ///
    /// # Errors
    /// [`FrameError::BodyCrc`].
    pub fn verify_body(&self) -> Result<(), FrameError> {
        let expected = self.prefix.extension.body_crc;
        let actual = self.bytes.first_chunk().map_or(!expected, |prefix| body_crc(prefix, [self.body(), &[]]));
        if expected == actual { Ok(()) } else { Err(FrameError::BodyCrc { expected, actual }) }
    }

    /// Checks the broker's checksum.
    ///
    /// # Errors
    /// [`FrameError::FrameCrc`].
    pub fn verify_frame(&self, salt: &FrameSalt) -> Result<(), FrameError> {
        match self.bytes.first_chunk() {
            Some(prefix) => FramePrefix::verify(prefix, salt).map(|_prefix| ()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
