//! Which records of a partition are processed: pure bookkeeping.

use std::collections::VecDeque;

use hermit_proto::{LeaderEpoch, Offset};

/// A place in a partition: the next offset, and the leader epoch of the record before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::consumer) struct Place {
    pub(in crate::consumer) offset: Offset,
    pub(in crate::consumer) epoch: LeaderEpoch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Running,
    Done,
    /// Will not be processed here: it stays a gap.
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
struct HandedOut {
    offset: Offset,
    next: Place,
    fate: Fate,
}

/// Finds how far the records of one partition are processed without a gap, whatever the order in which they get done.
#[derive(Debug, Default)]
pub(in crate::consumer) struct OffsetTracker {
    /// In the order of the offsets, from the first that is not processed on.
    records: VecDeque<HandedOut>,
    running: usize,
    prefix: Option<Place>,
}

impl OffsetTracker {
    /// A record was handed out. Offsets only rise between two calls of [`OffsetTracker::reset`].
    pub(in crate::consumer) fn hand_out(&mut self, offset: Offset, next: Place) {
        debug_assert!(self.records.back().is_none_or(|last| last.offset < offset), "offsets rise");
        self.records.push_back(HandedOut { offset, next, fate: Fate::Running });
        self.running += 1;
    }

    /// The record was processed. What was not handed out, or is known to be done, changes nothing.
    pub(in crate::consumer) fn done(&mut self, offset: Offset) {
        self.decide(offset, Fate::Done);
        while self.records.front().is_some_and(|first| first.fate == Fate::Done) {
            self.prefix = self.records.pop_front().map(|first| first.next);
        }
    }

    /// The record was handed out, and will not be processed here.
    pub(in crate::consumer) fn abandon(&mut self, offset: Offset) {
        self.decide(offset, Fate::Abandoned);
    }

    fn decide(&mut self, offset: Offset, fate: Fate) {
        let Ok(at) = self.records.binary_search_by_key(&offset, |record| record.offset) else { return };
        if let Some(record) = self.records.get_mut(at).filter(|record| record.fate == Fate::Running) {
            record.fate = fate;
            self.running -= 1;
        }
    }

    /// Behind the last record before which all were processed; `None` if the first is not.
    pub(in crate::consumer) const fn prefix(&self) -> Option<Place> {
        self.prefix
    }

    /// Records that are handed out and neither processed nor abandoned.
    pub(in crate::consumer) const fn running(&self) -> usize {
        self.running
    }

    /// Records from the first one on that is not processed.
    pub(in crate::consumer) fn len(&self) -> usize {
        self.records.len()
    }

    /// Reading goes on elsewhere: what was handed out before concerns nobody.
    pub(in crate::consumer) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
#[path = "tracker_tests.rs"]
mod tests;
