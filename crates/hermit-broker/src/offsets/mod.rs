//! Committed positions: the compacted topic `__consumer_offsets`, and what it adds up to.
//!
//! An append and the change of the map happen under one lock, so that the map is what a replay of the log gives. A position is shown once it is
//! on disk: one that a power cut could take back was never seen by anybody.

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod record;
mod replay;
mod state;

use std::sync::Arc;

use bytes::BytesMut;
use hermit_log::{Batch, LogError};
use hermit_proto::{Attributes, FrameLimits, GroupName, Offset, PartitionId, ProducedFrame, TopicId};
use parking_lot::Mutex;

pub use record::Committed;
pub(crate) use record::PositionKey;
pub use replay::ReplayReport;
use state::{Entry, State};

use crate::error::{BrokerError, Counted};
use crate::limits::Limits;
use crate::partition::{Partition, Ticket};

/// The topic that holds the positions.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Tombstones in one append.
const FORGET_BATCH: usize = 1000;

/// The committed positions.
#[derive(Debug)]
pub(crate) struct Offsets {
    partition: Arc<Partition>,
    state: Mutex<State>,
    limits: FrameLimits,
    max_positions: usize,
    max_group_positions: usize,
}

/// The frames that store positions; `None` takes one back.
pub(crate) fn frames(entries: &[Entry]) -> Result<BytesMut, LogError> {
    let mut bytes = BytesMut::new();
    for (key, committed) in entries {
        let key = key.encode();
        let value = committed.map(|committed| committed.encode());
        let time = committed.map_or(0, |committed| committed.committed_at);
        let frame = match &value {
            Some(value) => ProducedFrame::message(time, Some(&key), value),
            None => ProducedFrame::tombstone(time, &key),
        };
        let attributes = frame.attributes.with(Attributes::CHECKSUM_BY_BROKER);
        let bad = |source| LogError::Frame { index: 0, source };
        ProducedFrame { attributes, ..frame }.encode_into(&mut bytes).map_err(bad)?;
    }
    Ok(bytes)
}

impl Offsets {
    /// Reads the positions back from the log. `now` is when that happens, by the monotonic clock.
    pub(crate) fn open(partition: Arc<Partition>, limits: &Limits, now: u64) -> Result<(Self, ReplayReport), BrokerError> {
        let (max_positions, max_group_positions) = (limits.max_committed_positions, limits.max_group_positions);
        let limits = limits.frame_limits();
        let (read, report) = replay::replay(&partition, &limits)?;
        let mut state = State::default();
        for (key, stable) in read {
            state.restore(key, stable, now);
        }
        Ok((Self { partition, state: Mutex::new(state), limits, max_positions, max_group_positions }, report))
    }

    /// Appends positions; they are stored once the ticket says so. `now` is by the monotonic clock.
    pub(crate) fn commit(&self, entries: &[(PositionKey, Committed)], now: u64) -> Result<Ticket, BrokerError> {
        let entries: Vec<_> = entries.iter().map(|(key, committed)| (key.clone(), Some(*committed))).collect();
        let mut batch = self.batch(&entries)?;
        self.append(&mut self.state.lock(), &mut batch, &entries, now)
    }

    fn batch(&self, entries: &[Entry]) -> Result<Batch, BrokerError> {
        Ok(Batch::parse(frames(entries)?, &self.limits)?)
    }

    /// One order for the log and the positions: whoever appends holds the positions until they say the same.
    fn append(&self, state: &mut State, batch: &mut Batch, entries: &[Entry], now: u64) -> Result<Ticket, BrokerError> {
        let new = entries.iter().filter(|(key, committed)| committed.is_some() && !state.has(key)).count();
        if state.count().saturating_add(new) > self.max_positions {
            return Err(BrokerError::TooMany { what: Counted::Positions, limit: self.max_positions as u64 });
        }
        // A commit is one group's.
        if let Some((key, _)) = entries.first()
            && new > 0
            && state.count_of(&key.group).saturating_add(new) > self.max_group_positions
        {
            return Err(BrokerError::TooMany { what: Counted::GroupPositions, limit: self.max_group_positions as u64 });
        }
        let ticket = Ticket::append(&self.partition, batch)?;
        let high_watermark = self.partition.progress().high_watermark();
        for ((key, committed), frame) in entries.iter().zip(batch.frames()) {
            let until = Offset(frame.offset.0.saturating_add(1));
            state.push(key, until, *committed, high_watermark, now);
        }
        Ok(ticket)
    }

