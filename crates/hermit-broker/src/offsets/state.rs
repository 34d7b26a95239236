//! The positions in memory, by group.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;

use hermit_proto::{GroupName, Offset, PartitionId, TopicId};

use super::record::{Committed, PositionKey};

/// A position to write; `None` takes it back.
pub(super) type Entry = (PositionKey, Option<Committed>);

/// All positions.
#[derive(Debug, Default)]
pub(super) struct State {
    groups: BTreeMap<GroupName, Group>,
    count: usize,
    /// Groups of which positions were taken back, to be swept.
    to_sweep: BTreeSet<GroupName>,
}

#[derive(Debug, Default)]
struct Group {
    positions: HashMap<(TopicId, PartitionId), Position>,
    /// When it was last of use to somebody, by the monotonic clock.
    touched_at: u64,
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

    /// Whether there is one, once everything on its way has arrived.
    fn is_there(&self) -> bool {
        self.pending.back().map_or(self.stable.is_some(), |(_, committed)| committed.is_some())
    }
}

impl State {
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// How many positions a group has.
    pub(super) fn count_of(&self, group: &GroupName) -> usize {
        self.groups.get(group).map_or(0, |group| group.positions.len())
    }

    /// A position that was read back.
    pub(super) fn restore(&mut self, key: PositionKey, stable: Committed, now: u64) {
        let group = self.groups.entry(key.group).or_default();
        group.touched_at = now;
        group.positions.insert((key.topic, key.partition), Position { stable: Some(stable), ..Position::default() });
        self.count += 1;
    }

    pub(super) fn has(&self, key: &PositionKey) -> bool {
        self.groups.get(&key.group).is_some_and(|group| group.positions.contains_key(&(key.topic, key.partition)))
    }

    /// A position that was appended; it is there once the log was flushed to `until`.
    pub(super) fn push(
        &mut self,
        key: &PositionKey,
        until: Offset,
        committed: Option<Committed>,
        high_watermark: Offset,
        now: u64,
    ) {
        if committed.is_none() {
            self.to_sweep.insert(key.group.clone());
        }
        let group = self.groups.entry(key.group.clone()).or_default();
        if committed.is_some() {
            group.touched_at = now;
        }
        let count = &mut self.count;
        let position = group.positions.entry((key.topic, key.partition)).or_insert_with(|| {
            *count += 1;
            Position::default()
        });
        // A position that nobody asks for must not gather what was settled long ago.
        position.settle(high_watermark);
        position.pending.push_back((until, committed));
    }

    fn position(&mut self, key: &PositionKey) -> Option<&mut Position> {
        self.groups.get_mut(&key.group)?.positions.get_mut(&(key.topic, key.partition))
    }

    pub(super) fn stable(&mut self, key: &PositionKey, high_watermark: Offset) -> Option<Committed> {
        let position = self.position(key)?;
        position.settle(high_watermark);
        position.stable
    }

    pub(super) fn pending_until(
        &mut self,
        group: &GroupName,
        partitions: &[(TopicId, PartitionId)],
        high_watermark: Offset,
    ) -> Option<Offset> {
        let group = self.groups.get_mut(group)?;
        let until = partitions.iter().filter_map(|of| {
            let position = group.positions.get_mut(of)?;
            position.settle(high_watermark);
            position.pending.back().map(|(until, _)| *until)
        });
        until.max()
    }

    pub(super) fn of_group(&mut self, group: &GroupName, high_watermark: Offset) -> Vec<(TopicId, PartitionId, Committed)> {
        let positions = self.groups.get_mut(group).map(|group| &mut group.positions).into_iter().flatten();
        positions
            .filter_map(|((topic, partition), position)| {
                position.settle(high_watermark);
                Some((*topic, *partition, position.stable?))
            })
            .collect()
    }

    pub(super) fn groups(&self, after: &str, most: usize) -> Vec<GroupName> {
        let behind = self.groups.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        let live = behind.filter(|(_, group)| group.positions.values().any(Position::is_there));
        live.take(most).map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn touch(&mut self, group: &GroupName, now: u64) {
        if let Some(group) = self.groups.get_mut(group) {
            group.touched_at = now;
        }
    }

    pub(super) fn is_untouched_since(&self, group: &GroupName, before: u64) -> bool {
        self.groups.get(group).is_some_and(|group| group.touched_at <= before)
    }

    pub(super) fn untouched_since(&self, before: u64) -> Vec<GroupName> {
        let untouched = self.groups.iter().filter(|(_, group)| group.touched_at <= before);
        untouched.map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn keys_of_group(&self, name: &GroupName) -> Vec<PositionKey> {
        let group = self.groups.get(name);
        let there = group.into_iter().flat_map(|group| &group.positions).filter(|(_, position)| position.is_there());
        there.map(|((topic, partition), _)| PositionKey { group: name.clone(), topic: *topic, partition: *partition }).collect()
    }

    pub(super) fn keys(&self, of_topic: impl Fn(TopicId) -> bool) -> Vec<PositionKey> {
        let all =
            self.groups.iter().flat_map(|(name, group)| group.positions.iter().map(move |(of, position)| (name, of, position)));
        let wanted = all.filter(|(_, (topic, _), position)| of_topic(*topic) && position.is_there());
        wanted
            .map(|(name, (topic, partition), _)| PositionKey { group: name.clone(), topic: *topic, partition: *partition })
            .collect()
    }

    /// Drops what was taken back, as far as that is on disk.
    pub(super) fn sweep(&mut self, high_watermark: Offset) {
        for name in std::mem::take(&mut self.to_sweep) {
            let Some(group) = self.groups.get_mut(&name) else { continue };
            let before = group.positions.len();
            let mut waits = false;
            group.positions.retain(|_, position| {
                position.settle(high_watermark);
                waits |= position.pending.back().is_some_and(|(_, committed)| committed.is_none());
                position.stable.is_some() || !position.pending.is_empty()
            });
            self.count -= before - group.positions.len();
            if group.positions.is_empty() {
                self.groups.remove(&name);
            }
            if waits {
                self.to_sweep.insert(name);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn pending(&self, key: &PositionKey) -> usize {
        self.groups[&key.group].positions[&(key.topic, key.partition)].pending.len()
    }
}
