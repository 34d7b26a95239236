//! Where the reader task leaves what came for a consumer.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use hermit_proto::{CorrelationId, Unit, magic};
use tokio::sync::Notify;

use crate::error::ProtocolFault;

/// Which of its partitions a consumer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SlotId(pub(crate) usize);

/// Credit bounds the bytes that wait; this bounds the deliveries that carry none.
const MAX_EVENTS: usize = 1 << 18;

#[derive(Debug)]
pub(crate) enum Event {
    /// The answer to a subscribe request.
    Answer {
        slot: SlotId,
        subscription: CorrelationId,
        unit: Unit,
    },
    Delivery {
        slot: SlotId,
        subscription: CorrelationId,
        unit: Unit,
    },
}

/// Filled by the reader task, emptied by the consumer; its bytes are bounded by the credit that the consumer gave.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    events: Mutex<VecDeque<Event>>,
    arrival: Notify,
}

impl Inbox {
    pub(crate) fn push(&self, event: Event) -> Result<(), ProtocolFault> {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        // News of offsets only: the newer makes the older useless.
        if events.back().is_some_and(|last| last.is_superseded_by(&event)) {
            events.pop_back();
        }
        if events.len() >= MAX_EVENTS {
            return Err(ProtocolFault::CreditExceeded { subscription: event.subscription() });
        }
        events.push_back(event);
        drop(events);
        self.wake();
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Makes [`Inbox::arrived`] return, now or next time.
    pub(crate) fn wake(&self) {
        self.arrival.notify_one();
    }

    /// Returns once something was pushed since the last return. For one waiter.
    pub(crate) async fn arrived(&self) {
        self.arrival.notified().await;
    }
}

impl Event {
    const fn subscription(&self) -> CorrelationId {
        match self {
            Self::Answer { subscription, .. } | Self::Delivery { subscription, .. } => *subscription,
        }
    }

    fn is_superseded_by(&self, newer: &Self) -> bool {
        self.is_bare_delivery() && newer.is_bare_delivery() && self.subscription() == newer.subscription()
    }

    fn is_bare_delivery(&self) -> bool {
        matches!(self, Self::Delivery { unit, .. }
            if unit.header().magic == magic::DELIVERY && unit.header().payload_size == 0 && unit.header().record_count == 0)
    }
}
