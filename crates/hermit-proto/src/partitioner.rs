//! Which partition a key belongs to: where Kafka's clients put it.

use crate::ids::PartitionId;

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// 32-bit `MurmurHash2` (Austin Appleby) with the seed that Kafka's clients use.
///
/// Lengths count modulo 2³², as the algorithm has it.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the algorithm takes the length modulo 2³²")]
pub fn murmur2(bytes: &[u8]) -> u32 {
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, tail) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        hash = hash.wrapping_mul(MULTIPLIER) ^ word.wrapping_mul(MULTIPLIER);
    }
    if !tail.is_empty() {
        for (byte, shift) in tail.iter().zip([0, 8, 16]) {
            hash ^= u32::from(*byte) << shift;
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

/// The partition of a key among `partitions`; partition 0 where there are none.
///
/// The hash's sign bit is cleared before the remainder is taken, as Kafka's clients do, which have no unsigned numbers.
///
/// ```
/// use hermit_proto::{PartitionId, partition_for_key};
///
/// assert_eq!(partition_for_key(b"foobar", 8), PartitionId(6));
/// ```
#[must_use]
pub fn partition_for_key(key: &[u8], partitions: u32) -> PartitionId {
    PartitionId((murmur2(key) & 0x7fff_ffff).checked_rem(partitions).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors of Kafka's own tests of its `murmur2`, as signed numbers.
    #[test]
    fn keys_hash_as_in_kafka() {
        let vectors: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, hash) in vectors {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn every_partition_number_is_in_range() {
        for partitions in 1..50 {
            for key in 0u32..200 {
                assert!(partition_for_key(&key.to_be_bytes(), partitions).0 < partitions);
            }
        }
        assert_eq!(partition_for_key(b"x", 0), PartitionId(0));
    }
}
