//! Where callers leave records: one slot for each partition, with the batch that is being gathered.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hermit_proto::record_set::RecordSetError;
use hermit_proto::session::SessionLimits;
use hermit_proto::{Codec, PartitionId, TopicId};
use tokio::time::Instant;

use super::batch::{Batch, OpenBatch};
use super::config::Keyless;
use super::delivery::Completer;
use super::record::ProducerRecord;
use super::topic::TopicState;
use crate::error::{Error, RecordFault};

/// How records are gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatherConfig {
    pub(super) codec: Codec,
    pub(super) zstd_level: i32,
    pub(super) batch_bytes: usize,
    pub(super) linger: Duration,
    pub(super) delivery_timeout: Duration,
    pub(super) keyless: Keyless,
    pub(super) limits: SessionLimits,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) topic: TopicId,
    pub(super) name: Arc<str>,
    pub(super) partition: PartitionId,
    pub(super) number: usize,
    pub(super) shared: Arc<TopicState>,
    pub(super) config: GatherConfig,
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
    /// What the last batch took: the next one will take as much.
    room_bytes: usize,
    /// Of this the open batch has as much, from what all may have [`Ahead`].
    ahead_bytes: usize,
}

/// How much memory all open batches of a producer may have beside what their records are charged for: what they were begun with in the hope of more.
#[derive(Debug, Default)]
pub(super) struct Ahead(AtomicUsize);

impl Ahead {
    pub(super) const fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    /// Gives so many bytes, or as many as are left.
    fn take(&self, bytes: usize) -> usize {
        let less = |left: usize| Some(left.saturating_sub(bytes));
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or_default().min(bytes)
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
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

/// A record to be gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming<'r, 'a> {
    pub(super) record: &'r ProducerRecord<'a>,
    pub(super) timestamp: u64,
    /// Bytes of the buffer that go with it.
    pub(super) cost_bytes: usize,
}

/// What came of [`Slot::append`].
#[derive(Debug, Default)]
pub(super) struct Appended {
    /// Records that were taken.
    pub(super) taken: usize,
    /// When the last batch was begun, if any was.
    pub(super) begun: Option<Instant>,
    /// The driver has to be told.
    pub(super) announce: bool,
    /// Why the record behind those was not. Apart, as it is rare.
    pub(super) not_taken: Option<Box<NotTaken>>,
}

/// What is behind the batches that [`Slot::take`] gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    Nothing,
    /// An open batch that was begun then.
    Open(Instant),
}

impl Slot {
    pub(super) fn new(
        topic: TopicId,
        name: Arc<str>,
        partition: PartitionId,
        number: usize,
        shared: Arc<TopicState>,
        config: GatherConfig,
    ) -> Self {
        Self { topic, name, partition, number, shared, config, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds records to the open batch, and to new ones behind it, up to the first that cannot be taken. `taken` gets the batch of each, and its
    /// index there.
    #[inline]
    pub(super) fn append<'r, 'a: 'r>(
        &self,
        records: impl IntoIterator<Item = Incoming<'r, 'a>>,
        compacted: bool,
        mut taken: impl FnMut(&Completer, u32),
    ) -> Appended {
        let mut appended = Appended::default();
        let mut state = self.state();
        if state.closed || self.is_gone() {
            let why = if state.closed { NotTaken::Closed } else { NotTaken::TopicGone };
            appended.not_taken = Some(Box::new(why));
            return appended;
        }
        for incoming in records {
            match self.append_one(&mut state, &incoming, compacted, &mut appended) {
                Ok((completer, index)) => {
                    taken(completer, index);
                    appended.taken += 1;
                    if state.open.as_ref().is_some_and(|open| self.is_full(open, compacted)) {
                        appended.announce |= self.seal(&mut state);
                    }
                }
                Err(error) => {
                    appended.not_taken = Some(self.invalid(&mut state, &error));
                    break;
                }
            }
        }
        if state.open.is_some() || !state.sealed.is_empty() {
            appended.announce |= !state.announced;
            state.announced = true;
        }
        appended
    }

    #[cold]
    fn invalid(&self, state: &mut SlotState, error: &RecordSetError) -> Box<NotTaken> {
        // One that was begun for this record holds nothing to be sent.
        if state.open.as_ref().is_some_and(|open| open.record_count() == 0) {
            state.open = None;
            self.give_back_room(state);
        }
        let source = RecordFault::Encoding(error.to_string().into());
        Box::new(NotTaken::Invalid(Error::InvalidRecord { topic: self.name.clone(), source }))
    }

    /// Gives the batch and the record's index in it.
    #[inline]
    fn append_one<'s>(
        &self,
        state: &'s mut SlotState,
        incoming: &Incoming<'_, '_>,
        compacted: bool,
        appended: &mut Appended,
    ) -> Result<(&'s Completer, u32), RecordSetError> {
        let Incoming { record, timestamp, cost_bytes } = *incoming;
        let single = compacted || self.travels_alone(record);
        let fits =
            state.open.as_ref().is_some_and(|open| open.is_singles() == single && self.fits(open, incoming, single && !compacted));
        if !fits {
            appended.announce |= self.seal(state);
        }
        let SlotState { open, ahead_bytes, room_bytes, .. } = &mut *state;
        let open = open.get_or_insert_with(|| {
            *ahead_bytes = if single { 0 } else { self.shared.ahead.take(*room_bytes) };
            self.begin(single, timestamp, *ahead_bytes, appended)
        });
        let index = open.append(record, timestamp, cost_bytes)?;
        Ok((open.completer(), index))
    }

