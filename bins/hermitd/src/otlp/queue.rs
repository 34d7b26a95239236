//! Events of the log that wait to be sent. Who logs never waits for the collector: what there is no room for is dropped, and counted.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Most events that wait, and most bytes of them.
const MAX_EVENTS: usize = 4096;
const MAX_BYTES: usize = 4 << 20;
/// Most events, and bytes, that are sent at a time.
const BATCH_EVENTS: usize = 512;
const BATCH_BYTES: usize = 1 << 20;
/// Whom an event was for has looked elsewhere by then.
pub(super) const MAX_AGE: Duration = Duration::from_secs(600);

/// An event, encoded.
#[derive(Debug)]
pub(super) struct Record {
    /// In ns since the Unix epoch.
    pub(super) at: u64,
    pub(super) json: String,
}

impl Record {
    pub(super) fn is_too_old(&self, now: u64) -> bool {
        u128::from(now.saturating_sub(self.at)) > MAX_AGE.as_nanos()
    }
}

/// A queue of bounded size.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    records: VecDeque<Record>,
    bytes: usize,
    lost: u64,
}

impl Queue {
    /// Adds an event, or drops it.
    pub(super) fn push(&self, record: Record) {
        let mut waiting = self.lock();
        if waiting.records.len() >= MAX_EVENTS || waiting.bytes + record.json.len() > MAX_BYTES {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += record.json.len();
        waiting.records.push_back(record);
        drop(waiting);
        self.filled.notify_one();
    }

    /// The oldest events, as many as are sent at a time.
    pub(super) fn take(&self, now: u64) -> Vec<Record> {
        let mut waiting = self.lock();
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_EVENTS
            && bytes < BATCH_BYTES
            && let Some(record) = waiting.records.pop_front()
        {
            waiting.bytes -= record.json.len();
            if record.is_too_old(now) {
                waiting.lost += 1;
            } else {
                bytes += record.json.len();
                batch.push(record);
            }
        }
        batch
    }

    /// Counts events that were taken and are lost.
    pub(super) fn lose(&self, count: usize) {
        self.lock().lost += count as u64;
    }

    /// How many events were lost since this was asked before.
    pub(super) fn take_lost(&self) -> u64 {
        std::mem::take(&mut self.lock().lost)
    }

    pub(super) fn len(&self) -> usize {
        self.lock().records.len()
    }

    /// Waits for an event that was added since this was waited for before.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    /// Held for a few pushes and pops, and never over an await.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(at: u64, bytes: usize) -> Record {
        Record { at, json: "x".repeat(bytes) }
    }

    #[test]
    fn what_there_is_no_room_for_is_dropped_and_counted() {
        let queue = Queue::default();
        (0..MAX_EVENTS + 3).for_each(|_| queue.push(record(1, 10)));
        assert_eq!((queue.len(), queue.take_lost(), queue.take_lost()), (MAX_EVENTS, 3, 0));
        assert_eq!((queue.take(1).len(), queue.len()), (BATCH_EVENTS, MAX_EVENTS - BATCH_EVENTS));
        let queue = Queue::default();
        (0..6).for_each(|_| queue.push(record(1, 1 << 20)));
        assert_eq!((queue.len(), queue.take_lost()), (4, 2));
        assert_eq!(queue.take(1).len(), 1);
        queue.push(record(1, 1 << 20));
        assert_eq!((queue.len(), queue.take_lost()), (4, 0));
    }

    #[test]
    fn what_is_too_old_is_not_sent() {
        let queue = Queue::default();
        let age = u64::try_from(MAX_AGE.as_nanos()).unwrap();
        [1, 5].into_iter().for_each(|at| queue.push(record(at, 1)));
        let left: Vec<_> = queue.take(age + 2).into_iter().map(|record| record.at).collect();
        assert_eq!((left, queue.take_lost()), (vec![5], 1));
    }
}
