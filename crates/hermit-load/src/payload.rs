//! The values of records: a head of 16 bytes that says which record it is, and a part of a pool that both ends know.
//!
//! | bytes | |
//! | --- | --- |
//! | 4 | a check word over the rest of the head and the value's size |
//! | 4 | stream: one for each connection of each run, big-endian |
//! | 8 | lane, the partition or key, in the upper 16 bits; which pool in the next; the record's sequence within the lane in the lower 47; big-endian |
//! | rest | the pool's bytes from a place that follows from lane, sequence and size |
//!
//! So nothing random is made for a record, neighbours have nothing in common that a codec could find, and whoever reads compares with the
//! pool, which costs little more than reading.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Bytes of the head, the smallest value.
pub const HEAD_BYTES: usize = 16;

/// A power of 2, larger than what a codec looks back.
const POOL_BYTES: usize = 4 << 20;
const LANE_AT: u32 = 48;
const TEXT: u64 = 1 << 47;
const SEQUENCE: u64 = TEXT - 1;
/// 2⁶⁴ by the golden ratio: what is multiplied with it is spread over all bits.
const SPREADING: u64 = 0x9E37_79B9_7F4A_7C15;

/// What values are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Contents {
    /// Noise that no codec makes smaller.
    #[default]
    Random,
    /// Words, which lz4 makes some two times smaller and zstd some four times.
    Text,
}

/// Which record it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordId {
    pub(crate) stream: u32,
    /// A partition's or key's number: within it sequences follow each other.
    pub(crate) lane: u16,
    pub(crate) sequence: u64,
}

/// Why a value is not what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mismatch {
    /// It has no head: somebody else sent it.
    Foreign,
    /// Behind the head stands something else.
    Corrupted,
}

static RANDOM_POOL: LazyLock<Vec<u8>> = LazyLock::new(random_pool);
static TEXT_POOL: LazyLock<Vec<u8>> = LazyLock::new(text_pool);

/// Makes values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payloads {
    contents: Contents,
}

impl Payloads {
    pub(crate) fn new(contents: Contents) -> Self {
        // Now rather than when it is first looked into, while time is measured.
        pool(if contents == Contents::Text { TEXT } else { 0 });
        Self { contents }
    }

    /// Appends a value of `size_bytes`, at least [`HEAD_BYTES`].
    pub(crate) fn append(&self, id: RecordId, size_bytes: usize, to: &mut Vec<u8>) {
        let kind = if self.contents == Contents::Text { TEXT } else { 0 };
        let place = u64::from(id.lane) << LANE_AT | kind | id.sequence & SEQUENCE;
        to.extend_from_slice(&check_word(id.stream, place, size_bytes).to_be_bytes());
        to.extend_from_slice(&id.stream.to_be_bytes());
        to.extend_from_slice(&place.to_be_bytes());
        body(place, size_bytes.saturating_sub(HEAD_BYTES)).for_each(|part| to.extend_from_slice(part));
    }
}

/// Which record a value is; `whole` compares what stands behind the head.
pub(crate) fn check(value: &[u8], whole: bool) -> Result<RecordId, Mismatch> {
    let (head, rest) = value.split_first_chunk::<HEAD_BYTES>().ok_or(Mismatch::Foreign)?;
    let [c0, c1, c2, c3, s0, s1, s2, s3, place @ ..] = *head;
    let (stream, place) = (u32::from_be_bytes([s0, s1, s2, s3]), u64::from_be_bytes(place));
    if check_word(stream, place, value.len()) != u32::from_be_bytes([c0, c1, c2, c3]) {
        return Err(Mismatch::Foreign);
    }
    if whole {
        let mut rest = rest;
        for part in body(place, rest.len()) {
            rest = rest.strip_prefix(part).ok_or(Mismatch::Corrupted)?;
        }
    }
    let lane = u16::try_from(place >> LANE_AT).unwrap_or_default();
    Ok(RecordId { stream, lane, sequence: place & SEQUENCE })
}

fn pool(place: u64) -> &'static [u8] {
    if place & TEXT == 0 { &RANDOM_POOL } else { &TEXT_POOL }
}

/// The parts of the pool that follow the head. Those of one lane follow each other, so that they have nothing in common before the pool is used up.
fn body(place: u64, mut size: usize) -> impl Iterator<Item = &'static [u8]> {
    let (lane, sequence) = (place >> LANE_AT, place & SEQUENCE);
    let begin = sequence.wrapping_mul(size as u64).wrapping_add(lane.wrapping_mul(SPREADING) >> 40);
    let mut at = usize::try_from(begin & (POOL_BYTES as u64 - 1)).unwrap_or_default();
    let pool = pool(place);
    std::iter::from_fn(move || {
        let length = size.min(POOL_BYTES - at);
        let part = pool.get(at..at + length)?;
        (at, size) = (0, size - length);
        (length > 0).then_some(part)
    })
}

