//! One result for all records of a batch, and the cheap handles onto it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hermit_proto::{Offset, PartitionId};

use super::record::RecordMetadata;
use crate::error::{Error, Result};

/// How a batch fared: the offset of its first record, if it is known.
pub(super) type BatchOutcome = Result<Option<Offset>>;

#[derive(Debug)]
pub(super) struct BatchResult {
    topic: Arc<str>,
    partition: PartitionId,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Pending(Vec<Waker>),
    Done(BatchOutcome),
}

impl BatchResult {
    pub(super) fn new(topic: Arc<str>, partition: PartitionId) -> Self {
        Self { topic, partition, state: Mutex::new(State::Pending(Vec::new())) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn finish(&self, outcome: BatchOutcome) {
        let before = std::mem::replace(&mut *self.state(), State::Done(outcome));
        if let State::Pending(wakers) = before {
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// A record that was handed to the producer: a future of where it was stored. It costs no allocation of its own.
///
/// Dropping it does not call the record back. Failures that nobody waited for are reported by
/// [`Producer::flush`](crate::Producer::flush).
#[derive(Debug)]
#[must_use = "the record is on its way, but whether it arrives is only known by awaiting this, or by `flush`"]
pub struct Delivery {
    batch: Arc<BatchResult>,
    index: u32,
    timestamp: u64,
    waker: Option<usize>,
}

impl Delivery {
    pub(super) const fn new(batch: Arc<BatchResult>, index: u32, timestamp: u64) -> Self {
        Self { batch, index, timestamp, waker: None }
    }
}

impl Future for Delivery {
    type Output = Result<RecordMetadata>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let batch = this.batch.clone();
        match &mut *batch.state() {
            State::Done(outcome) => Poll::Ready(outcome.clone().map(|base| RecordMetadata {
                topic: batch.topic.clone(),
                partition: batch.partition,
                offset: base.and_then(|base: Offset| base.checked_add(this.index.into())),
                timestamp: this.timestamp,
            })),
            State::Pending(wakers) => {
                match this.waker.and_then(|at| wakers.get_mut(at)) {
                    Some(waker) => waker.clone_from(context.waker()),
                    None => {
                        this.waker = Some(wakers.len());
                        wakers.push(context.waker().clone());
                    }
                }
                Poll::Pending
            }
        }
    }
}

/// A producer that ends leaves no one waiting.
impl Drop for BatchResult {
    fn drop(&mut self) {
        self.finish(Err(Error::Closed { what: "producer" }));
    }
}
