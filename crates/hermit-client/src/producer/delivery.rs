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
struct BatchResult {
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
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first outcome stays.
    fn finish(&self, outcome: BatchOutcome) {
        let mut state = self.state();
        if let State::Pending(wakers) = &mut *state {
            let wakers = std::mem::take(wakers);
            *state = State::Done(outcome);
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }
    }
}

/// The duty to tell how a batch fared. A batch that is dropped without a word counts as closed, so that no one waits for ever.
#[derive(Debug)]
pub(super) struct Completer(Arc<BatchResult>);

impl Completer {
    pub(super) fn new(topic: Arc<str>, partition: PartitionId) -> Self {
        Self(Arc::new(BatchResult { topic, partition, state: Mutex::new(State::Pending(Vec::new())) }))
    }

    pub(super) fn finish(self, outcome: BatchOutcome) {
        self.0.finish(outcome);
    }

    /// A handle for the record with this index.
    pub(super) fn delivery(&self, index: u32, timestamp: u64) -> Delivery {
        Delivery { batch: self.0.clone(), index, timestamp, waker: None }
    }
}

impl Drop for Completer {
    fn drop(&mut self) {
        self.0.finish(Err(Error::Closed { what: "producer" }));
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
