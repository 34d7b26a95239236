//! Where the extension's fields are, and the producer's checksum over them.

use crate::crc::Crc32c;
use crate::header::{HEADER_SIZE, OFFSET_AT, put, take};

/// Bytes of the extension.
pub const EXTENSION_SIZE: usize = 40;
/// Bytes before the key: header and extension.
pub const PREFIX_SIZE: usize = HEADER_SIZE + EXTENSION_SIZE;

pub(super) const ATTRIBUTES_AT: usize = HEADER_SIZE;
pub(super) const PRODUCER_EPOCH_AT: usize = ATTRIBUTES_AT + 2;
pub(super) const PRODUCER_ID_AT: usize = PRODUCER_EPOCH_AT + 2;
pub(super) const FIRST_SEQUENCE_AT: usize = PRODUCER_ID_AT + 8;
pub(super) const BODY_CRC_AT: usize = FIRST_SEQUENCE_AT + 4;
pub(super) const LEADER_EPOCH_AT: usize = BODY_CRC_AT + 4;
pub(super) const APPEND_TIME_AT: usize = LEADER_EPOCH_AT + 4;
pub(super) const FLUSHED_DISTANCE_AT: usize = APPEND_TIME_AT + 8;
pub(super) const FRAME_CRC_AT: usize = FLUSHED_DISTANCE_AT + 4;
const _: () = assert!(FRAME_CRC_AT + 4 == PREFIX_SIZE);

pub(super) const TIMESTAMP_AT: usize = 1;
pub(super) const SIZES_AT: usize = OFFSET_AT + 8;
/// The producer's fields: the timestamp, and all from the sizes to the first sequence.
pub(super) const PRODUCER_FIELDS_SIZE: usize = 8 + (BODY_CRC_AT - SIZES_AT);

/// Over all that the producer made: timestamp, sizes, count, attributes, its own fields, and the body, in whatever pieces.
pub(super) fn body_crc(prefix: &[u8; PREFIX_SIZE], body: [&[u8]; 2]) -> u32 {
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
