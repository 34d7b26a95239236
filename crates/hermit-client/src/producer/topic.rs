//! What a producer knows of a topic: its partitions, and which one a record goes to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use hermit_proto::session::{ProduceTarget, TopicMetadata};
use hermit_proto::{PREFIX_SIZE, PartitionId, TopicId, partition_for_key};
use tokio::time::Instant;

use super::Shared;
use super::config::Keyless;
use super::record::ProducerRecord;
use super::slot::{Ahead, GatherConfig, Slot};
use crate::error::{Error, RecordFault, Result};

/// A topic's slots, as of one look at its metadata.
#[derive(Debug)]
pub(super) struct TopicSlots {
    pub(super) name: Arc<str>,
    pub(super) topic: TopicId,
    pub(super) compacted: bool,
    pub(super) slots: Vec<Arc<Slot>>,
    shared: Arc<TopicState>,
    config: GatherConfig,
    /// What a record may take.
    limit_bytes: u64,
    checked: Instant,
    /// Connections at that time.
    sessions: usize,
    /// Something newer is known.
    outdated: AtomicBool,
}

/// What the slots of a topic share.
#[derive(Debug, Default)]
pub(super) struct TopicState {
    /// The partition that keyless records go to; counts on without end.
    pub(super) turn: AtomicU32,
    /// The broker does not know the topic by this id: it has to be looked up again.
    pub(super) gone: AtomicBool,
    /// Something hints at a change.
    pub(super) stale: AtomicBool,
    /// It is being asked for again.
    refreshing: AtomicBool,
    /// The producer's.
    pub(super) ahead: Arc<Ahead>,
}

impl TopicState {
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }
}

impl TopicSlots {
    /// What is known now. Slots that `before` has are kept.
    pub(super) fn new(
        name: Arc<str>,
        found: &TopicMetadata,
        before: Option<&Self>,
        producer: &Shared,
        config: GatherConfig,
        sessions: usize,
    ) -> Self {
        let shared = before.map(|before| before.shared.clone());
        let shared = shared.unwrap_or_else(|| Arc::new(TopicState { ahead: producer.ahead.clone(), ..TopicState::default() }));
        shared.stale.store(false, Ordering::Release);
        let mut slots = before.map(|before| before.slots.clone()).unwrap_or_default();
        // Partitions are never removed.
        for number in slots.len()..found.partitions.len() {
            let partition = PartitionId(u32::try_from(number).unwrap_or(u32::MAX));
            let number = producer.next_slot.fetch_add(1, Ordering::Relaxed);
            slots.push(Arc::new(Slot::new(found.topic, name.clone(), partition, number, shared.clone(), config)));
        }
        let compacted = found.config.compaction == Some(true);
        let limits = &config.limits;
        let request_overhead = PREFIX_SIZE.saturating_add(ProduceTarget::KEY_SIZE) as u64;
        let limit_bytes =
            u64::from(limits.max_frame_bytes).min(u64::from(limits.max_request_bytes).saturating_sub(request_overhead));
        Self {
            name,
            topic: found.topic,
            compacted,
            slots,
            shared,
            config,
            limit_bytes,
            checked: Instant::now(),
            sessions,
            outdated: AtomicBool::new(false),
        }
    }

    /// The same, as if it had been looked at now.
    pub(super) fn checked_now(&self, sessions: usize) -> Self {
        self.shared.stale.store(false, Ordering::Release);
        Self {
            name: self.name.clone(),
            topic: self.topic,
            compacted: self.compacted,
            slots: self.slots.clone(),
            shared: self.shared.clone(),
            config: self.config,
            limit_bytes: self.limit_bytes,
            checked: Instant::now(),
            sessions,
            outdated: AtomicBool::new(false),
        }
    }

    pub(super) const fn config(&self) -> GatherConfig {
        self.config
    }

    /// Whether something hints at a change, and nobody asks yet. Who is told so has to call [`TopicSlots::refreshed`].
    pub(super) fn wants_refresh(&self, sessions: usize) -> bool {
        (self.sessions != sessions || self.shared.stale.load(Ordering::Acquire)) && self.begin_refresh()
    }

    /// Whether what is known is old, and nobody asks yet. Who is told so has to call [`TopicSlots::refreshed`].
    pub(super) fn is_old(&self, now: Instant, max_age: Duration) -> bool {
        now.saturating_duration_since(self.checked) >= max_age && self.begin_refresh()
    }

    fn begin_refresh(&self) -> bool {
        !self.shared.refreshing.swap(true, Ordering::AcqRel)
    }

    pub(super) fn refreshed(&self) {
        self.shared.refreshing.store(false, Ordering::Release);
    }

    /// The broker does not know the topic by its id any more.
    pub(super) fn mark_gone(&self) {
        self.shared.gone.store(true, Ordering::Release);
    }

    /// Whether the topic has to be looked up again.
    pub(super) fn is_gone(&self) -> bool {
        self.shared.is_gone()
    }

    /// Something newer is known.
    pub(super) fn mark_outdated(&self) {
        self.outdated.store(true, Ordering::Release);
    }

