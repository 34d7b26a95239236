//! Who waits for which correlation id.

use std::collections::HashMap;
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

#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) slot: SlotId,
    /// Credit that the broker has left; below 0 after the one frame that may overshoot.
    pub(crate) credit_left: i64,
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
        let payload_bytes = i64::from(unit.header().payload_size);
        if unit.header().record_count == 0 && payload_bytes > 0 {
            // At least one frame always, one frame of overshoot: with nothing left, nothing may come.
            if subscription.credit_left <= 0 {
                return Err(ProtocolFault::CreditExceeded { subscription: correlation });
            }
            subscription.credit_left = subscription.credit_left.saturating_sub(payload_bytes);
        }
        subscription.inbox.push(Event::Delivery { slot: subscription.slot, subscription: correlation, unit })
    }

    /// Notes credit about to be granted. `false` if there is no such subscription any more.
    pub(crate) fn grant(&mut self, subscription: CorrelationId, bytes: u64) -> bool {
        match self.routes.get_mut(&subscription) {
            Some(Route::Subscription(subscription)) => {
                subscription.credit_left = subscription.credit_left.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
                true
            }
            _ => false,
        }
    }
}
