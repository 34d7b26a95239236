//! Which record may be processed when others are: pure bookkeeping.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Items in lanes: those of one lane are given out one after the other, in the order they came; those without a lane at any time.
#[derive(Debug)]
pub(super) struct Schedule<L, T> {
    ready: VecDeque<(Option<L>, T)>,
    /// Lanes of which an item is ready or given out, with what waits behind it.
    lanes: HashMap<L, VecDeque<T>>,
    waiting: usize,
}

impl<L: Clone + Eq + Hash, T> Schedule<L, T> {
    pub(super) fn new() -> Self {
        Self { ready: VecDeque::new(), lanes: HashMap::new(), waiting: 0 }
    }

    pub(super) fn push(&mut self, lane: Option<L>, item: T) {
        if let Some(lane) = &lane {
            match self.lanes.entry(lane.clone()) {
                Entry::Occupied(mut before) => {
                    before.get_mut().push_back(item);
                    self.waiting += 1;
                    return;
                }
                Entry::Vacant(free) => {
                    free.insert(VecDeque::new());
                }
            }
        }
        self.ready.push_back((lane, item));
    }

    /// The next item that may be begun. Its lane stands still until [`Schedule::done`].
    pub(super) fn next(&mut self) -> Option<(Option<L>, T)> {
        self.ready.pop_front()
    }

    /// An item that was given out is to be given out again, before others.
    pub(super) fn resume(&mut self, lane: Option<L>, item: T) {
        self.ready.push_front((lane, item));
    }

    /// The item that was given out of this lane is done with.
    pub(super) fn done(&mut self, lane: Option<L>) {
        let Some(lane) = lane else { return };
        match self.lanes.get_mut(&lane).map(VecDeque::pop_front) {
            Some(Some(next)) => {
                self.waiting -= 1;
                self.ready.push_back((Some(lane), next));
            }
            Some(None) => {
                self.lanes.remove(&lane);
            }
            None => {}
        }
    }

    /// Takes out what is not begun, as far as `which` says so.
    pub(super) fn withdraw(&mut self, mut which: impl FnMut(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        for waiting in self.lanes.values_mut() {
            let (out, stay) = std::mem::take(waiting).into_iter().partition(|item| which(item));
            *waiting = stay;
            let out: VecDeque<T> = out;
            self.waiting -= out.len();
            taken.extend(out);
        }
        for (lane, item) in std::mem::take(&mut self.ready) {
            if which(&item) {
                taken.push(item);
                self.done(lane);
            } else {
                self.ready.push_back((lane, item));
            }
        }
        taken
    }

    /// Items that are not begun.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.waiting
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