    /// The stored position; `None` where the group never committed there.
    pub(crate) fn committed(&self, key: &PositionKey) -> Option<Committed> {
        let high_watermark = self.partition.progress().high_watermark();
        self.state.lock().stable(key, high_watermark)
    }

    /// Where the log must have been flushed to, so that nothing that was appended for these partitions is still on its way.
    pub(crate) fn pending_until(&self, group: &GroupName, partitions: &[(TopicId, PartitionId)]) -> Option<Offset> {
        let high_watermark = self.partition.progress().high_watermark();
        self.state.lock().pending_until(group, partitions, high_watermark)
    }

    /// The partition that holds the positions.
    pub(crate) const fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// All stored positions of a group.
    pub(crate) fn of_group(&self, group: &GroupName) -> Vec<(TopicId, PartitionId, Committed)> {
        let high_watermark = self.partition.progress().high_watermark();
        self.state.lock().of_group(group, high_watermark)
    }

    /// The groups that have positions, behind that name, in order; not more than `most`.
    pub(crate) fn groups(&self, after: &str, most: usize) -> Vec<GroupName> {
        self.state.lock().groups(after, most)
    }

    /// Says that the group is of use to somebody, so that its positions are kept.
    pub(crate) fn touch(&self, group: &GroupName, now: u64) {
        self.state.lock().touch(group, now);
    }

    /// The groups that nobody has touched since `before`.
    pub(crate) fn untouched_since(&self, before: u64) -> Vec<GroupName> {
        self.state.lock().untouched_since(before)
    }

    /// Takes back all positions of a group; nothing where it has none.
    pub(crate) fn forget_group(&self, group: &GroupName, now: u64) -> Result<Option<Ticket>, BrokerError> {
        let keys = self.state.lock().keys_of_group(group);
        self.forget(keys, now, |_state| true)
    }

    /// Takes back all positions of a group that nobody has touched since `before`.
    pub(crate) fn expire_group(&self, group: &GroupName, before: u64, now: u64) -> Result<Option<Ticket>, BrokerError> {
        let keys = self.state.lock().keys_of_group(group);
        self.forget(keys, now, |state| state.is_untouched_since(group, before))
    }

    /// Takes back all positions of a topic that was deleted. Those that cannot be taken back now mean nothing, as no other topic will
    /// have that id, and are taken back later.
    pub(crate) fn forget_topic(&self, topic: TopicId, now: u64) {
        if let Err(error) = self.forget_topics(|other| other == topic, now) {
            tracing::warn!(%topic, error = %crate::error::line(&error), "positions of a deleted topic stay in the log for now");
        }
    }

    /// Takes back the positions of topics that do not exist any more.
    pub(crate) fn forget_topics(&self, are_gone: impl Fn(TopicId) -> bool, now: u64) -> Result<(), BrokerError> {
        let keys = self.state.lock().keys(are_gone);
        self.forget(keys, now, |_state| true).map(drop)
    }

    /// Takes positions back, those that are there, in steps, between which others may commit. The ticket is that of the last.
    fn forget(&self, mut keys: Vec<PositionKey>, now: u64, still: impl Fn(&State) -> bool) -> Result<Option<Ticket>, BrokerError> {
        // What is written does not depend on the order of a hash map, so that simulations replay.
        keys.sort_by_cached_key(PositionKey::encode);
        let mut last = None;
        for keys in keys.chunks(FORGET_BATCH) {
            let entries: Vec<_> = keys.iter().map(|key| (key.clone(), None)).collect();
            let mut batch = self.batch(&entries)?;
            let mut state = self.state.lock();
            if !still(&state) {
                break;
            }
            last = Some(self.append(&mut state, &mut batch, &entries, now)?);
        }
        Ok(last)
    }

