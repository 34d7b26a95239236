//! Who waits for which correlation id.

use std::collections::HashMap;
#[cfg(test)]
use std::collections::VecDeque;
use std::sync::Arc;

use hermit_proto::{CorrelationId, Unit};
use tokio::sync::{mpsc, oneshot};

use super::inbox::{Event, Inbox, SlotId};
use crate::error::{Error, ProtocolFault};

/// How a produce request fared.
#[derive(Debug)]
pub(crate) struct ProduceAnswer {
    /// The number of the session it was sent in.
    pub(crate) session: u64,
    pub(crate) correlation: CorrelationId,
    pub(crate) outcome: ProduceOutcome,
}

#[derive(Debug)]
pub(crate) enum ProduceOutcome {
    /// The broker's answer.
    Answered(Unit),
    /// It was handed to the operating system, and no answer will come.
    Written,
    /// No answer will come: the session failed.
    Lost(Error),
}

#[derive(Debug)]
pub(crate) enum Route {
    Once(oneshot::Sender<Result<Unit, Error>>),
    Produce(mpsc::UnboundedSender<ProduceAnswer>),
    /// Refusals of what asks for no other answers; all of a producer share one correlation id.
    Refusals(mpsc::UnboundedSender<ProduceAnswer>),
    Subscription(Subscription),
}

/// A subscription's credit. The broker debits it with the bytes it sends, sends while there is any left, and forgives what the last frame
/// goes beyond it. Adding to what is not used up could cross with such a frame, and then nobody would know what is left. So
/// credit is given only when it is known to be used up.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) slot: SlotId,
    /// What may be received and not handed out, but for one frame.
    pub(crate) window_bytes: u64,
    pub(crate) credit_left_bytes: u64,
    pub(crate) unread_bytes: u64,
}

impl Subscription {
    /// `false` if there was no credit.
    fn received(&mut self, bytes: u64) -> bool {
        let allowed = bytes == 0 || self.credit_left_bytes > 0;
        self.credit_left_bytes = self.credit_left_bytes.saturating_sub(bytes);
        self.unread_bytes = self.unread_bytes.saturating_add(bytes);
        allowed
    }

    /// Credit to give now, if it is due and worth a message.
    fn consumed(&mut self, bytes: u64) -> Option<u64> {
        self.unread_bytes = self.unread_bytes.saturating_sub(bytes);
        let room_bytes = self.window_bytes.saturating_sub(self.unread_bytes);
        if self.credit_left_bytes > 0 || room_bytes < (self.window_bytes / 2).max(1) {
            return None;
        }
        self.credit_left_bytes = room_bytes;
        Some(room_bytes)
    }
}

/// The routes of one session, until it fails.
#[derive(Debug)]
pub(crate) struct Routes {
    session: u64,
    routes: HashMap<CorrelationId, Route>,
    failed: Option<Error>,
}

impl Routes {
    pub(crate) fn new(session: u64) -> Self {
        Self { session, routes: HashMap::new(), failed: None }
    }

