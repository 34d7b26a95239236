//! The 29-byte header that begins every unit, on the wire and on disk (`docs/protocol.md`, "The header").

/// Bytes of a header.
pub const HEADER_SIZE: usize = 29;

const TIMESTAMP_AT: usize = MAGIC_AT + 1;
const MAGIC_AT: usize = 0;
pub(crate) const OFFSET_AT: usize = TIMESTAMP_AT + 8;
const KEY_SIZE_AT: usize = OFFSET_AT + 8;
const PAYLOAD_SIZE_AT: usize = KEY_SIZE_AT + 4;
const RECORD_COUNT_AT: usize = PAYLOAD_SIZE_AT + 4;
const _: () = assert!(RECORD_COUNT_AT + 4 == HEADER_SIZE);

/// What the first byte of a unit says about the rest.
pub mod magic {
    /// A data frame of protocol version 1: header, key, payload.
    pub const DATA_V1: u8 = 0x01;
    /// A data frame of version 2: header, 40-byte extension, key, payload. The only kind stored.
    pub const DATA_V2: u8 = 0x02;
    /// A request of a version-2 session.
    pub const REQUEST: u8 = 0x40;
    /// The answer to a request.
    pub const RESPONSE: u8 = 0x41;
    /// Frames, or an error, for a subscription.
    pub const DELIVERY: u8 = 0x42;
}

/// The header's fields; big-endian on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// See [`magic`].
    pub magic: u8,
    /// Nanoseconds since the Unix epoch by the producer's clock.
    pub timestamp: u64,
    /// Data: the offset of the first record. Session: the correlation id.
    pub offset: u64,
    /// Bytes of key.
    pub key_size: u32,
    /// Bytes of payload.
    pub payload_size: u32,
    /// Data: the offsets that the frame takes. Session: the operation, or the status.
    pub record_count: u32,
}

impl Header {
    /// The 29 bytes.
    #[must_use]
    pub const fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        put(&mut bytes, MAGIC_AT, &[self.magic]);
        put(&mut bytes, TIMESTAMP_AT, &self.timestamp.to_be_bytes());
        put(&mut bytes, OFFSET_AT, &self.offset.to_be_bytes());
        put(&mut bytes, KEY_SIZE_AT, &self.key_size.to_be_bytes());
        put(&mut bytes, PAYLOAD_SIZE_AT, &self.payload_size.to_be_bytes());
        put(&mut bytes, RECORD_COUNT_AT, &self.record_count.to_be_bytes());
        bytes
    }

    /// Reads the fields; any 29 bytes are a header, so the caller checks magic and sizes.
    #[must_use]
    pub const fn decode(bytes: &[u8; HEADER_SIZE]) -> Self {
        Self {
            magic: bytes[MAGIC_AT],
            timestamp: u64::from_be_bytes(take(bytes, TIMESTAMP_AT)),
            offset: u64::from_be_bytes(take(bytes, OFFSET_AT)),
            key_size: u32::from_be_bytes(take(bytes, KEY_SIZE_AT)),
            payload_size: u32::from_be_bytes(take(bytes, PAYLOAD_SIZE_AT)),
            record_count: u32::from_be_bytes(take(bytes, RECORD_COUNT_AT)),
        }
    }

    /// Reads the header at the start of `bytes`, or `None` if fewer than 29 are there.
    #[must_use]
    pub fn peek(bytes: &[u8]) -> Option<Self> {
        bytes.first_chunk().map(Self::decode)
    }

    /// Bytes of key and payload together; cannot overflow.
    #[must_use]
    pub const fn body_bytes(&self) -> u64 {
        self.key_size as u64 + self.payload_size as u64
    }
}

/// Writes `field` at a constant position. The bounds are constants, so that the compiler proves them.
#[inline]
#[expect(clippy::indexing_slicing, reason = "every call has constant bounds within N, checked by the tests of both layouts")]
pub(crate) const fn put<const N: usize, const M: usize>(bytes: &mut [u8; N], at: usize, field: &[u8; M]) {
    let mut i = 0;
    while i < M {
        bytes[at + i] = field[i];
        i += 1;
    }
}

/// Reads M bytes at a constant position.
#[inline]
#[expect(clippy::indexing_slicing, reason = "every call has constant bounds within N, checked by the tests of both layouts")]
pub(crate) const fn take<const N: usize, const M: usize>(bytes: &[u8; N], at: usize) -> [u8; M] {
    let mut field = [0; M];
    let mut i = 0;
    while i < M {
        field[i] = bytes[at + i];
        i += 1;
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_where_version_1_has_them() {
        let header = Header {
            magic: 1,
            timestamp: 0x1122_3344_5566_7788,
            offset: 0x99AA_BBCC_DDEE_FF00,
            key_size: 0x0102_0304,
            payload_size: 0x0506_0708,
            record_count: 0x090A_0B0C,
        };
        let expected = [
            0x01, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF, 0x00, 1, 2, 3, 4, 5, 6,
            7, 8, 9, 10, 11, 12,
        ];
        assert_eq!(header.encode(), expected);
        assert_eq!(Header::decode(&expected), header);
    }

    proptest! {
        #[test]
        fn every_29_bytes_survive_the_round_trip(bytes in any::<[u8; HEADER_SIZE]>()) {
            prop_assert_eq!(Header::decode(&bytes).encode(), bytes);
        }
    }
}
