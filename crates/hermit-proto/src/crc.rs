//! CRC-32C (Castagnoli), the one checksum of HermitMQ: polynomial 0x1EDC6F41, reflected, initial value and final
//! exclusive-or 0xFFFFFFFF — the iSCSI checksum of RFC 3720, appendix B.4.

use crc_fast::{CrcAlgorithm, Digest, checksum};

/// The CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    low_half(checksum(CrcAlgorithm::Crc32Iscsi, bytes))
}

/// A CRC-32C over bytes that do not lie in one piece.
#[derive(Debug)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// Starts with no bytes.
    #[must_use]
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of all bytes taken so far.
    #[must_use]
    pub fn finish(&self) -> u32 {
        low_half(self.0.finalize())
    }
}

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a 32-bit checksum arrives in the low half of a u64")]
const fn low_half(checksum: u64) -> u32 {
    checksum as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bit by bit, from the definition.
    fn reference(bytes: &[u8]) -> u32 {
        let mut crc = u32::MAX;
        for byte in bytes {
            crc ^= u32::from(*byte);
            for _ in 0..8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 };
            }
        }
        !crc
    }

    #[test]
    fn agrees_with_rfc_3720() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(b""), 0);
    }

    proptest! {
        #[test]
        fn agrees_with_the_reference_in_one_piece_and_in_two(bytes in prop::collection::vec(any::<u8>(), 0..2000), cut in 0usize..2000) {
            let (head, tail) = bytes.split_at(cut.min(bytes.len()));
            let mut crc = Crc32c::new();
            crc.update(head);
            crc.update(tail);
            prop_assert_eq!(crc32c(&bytes), reference(&bytes));
            prop_assert_eq!(crc.finish(), reference(&bytes));
        }
    }
}
