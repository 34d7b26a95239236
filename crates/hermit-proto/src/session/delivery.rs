//! Deliveries: frames, or an error, for a subscription.

use bytes::BytesMut;

use super::body::{BodyError, BodyReader, BodyWriter, EncodeError};
use super::error::WireError;
use super::message::encode_unit;
use super::status::Status;
use crate::header::{HEADER_SIZE, Header, magic, put};
use crate::ids::{CorrelationId, Offset};

/// What stands before the frames of a delivery: its key, with the subscription from the header.
///
/// The payload is version-2 data frames exactly as they lie on disk. It may be empty: the broker then tells of new
/// offsets only, for example that it went past a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryHead {
    /// End of what consumers see (exclusive).
    pub high_watermark: Offset,
    /// Oldest offset (inclusive).
    pub log_start: Offset,
    /// Where the next delivery goes on: no record below it follows.
    pub next_offset: Offset,
}

const HIGH_WATERMARK_AT: usize = 0;
const LOG_START_AT: usize = HIGH_WATERMARK_AT + 8;
const NEXT_OFFSET_AT: usize = LOG_START_AT + 8;

impl DeliveryHead {
    /// Bytes of the key.
    pub const KEY_SIZE: usize = NEXT_OFFSET_AT + 8;
    /// Bytes of header and key.
    pub const HEAD_SIZE: usize = HEADER_SIZE + Self::KEY_SIZE;

    /// Header and key; the `payload_bytes` bytes of frames follow, straight from the file.
    #[must_use]
    pub const fn encode(&self, subscription: CorrelationId, payload_bytes: u32) -> [u8; Self::HEAD_SIZE] {
        // KEY_SIZE is 24.
        const KEY_SIZE: u32 = 24;
        const { assert!(KEY_SIZE as usize == Self::KEY_SIZE) };
        let header = Header {
            magic: magic::DELIVERY,
            timestamp: 0,
            offset: subscription.0,
            key_size: KEY_SIZE,
            payload_size: payload_bytes,
            record_count: Status::Ok.code(),
        };
        let mut head = [0; Self::HEAD_SIZE];
        put(&mut head, 0, &header.encode());
        put(&mut head, HEADER_SIZE + HIGH_WATERMARK_AT, &self.high_watermark.0.to_be_bytes());
        put(&mut head, HEADER_SIZE + LOG_START_AT, &self.log_start.0.to_be_bytes());
        put(&mut head, HEADER_SIZE + NEXT_OFFSET_AT, &self.next_offset.0.to_be_bytes());
        head
    }

    /// Reads the key of a delivery with status 0.
    ///
    /// # Errors
    /// [`BodyError`] names the field at fault.
    pub fn decode(key: &[u8]) -> Result<Self, BodyError> {
        // "The key of a delivery with status 0 has 24 bytes."
        if key.len() != Self::KEY_SIZE {
            return Err(BodyError::KeySize { expected: Self::KEY_SIZE, found: key.len() });
        }
        let mut fields = BodyReader::new(key);
        Ok(Self {
            high_watermark: Offset(fields.u64("high_watermark")?),
            log_start: Offset(fields.u64("log_start")?),
            next_offset: Offset(fields.u64("next_offset")?),
        })
    }
}

/// What went wrong with a subscription: a delivery whose status is not 0. Its key is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryError {
    /// Whether the subscription ended with this; if not, deliveries go on.
    pub ended: bool,
    /// What it is. With [`Status::CorruptLog`] the details are the first damaged and the next readable offset.
    pub error: WireError,
}

impl DeliveryError {
    /// Appends the whole unit.
    ///
    /// # Errors
    /// None in this release: what does not fit is cut.
    pub fn encode(&self, subscription: CorrelationId, out: &mut BytesMut) -> Result<(), EncodeError> {
        encode_unit(out, magic::DELIVERY, subscription, self.error.status.code(), |body| self.write(body))
    }

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.flag(self.ended);
        self.error.write(body);
    }

    /// Reads the payload of a delivery whose header has another status than 0.
    ///
    /// # Errors
    /// [`BodyError`] names the field at fault.
    pub fn decode(header: &Header, payload: &[u8]) -> Result<Self, BodyError> {
        let mut body = BodyReader::new(payload);
        let ended = body.flag("ended")?;
        let error = WireError::read(Status::from_code(header.record_count), &mut body)?;
        Ok(Self { ended, error })
    }

    /// With [`Status::CorruptLog`]: the first damaged and the next readable offset.
    #[must_use]
    pub fn damaged(&self) -> Option<(Offset, Offset)> {
        match (self.error.status, self.error.details.as_slice()) {
            (Status::CorruptLog, [first, next, ..]) => Some((Offset(*first), Offset(*next))),
            _ => None,
        }
    }
}
