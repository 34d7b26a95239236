//! Segments that could not be read: tried again, and given up where that lasts. Pure.

use std::collections::HashMap;
use std::time::Duration;

use hermit_proto::{Offset, PartitionId, TopicId};

/// Time from one try to the next: a controller that is being reset, or a path that is being switched, is back by then.
const RETRY_AFTER: Duration = Duration::from_secs(10 * 60);
/// Tries until what cannot be read counts as damaged.
const TRIES: u32 = 3;
/// Segments that are remembered. Where more fail, the disk as a whole does, and nothing is given up.
const MOST: usize = 1000;

/// A segment, by its base offset.
pub(super) type Segment = (TopicId, PartitionId, Offset);

/// What to do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    TryLater,
    GiveUp,
}

#[derive(Debug, Clone, Copy)]
struct Failing {
    tries: u32,
    next_at: Duration,
}

/// The segments that have failed.
#[derive(Debug, Default)]
pub(super) struct Retries(HashMap<Segment, Failing>);

impl Retries {
    /// A segment could not be read, at `now` by the monotonic clock.
    pub(super) fn failed(&mut self, segment: Segment, now: Duration) -> What {
        if self.0.len() >= MOST && !self.0.contains_key(&segment) {
            return What::TryLater;
        }
        let failing = self.0.entry(segment).or_insert(Failing { tries: 0, next_at: now });
        // The pass comes by in between: that is no other occasion.
        if failing.tries == 0 || now >= failing.next_at {
            failing.tries += 1;
            failing.next_at = now.saturating_add(RETRY_AFTER);
        }
        if failing.tries < TRIES { What::TryLater } else { What::GiveUp }
    }

    /// One whose time has come. It is not asked for again before it has failed or was forgotten, or the time from one try to the next has passed.
    pub(super) fn due(&self, now: Duration) -> Option<Segment> {
        self.0.iter().find(|(_, failing)| failing.next_at <= now).map(|(segment, _)| *segment)
    }

    /// It could be read, or is gone.
    pub(super) fn forget(&mut self, segment: &Segment) {
        self.0.remove(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(base: u64) -> Segment {
        (TopicId(1), PartitionId(0), Offset(base))
    }

    fn at(minutes: u64) -> Duration {
        Duration::from_secs(minutes * 60)
    }

    #[test]
    fn what_fails_is_tried_again_and_given_up_at_the_third_occasion() {
        let mut retries = Retries::default();
        assert_eq!(retries.failed(segment(1), at(0)), What::TryLater);
        assert_eq!((retries.due(at(9)), retries.due(at(10))), (None, Some(segment(1))));
        // However often it fails in between.
        for _ in 0..10 {
            assert_eq!(retries.failed(segment(1), at(5)), What::TryLater);
        }
        assert_eq!(retries.failed(segment(1), at(10)), What::TryLater);
        assert_eq!((retries.due(at(19)), retries.due(at(20))), (None, Some(segment(1))));
        assert_eq!(retries.failed(segment(1), at(20)), What::GiveUp);
        // More of it that cannot be read.
        assert_eq!(retries.failed(segment(1), at(20)), What::GiveUp);
        retries.forget(&segment(1));
        assert_eq!(retries.due(at(1000)), None);
        assert_eq!(retries.failed(segment(1), at(1000)), What::TryLater);
    }

    #[test]
    fn where_everything_fails_nothing_more_is_given_up() {
        let mut retries = Retries::default();
        for base in 0..MOST as u64 + 10 {
            retries.failed(segment(base), at(0));
        }
        assert_eq!(retries.0.len(), MOST);
        for minutes in [10, 20, 30, 40] {
            assert_eq!(retries.failed(segment(MOST as u64), at(minutes)), What::TryLater);
        }
    }
}
