//! The stream of batches to one partition: what may be sent when, and what an answer means. Knows no sockets and no clock.
//!
//! Order and "exactly once" hang on three rules. Batches are sent in the order of the queue, and after anything but success nothing
//! more is sent until all that is in flight was answered or lost; then the queue is sent again from its front. A batch
//! keeps its sequences for as long as its producer id lives, so that what was stored already is recognised. A batch whose
//! outcome is *doubtful* — it was sent and its answer was lost — never gets other sequences: it fails and says so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hermit_proto::session::Status;
use hermit_proto::{CorrelationId, Offset, ProducerEpoch, ProducerId, ProducerStamp, Sequence};
use tokio::time::Instant;

use super::batch::Batch;
use super::delivery::Stored;
use super::identity::ProducerIdentity;
use crate::backoff::{Backoff, BackoffConfig};
use crate::error::Error;

/// What the producer promises of each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Promise {
    /// Sent once, not answered.
    AtMostOnce,
    /// Sent until it is answered.
    AtLeastOnce,
    /// Sent until it is answered, and recognised if it was stored before.
    Idempotent,
}

/// Names a request in flight: the session's number and the correlation id in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Token {
    pub(super) session: u64,
    pub(super) correlation: CorrelationId,
}

/// How a request fared.
#[derive(Debug)]
pub(super) enum Outcome {
    Stored {
        base: Option<Offset>,
        /// The broker had it before.
        duplicate: bool,
    },
    Refused(Error),
    Lost(Error),
}

/// A batch that left the lane.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) batch: Batch,
    pub(super) outcome: Stored,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LaneConfig {
    pub(super) promise: Promise,
    /// The broker recognises the last five batches of a producer: more must not be in doubt.
    pub(super) max_in_flight: usize,
    pub(super) delivery_timeout: Duration,
    pub(super) backoff: BackoffConfig,
    /// The identity is that of a successor.
    pub(super) resumed: bool,
}

#[derive(Debug)]
struct Entry {
    batch: Batch,
    sequence: Option<Sequence>,
    state: EntryState,
    /// It was sent, and whether it was stored is not known.
    doubtful: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryState {
    Queued,
    InFlight(Token),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Sending,
    /// Something was not stored; nothing is sent until nothing is in flight.
    Draining {
        /// Whether the sequences that follow need another producer id.
        renew: bool,
    },
    BackOff {
        until: Instant,
    },
}

#[derive(Debug)]
pub(super) struct Lane {
    config: LaneConfig,
    queue: VecDeque<Entry>,
    in_flight: usize,
    identity: Option<ProducerIdentity>,
    /// The identity that is not to be used again.
    spent: Option<ProducerIdentity>,
    next_sequence: Sequence,
    phase: Phase,
    backoff: Backoff,
    last_error: Option<Error>,
    /// Nothing is sent any more.
    halted: Option<Error>,
}

impl Lane {
    pub(super) fn new(config: LaneConfig) -> Self {
        Self {
            config,
            queue: VecDeque::new(),
            in_flight: 0,
            identity: None,
            spent: None,
            next_sequence: Sequence(0),
            phase: Phase::Sending,
            backoff: Backoff::new(config.backoff),
            last_error: None,
            halted: None,
        }
    }

    /// The identity whose sequences in this partition are used up already.
    pub(super) const fn spend(&mut self, identity: Option<ProducerIdentity>) {
        self.spent = identity;
    }

    pub(super) const fn identity(&self) -> Option<ProducerIdentity> {
        self.identity
    }

