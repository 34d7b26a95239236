//! Frames of version 1: what is accepted, how one becomes a frame of version 2, and the way back.

use crate::frame::{Attributes, FrameLimits, FramePrefix, ProducedFrame};
use crate::header::{HEADER_SIZE, Header, magic};
use crate::ids::Offset;

/// A frame that is refused: the producer's fault. The broker closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum V1FrameError {
    /// Not a frame of version 1.
    #[error("magic {found:#04x} is not a version-1 data frame (0x01)")]
    Magic {
        /// The first byte.
        found: u8,
    },
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
}

/// Checks a producer's header before its body is waited for, and gives it as it counts: record count 0 is 1.
///
/// # Errors
/// [`V1FrameError`].
pub const fn accept_header(header: &Header, limits: &FrameLimits) -> Result<Header, V1FrameError> {
    if header.magic != magic::DATA_V1 {
        return Err(V1FrameError::Magic { found: header.magic });
    }
    let body_bytes = header.body_bytes();
    if body_bytes > limits.max_body_bytes {
        return Err(V1FrameError::TooLarge { body_bytes, limit_bytes: limits.max_body_bytes });
    }
    if header.record_count > limits.max_record_count {
        return Err(V1FrameError::TooManyRecords { count: header.record_count, limit: limits.max_record_count });
    }
    // "Record count 0 counts as 1."
    let record_count = if header.record_count == 0 { 1 } else { header.record_count };
    Ok(Header { record_count, ..*header })
}

/// The version-2 frame for an accepted one of version 1. The broker makes the body CRC, and the frame says so.
///
/// Version 1 cannot tell an empty key from none: key size 0 is none.
#[must_use]
pub fn opaque_frame<'a>(accepted: &Header, key: &'a [u8], payload: &'a [u8]) -> ProducedFrame<'a> {
    ProducedFrame {
        timestamp: accepted.timestamp,
        attributes: Attributes(Attributes::CHECKSUM_BY_BROKER),
        record_count: accepted.record_count,
        producer: None,
        key: (!key.is_empty()).then_some(key),
        payload,
    }
}

/// What a version-1 consumer gets before key and payload of a stored frame that is no record set: the same header
/// with the other magic. `None` for a control frame, which version 1 never sees, and a record set, which is unfolded.
#[must_use]
pub const fn consumer_header(prefix: &FramePrefix) -> Option<[u8; HEADER_SIZE]> {
    if prefix.has(Attributes::CONTROL) || prefix.has(Attributes::RECORD_SET) {
        return None;
    }
    Some(Header { magic: magic::DATA_V1, ..prefix.header }.encode())
}

/// What a version-1 consumer gets before key and value of one record of a set. `None` if a size does not fit.
#[must_use]
pub fn record_header(timestamp: u64, offset: Offset, key_bytes: usize, value_bytes: usize) -> Option<[u8; HEADER_SIZE]> {
    let header = Header {
        magic: magic::DATA_V1,
        timestamp,
        offset: offset.0,
        key_size: u32::try_from(key_bytes).ok()?,
        payload_size: u32::try_from(value_bytes).ok()?,
        record_count: 1,
    };
    Some(header.encode())
}