    /// Adds a route, unless the session has failed already.
    pub(crate) fn add(&mut self, correlation: CorrelationId, route: Route) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.routes.insert(correlation, route);
        Ok(())
    }

    pub(crate) fn remove(&mut self, correlation: CorrelationId) {
        self.routes.remove(&correlation);
    }

    /// Tells everyone who waits; the first error stays.
    pub(crate) fn fail(&mut self, error: &Error) -> bool {
        if self.failed.is_some() {
            return false;
        }
        self.failed = Some(error.clone());
        for (correlation, route) in self.routes.drain() {
            match route {
                // A receiver that is gone has stopped waiting.
                Route::Once(waiter) => drop(waiter.send(Err(error.clone()))),
                Route::Produce(answers) => {
                    let outcome = ProduceOutcome::Lost(error.clone());
                    drop(answers.send(ProduceAnswer { session: self.session, correlation, outcome }));
                }
                Route::Refusals(_) => {}
                Route::Subscription(subscription) => subscription.inbox.wake(),
            }
        }
        true
    }

    pub(crate) fn failure(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    /// Hands a response on. One that nobody waits for any more is dropped: its request timed out, or was a heartbeat.
    pub(crate) fn response(&mut self, unit: Unit) -> Result<(), ProtocolFault> {
        let correlation = unit.correlation();
        let session = self.session;
        if let Some(Route::Refusals(answers)) = self.routes.get(&correlation) {
            drop(answers.send(ProduceAnswer { session, correlation, outcome: ProduceOutcome::Answered(unit) }));
            return Ok(());
        }
        if let Some(Route::Subscription(subscription)) = self.routes.get(&correlation) {
            let refused = unit.header().record_count != 0;
            let pushed = subscription.inbox.push(Event::Answer { slot: subscription.slot, subscription: correlation, unit });
            if refused {
                self.routes.remove(&correlation);
            }
            return pushed;
        }
        match self.routes.remove(&correlation) {
            Some(Route::Once(waiter)) => drop(waiter.send(Ok(unit))),
            Some(Route::Produce(answers)) => {
                drop(answers.send(ProduceAnswer { session, correlation, outcome: ProduceOutcome::Answered(unit) }));
            }
            Some(Route::Subscription(_) | Route::Refusals(_)) | None => {
                tracing::debug!(%correlation, "an answer that nobody waits for");
            }
        }
        Ok(())
    }

    /// Hands a delivery on, once its size is known to be within the credit.
    pub(crate) fn delivery(&mut self, unit: Unit) -> Result<(), ProtocolFault> {
        let correlation = unit.correlation();
        let Some(Route::Subscription(subscription)) = self.routes.get_mut(&correlation) else {
            tracing::debug!(%correlation, "a delivery for a subscription that has ended");
            return Ok(());
        };
        let header = unit.header();
        // What tells of trouble costs no credit.
        let payload_bytes = if header.record_count == 0 { u64::from(header.payload_size) } else { 0 };
        if !subscription.received(payload_bytes) {
            return Err(ProtocolFault::CreditExceeded { subscription: correlation });
        }
        subscription.inbox.push(Event::Delivery { slot: subscription.slot, subscription: correlation, unit })
    }

    /// Notes what was handed out; gives the credit to grant.
    pub(crate) fn consumed(&mut self, subscription: CorrelationId, bytes: u64) -> Option<u64> {
        match self.routes.get_mut(&subscription) {
            Some(Route::Subscription(subscription)) => subscription.consumed(bytes),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(window_bytes: u64) -> Subscription {
        Subscription { inbox: Arc::default(), slot: SlotId(0), window_bytes, credit_left_bytes: window_bytes, unread_bytes: 0 }
    }

    #[test]
    fn credit_is_given_when_it_is_used_up_and_half_of_the_window_is_free() {
        let mut subscription = subscription(1000);
        assert!(subscription.received(600));
        assert_eq!(subscription.consumed(600), None, "some is left");
        // The last frame goes beyond.
        assert!(subscription.received(700));
        assert!(!subscription.received(1), "nothing is left");
        assert_eq!(subscription.consumed(200), None, "too much is unread");
        assert_eq!(subscription.consumed(101), Some(600));
        assert_eq!(subscription.consumed(0), None, "not twice");
        assert!(subscription.received(0), "news of offsets are free");
    }

    /// Whatever the sizes, what is unread stays within the window and one frame, and the stream never stands still.
    #[test]
    fn random_streams_keep_within_the_window_and_go_on() {
        let mut random = 0x9E37_79B9_7F4A_7C15u64;
        let mut below = |end: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % end
        };
        for window in [1, 2, 3, 100, 5000] {
            let (mut ours, mut broker, mut unread) = (subscription(window), window, VecDeque::new());
            let mut delivered = 0;
            for _ in 0..5000 {
                if broker > 0 && below(3) > 0 {
                    let frame = 1 + below(300);
                    broker = broker.saturating_sub(frame);
                    assert!(ours.received(frame), "the broker had credit");
                    unread.push_back(frame);
                    delivered += 1;
                } else if let Some(frame) = unread.pop_front() {
                    broker += ours.consumed(frame).unwrap_or(0);
                }
                assert!(unread.iter().sum::<u64>() <= window + 300);
                assert!(broker > 0 || !unread.is_empty(), "window {window}: it stands still");
            }
            assert!(delivered > 1000);
        }
    }
}