    pub(super) fn enqueue(&mut self, batch: Batch) {
        self.queue.push_back(Entry { batch, sequence: None, state: EntryState::Queued, doubtful: false });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether all that is queued is in flight, and more could be.
    pub(super) fn wants_more(&self) -> bool {
        self.halted.is_none()
            && !matches!(self.phase, Phase::Draining { .. })
            && self.queue.len() == self.in_flight
            && self.in_flight < self.config.max_in_flight
    }

    pub(super) fn batches(&self) -> impl Iterator<Item = &Batch> {
        self.queue.iter().map(|entry| &entry.batch)
    }

    /// Whether batches wait for a producer id; and the one that they must not get.
    pub(super) fn wants_identity(&self) -> bool {
        self.config.promise == Promise::Idempotent && self.identity.is_none() && !self.queue.is_empty() && self.halted.is_none()
    }

    /// Takes the identity, unless it is the one that was given up.
    pub(super) fn offer_identity(&mut self, identity: ProducerIdentity) -> bool {
        let taken = self.wants_identity() && self.spent != Some(identity);
        if taken {
            self.identity = Some(identity);
            self.next_sequence = Sequence(0);
        }
        taken
    }

    /// Notes what stands in the way, for the error that a timeout will bring.
    pub(super) fn note(&mut self, error: &Error) {
        if !self.queue.is_empty() {
            self.last_error = Some(error.clone());
        }
    }

    /// The next batch to send, with the stamp to send it under. Call [`Lane::sent`] when it is on its way.
    pub(super) fn next_to_send(&mut self, now: Instant) -> Option<(&Batch, Option<ProducerStamp>)> {
        if self.halted.is_some() {
            return None;
        }
        match self.phase {
            Phase::Draining { .. } => return None,
            Phase::BackOff { until } if now < until => return None,
            Phase::BackOff { .. } => self.phase = Phase::Sending,
            Phase::Sending => {}
        }
        if self.in_flight >= self.config.max_in_flight {
            return None;
        }
        if self.config.promise == Promise::Idempotent && self.identity.is_none() {
            return None;
        }
        let entry = self.queue.iter_mut().find(|entry| entry.state == EntryState::Queued)?;
        let stamp = self.identity.map(|identity| {
            let first_sequence = *entry.sequence.get_or_insert_with(|| {
                let first = self.next_sequence;
                self.next_sequence = first.advance(entry.batch.record_count());
                first
            });
            ProducerStamp { id: identity.id, epoch: identity.epoch, first_sequence }
        });
        Some((&entry.batch, stamp))
    }

    /// The batch that [`Lane::next_to_send`] gave is on its way.
    pub(super) fn sent(&mut self, token: Token) {
        if let Some(entry) = self.queue.iter_mut().find(|entry| entry.state == EntryState::Queued) {
            entry.state = EntryState::InFlight(token);
            self.in_flight += 1;
        }
    }

    /// The batch that [`Lane::next_to_send`] gave cannot be sent, ever.
    pub(super) fn unsendable(&mut self, error: Error, now: Instant) -> Vec<Finished> {
        let mut finished = Vec::new();
        if let Some(at) = self.queue.iter().position(|entry| entry.state == EntryState::Queued) {
            self.give_up(at, error, &mut finished);
            self.conclude(now, &mut finished);
        }
        finished
    }

    /// Takes an answer. Those for requests that are not in flight any more are passed over.
    pub(super) fn answered(&mut self, token: Token, outcome: Outcome, now: Instant) -> Vec<Finished> {
        let mut finished = Vec::new();
        let Some(at) = self.queue.iter().position(|entry| entry.state == EntryState::InFlight(token)) else {
            return finished;
        };
        self.in_flight -= 1;
        if let Some(entry) = self.queue.get_mut(at) {
            entry.state = EntryState::Queued;
        }
        match outcome {
            Outcome::Stored { duplicate: true, .. } if self.is_anothers(at) => {
                let error = self.fenced();
                self.give_up(at, error, &mut finished);
            }
            Outcome::Stored { base, .. } => {
                self.backoff.reset();
                self.last_error = None;
                self.take_out(at, Ok(base), &mut finished);
            }
            Outcome::Refused(error) => self.refused(at, error, &mut finished),
            Outcome::Lost(error) if self.config.promise == Promise::AtMostOnce => self.take_out(at, Err(error), &mut finished),
            Outcome::Lost(error) => {
                self.doubt(at);
                self.last_error = Some(error);
            }
        }
        if let Some(halt) = self.halted.clone() {
            self.give_up_queued(&halt, &mut finished);
        }
        self.conclude(now, &mut finished);
        finished
    }

    /// Whether a batch that the broker has already cannot be ours: it is the first of a successor, and was not sent before. So two have become the
    /// successor of the same producer.
    fn is_anothers(&self, at: usize) -> bool {
        let first = |entry: &Entry| !entry.doubtful && entry.sequence == Some(Sequence(0));
        self.config.resumed && self.queue.get(at).is_some_and(first)
    }

    fn fenced(&self) -> Error {
        let none = ProducerIdentity { id: ProducerId::NONE, epoch: ProducerEpoch(-1) };
        let ProducerIdentity { id, epoch } = self.identity.unwrap_or(none);
        Error::ProducerFenced { id, epoch }
    }

    /// Sends nothing any more, and gives up what is not in flight; that is still answered.
    pub(super) fn halt(&mut self, error: &Error) -> Vec<Finished> {
        let mut finished = Vec::new();
        self.halted = Some(error.clone());
        self.give_up_queued(error, &mut finished);
        finished
    }

    fn give_up_queued(&mut self, error: &Error, finished: &mut Vec<Finished>) {
        while let Some(at) = self.queue.iter().position(|entry| entry.state == EntryState::Queued) {
            self.give_up(at, error.clone(), finished);
        }
    }

    fn refused(&mut self, at: usize, error: Error, finished: &mut Vec<Finished>) {
        let status = error.status().unwrap_or(Status::Internal);
        let draining = matches!(self.phase, Phase::Draining { .. });
        let doubtful = self.queue.get(at).is_some_and(|entry| entry.doubtful);
        if status == Status::OutOfOrderSequence && self.stored_before(at, &error, finished) {
            return;
        }
        match status {
            // The gap is that of an earlier batch, which is going to be sent again before this one.
            Status::OutOfOrderSequence if draining => {}
            // The broker lost what it had: nothing with this sequence can be stored under this id any more.
            Status::OutOfOrderSequence | Status::UnknownProducer if doubtful => self.give_up(at, error, finished),
            Status::OutOfOrderSequence | Status::UnknownProducer => {
                self.last_error = Some(error);
                self.drain(true);
            }
            Status::Timeout => {
                self.doubt(at);
                self.last_error = Some(error);
                self.drain(false);
            }
            retryable if retryable.is_retryable() => {
                self.last_error = Some(error);
                self.drain(false);
            }
            Status::FencedProducer => {
                let error = self.fenced();
                self.give_up(at, error, finished);
            }
            // The append may have happened before the sync failed, or whatever else did.
            Status::ReadOnly | Status::Internal | Status::Other(_) => {
                self.doubt(at);
                self.give_up(at, error, finished);
            }
            _ => self.give_up(at, error, finished),
        }
    }

    /// A producer's sequences have no gaps: what is in doubt and lies before the one expected next was stored, even where the
    /// broker does not remember any more at which offset. Details of the refusal: sequence expected, sequence found.
    fn stored_before(&mut self, at: usize, error: &Error, finished: &mut Vec<Finished>) -> bool {
        let Error::Refused { source, .. } = error else { return false };
        let expected = source.details.first().and_then(|expected| i32::try_from(*expected).ok());
        let Some(entry) = self.queue.get_mut(at).filter(|entry| entry.doubtful) else { return false };
        let (Some(expected), Some(first)) = (expected, entry.sequence) else { return false };
        let ahead = expected.wrapping_sub(first.0).cast_unsigned() & i32::MAX.cast_unsigned();
        // The upper half of the circle lies behind.
        if ahead == 0 || ahead > i32::MAX.cast_unsigned() / 2 {
            return false;
        }
        if ahead >= entry.batch.record_count() {
            self.take_out(at, Ok(None), finished);
            return true;
        }
        let cut = entry.batch.cut_front(ahead);
        if cut {
            entry.sequence = Some(first.advance(ahead));
            self.drain(false);
        }
        cut
    }

    fn doubt(&mut self, at: usize) {
        if let Some(entry) = self.queue.get_mut(at) {
            entry.doubtful = true;
        }
    }

    fn drain(&mut self, renew: bool) {
        let before = matches!(self.phase, Phase::Draining { renew: true });
        self.phase = Phase::Draining { renew: renew || before };
    }

    /// Takes a batch out that will not be stored. Its sequences, if it had any, are a gap from now on.
    fn give_up(&mut self, at: usize, error: Error, finished: &mut Vec<Finished>) {
        let Some(entry) = self.queue.get(at) else { return };
        let (sequenced, doubtful) = (entry.sequence.is_some(), entry.doubtful);
        if sequenced {
            self.drain(true);
        }
        let error = if doubtful { Error::OutcomeUnknown { source: Arc::new(error) } } else { error };
        self.take_out(at, Err(error), finished);
    }

    fn take_out(&mut self, at: usize, outcome: Stored, finished: &mut Vec<Finished>) {
        if let Some(entry) = self.queue.remove(at) {
            finished.push(Finished { batch: entry.batch, outcome });
        }
    }

    /// Ends draining, once nothing is in flight.
    fn conclude(&mut self, now: Instant, finished: &mut Vec<Finished>) {
        let Phase::Draining { renew } = self.phase else { return };
        if self.in_flight > 0 {
            return;
        }
        if renew {
            self.spent = self.identity.take();
            let cause = self.last_error.clone().unwrap_or(Error::Closed { what: "producer" });
            while let Some(at) = self.queue.iter().position(|entry| entry.doubtful && entry.sequence.is_some()) {
                let error = Error::OutcomeUnknown { source: Arc::new(cause.clone()) };
                self.take_out(at, Err(error), finished);
            }
            for entry in &mut self.queue {
                entry.sequence = None;
            }
        }
        self.phase = Phase::BackOff { until: now + self.backoff.next() };
    }

    /// Gives up what has waited for too long. What is in flight is left to the request timeout.
    pub(super) fn expire(&mut self, now: Instant) -> Vec<Finished> {
        let mut finished = Vec::new();
        let due = |entry: &Entry| entry.state == EntryState::Queued && entry.batch.deadline() <= now;
        while let Some(at) = self.queue.iter().position(due) {
            let source = self.last_error.clone().map(Arc::new);
            self.give_up(at, Error::DeliveryTimeout { after: self.config.delivery_timeout, source }, &mut finished);
        }
        self.conclude(now, &mut finished);
        finished
    }

    /// Gives up all that is queued.
    pub(super) fn abandon(&mut self, error: &Error) -> Vec<Finished> {
        let mut finished = Vec::new();
        self.in_flight = 0;
        while !self.queue.is_empty() {
            let sent = self.queue.front().is_some_and(|entry| entry.state != EntryState::Queued);
            if sent {
                self.doubt(0);
            }
            self.give_up(0, error.clone(), &mut finished);
        }
        finished
    }

    /// When to call [`Lane::expire`] and [`Lane::next_to_send`] again, if nothing else happens.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        let queued = self.queue.iter().find(|entry| entry.state == EntryState::Queued);
        let deadline = queued.map(|entry| entry.batch.deadline());
        let backoff = match self.phase {
            Phase::BackOff { until } if queued.is_some() => Some(until),
            _ => None,
        };
        [deadline, backoff].into_iter().flatten().min()
    }
}

#[cfg(test)]
#[path = "lane_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "lane_log_tests.rs"]
mod log_tests;
