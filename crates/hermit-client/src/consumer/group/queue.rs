//! What waits to be committed: one position for each partition, the newest, in the order of the calls. Knows no sockets.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::tracker::Place;
use super::{Key, Tenure, fenced};
use crate::error::{Error, Fencing, Result};

/// Requests other than to produce have 1 MiB at most; an entry takes 44 bytes with its length.
const MAX_ENTRIES: usize = 16_384;

#[derive(Debug)]
pub(super) struct Pending {
    pub(super) topic: Arc<str>,
    pub(super) place: Place,
    pub(super) tenure: Tenure,
    /// After this nobody waits for it any more.
    pub(super) deadline: Instant,
    tickets: Vec<u64>,
}

#[derive(Debug)]
struct Waiter {
    /// Positions of the call whose outcome is not known.
    left: usize,
    error: Option<Error>,
    tell: oneshot::Sender<Result<()>>,
}

#[derive(Debug, Default)]
pub(super) struct CommitQueue {
    pending: BTreeMap<Key, Pending>,
    sent: BTreeMap<Key, Pending>,
    waiters: HashMap<u64, Waiter>,
    next_ticket: u64,
}

impl CommitQueue {
    /// Someone who waits for `count` positions that are pushed with this ticket.
    pub(super) fn ticket(&mut self, count: usize) -> (u64, oneshot::Receiver<Result<()>>) {
        let (tell, told) = oneshot::channel();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        if count == 0 {
            // The receiver is at hand.
            drop(tell.send(Ok(())));
        } else {
            self.waiters.insert(ticket, Waiter { left: count, error: None, tell });
        }
        (ticket, told)
    }

    /// Takes the place of what waits for the same partition; who waited for that waits for this.
    pub(super) fn push(
        &mut self,
        key: Key,
        topic: &Arc<str>,
        place: Place,
        tenure: Tenure,
        deadline: Instant,
        ticket: Option<u64>,
    ) {
        let mut tickets = Vec::new();
        match self.pending.remove(&key) {
            Some(before) if before.tenure == tenure => tickets = before.tickets,
            Some(before) => self.settle_moved(key, before),
            None => {}
        }
        tickets.extend(ticket);
        self.pending.insert(key, Pending { topic: topic.clone(), place, tenure, deadline, tickets });
    }

    /// Puts back what was sent and has to be sent again, unless something newer waits already.
    pub(super) fn put_back(&mut self, key: Key, mut again: Pending) {
        match self.pending.get_mut(&key) {
            Some(newer) if newer.tenure == again.tenure => newer.tickets.append(&mut again.tickets),
            Some(_) => self.settle_moved(key, again),
            None => {
                self.pending.insert(key, again);
            }
        }
    }

    /// Decides about everything that waits.
    pub(super) fn sort(&mut self, mut decide: impl FnMut(Key, &Pending) -> Verdict) {
        for key in self.pending.keys().copied().collect::<Vec<_>>() {
            let Some(pending) = self.pending.get(&key) else { continue };
            match decide(key, pending) {
                Verdict::Send if self.sent.len() < MAX_ENTRIES => {
                    if let Some(pending) = self.pending.remove(&key) {
                        self.sent.insert(key, pending);
                    }
                }
                Verdict::Send | Verdict::Wait => {}
                Verdict::Fail(error) => {
                    if let Some(pending) = self.pending.remove(&key) {
                        self.settle(pending, &Err(error));
                    }
                }
            }
        }
    }

    pub(super) const fn sent(&self) -> &BTreeMap<Key, Pending> {
        &self.sent
    }

    pub(super) fn take_sent(&mut self) -> BTreeMap<Key, Pending> {
        std::mem::take(&mut self.sent)
    }

    /// Tells who waited for it. Whether anybody did.
    pub(super) fn settle(&mut self, pending: Pending, outcome: &Result<()>) -> bool {
        let awaited = !pending.tickets.is_empty();
        for ticket in pending.tickets {
            let Some(waiter) = self.waiters.get_mut(&ticket) else { continue };
            waiter.left -= 1;
            if let Err(error) = outcome {
                waiter.error.get_or_insert_with(|| error.clone());
            }
            if waiter.left == 0
                && let Some(waiter) = self.waiters.remove(&ticket)
            {
                // Nobody has to wait.
                drop(waiter.tell.send(waiter.error.map_or(Ok(()), Err)));
            }
        }
        awaited
    }

    fn settle_moved(&mut self, key: Key, pending: Pending) {
        let error = fenced(&pending.topic, key, Fencing::Moved);
        self.settle(pending, &Err(error));
    }

    /// Nothing is sent any more.
    pub(super) fn fail_all(&mut self, error: &Error) {
        let waiting = std::mem::take(&mut self.pending).into_values().chain(std::mem::take(&mut self.sent).into_values());
        for pending in waiting.collect::<Vec<_>>() {
            self.settle(pending, &Err(error.clone()));
        }
    }

    pub(super) fn has(&self, key: Key) -> bool {
        self.pending.contains_key(&key) || self.sent.contains_key(&key)
    }

    /// The newest place under way for the partition.
    pub(super) fn newest(&self, key: Key) -> Option<Place> {
        self.pending.get(&key).or_else(|| self.sent.get(&key)).map(|pending| pending.place)
    }

    /// Whether what is under way for the partition makes it needless to commit `place` by itself: who committed something later waits for that.
    pub(super) fn covers(&self, key: Key, place: Place) -> bool {
        self.newest(key).is_some_and(|newest| newest.offset >= place.offset)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.sent.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.pending.values().map(|pending| pending.deadline).min()
    }
}

/// What becomes of a position that waits.
#[derive(Debug)]
pub(super) enum Verdict {
    Send,
    Wait,
    Fail(Error),
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
