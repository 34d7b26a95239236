//! How far groups are behind, in records and in time.
//!
//! How long the next record of a group has been waiting is read from the log, which takes some microseconds, or the time of a disk. So it is remembered for
//! as long as the position stays the same, and in one round no more is read than [`READ_BUDGET`] allows: of the others the last position is told that was
//! looked at, whose record has waited longer, if at all, by the time since.

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
    looked: Mutex<HashMap<GroupName, HashMap<Of, Looked>>>,
}

impl Broker {
    /// All groups, in the order of their names, as far as [`MOST_POSITIONS`] allow, and how many were left out.
    pub(super) fn group_metrics(&self) -> (Vec<GroupMetrics>, u64) {
        let Some(offsets) = self.offsets() else { return (Vec::new(), 0) };
        let mut names: BTreeSet<_> = offsets.groups("", usize::MAX).into_iter().collect();
        names.extend(self.groups().names());
        let (mut groups, mut positions, mut left_out) = (Vec::with_capacity(names.len()), 0, 0);
        let mut round = Round { broker: self, now: self.now(), began: self.clock().monotonic(), is_over: false };
        // One round at a time: two would read everything twice.
        let mut before = self.lag_cache().looked.lock();
        let mut after = HashMap::with_capacity(names.len());
        for name in names {
            if positions >= MOST_POSITIONS {
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
            positions += of.len();
            let known = before.remove(&name).unwrap_or_default();
            let mut looked = HashMap::with_capacity(of.len());
            let lags = of.into_iter().filter_map(|(of, committed)| round.lag(of, committed, known.get(&of), &mut looked));
            let partitions = lags.collect();
            after.insert(name.clone(), looked);
            groups.push(GroupMetrics { name, members: members as u64, partitions });
        }
        *before = after;
        (groups, left_out)
    }
}

struct Round<'a> {
    broker: &'a Broker,
    now: u64,
    began: Duration,
    /// Nothing more is read.
    is_over: bool,
}

impl Round<'_> {
    /// `None` where there is no such partition any more, or it cannot be read.
    fn lag(
        &mut self,
        (topic, id): Of,
        committed: Option<Offset>,
        known: Option<&Looked>,
        looked: &mut HashMap<Of, Looked>,
    ) -> Option<GroupLag> {
        let partition = self.broker.partition(topic, id).ok()?;
        let bounds = partition.bounds().ok()?;
        // A position below the log start reads as the log start.
        let next = committed.map_or(bounds.log_start, |committed| committed.max(bounds.log_start));
        let messages = bounds.high_watermark.0.saturating_sub(next.0);
        if messages == 0 {
            return Some(GroupLag { topic, partition: id, messages, time: Some(Duration::ZERO) });
        }
        let mut found = known.copied().filter(|known| known.next == next);
        if found.is_none() && !self.is_over {
            let appended_at = partition.appended_at(next).ok().flatten();
            found = appended_at.map(|appended_at| Looked { next, appended_at });
            self.is_over = self.broker.clock().monotonic().saturating_sub(self.began) >= READ_BUDGET;
        }
        let found = found.or_else(|| known.copied().filter(|known| known.next < next));
        if let Some(found) = found {
            looked.insert((topic, id), found);
        }
        let time = found.map(|found| Duration::from_nanos(self.now.saturating_sub(found.appended_at)));
        Some(GroupLag { topic, partition: id, messages, time })
    }
}
