//! The manifest's records, and their bytes.
//!
//! A record is its body's size (u32), its body, and a CRC-32C over both. A body is a kind (u8) and that kind's fields, big-endian.

use bytes::BytesMut;
use hermit_proto::session::{BodyError, BodyReader, BodyWriter, Durability};
use hermit_proto::{LeaderEpoch, ProducerId, TopicId, TopicName, crc32c};

use crate::topic::{AS_BROKER, Inherited, NEVER, TopicMeta, TopicSettings};

/// No record is larger: a topic's name has 255 bytes at most.
const MAX_BODY_BYTES: usize = 4096;
const SIZE_BYTES: usize = 4;
const CRC_BYTES: usize = 4;

/// One step in the life of the broker's metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// Always the first: which data directory this is.
    Begin { broker_id: u128 },
    /// The leader epoch from now on.
    Epoch(LeaderEpoch),
    /// Producer ids below this may have been given out.
    Producers { next: ProducerId },
    /// The topic is going to be there; its directories may be there in part.
    CreateIntent(TopicMeta),
    /// The topic is there, all of it.
    CreateDone(TopicId),
    /// The topic's settings from now on.
    Alter { id: TopicId, settings: TopicSettings },
    /// The topic is no more; its directories may still be there.
    DeleteIntent(TopicId),
    /// The topic's directories are gone.
    DeleteDone(TopicId),
    /// The topic is going to have so many partitions; the directories of the new ones may be there in part.
    GrowIntent { id: TopicId, partitions: u32 },
    /// The new partitions are there, all of them.
    GrowDone(TopicId),
    /// The new partitions are not going to be there; their directories may be there in part.
    GrowUndo(TopicId),
    /// The directories of the new partitions are gone.
    GrowUndone(TopicId),
}

mod kind {
    pub(super) const BEGIN: u8 = 1;
    pub(super) const EPOCH: u8 = 2;
    pub(super) const PRODUCERS: u8 = 3;
    pub(super) const CREATE_INTENT: u8 = 4;
    pub(super) const CREATE_DONE: u8 = 5;
    pub(super) const ALTER: u8 = 6;
    pub(super) const DELETE_INTENT: u8 = 7;
    pub(super) const DELETE_DONE: u8 = 8;
    // From format 2 on.
    pub(super) const GROW_INTENT: u8 = 9;
    pub(super) const GROW_DONE: u8 = 10;
    pub(super) const GROW_UNDO: u8 = 11;
    pub(super) const GROW_UNDONE: u8 = 12;
}

/// Why bytes are no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end within the record.
    #[error("the record is cut")]
    Cut,
    /// The size is beyond what any record has.
    #[error("a record of {0} bytes is larger than any")]
    Size(u32),
    /// The checksum does not match.
    #[error("the record's checksum is {expected:#010x}, the bytes give {actual:#010x}")]
    Checksum {
        /// As stored.
        expected: u32,
        /// As computed.
        actual: u32,
    },
    /// The checksum holds, but the body has no meaning.
    #[error("the record's body makes no sense: {0}")]
    Body(#[from] BodyError),
    /// The checksum holds, but the record does not fit what came before it.
    #[error("the record contradicts those before it: {0}")]
    Contradiction(&'static str),
}

impl Record {
    /// Appends the record's bytes.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        let mut body = BytesMut::new();
        let mut writer = BodyWriter::new(&mut body);
        self.write(&mut writer);
        // Names have 255 bytes at most, so that every field fits.
        let _fits = writer.finish();
        encode_checked(&body, out);
    }

    fn write(&self, body: &mut BodyWriter<'_>) {
        match self {
            Self::Begin { broker_id } => {
                body.u8(kind::BEGIN);
                body.u128(*broker_id);
            }
            Self::Epoch(epoch) => {
                body.u8(kind::EPOCH);
                body.u32(epoch.0);
            }
            Self::Producers { next } => {
                body.u8(kind::PRODUCERS);
                body.i64(next.0);
            }
            Self::CreateIntent(meta) => {
                body.u8(kind::CREATE_INTENT);
                write_meta(meta, body);
            }
            Self::CreateDone(id) => {
                body.u8(kind::CREATE_DONE);
                body.u128(id.0);
            }
            Self::Alter { id, settings } => {
                body.u8(kind::ALTER);
                body.u128(id.0);
                write_settings(settings, body);
            }
            Self::DeleteIntent(id) => {
                body.u8(kind::DELETE_INTENT);
                body.u128(id.0);
            }
            Self::DeleteDone(id) => {
                body.u8(kind::DELETE_DONE);
                body.u128(id.0);
            }
            Self::GrowIntent { id, partitions } => {
                body.u8(kind::GROW_INTENT);
                body.u128(id.0);
                body.u32(*partitions);
            }
            Self::GrowDone(id) => {
                body.u8(kind::GROW_DONE);
                body.u128(id.0);
            }
            Self::GrowUndo(id) => {
                body.u8(kind::GROW_UNDO);
                body.u128(id.0);
            }
            Self::GrowUndone(id) => {
                body.u8(kind::GROW_UNDONE);
                body.u128(id.0);
            }
        }
    }

    /// The record at the start of `bytes`, and its size.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, usize), RecordError> {
        let (body, size) = decode_checked(bytes)?;
        let mut body = BodyReader::new(body);
        let record = match body.u8("kind")? {
            kind::BEGIN => Self::Begin { broker_id: body.u128("broker_id")? },
            kind::EPOCH => Self::Epoch(LeaderEpoch(body.u32("epoch")?)),
            kind::PRODUCERS => Self::Producers { next: ProducerId(body.i64("next")?) },
            kind::CREATE_INTENT => Self::CreateIntent(read_meta(&mut body)?),
            kind::CREATE_DONE => Self::CreateDone(TopicId(body.u128("id")?)),
            kind::ALTER => Self::Alter { id: TopicId(body.u128("id")?), settings: read_settings(&mut body)? },
            kind::DELETE_INTENT => Self::DeleteIntent(TopicId(body.u128("id")?)),
            kind::DELETE_DONE => Self::DeleteDone(TopicId(body.u128("id")?)),
            kind::GROW_INTENT => Self::GrowIntent { id: TopicId(body.u128("id")?), partitions: body.u32("partitions")? },
            kind::GROW_DONE => Self::GrowDone(TopicId(body.u128("id")?)),
            kind::GROW_UNDO => Self::GrowUndo(TopicId(body.u128("id")?)),
            kind::GROW_UNDONE => Self::GrowUndone(TopicId(body.u128("id")?)),
            other => return Err(BodyError::BadValue { field: "kind", value: other.into(), allowed: "1 to 12" }.into()),
        };
        Ok((record, size))
    }
}