    /// Whether whoever holds on to this should ask what is known now.
    #[inline]
    pub(super) fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Acquire) || self.is_gone()
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// The slot that the record belongs to.
    #[inline]
    pub(super) fn choose(&self, record: &ProducerRecord<'_>) -> Result<&Arc<Slot>> {
        let partition = self.partition_of(record, self.shared.turn.load(Ordering::Relaxed));
        self.slots.get(partition as usize).ok_or_else(|| self.unknown(PartitionId(partition)))
    }

    fn unknown(&self, partition: PartitionId) -> Error {
        Error::UnknownPartition { topic: self.name.clone(), partition, count: self.count() }
    }

    /// The number of the partition that the record belongs to, while keyless ones go to `turn`.
    #[inline]
    fn partition_of(&self, record: &ProducerRecord<'_>, turn: u32) -> u32 {
        let count = self.count();
        match (record.partition, record.key) {
            (Some(partition), _) => partition.0,
            (None, _) if count == 1 => 0,
            (None, Some(key)) => partition_for_key(key, count).0,
            (None, None) => {
                let turn = match self.config.keyless {
                    Keyless::Sticky => turn,
                    Keyless::RoundRobin => self.shared.turn.fetch_add(1, Ordering::Relaxed),
                };
                turn.checked_rem(count).unwrap_or(0)
            }
        }
    }

    /// How many of `records` from the first on belong to the same partition, and which. `turn` is that of keyless ones, of which
    /// `in_turn_bytes` were given to it. O(records of the run).
    pub(super) fn run(&self, records: &[ProducerRecord<'_>], turn: &mut u32, in_turn_bytes: &mut usize) -> (u32, usize) {
        let Some(first) = records.first() else { return (0, 0) };
        let partition = self.partition_of(first, *turn);
        if self.count() == 1 {
            return (partition, records.len());
        }
        let mut len = 0;
        for record in records {
            if self.partition_of(record, *turn) != partition {
                break;
            }
            self.count_turn(record, turn, in_turn_bytes);
            len += 1;
        }
        (partition, len)
    }

    /// About what fills a batch goes to one partition, so that many keyless records are spread.
    fn count_turn(&self, record: &ProducerRecord<'_>, turn: &mut u32, in_turn_bytes: &mut usize) {
        if record.partition.is_none() && record.key.is_none() {
            *in_turn_bytes += record_bytes(record);
            if *in_turn_bytes >= self.config.batch_bytes {
                (*turn, *in_turn_bytes) = (turn.wrapping_add(1), 0);
            }
        }
    }

    /// The turn of keyless records.
    pub(super) fn turn(&self) -> u32 {
        self.shared.turn.load(Ordering::Relaxed)
    }

    /// Whether keyless records change the partition with each.
    pub(super) fn takes_turns(&self) -> bool {
        self.config.keyless == Keyless::RoundRobin && self.slots.len() > 1
    }

    /// The numbers of `records` by partition, with those of the same partition in the order that they have: partition after partition, and
    /// where each one's begin, in the end that of nobody. O(records + partitions), three allocations.
    pub(super) fn divide(&self, records: &[ProducerRecord<'_>]) -> (Vec<u32>, Vec<u32>) {
        let mut turn = self.shared.turn.load(Ordering::Relaxed);
        let mut in_turn_bytes = 0;
        let mut partitions = Vec::with_capacity(records.len());
        let mut begins = vec![0u32; self.slots.len() + 1];
        for record in records {
            let partition = self.partition_of(record, turn);
            self.count_turn(record, &mut turn, &mut in_turn_bytes);
            partitions.push(partition);
            if let Some(count) = begins.get_mut(partition as usize + 1) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for begin in &mut begins {
            sum += *begin;
            *begin = sum;
        }
        let mut order = vec![0u32; records.len()];
        let mut next = begins.clone();
        for (number, partition) in (0..).zip(&partitions) {
            if let Some(at) = next.get_mut(*partition as usize) {
                if let Some(place) = order.get_mut(*at as usize) {
                    *place = number;
                }
                *at += 1;
            }
        }
        (order, begins)
    }

    /// Bytes of the buffer that a record takes.
    #[inline]
    pub(super) fn cost(&self, record: &ProducerRecord<'_>) -> usize {
        record_bytes(record)
    }

    /// Refuses what the broker would refuse, before it takes part in a batch; gives the bytes it will take at most.
    #[inline]
    pub(super) fn check(&self, record: &ProducerRecord<'_>) -> Result<usize> {
        let size_bytes = record_bytes(record);
        let plain = !self.compacted && record.partition.is_none() && size_bytes as u64 <= self.limit_bytes;
        if plain { Ok(size_bytes) } else { self.check_fully(record, size_bytes) }
    }

    fn check_fully(&self, record: &ProducerRecord<'_>, size_bytes: usize) -> Result<usize> {
        let limit_bytes = self.limit_bytes;
        let invalid = |source| Err(Error::InvalidRecord { topic: self.name.clone(), source });
        if self.compacted && record.key.is_none() {
            return invalid(RecordFault::KeyRequired);
        }
        if self.compacted && !record.headers.is_empty() {
            return invalid(RecordFault::HeadersNotAllowed);
        }
        if let Some(partition) = record.partition.filter(|partition| partition.0 >= self.count()) {
            return Err(self.unknown(partition));
        }
        if size_bytes as u64 > limit_bytes {
            return invalid(RecordFault::TooLarge { size_bytes: size_bytes as u64, limit_bytes });
        }
        Ok(size_bytes)
    }
}

/// Bytes of a record within a set, at most: five lengths of at most five bytes, a time of at most ten, one of attributes, and two
/// lengths for each header.
#[inline]
fn record_bytes(record: &ProducerRecord<'_>) -> usize {
    const FIXED: usize = 36;
    record.data_bytes().saturating_add(FIXED).saturating_add(record.headers.len().saturating_mul(10))
}
