//! A whole unit, as the deframer cuts it out of a stream.

use bytes::BytesMut;

use crate::frame::PREFIX_SIZE;
use crate::header::{HEADER_SIZE, Header, magic};
use crate::ids::CorrelationId;

/// A whole unit: header, extension where the magic has one, key, payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub(crate) header: Header,
    pub(crate) bytes: BytesMut,
}

impl Unit {
    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The correlation id, in units of a session.
    #[must_use]
    pub const fn correlation(&self) -> CorrelationId {
        CorrelationId(self.header.offset)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.bytes.get(prefix_size(self.header.magic)..self.payload_at()).unwrap_or_default()
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        self.bytes.get(self.payload_at()..).unwrap_or_default()
    }

    /// All bytes of the unit.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes of the unit, without copying.
    #[must_use]
    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }

    /// The payload alone, without copying.
    #[must_use]
    pub fn into_payload(mut self) -> BytesMut {
        // The unit is whole, so the payload begins within it; the minimum only spares a panic path.
        let at = self.payload_at().min(self.bytes.len());
        self.bytes.split_off(at)
    }

    const fn payload_at(&self) -> usize {
        prefix_size(self.header.magic).saturating_add(self.header.key_size as usize)
    }
}

/// A whole unit, still in the buffer that it was received into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitView<'a> {
    pub(crate) header: Header,
    pub(crate) bytes: &'a [u8],
}

impl<'a> UnitView<'a> {
    /// The header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &'a [u8] {
        let at = prefix_size(self.header.magic);
        self.bytes.get(at..at.saturating_add(self.header.key_size as usize)).unwrap_or_default()
    }

    /// The payload.
    #[must_use]
    pub fn payload(&self) -> &'a [u8] {
        let at = prefix_size(self.header.magic).saturating_add(self.header.key_size as usize);
        self.bytes.get(at..).unwrap_or_default()
    }
}

/// Bytes before the key.
const fn prefix_size(magic: u8) -> usize {
    if magic == magic::DATA_V2 { PREFIX_SIZE } else { HEADER_SIZE }
}

/// Bytes of the whole unit; cannot overflow.
pub(crate) const fn unit_bytes(header: &Header) -> u64 {
    prefix_size(header.magic) as u64 + header.body_bytes()
}