/// Appends size, body and checksum.
pub(super) fn encode_checked(body: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let size = u32::try_from(body.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(body);
    let crc = crc32c(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&crc.to_be_bytes());
}

/// The body at the start of `bytes`, and the bytes it takes with size and checksum.
pub(super) fn decode_checked(bytes: &[u8]) -> Result<(&[u8], usize), RecordError> {
    let size = u32::from_be_bytes(*bytes.first_chunk::<SIZE_BYTES>().ok_or(RecordError::Cut)?);
    let body_bytes = usize::try_from(size).ok().filter(|size| *size <= MAX_BODY_BYTES).ok_or(RecordError::Size(size))?;
    let (covered, rest) = bytes.split_at_checked(SIZE_BYTES + body_bytes).ok_or(RecordError::Cut)?;
    let expected = u32::from_be_bytes(*rest.first_chunk::<CRC_BYTES>().ok_or(RecordError::Cut)?);
    let actual = crc32c(covered);
    if expected != actual {
        return Err(RecordError::Checksum { expected, actual });
    }
    Ok((covered.get(SIZE_BYTES..).unwrap_or_default(), covered.len() + CRC_BYTES))
}

pub(super) fn write_meta(meta: &TopicMeta, body: &mut BodyWriter<'_>) {
    body.u128(meta.id.0);
    body.string("name", meta.name.as_str());
    body.u32(meta.partitions);
    body.u64(meta.created_at);
    write_settings(&meta.settings, body);
    body.u64(meta.revision);
}

pub(super) fn read_meta(body: &mut BodyReader<'_>) -> Result<TopicMeta, BodyError> {
    let id = TopicId(body.u128("id")?);
    let name = TopicName::new(body.string("name")?).map_err(|_bad| BodyError::NotUtf8 { field: "name" })?;
    let partitions = body.u32("partitions")?;
    let created_at = body.u64("created_at")?;
    let settings = read_settings(body)?;
    // Format 1 ends here.
    let revision = if body.rest().is_empty() { 0 } else { body.u64("revision")? };
    Ok(TopicMeta { id, name, partitions, created_at, settings, revision })
}

fn write_settings(settings: &TopicSettings, body: &mut BodyWriter<'_>) {
    body.flag(settings.durability == Durability::Os);
    body.flag(settings.compaction);
    let Inherited { retention_age, retention_bytes } = settings.inherited;
    // To an earlier release this is an age that nothing reaches.
    body.u64(if retention_age { AS_BROKER } else { settings.retention_age_ms });
    body.u64(if retention_bytes { AS_BROKER } else { settings.retention_bytes });
    body.u64(settings.segment_bytes);
}

fn read_settings(body: &mut BodyReader<'_>) -> Result<TopicSettings, BodyError> {
    let durability = if body.flag("durability")? { Durability::Os } else { Durability::Sync };
    let compaction = body.flag("compaction")?;
    let (age, bytes) = (body.u64("retention_age_ms")?, body.u64("retention_bytes")?);
    let inherited = Inherited { retention_age: age == AS_BROKER, retention_bytes: bytes == AS_BROKER };
    // What is inherited is not known here.
    let own = |value| if value == AS_BROKER { NEVER } else { value };
    let (retention_age_ms, retention_bytes) = (own(age), own(bytes));
    Ok(TopicSettings {
        durability,
        compaction,
        retention_age_ms,
        retention_bytes,
        segment_bytes: body.u64("segment_bytes")?,
        inherited,
    })
}
