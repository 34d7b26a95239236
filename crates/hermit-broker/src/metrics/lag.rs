//! How far groups are behind, in records and in time.
//!
//! How long the next record of a group has been waiting is read from the log, which takes some microseconds, or the time of a disk. So it is remembered for
//! as long as the position stays the same, and in one round no more is read than [`READ_BUDGET`] allows: of the others the last position is told that was
//! looked at, whose record has waited longer, if at all, by the time since. The next round begins with them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use hermit_proto::{GroupName, Offset, PartitionId, TopicId};
use parking_lot::Mutex;

use crate::broker::Broker;

/// Time for reading logs in one round.
const READ_BUDGET: Duration = Duration::from_millis(25);
/// Positions that one round looks at, at some 150 bytes each while it lasts. Groups behind that are left out.
const MOST_POSITIONS: usize = 200_000;

type Of = (TopicId, PartitionId);

/// A group at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMetrics {
    /// Its name, as clients chose it.
    pub name: GroupName,
    /// Its members.
    pub members: u64,
    /// The partitions for which it has a position, or which a member has; in the order of topic id and number.
    pub partitions: Vec<GroupLag>,
}

/// How far a group is behind in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLag {
    /// The topic's id.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// Offsets between the group's position and the high watermark: records, or gaps of a compaction. A group without a position is counted from the log
    /// start.
    pub messages: u64,
    /// Offsets between the group's position and the log start, where that is ahead: what was deleted before the group has read it.
    pub missed: u64,
    /// How long ago the record was appended that the group is to read next; zero where it has read all. `None` where that is not known.
    pub time: Option<Duration>,
}

/// When the record at a position was appended.
#[derive(Clone, Copy, Debug)]
struct Looked {
    next: Offset,
    appended_at: u64,
}

/// What is remembered from one round to the next.
#[derive(Debug, Default)]
pub(crate) struct LagCache {
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    looked: HashMap<GroupName, HashMap<Of, Looked>>,
    /// The first position that was not read in the last round, as its time was over.
    left_off: Option<(GroupName, Of)>,
}

/// A group while a round lasts.
struct Group {
    name: GroupName,
    members: u64,
    positions: Vec<Position>,
}

struct Position {
    of: Of,
    next: Offset,
    messages: u64,
    missed: u64,
    /// When the record at the position was appended, or, where that is not known, one before it.
    looked: Option<Looked>,
}

impl Broker {
    /// All groups, in the order of their names, as far as [`MOST_POSITIONS`] allow, and how many were left out.
    pub(super) fn group_metrics(&self) -> (Vec<GroupMetrics>, u64) {
        // One round at a time: two would read everything twice.
        let mut remembered = self.lag_cache().remembered.lock();
        let (mut groups, left_out) = self.groups_at_their_positions(&remembered.looked);
        remembered.left_off = self.look(&mut groups, remembered.left_off.take());
        let looked = |group: &Group| {
            let of = group.positions.iter().filter_map(|position| Some((position.of, position.looked?)));
            (group.name.clone(), of.collect())
        };
        remembered.looked = groups.iter().map(looked).collect();
        drop(remembered);
        let now = self.now();
        (groups.into_iter().map(|group| group.told(now)).collect(), left_out)
    }

    /// With what is known of them; nothing is read.
    fn groups_at_their_positions(&self, looked: &HashMap<GroupName, HashMap<Of, Looked>>) -> (Vec<Group>, u64) {
        let Some(offsets) = self.offsets() else { return (Vec::new(), 0) };
        let mut names: BTreeSet<_> = offsets.groups("", usize::MAX).into_iter().collect();
        names.extend(self.groups().names());
        let (mut groups, mut count, mut left_out) = (Vec::with_capacity(names.len()), 0, 0);
        for name in names {
            if count >= MOST_POSITIONS {
                left_out += 1;
                continue;
            }
            let mut of: BTreeMap<Of, Option<Offset>> = BTreeMap::new();
            let (members, owned) = self.groups().owned(&name).unwrap_or_default();
            of.extend(owned.into_iter().map(|of| (of, None)));
            let committed = offsets.of_group(&name).into_iter();
            of.extend(committed.map(|(topic, partition, committed)| ((topic, partition), Some(committed.offset))));
            if of.is_empty() && members == 0 {
                continue;
            }
            count += of.len();
            let known = looked.get(&name);
            let position = |(of, committed)| self.position(of, committed, known.and_then(|known| known.get(&of)));
            let positions = of.into_iter().filter_map(position).collect();
            groups.push(Group { name, members: members as u64, positions });
        }
        (groups, left_out)
    }

    /// `None` where there is no such partition any more, or it cannot be read.
    fn position(&self, of: Of, committed: Option<Offset>, known: Option<&Looked>) -> Option<Position> {
        let bounds = self.partition(of.0, of.1).ok()?.bounds().ok()?;
        // A position below the log start reads as the log start.
        let next = committed.map_or(bounds.log_start, |committed| committed.max(bounds.log_start));
        let missed = committed.map_or(0, |committed| bounds.log_start.0.saturating_sub(committed.0));
        let messages = bounds.high_watermark.0.saturating_sub(next.0);
        let looked = known.copied().filter(|known| messages > 0 && known.next <= next);
        Some(Position { of, next, messages, missed, looked })
    }

    /// Reads when records were appended, from where the last round left off, as long as time is left; gives where it leaves off now.
    fn look(&self, groups: &mut [Group], left_off: Option<(GroupName, Of)>) -> Option<(GroupName, Of)> {
        let began = self.clock().monotonic();
        let unknown =
            |position: &Position| position.messages > 0 && position.looked.is_none_or(|looked| looked.next < position.next);
        let mut unread: Vec<_> = groups
            .iter_mut()
            .flat_map(|group| {
                let Group { name, positions, .. } = group;
                positions.iter_mut().filter(|position| unknown(position)).map(|position| (&*name, position))
            })
            .collect();
        if let Some((name, of)) = &left_off {
            let before = unread.partition_point(|(other, position)| (*other, position.of) < (name, *of));
            unread.rotate_left(before);
        }
        let mut is_over = false;
        for (name, position) in unread {
            if is_over {
                return Some((name.clone(), position.of));
            }
            let (topic, id) = position.of;
            let appended_at =
                self.partition(topic, id).ok().and_then(|partition| partition.appended_at(position.next).ok().flatten());
            if let Some(appended_at) = appended_at {
                position.looked = Some(Looked { next: position.next, appended_at });
            }
            is_over = self.clock().monotonic().saturating_sub(began) >= READ_BUDGET;
        }
        None
    }
}

impl Group {
    fn told(self, now: u64) -> GroupMetrics {
        let partitions = self.positions.into_iter().map(|Position { of: (topic, partition), messages, missed, looked, .. }| {
            let waited = looked.map(|looked| Duration::from_nanos(now.saturating_sub(looked.appended_at)));
            let time = if messages == 0 { Some(Duration::ZERO) } else { waited };
            GroupLag { topic, partition, messages, missed, time }
        });
        GroupMetrics { name: self.name, members: self.members, partitions: partitions.collect() }
    }
}