/// Largest size of value that a load sends.
const MAX_SIZE_BYTES: usize = 1 << 30;

pub(crate) fn check_size(size_bytes: usize) -> Result<()> {
    match size_bytes {
        HEAD_BYTES..=MAX_SIZE_BYTES => Ok(()),
        _ => Err(Error::config(
            "size_bytes",
            format!("must be {HEAD_BYTES} to {MAX_SIZE_BYTES}: a record tells in {HEAD_BYTES} bytes which one it is"),
        )),
    }
}

fn check_word(stream: u32, place: u64, size_bytes: usize) -> u32 {
    let sum = place.wrapping_mul(SPREADING) ^ (u64::from(stream) << 32 | size_bytes as u64 & 0xFFFF_FFFF);
    let mixed = (sum ^ sum >> 29).wrapping_mul(SPREADING) >> 32;
    u32::try_from(mixed).unwrap_or_default()
}

/// Steele's and Vigna's SplitMix64.
fn noise() -> impl Iterator<Item = u64> {
    (1_u64..).map(|step| {
        let mut z = step.wrapping_mul(SPREADING);
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    })
}

fn random_pool() -> Vec<u8> {
    let mut pool = Vec::with_capacity(POOL_BYTES);
    noise().take(POOL_BYTES / 8).for_each(|bits| pool.extend_from_slice(&bits.to_le_bytes()));
    pool
}

fn text_pool() -> Vec<u8> {
    const WORDS: [&str; 32] = [
        "order",
        "payment",
        "customer",
        "status",
        "pending",
        "shipped",
        "delivered",
        "cancelled",
        "amount",
        "currency",
        "EUR",
        "USD",
        "address",
        "street",
        "city",
        "country",
        "product",
        "quantity",
        "price",
        "discount",
        "total",
        "created",
        "updated",
        "note",
        "true",
        "false",
        "null",
        "warehouse",
        "carrier",
        "tracking",
        "invoice",
        "returned",
    ];
    let mut pool = Vec::with_capacity(POOL_BYTES + 64);
    for bits in noise() {
        let word = WORDS.get(usize::try_from(bits & 31).unwrap_or_default()).copied().unwrap_or_default();
        pool.extend_from_slice(format!("\"{word}\":{},", (bits >> 32) % 1000).as_bytes());
        if pool.len() >= POOL_BYTES {
            break;
        }
    }
    pool.truncate(POOL_BYTES);
    pool
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(id: RecordId, size: usize) -> Vec<u8> {
        let mut value = Vec::new();
        Payloads::new(Contents::Random).append(id, size, &mut value);
        assert_eq!(value.len(), size);
        value
    }

    #[test]
    fn every_size_is_made_and_recognised() {
        for size in [16, 17, 100, 1 << 20, POOL_BYTES + 16, 3 * POOL_BYTES + 77] {
            for (lane, sequence) in [(0, 0), (u16::MAX, 1), (7, SEQUENCE)] {
                let id = RecordId { stream: 0xABCD_0001, lane, sequence };
                assert_eq!(check(&value(id, size), true), Ok(id), "{size}");
                let mut text = Vec::new();
                Payloads::new(Contents::Text).append(id, size, &mut text);
                assert_eq!(check(&text, true), Ok(id), "{size}");
            }
        }
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let id = RecordId { stream: 1 << 16, lane: 3, sequence: 12 };
        let good = value(id, 60);
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            let expected = if at < HEAD_BYTES { Mismatch::Foreign } else { Mismatch::Corrupted };
            assert_eq!(check(&bad, true), Err(expected), "byte {at}");
            assert_eq!(check(&bad, false).is_ok(), at >= HEAD_BYTES, "byte {at}");
        }
        assert_eq!(check(&good[..59], true), Err(Mismatch::Foreign), "the size is part of the check");
        assert_eq!(check(b"", true), Err(Mismatch::Foreign));
    }

    #[test]
    fn neighbours_have_nothing_in_common() {
        let distinct = |ids: Vec<RecordId>| {
            let bodies: std::collections::HashSet<_> = ids.iter().map(|id| value(*id, 32)[HEAD_BYTES..].to_vec()).collect();
            assert_eq!(bodies.len(), ids.len());
        };
        distinct((0..1000).map(|sequence| RecordId { stream: 0, lane: 0, sequence }).collect());
        // The first records of all keys.
        distinct((0..1000).map(|lane| RecordId { stream: 0, lane, sequence: 0 }).collect());
    }
}
