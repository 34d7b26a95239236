//! Where callers leave records: one slot for each partition, with the batch that is being gathered.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermit_proto::record_set::RecordSetError;
use hermit_proto::session::{ProduceTarget, SessionLimits};
use hermit_proto::{Codec, PREFIX_SIZE, PartitionId, TopicId, partition_for_key};
use tokio::time::Instant;

use super::batch::{Batch, OpenBatch};
use super::config::Keyless;
use super::delivery::{Completer, Delivery};
use super::record::ProducerRecord;
use crate::error::{Error, RecordFault, Result};

/// How records are gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatherConfig {
    pub(super) codec: Codec,
    pub(super) batch_bytes: usize,
    pub(super) linger: Duration,
    pub(super) delivery_timeout: Duration,
    pub(super) keyless: Keyless,
    pub(super) limits: SessionLimits,
}

/// A topic's slots.
#[derive(Debug)]
pub(super) struct TopicSlots {
    pub(super) name: Arc<str>,
    pub(super) compacted: bool,
    pub(super) slots: Vec<Arc<Slot>>,
    shared: Arc<TopicState>,
    config: GatherConfig,
}

/// What the slots of a topic share.
#[derive(Debug, Default)]
struct TopicState {
    /// The partition that keyless records go to; counts on without end.
    turn: AtomicU32,
    /// The broker does not know the topic by this id: it has to be looked up again.
    gone: AtomicBool,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) topic: TopicId,
    pub(super) name: Arc<str>,
    pub(super) partition: PartitionId,
    pub(super) number: usize,
    shared: Arc<TopicState>,
    config: GatherConfig,
    state: Mutex<SlotState>,
}

#[derive(Debug, Default)]
struct SlotState {
    open: Option<OpenBatch>,
    /// Full, and older than the open one.
    sealed: VecDeque<Batch>,
    /// The driver knows that something is here.
    announced: bool,
    /// The producer ends.
    closed: bool,
}

/// Why a record was not taken.
#[derive(Debug)]
pub(super) enum NotTaken {
    /// The producer ends.
    Closed,
    /// The topic has to be looked up again.
    TopicGone,
    Invalid(Error),
}

/// What the caller of [`Slot::append`] has to do.
#[derive(Debug)]
pub(super) struct Appended {
    pub(super) delivery: Delivery,
    /// The driver has to be told.
    pub(super) announce: bool,
}

/// What is behind the batches that [`Slot::take`] gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// An open batch that was begun then.
    Open(Instant),
}

impl TopicSlots {
    /// `first_number` and those after it name the slots.
    pub(super) fn new(
        name: Arc<str>,
        topic: TopicId,
        compacted: bool,
        partitions: u32,
        first_number: usize,
        config: GatherConfig,
    ) -> Self {
        let shared = Arc::new(TopicState::default());
        let slot = |number: u32| {
            Arc::new(Slot {
                topic,
                name: name.clone(),
                partition: PartitionId(number),
                number: first_number.saturating_add(number as usize),
                shared: shared.clone(),
                config,
                state: Mutex::default(),
            })
        };
        let slots = (0..partitions).map(slot).collect();
        Self { name, compacted, slots, shared, config }
    }

    /// Whether the topic has to be looked up again.
    pub(super) fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Acquire)
    }

    /// The slot that the record belongs to.
    pub(super) fn choose(&self, record: &ProducerRecord<'_>) -> Result<&Arc<Slot>> {
        let count = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let partition = match (record.partition, record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_for_key(key, count),
            (None, None) => {
                let turn = match self.config.keyless {
                    Keyless::Sticky => self.shared.turn.load(Ordering::Relaxed),
                    Keyless::RoundRobin => self.shared.turn.fetch_add(1, Ordering::Relaxed),
                };
                PartitionId(turn.checked_rem(count).unwrap_or(0))
            }
        };
        let unknown = || Error::UnknownPartition { topic: self.name.clone(), partition, count };
        self.slots.get(partition.0 as usize).ok_or_else(unknown)
    }

    /// Refuses what the broker would refuse, before it takes part in a batch; gives the bytes it will take at most.
    pub(super) fn check(&self, record: &ProducerRecord<'_>) -> Result<usize> {
        let invalid = |source| Err(Error::InvalidRecord { topic: self.name.clone(), source });
        if self.compacted && record.key.is_none() {
            return invalid(RecordFault::KeyRequired);
        }
        if self.compacted && !record.headers.is_empty() {
            return invalid(RecordFault::HeadersNotAllowed);
        }
        let size_bytes = record_bytes(record);
        let limits = &self.config.limits;
        let request_overhead = PREFIX_SIZE.saturating_add(ProduceTarget::KEY_SIZE) as u64;
        let limit_bytes =
            u64::from(limits.max_frame_bytes).min(u64::from(limits.max_request_bytes).saturating_sub(request_overhead));
        if size_bytes as u64 > limit_bytes {
            return invalid(RecordFault::TooLarge { size_bytes: size_bytes as u64, limit_bytes });
        }
        Ok(size_bytes)
    }
}

