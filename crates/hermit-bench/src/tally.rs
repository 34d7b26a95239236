//! What was read, in numbers that show a frame that is missing, doubled, out of its place or damaged.

use anyhow::{Result, ensure};
use hermit_proto::crc32c;
use serde::{Deserialize, Serialize};

/// Counts and checksums of frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Frames.
    pub frames: u64,
    /// Records of these.
    pub records: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// The sum of their digests, in whatever order.
    pub sum: u64,
    /// The sum of their digests, each weighted by its place.
    pub ordered: u64,
}

impl Tally {
    /// Takes the frame that is the `number`th of its partition.
    #[inline]
    pub fn add(&mut self, number: u64, records: u32, payload_bytes: u64, digest: u64) {
        self.frames += 1;
        self.records += u64::from(records);
        self.payload_bytes += payload_bytes;
        self.sum = self.sum.wrapping_add(digest);
        self.ordered = self.ordered.wrapping_add(digest.wrapping_mul(number.wrapping_mul(2).wrapping_add(1)));
    }

    /// Both together.
    pub fn merge(&mut self, other: &Self) {
        self.frames += other.frames;
        self.records += other.records;
        self.payload_bytes += other.payload_bytes;
        self.sum = self.sum.wrapping_add(other.sum);
        self.ordered = self.ordered.wrapping_add(other.ordered);
    }

    /// Fails unless this is what should have been read. Where several wrote to a partition, the order among them is not known.
    ///
    /// # Errors
    ///
    /// Names the first number that differs.
    pub fn check(&self, expected: &Self, order_known: bool) -> Result<()> {
        let counts = [
            ("frames", self.frames, expected.frames),
            ("records", self.records, expected.records),
            ("payload bytes", self.payload_bytes, expected.payload_bytes),
        ];
        for (what, found, wanted) in counts {
            ensure!(found == wanted, "{found} {what} were read where {wanted} had been written");
        }
        ensure!(
            self.sum == expected.sum,
            "the payloads that were read are not those that had been written: their checksums differ"
        );
        ensure!(
            !order_known || self.ordered == expected.ordered,
            "the payloads that were read are not in the order of their writing"
        );
        Ok(())
    }
}

/// A number for a payload: of all its bytes, or of its size and both ends, which costs next to nothing.
#[inline]
#[must_use]
pub fn digest(payload: &[u8], whole: bool) -> u64 {
    if whole { whole_digest(crc32c(payload), payload.len() as u64) } else { Ends::of(payload).digest(payload.len() as u64) }
}

/// The digest of a whole payload, from its checksum.
#[must_use]
pub fn whole_digest(crc: u32, payload_bytes: u64) -> u64 {
    u64::from(crc) << 32 | payload_bytes & 0xFFFF_FFFF
}

/// The first and the last eight bytes of a payload that comes in pieces.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ends {
    first: [u8; 8],
    taken: usize,
    last: u64,
}

impl Ends {
    #[inline]
    fn of(payload: &[u8]) -> Self {
        let mut ends = Self::default();
        ends.push(payload);
        ends
    }

    /// Takes the next piece.
    #[inline]
    pub fn push(&mut self, piece: &[u8]) {
        if self.taken < 8 {
            let take = piece.len().min(8 - self.taken);
            self.first[self.taken..self.taken + take].copy_from_slice(&piece[..take]);
            self.taken += take;
        }
        match piece.last_chunk() {
            Some(last) => self.last = u64::from_be_bytes(*last),
            None => self.last = piece.iter().fold(self.last, |last, byte| last << 8 | u64::from(*byte)),
        }
    }

    /// The digest of what was taken.
    #[inline]
    #[must_use]
    pub fn digest(&self, payload_bytes: u64) -> u64 {
        u64::from_be_bytes(self.first) ^ self.last.rotate_left(29) ^ payload_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(frames: &[(u64, u32, u64)]) -> Tally {
        let mut tally = Tally::default();
        for (number, records, digest) in frames {
            tally.add(*number, *records, 10, *digest);
        }
        tally
    }

    #[test]
    fn what_is_missing_doubled_damaged_or_out_of_place_is_found() {
        let good = tally(&[(0, 1, 7), (1, 1, 8), (2, 1, 9)]);
        good.check(&good, true).unwrap();
        let found = |bad: Tally, order_known| bad.check(&good, order_known).unwrap_err().to_string();
        assert!(found(tally(&[(0, 1, 7), (1, 1, 8)]), true).contains("2 frames"));
        assert!(found(tally(&[(0, 1, 7), (1, 2, 8), (2, 1, 9)]), true).contains("4 records"));
        assert!(found(tally(&[(0, 1, 7), (1, 1, 7), (2, 1, 9)]), true).contains("checksums"));
        let swapped = tally(&[(0, 1, 8), (1, 1, 7), (2, 1, 9)]);
        assert!(found(swapped, true).contains("order"));
        swapped.check(&good, false).unwrap();
    }

    #[test]
    fn a_payload_in_pieces_has_the_digest_of_the_whole() {
        let payload: Vec<u8> = (0..=99).collect();
        for size in [0, 1, 7, 8, 9, 16, 100] {
            let whole = digest(&payload[..size], false);
            for cut in 0..=size {
                let mut ends = Ends::default();
                ends.push(&payload[..cut]);
                ends.push(&payload[cut..size]);
                assert_eq!(ends.digest(size as u64), whole, "{size} cut at {cut}");
            }
        }
        assert_ne!(digest(&payload, false), digest(&payload[1..], false));
    }
}
