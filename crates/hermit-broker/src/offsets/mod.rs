//! Committed positions: the compacted topic `__consumer_offsets`, and what it adds up to.
//!
//! An append and the change of the map happen under one lock, so that the map is what a replay of the log gives. A position is shown once it is
//! on disk: one that a power cut could take back was never seen by anybody.

mod record;
mod replay;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::BytesMut;
use hermit_log::{Batch, LogError};
use hermit_proto::{Attributes, FrameLimits, GroupName, Offset, PartitionId, ProducedFrame, TopicId};
use parking_lot::Mutex;

pub use record::Committed;
pub(crate) use record::PositionKey;
pub use replay::ReplayReport;

use crate::error::{BrokerError, Counted};
use crate::partition::{Partition, Ticket};

/// The topic that holds the positions.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// Tombstones in one append.
const FORGET_BATCH: usize = 1000;

/// The committed positions.
#[derive(Debug)]
pub(crate) struct Offsets {
    partition: Arc<Partition>,
    positions: Mutex<HashMap<PositionKey, Position>>,
    limits: FrameLimits,
    max_positions: usize,
}

#[derive(Debug, Default)]
struct Position {
    /// The newest one that is known to be on disk.
    stable: Option<Committed>,
    /// Those on their way, each with the log offset at which it is there; `None` takes the position back.
    pending: VecDeque<(Offset, Option<Committed>)>,
}

impl Position {
    fn settle(&mut self, high_watermark: Offset) {
        while let Some((_, committed)) = self.pending.pop_front_if(|(until, _)| *until <= high_watermark) {
            self.stable = committed;
        }
    }
}

/// The frames that store positions; `None` takes one back.
pub(crate) fn frames(entries: &[(PositionKey, Option<Committed>)]) -> Result<BytesMut, LogError> {
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
    /// Reads the positions back from the log.
    pub(crate) fn open(
        partition: Arc<Partition>,
        limits: FrameLimits,
        max_positions: usize,
    ) -> Result<(Self, ReplayReport), BrokerError> {
        let (read, report) = replay::replay(&partition, &limits)?;
        let positions = read.into_iter().map(|(key, stable)| (key, Position { stable: Some(stable), ..Position::default() }));
        Ok((Self { partition, positions: Mutex::new(positions.collect()), limits, max_positions }, report))
    }

    /// Appends positions; they are stored once the ticket says so.
    pub(crate) fn commit(&self, entries: &[(PositionKey, Committed)]) -> Result<Ticket, BrokerError> {
        let entries: Vec<_> = entries.iter().map(|(key, committed)| (key.clone(), Some(*committed))).collect();
        self.write(&entries)
    }

    fn write(&self, entries: &[(PositionKey, Option<Committed>)]) -> Result<Ticket, BrokerError> {
        let mut batch = Batch::parse(frames(entries)?, &self.limits)?;
        let mut positions = self.positions.lock();
        let new = entries.iter().filter(|(key, committed)| committed.is_some() && !positions.contains_key(key)).count();
        if positions.len().saturating_add(new) > self.max_positions {
            return Err(BrokerError::TooMany { what: Counted::Positions, limit: self.max_positions as u64 });
        }
        let ticket = Ticket::append(&self.partition, &mut batch)?;
        let high_watermark = self.partition.progress().high_watermark();
        for ((key, committed), frame) in entries.iter().zip(batch.frames()) {
            let until = Offset(frame.offset.0.saturating_add(1));
            let position = positions.entry(key.clone()).or_default();
            // A position that nobody asks for must not gather what was settled long ago.
            position.settle(high_watermark);
            position.pending.push_back((until, *committed));
        }
        Ok(ticket)
    }

    /// The stored position; `None` where the group never committed there.
    pub(crate) fn committed(&self, key: &PositionKey) -> Option<Committed> {
        let high_watermark = self.partition.progress().high_watermark();
        let mut positions = self.positions.lock();
        let position = positions.get_mut(key)?;
        position.settle(high_watermark);
        position.stable
    }

    /// All stored positions of a group.
    pub(crate) fn of_group(&self, group: &GroupName) -> Vec<(TopicId, PartitionId, Committed)> {
        let high_watermark = self.partition.progress().high_watermark();
        let mut positions = self.positions.lock();
        let of_group = positions.iter_mut().filter(|(key, _)| key.group == *group);
        of_group
            .filter_map(|(key, position)| {
                position.settle(high_watermark);
                Some((key.topic, key.partition, position.stable?))
            })
            .collect()
    }

    /// How many groups have stored positions. Costs a look at every position.
    pub(crate) fn group_count(&self) -> usize {
        let positions = self.positions.lock();
        positions.keys().map(|key| &key.group).collect::<HashSet<_>>().len()
    }

    /// Takes back all positions of a topic that was deleted. Those that cannot be taken back now mean nothing: no other topic will
    /// have that id.
    pub(crate) fn forget_topic(&self, topic: TopicId) {
        let mut keys: Vec<_> = self.positions.lock().keys().filter(|key| key.topic == topic).cloned().collect();
        // What is written does not depend on the order of a hash map, so that simulations replay.
        keys.sort_by_cached_key(PositionKey::encode);
        for keys in keys.chunks(FORGET_BATCH) {
            let entries: Vec<_> = keys.iter().map(|key| (key.clone(), None)).collect();
            if let Err(error) = self.write(&entries) {
                tracing::warn!(%topic, %error, "positions of a deleted topic stay in the log");
            }
        }
        self.positions.lock().retain(|key, _| key.topic != topic);
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

    #[test]
    fn a_position_that_nobody_asks_for_gathers_nothing() {
        let clock = Arc::new(ManualClock::new(1_000_000_000_000));
        let flusher = Flusher::manual(clock.clone());
        let env = LogEnv::new(Arc::new(SimDisk::new(1)), clock, flusher.clone(), 64);
        let config = BrokerConfig { recovery_threads: 1, ..BrokerConfig::new("/data") };
        let broker = Broker::open_with(config, env).unwrap();
        let offsets = broker.offsets().unwrap();
        let key = PositionKey { group: GroupName::new("g").unwrap(), topic: TopicId(1), partition: PartitionId(0) };
        for offset in 0..100 {
            let committed = Committed { offset: Offset(offset), leader_epoch: LeaderEpoch(1), committed_at: 0 };
            offsets.commit(&[(key.clone(), committed)]).unwrap();
            flusher.run_until_idle();
        }
        assert_eq!(offsets.positions.lock().get(&key).unwrap().pending.len(), 1);
        assert_eq!(offsets.committed(&key).unwrap().offset, Offset(99));
    }
}
