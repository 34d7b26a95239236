//! Whether all came, once, in order and unchanged.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::payload::{self, Mismatch, RecordId};

/// How much of each record a consumer checks, besides the SDK's checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Nothing: records are counted.
    Nothing,
    /// That they are complete and in order, by their heads.
    Order,
    /// That too, and every byte.
    #[default]
    Contents,
}

/// What a consumer found. All but `foreign` and `before` must be 0 of what a load sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Records that a load sent, as it sent them, each counted once.
    pub good: u64,
    /// Records that are missing between others of their partition or key.
    pub lost: u64,
    /// Records that came again.
    pub doubled: u64,
    /// Records that came behind a later one of their partition or key.
    pub reordered: u64,
    /// Records with other bytes than were sent.
    pub corrupted: u64,
    /// Records that no load sent.
    pub foreign: u64,
    /// Records of before the first one that came: they are older than where the consumer began, or were deleted. 0 for a consumer that
    /// read a topic from its first record; if it is not, they are lost.
    pub before: u64,
}

impl Counts {
    /// Whether nothing is wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.reordered == 0 && self.corrupted == 0
    }

    pub(crate) const fn add(&mut self, other: &Self) {
        self.good += other.good;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.reordered += other.reordered;
        self.corrupted += other.corrupted;
        self.foreign += other.foreign;
        self.before += other.before;
    }
}

/// Ranges that are missing in a lane and may still come, at most; of more it is not told apart whether they are late or doubled.
const MAX_GAPS: usize = 64;

#[derive(Debug, Default)]
struct Lane {
    /// The sequence that is expected; 0 before the first record.
    next: u64,
    gaps: Vec<std::ops::Range<u64>>,
}

/// Follows the lanes of all streams.
#[derive(Debug)]
pub(crate) struct Checker {
    check: Check,
    streams: HashMap<u32, usize>,
    lanes: Vec<Vec<Lane>>,
    /// The stream of the record before, and where its lanes are: mostly the next one's too.
    last: Option<(u32, usize)>,
    counts: Counts,
}

impl Checker {
    pub(crate) fn new(check: Check) -> Self {
        Self { check, streams: HashMap::new(), lanes: Vec::new(), last: None, counts: Counts::default() }
    }

    /// Takes a value in; gives which record it is, if it is a sound one.
    pub(crate) fn check(&mut self, value: Option<&[u8]>) -> Option<RecordId> {
        if self.check == Check::Nothing {
            self.counts.good += 1;
            return None;
        }
        match payload::check(value.unwrap_or_default(), self.check == Check::Contents) {
            Ok(id) => {
                self.follow(id);
                Some(id)
            }
            Err(Mismatch::Foreign) => {
                self.counts.foreign += 1;
                None
            }
            Err(Mismatch::Corrupted) => {
                self.counts.corrupted += 1;
                None
            }
        }
    }

    pub(crate) const fn counts(&self) -> &Counts {
        &self.counts
    }

    fn follow(&mut self, id: RecordId) {
        let stream = match self.last {
            Some((stream, at)) if stream == id.stream => at,
            _ => {
                let at = *self.streams.entry(id.stream).or_insert_with(|| {
                    self.lanes.push(Vec::new());
                    self.lanes.len() - 1
                });
                self.last = Some((id.stream, at));
                at
            }
        };
        let Some(lanes) = self.lanes.get_mut(stream) else { return };
        let number = usize::from(id.lane);
        if lanes.len() <= number {
            lanes.resize_with(number + 1, Lane::default);
        }
        let Some(lane) = lanes.get_mut(number) else { return };
        if id.sequence == lane.next {
            lane.next += 1;
            self.counts.good += 1;
        } else {
            lane.jump(id.sequence, &mut self.counts);
        }
    }
}

impl Lane {
    #[cold]
    fn jump(&mut self, sequence: u64, counts: &mut Counts) {
        if self.next == 0 {
            counts.before += sequence;
            counts.good += 1;
            self.next = sequence + 1;
        } else if sequence > self.next {
            counts.lost += sequence - self.next;
            counts.good += 1;
            if self.gaps.len() < MAX_GAPS {
                self.gaps.push(self.next..sequence);
            }
            self.next = sequence + 1;
        } else if let Some(at) = self.gaps.iter().position(|gap| gap.contains(&sequence)) {
            counts.lost -= 1;
            counts.reordered += 1;
            counts.good += 1;
            let gap = self.gaps.swap_remove(at);
            let parts = [gap.start..sequence, sequence + 1..gap.end];
            self.gaps.extend(parts.into_iter().filter(|part| !part.is_empty()));
        } else {
            counts.doubled += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::{Contents, Payloads};

    fn checked(sequences: impl IntoIterator<Item = (u16, u64)>) -> Counts {
        let payloads = Payloads::new(Contents::Random);
        let mut checker = Checker::new(Check::Contents);
        for (lane, sequence) in sequences {
            let mut value = Vec::new();
            payloads.append(RecordId { stream: 5, lane, sequence }, 20, &mut value);
            checker.check(Some(&value));
        }
        *checker.counts()
    }

    #[test]
    fn lanes_in_order_are_sound_however_they_are_mixed() {
        let counts = checked([(0, 0), (7, 0), (0, 1), (7, 1), (7, 2), (0, 2)]);
        assert_eq!(counts, Counts { good: 6, ..Counts::default() });
        assert!(counts.is_sound());
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let late = checked([(0, 0), (0, 3), (0, 1), (0, 4)]);
        assert_eq!(late, Counts { good: 4, lost: 1, reordered: 1, ..Counts::default() });
        let again = checked([(0, 0), (0, 1), (0, 1), (0, 0), (0, 2)]);
        assert_eq!(again, Counts { good: 3, doubled: 2, ..Counts::default() });
        let began_late = checked([(0, 100), (0, 101), (1, 0)]);
        assert_eq!(began_late, Counts { good: 3, before: 100, ..Counts::default() });
        assert!(!late.is_sound() && !again.is_sound() && began_late.is_sound());
    }

    #[test]
    fn foreign_and_corrupted_records_are_no_gap() {
        let payloads = Payloads::new(Contents::Random);
        let mut checker = Checker::new(Check::Contents);
        let mut value = Vec::new();
        payloads.append(RecordId { stream: 5, lane: 0, sequence: 0 }, 20, &mut value);
        checker.check(Some(&value));
        value[19] ^= 1;
        checker.check(Some(&value));
        checker.check(Some(b"somebody else's"));
        checker.check(None);
        assert_eq!(*checker.counts(), Counts { good: 1, corrupted: 1, foreign: 2, ..Counts::default() });
    }
}
