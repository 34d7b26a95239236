//! How far a partition's log has got, and who waits for it to get further.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::task::Poll;

use hermit_log::{Bounds, LogError, LogListener};
use hermit_proto::{Offset, PartitionId, TopicName};
use parking_lot::Mutex;

use crate::error::BrokerError;
use crate::events::{Event, Events};
use crate::signal::Signal;

/// A partition's progress. The log reports to it; it wakes those whose offset was passed.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    state: Mutex<State>,
    /// Who is told of failures and damage, if anybody.
    watched: Option<Watched>,
}

#[derive(Debug)]
struct Watched {
    events: Arc<Events>,
    topic: TopicName,
    partition: PartitionId,
    /// The first offsets of ranges of which damage was told.
    damaged: Mutex<HashSet<Offset>>,
}

#[derive(Debug, Default)]
struct State {
    high_watermark: Offset,
    log_start: Offset,
    /// Why no more progress will be made.
    end: Option<End>,
    /// By signal and token, so that a waiter that goes away leaves nothing behind.
    waiters: HashMap<(u64, u64), Waiter>,
}

#[derive(Debug, Clone)]
enum End {
    Failed(LogError),
    Deleted,
}

#[derive(Debug)]
struct Waiter {
    until: Offset,
    token: u64,
    signal: Arc<Signal>,
}

impl State {
    fn reached(&self, until: Offset) -> Poll<Result<(), BrokerError>> {
        if self.high_watermark >= until {
            return Poll::Ready(Ok(()));
        }
        match &self.end {
            None => Poll::Pending,
            Some(End::Failed(error)) => Poll::Ready(Err(BrokerError::Log(error.clone()))),
            Some(End::Deleted) => Poll::Ready(Err(BrokerError::unknown_topic("any more: it was deleted"))),
        }
    }

    fn wake_all(&mut self) {
        for waiter in self.waiters.drain().map(|(_, waiter)| waiter) {
            waiter.signal.wake(waiter.token);
        }
    }
}

impl Progress {
    /// No progress yet, of a partition whose failures and damage are told to `events`.
    pub(crate) fn new(events: Option<&Arc<Events>>, topic: &TopicName, partition: PartitionId) -> Self {
        let watched =
            events.map(|events| Watched { events: Arc::clone(events), topic: topic.clone(), partition, damaged: Mutex::default() });
        Self { state: Mutex::default(), watched }
    }

    /// A range was found damaged. Told once.
    pub(crate) fn damaged(&self, from: Offset, next: Offset) {
        if let Some(watched) = &self.watched
            && watched.damaged.lock().insert(from)
        {
            let (topic, partition) = (watched.topic.clone(), watched.partition);
            watched.events.push(Event::PartitionDamaged { topic, partition, from, next });
        }
    }

    /// The end of what consumers see, exclusive.
    pub(crate) fn high_watermark(&self) -> Offset {
        self.state.lock().high_watermark
    }

    /// The oldest offset, inclusive.
    pub(crate) fn log_start(&self) -> Offset {
        self.state.lock().log_start
    }

    /// Whether the high watermark has reached `until`; an error if it never will.
    pub(crate) fn reached(&self, until: Offset) -> Poll<Result<(), BrokerError>> {
        self.state.lock().reached(until)
    }

    /// As [`Progress::reached`]; when it has not, `signal` gets `token` once that may have changed.
    pub(crate) fn wait(&self, until: Offset, signal: &Arc<Signal>, token: u64) -> Poll<Result<(), BrokerError>> {
        let mut state = self.state.lock();
        let reached = state.reached(until);
        if reached.is_pending() {
            state.waiters.insert((signal.id(), token), Waiter { until, token, signal: Arc::clone(signal) });
        }
        reached
    }

    /// Waits no longer.
    pub(crate) fn forget(&self, signal: &Signal, token: u64) {
        self.state.lock().waiters.remove(&(signal.id(), token));
    }

    /// The topic was deleted.
    pub(crate) fn delete(&self) {
        let mut state = self.state.lock();
        state.end = Some(End::Deleted);
        state.wake_all();
    }

    pub(crate) fn is_deleted(&self) -> bool {
        matches!(self.state.lock().end, Some(End::Deleted))
    }

    /// What made the log read-only, if anything did.
    pub(crate) fn failure(&self) -> Option<LogError> {
        match &self.state.lock().end {
            Some(End::Failed(error)) => Some(error.clone()),
            _ => None,
        }
    }

    /// Whether something made the log read-only.
    pub(crate) fn is_failed(&self) -> bool {
        matches!(self.state.lock().end, Some(End::Failed(_)))
    }

    /// How many wait.
    pub(crate) fn waiters(&self) -> usize {
        self.state.lock().waiters.len()
    }
}

impl LogListener for Progress {
    fn advanced(&self, bounds: Bounds) {
        let mut state = self.state.lock();
        // Two reports may overtake each other on their way here.
        state.high_watermark = state.high_watermark.max(bounds.high_watermark);
        state.log_start = state.log_start.max(bounds.log_start);
        let high_watermark = state.high_watermark;
        if !state.waiters.is_empty() {
            state.waiters.retain(|_, waiter| {
                let waits = waiter.until > high_watermark;
                if !waits {
                    waiter.signal.wake(waiter.token);
                }
                waits
            });
        }
    }

    fn failed(&self, reason: &LogError) {
        let mut state = self.state.lock();
        if state.end.is_none() {
            state.end = Some(End::Failed(reason.clone()));
            if let Some(Watched { events, topic, partition, .. }) = &self.watched {
                events.push(Event::PartitionReadOnly { topic: topic.clone(), partition: *partition, reason: reason.clone() });
            }
        }
        state.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(high_watermark: u64) -> Bounds {
        let end = Offset(high_watermark);
        Bounds { log_start: Offset(0), high_watermark: end, log_end: end, flushed_end: end }
    }

    fn taken(signal: &Signal) -> Vec<u64> {
        let mut tokens = Vec::new();
        signal.take_into(&mut tokens);
        tokens
    }

    #[test]
    fn those_whose_offset_was_passed_are_woken_and_no_others() {
        let progress = Progress::default();
        let signal = Arc::new(Signal::new());
        assert!(progress.wait(Offset(5), &signal, 1).is_pending());
        assert!(progress.wait(Offset(9), &signal, 2).is_pending());
        progress.advanced(bounds(4));
        assert_eq!(taken(&signal), []);
        progress.advanced(bounds(5));
        assert_eq!(taken(&signal), [1]);
        progress.advanced(bounds(3));
        assert_eq!(progress.high_watermark(), Offset(5));
        progress.failed(&LogError::Closed);
        assert_eq!(taken(&signal), [2]);
        assert!(matches!(progress.wait(Offset(9), &signal, 2), Poll::Ready(Err(_))));
        assert!(matches!(progress.wait(Offset(5), &signal, 2), Poll::Ready(Ok(()))));
    }

    #[test]
    fn who_goes_away_leaves_nothing_behind() {
        let progress = Progress::default();
        for _ in 0..1000 {
            let signal = Arc::new(Signal::new());
            assert!(progress.wait(Offset(1), &signal, 0).is_pending());
            progress.forget(&signal, 0);
        }
        assert_eq!(progress.waiters(), 0);
    }
}