    /// Forgets what was taken back for good.
    pub(crate) fn sweep(&self) {
        let high_watermark = self.partition.progress().high_watermark();
        self.state.lock().sweep(high_watermark);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hermit_log::disk::sim::SimDisk;
    use hermit_log::{Flusher, LogEnv, ManualClock};
    use hermit_proto::LeaderEpoch;

    use super::*;
    use crate::{Broker, BrokerConfig};

    fn simulated() -> (Broker, Flusher) {
        let clock = Arc::new(ManualClock::new(1_000_000_000_000));
        let flusher = Flusher::manual(clock.clone());
        let env = LogEnv::new(Arc::new(SimDisk::new(1)), clock, flusher.clone(), 64);
        let config = BrokerConfig { recovery_threads: 1, ..BrokerConfig::new("/data") };
        (Broker::open_with(config, env).unwrap(), flusher)
    }

    /// Several at once for one key, over and over: the one that stands last in the log is the one that holds.
    #[test]
    fn positions_are_in_the_order_of_their_log() {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 6000;
        let (broker, flusher) = simulated();
        let offsets = broker.offsets().unwrap();
        let key = PositionKey { group: GroupName::new("g").unwrap(), topic: TopicId(1), partition: PartitionId(0) };
        let barrier = std::sync::Barrier::new(usize::try_from(THREADS).unwrap());
        let last = Mutex::new((Offset(0), Offset(0)));
        let wrong = std::sync::atomic::AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (offsets, key, barrier, last, flusher, wrong) = (&offsets, &key, &barrier, &last, &flusher, &wrong);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let offset = Offset(round * THREADS + thread);
                        let committed = Committed { offset, leader_epoch: LeaderEpoch(1), committed_at: 0 };
                        barrier.wait();
                        let ticket = offsets.commit(&[(key.clone(), committed)], 0).unwrap();
                        let appended = ticket.appended().next_offset;
                        let mut newest = last.lock();
                        *newest = (*newest).max((appended, offset));
                        drop(newest);
                        if barrier.wait().is_leader() {
                            flusher.run_until_idle();
                            let holds = offsets.committed(key).unwrap().offset;
                            // A panic here would leave the others at the barrier.
                            wrong.fetch_add(usize::from(holds != last.lock().1), std::sync::atomic::Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(wrong.into_inner(), 0);
    }

    #[test]
    fn one_group_cannot_use_up_all_positions() {
        let clock = Arc::new(ManualClock::new(1_000_000_000_000));
        let env = LogEnv::new(Arc::new(SimDisk::new(1)), clock.clone(), Flusher::manual(clock), 64);
        let mut config = BrokerConfig { recovery_threads: 1, ..BrokerConfig::new("/data") };
        (config.limits.max_committed_positions, config.limits.max_group_positions) = (5, 3);
        let broker = Broker::open_with(config, env).unwrap();
        let offsets = broker.offsets().unwrap();
        let commit = |group: &str, partition: u32| {
            let key = PositionKey { group: GroupName::new(group).unwrap(), topic: TopicId(1), partition: PartitionId(partition) };
            let committed = Committed { offset: Offset(1), leader_epoch: LeaderEpoch(1), committed_at: 0 };
            match offsets.commit(&[(key, committed)], 0) {
                Ok(_ticket) => None,
                Err(BrokerError::TooMany { what, .. }) => Some(what),
                Err(other) => panic!("{other}"),
            }
        };
        let refused: Vec<_> = (0..5).map(|partition| commit("greedy", partition)).collect();
        assert_eq!(refused, [None, None, None, Some(Counted::GroupPositions), Some(Counted::GroupPositions)]);
        assert_eq!(
            [commit("greedy", 2), commit("b", 0), commit("c", 0), commit("d", 0)],
            [None, None, None, Some(Counted::Positions)]
        );
    }

    #[test]
    fn a_position_that_nobody_asks_for_gathers_nothing() {
        let (broker, flusher) = simulated();
        let offsets = broker.offsets().unwrap();
        let key = PositionKey { group: GroupName::new("g").unwrap(), topic: TopicId(1), partition: PartitionId(0) };
        for offset in 0..100 {
            let committed = Committed { offset: Offset(offset), leader_epoch: LeaderEpoch(1), committed_at: 0 };
            offsets.commit(&[(key.clone(), committed)], 0).unwrap();
            flusher.run_until_idle();
        }
        assert_eq!(offsets.state.lock().pending(&key), 1);
        assert_eq!(offsets.committed(&key).unwrap().offset, Offset(99));
    }
}
