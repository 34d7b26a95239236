//! One result for all records of a batch, and the cheap handles onto it.

use std::future::{Future, poll_fn};
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use hermit_proto::{Offset, PartitionId};

use super::record::{BatchMetadata, BatchOutcome, RecordMetadata};
use crate::error::{Error, Result};

/// How a batch fared: the offset of its first record, if it is known.
pub(super) type Stored = Result<Option<Offset>>;

/// The number of a waker, from 1: small, as there is one for each record.
type WaiterPlace = Option<NonZeroU32>;

#[derive(Debug)]
pub(super) struct BatchResult {
    pub(super) topic: Arc<str>,
    partition: PartitionId,
    /// Looked at without a lock: most deliveries are awaited when it is there.
    stored: OnceLock<Stored>,
    /// Whoever waits for it. Set under this lock, so that nobody is left behind.
    wakers: Mutex<Vec<Waker>>,
}

impl BatchResult {
    /// The first outcome stays.
    fn finish(&self, outcome: Stored) {
        if self.stored.get().is_some() {
            return;
        }
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stored.set(outcome).is_ok() {
            let waiting = std::mem::take(&mut *wakers);
            drop(wakers);
            waiting.into_iter().for_each(Waker::wake);
        }
    }

    /// `at` is the caller's place among those that wait.
    #[inline]
    fn poll(&self, at: &mut WaiterPlace, context: &Context<'_>) -> Poll<&Stored> {
        match self.stored.get() {
            Some(stored) => Poll::Ready(stored),
            None => self.wait(at, context),
        }
    }

    fn wait(&self, at: &mut WaiterPlace, context: &Context<'_>) -> Poll<&Stored> {
        let mut wakers = self.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stored) = self.stored.get() {
            return Poll::Ready(stored);
        }
        match at.and_then(|at| wakers.get_mut(at.get() as usize - 1)) {
            Some(waker) => waker.clone_from(context.waker()),
            None => {
                wakers.push(context.waker().clone());
                // Nobody has memory for more of them.
                *at = u32::try_from(wakers.len()).ok().and_then(NonZeroU32::new);
            }
        }
        Poll::Pending
    }
}

/// The duty to tell how a batch fared. A batch that is dropped without a word counts as closed, so that no one waits for ever.
#[derive(Debug)]
pub(super) struct Completer(Arc<BatchResult>);

impl Completer {
    pub(super) fn new(topic: Arc<str>, partition: PartitionId) -> Self {
        Self(Arc::new(BatchResult { topic, partition, stored: OnceLock::new(), wakers: Mutex::default() }))
    }

    pub(super) fn finish(self, outcome: Stored) {
        self.0.finish(outcome);
    }

    /// A handle for the record with this index.
    #[inline]
    pub(super) fn delivery(&self, index: u32, timestamp: u64) -> Delivery {
        Delivery { batch: Some(self.0.clone()), index, timestamp, waker: None }
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
    /// Handed on with the result.
    batch: Option<Arc<BatchResult>>,
    index: u32,
    waker: WaiterPlace,
    timestamp: u64,
}

impl Future for Delivery {
    type Output = Result<RecordMetadata>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let ended = Error::Closed { what: "delivery, whose result was taken" };
        let Some(batch) = this.batch.take() else { return Poll::Ready(Err(ended)) };
        let base = match batch.poll(&mut this.waker, context) {
            Poll::Ready(Ok(base)) => *base,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error.clone())),
            Poll::Pending => {
                this.batch = Some(batch);
                return Poll::Pending;
            }
        };
        let offset = base.and_then(|base| base.checked_add(this.index.into()));
        Poll::Ready(Ok(RecordMetadata { partition: batch.partition, offset, timestamp: this.timestamp, batch }))
    }
}

/// Records of one call that went into the same batch, one behind the other.
#[derive(Debug)]
struct Part {
    batch: Arc<BatchResult>,
    first: u32,
    records: u32,
    waker: WaiterPlace,
}

impl Part {
    fn poll(&mut self, context: &Context<'_>) -> Poll<BatchOutcome> {
        let stored = ready!(self.batch.poll(&mut self.waker, context)).clone();
        let result = stored.map(|base| {
            let first_offset = base.and_then(|base| base.checked_add(self.first.into()));
            let last_offset = first_offset.and_then(|first| first.checked_add(self.records.saturating_sub(1).into()));
            let topic = self.batch.topic.clone();
            BatchMetadata { topic, partition: self.batch.partition, records: self.records, first_offset, last_offset }
        });
        Poll::Ready(BatchOutcome { partition: Some(self.batch.partition), records: self.records, result })
    }
}

/// Many records that were handed to the producer together: a future of where they were stored, with one result for each
/// batch that they went into. Memory: about 40 bytes for each of those, none for each record.
///
/// It is ready when all of them are done. Where some were not stored the future gives the first failure; to know of
/// each, use [`BatchDelivery::outcomes`].
#[derive(Debug, Default)]
#[must_use = "the records are on their way, but whether they arrive is only known by awaiting this, or by `flush`"]
pub struct BatchDelivery {
    parts: Vec<Part>,
    outcomes: Vec<BatchOutcome>,
    refused: Vec<BatchOutcome>,
}

impl BatchDelivery {
    /// Counts a record in that its batch took.
    #[inline]
    pub(super) fn add(&mut self, completer: &Completer, index: u32) {
        match self.parts.last_mut() {
            Some(part) if Arc::ptr_eq(&part.batch, &completer.0) => part.records = part.records.saturating_add(1),
            _ => self.parts.push(Part { batch: completer.0.clone(), first: index, records: 1, waker: None }),
        }
    }

    /// Counts records in that no batch took.
    pub(super) fn refuse(&mut self, records: usize, error: Error) {
        let records = u32::try_from(records).unwrap_or(u32::MAX);
        self.refused.push(BatchOutcome { partition: None, records, result: Err(error) });
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn poll_all(&mut self, context: &Context<'_>) -> Poll<Vec<BatchOutcome>> {
        while let Some(part) = self.parts.get_mut(self.outcomes.len()) {
            self.outcomes.push(ready!(part.poll(context)));
        }
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.parts.clear();
        outcomes.append(&mut self.refused);
        Poll::Ready(outcomes)
    }

    /// Waits for all, and tells of each part how it fared. Within a partition parts and their records are in the order in which they were handed over.
    pub async fn outcomes(mut self) -> Vec<BatchOutcome> {
        poll_fn(|context| self.poll_all(context)).await
    }
}

impl Future for BatchDelivery {
    type Output = Result<Vec<BatchMetadata>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcomes = ready!(self.get_mut().poll_all(context));
        Poll::Ready(outcomes.into_iter().map(|outcome| outcome.result).collect())
    }
}