/// Bytes of a record within a set, at most: five lengths of at most five bytes, a time of at most ten, one of attributes, and two
/// lengths for each header.
fn record_bytes(record: &ProducerRecord<'_>) -> usize {
    const FIXED: usize = 36;
    record.data_bytes().saturating_add(FIXED).saturating_add(record.headers.len().saturating_mul(10))
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a record to the open batch, or to a new one. `cost_bytes` of the buffer go with it.
    pub(super) fn append(
        &self,
        record: &ProducerRecord<'_>,
        compacted: bool,
        timestamp: u64,
        cost_bytes: usize,
        now: Instant,
    ) -> Result<Appended, NotTaken> {
        let mut state = self.state();
        if state.closed {
            return Err(NotTaken::Closed);
        }
        if self.is_gone() {
            return Err(NotTaken::TopicGone);
        }
        let mut announce = !state.announced;
        let single = compacted || self.travels_alone(record);
        let fits = state.open.as_ref().is_some_and(|open| self.fits(open, record, timestamp, single && !compacted));
        if !fits {
            announce |= self.seal(&mut state);
        }
        let open = state.open.get_or_insert_with(|| {
            let result = Completer::new(self.name.clone(), self.partition);
            if single { OpenBatch::singles(now, result) } else { OpenBatch::set(timestamp, now, result) }
        });
        let invalid = |error: RecordSetError| {
            let source = RecordFault::Encoding(error.to_string().into());
            NotTaken::Invalid(Error::InvalidRecord { topic: self.name.clone(), source })
        };
        let delivery = open.append(record, timestamp, cost_bytes).map_err(invalid)?;
        if open.len_bytes() >= self.config.batch_bytes || (single && !compacted) {
            announce |= self.seal(&mut state);
        }
        state.announced = true;
        Ok(Appended { delivery, announce })
    }

    /// A record that fills a batch by itself travels as a frame of its own, which spares a copy.
    fn travels_alone(&self, record: &ProducerRecord<'_>) -> bool {
        self.config.codec == Codec::None
            && record.headers.is_empty()
            && record.value.is_some()
            && record.data_bytes() >= self.config.batch_bytes
    }

    fn fits(&self, open: &OpenBatch, record: &ProducerRecord<'_>, timestamp: u64, alone: bool) -> bool {
        let bytes = open.len_bytes().saturating_add(open.added_bytes(record, timestamp));
        !alone && bytes <= self.config.batch_bytes && open.record_count() < self.config.limits.max_records
    }

    fn seal(&self, state: &mut SlotState) -> bool {
        let Some(open) = state.open.take() else { return false };
        // The next keyless records go to the next partition.
        self.shared.turn.fetch_add(1, Ordering::Relaxed);
        let deadline = open.created() + self.config.delivery_timeout;
        state.sealed.push_back(open.seal(self.config.codec, deadline));
        true
    }

    /// Takes the full batches, and the open one as well where `take_open` says so of the time it was begun. Where nothing is
    /// left, the next record is announced again.
    pub(super) fn take(&self, take_open: impl FnOnce(Instant) -> bool, batches: &mut Vec<Batch>) -> Left {
        let mut state = self.state();
        if state.open.as_ref().is_some_and(|open| take_open(open.created())) {
            self.seal(&mut state);
        }
        batches.extend(state.sealed.drain(..));
        match &state.open {
            Some(open) => Left::Open(open.created()),
            None => {
                state.announced = false;
                Left::Nothing
            }
        }
    }

    /// Takes no more records.
    pub(super) fn close(&self) {
        self.state().closed = true;
    }

    /// The broker does not know the topic by its id any more: none of its slots takes more records.
    pub(super) fn mark_gone(&self) {
        self.shared.gone.store(true, Ordering::Release);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Acquire)
    }

    /// Takes no more records, and fails those that nobody will send.
    pub(super) fn fail(&self, error: &Error) {
        self.close();
        let mut batches = Vec::new();
        self.take(|_begun| true, &mut batches);
        for batch in batches {
            batch.finish(Err(error.clone()));
        }
    }

    pub(super) const fn linger(&self) -> Duration {
        self.config.linger
    }
}
