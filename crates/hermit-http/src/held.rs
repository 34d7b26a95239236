//! What a request holds until its answer is written, and its work done: its place among the requests, the broker's stop, and room for a large answer.

use hermit_broker::{Broker, Loan, StopHold};
use parking_lot::Mutex;

use crate::door::Busy;

/// What a request holds until its answer is out.
#[derive(Debug)]
pub(crate) struct Held {
    /// None for who asks whether the broker lives.
    _busy: Option<Busy>,
    /// From before the login on.
    of_broker: Mutex<Option<OfBroker>>,
}

/// What a request holds of the broker that it talks to.
#[derive(Debug)]
struct OfBroker {
    /// None for what is endless.
    stop: Option<StopHold>,
    loan: Loan,
    max_loan_bytes: u64,
}

impl Held {
    pub(crate) fn new(busy: Option<Busy>) -> Self {
        Self { _busy: busy, of_broker: Mutex::default() }
    }

    /// The broker waits with a stop.
    pub(crate) fn is_of(&self, broker: &Broker) {
        let (stop, loan, max_loan_bytes) = (Some(broker.hold_stop()), broker.loan(), broker.max_loan_bytes());
        *self.of_broker.lock() = Some(OfBroker { stop, loan, max_loan_bytes });
    }

    pub(crate) fn lets_stop(&self) {
        let stop = self.of_broker.lock().as_mut().and_then(|of| of.stop.take());
        drop(stop);
    }

    /// Takes room for an answer: for one that is very large half of all there is. Answers whether there is as much.
    pub(crate) fn takes_room(&self, bytes: u64) -> bool {
        self.of_broker.lock().as_mut().is_none_or(|of| of.loan.grow(bytes.min(of.max_loan_bytes / 2)))
    }
}

/// Marks an answer that a stop of the broker need not wait for: it has no end of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless;

/// Marks an answer that is to count in the budget with so many bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Large {
    pub(crate) bytes: u64,
}