    /// A single frame beside sets is a batch of its own.
    #[inline]
    fn is_full(&self, open: &OpenBatch, compacted: bool) -> bool {
        open.len_bytes() >= self.config.batch_bytes || (open.is_singles() && !compacted)
    }

    #[cold]
    fn begin(&self, single: bool, timestamp: u64, room_bytes: usize, appended: &mut Appended) -> OpenBatch {
        let now = Instant::now();
        appended.begun = Some(now);
        let result = Completer::new(self.name.clone(), self.partition);
        match single {
            true => OpenBatch::singles(now, result),
            false => OpenBatch::set(timestamp, now, result).with_room(room_bytes),
        }
    }

    /// A record that fills a batch by itself travels as a frame of its own, which spares a copy.
    #[inline]
    fn travels_alone(&self, record: &ProducerRecord<'_>) -> bool {
        self.config.codec == Codec::None
            && record.headers.is_empty()
            && record.value.is_some()
            && record.data_bytes() >= self.config.batch_bytes
    }

    #[inline]
    fn fits(&self, open: &OpenBatch, incoming: &Incoming<'_, '_>, alone: bool) -> bool {
        let limit_bytes = self.config.batch_bytes;
        let (record, have_bytes) = (incoming.record, open.len_bytes());
        // The cost is what it takes at most; what it takes is only worked out where that matters.
        let fits = have_bytes.saturating_add(incoming.cost_bytes) <= limit_bytes
            || have_bytes.saturating_add(open.added_bytes(record, incoming.timestamp)) <= limit_bytes;
        !alone && fits && open.record_count() < self.config.limits.max_records
    }

    #[cold]
    fn seal(&self, state: &mut SlotState) -> bool {
        let Some(open) = state.open.take() else { return false };
        let (len_bytes, full_bytes) = (open.len_bytes(), self.config.batch_bytes);
        // To the full size where that is near: batches differ by a few bytes, and one that outgrows its memory by these is copied whole.
        state.room_bytes = if len_bytes > full_bytes / 2 { full_bytes } else { len_bytes };
        self.give_back_room(state);
        if self.config.keyless == Keyless::Sticky {
            // The next keyless records go to the next partition.
            self.shared.turn.fetch_add(1, Ordering::Relaxed);
        }
        let deadline = open.created() + self.config.delivery_timeout;
        state.sealed.push_back(open.seal(self.config.codec, self.config.zstd_level, deadline));
        true
    }

    fn give_back_room(&self, state: &mut SlotState) {
        self.shared.ahead.give_back(std::mem::take(&mut state.ahead_bytes));
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
        self.shared.is_gone()
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

    /// Something hints at a change of the topic: what is known of it is asked for again.
    pub(super) fn mark_stale(&self) {
        self.shared.stale.store(true, Ordering::Release);
    }

    pub(super) const fn linger(&self) -> Duration {
        self.config.linger
    }
}

#[cfg(test)]
#[path = "slot_tests.rs"]
mod tests;
