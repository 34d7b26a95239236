//! How far a partition was handed out, processed and committed.

use std::sync::Arc;

use hermit_proto::{Generation, LeaderEpoch, Offset, PartitionId};
use tokio::time::Instant;

use super::state::{Lease, Phase, State};
use super::tracker::{OffsetTracker, Place};
use super::{Key, Tenure};
use crate::consumer::config::AutoCommit;

#[derive(Debug)]
pub(super) struct Progress {
    start: Place,
    /// Behind the last record handed out.
    handed: Option<Place>,
    /// The application was handed records and has not come back since.
    in_hand: bool,
    /// Where the application counts as done with what is before it.
    processed: Option<Place>,
    /// With [`AutoCommit::Acknowledged`].
    tracker: OffsetTracker,
    /// What the broker is known to have stored last.
    committed: Option<Offset>,
    /// What was sent since, whose fate is not known.
    attempted: Option<Offset>,
    /// What the broker will not take.
    refused: Option<Offset>,
    /// The furthest that was stored since reading last went elsewhere: what is committed by itself does not go back behind it.
    floor: Option<Offset>,
}

impl Default for Progress {
    fn default() -> Self {
        Self::beginning(Place { offset: Offset::ZERO, epoch: LeaderEpoch::UNKNOWN }, None)
    }
}

impl Progress {
    pub(super) fn beginning(start: Place, committed: Option<Offset>) -> Self {
        Self {
            start,
            handed: None,
            in_hand: false,
            processed: None,
            tracker: OffsetTracker::default(),
            committed,
            attempted: None,
            refused: None,
            floor: None,
        }
    }

    pub(super) const fn start(&self) -> Place {
        self.start
    }

    /// Whether the application may be working on records of it.
    pub(super) const fn in_hand(&self) -> bool {
        self.in_hand || self.tracker.running() > 0
    }

    /// What is to be committed by itself.
    pub(super) fn owed(&self, mode: AutoCommit) -> Option<Place> {
        let processed = match mode {
            AutoCommit::Off => None,
            AutoCommit::Processed => self.processed,
            AutoCommit::Acknowledged => self.tracker.prefix(),
        };
        processed.filter(|place| {
            let offset = Some(place.offset);
            offset != self.committed && offset != self.refused && offset > self.floor
        })
    }

    /// Whether something was handed out that is not known to be committed.
    pub(super) fn owes_anything(&self) -> bool {
        self.handed.is_some_and(|handed| Some(handed.offset) != self.committed)
    }

    /// Whether the committed position is this member's own last word, so that it may go on where it was.
    pub(super) fn goes_on_from(&mut self, committed: Option<Offset>) -> bool {
        let own = committed == self.committed || (self.attempted.is_some() && committed == self.attempted);
        if own {
            self.committed = committed;
            self.attempted = None;
        }
        own
    }

    pub(super) const fn attempt(&mut self, offset: Offset) {
        self.attempted = Some(offset);
    }

    pub(super) fn stored(&mut self, offset: Offset) {
        self.committed = Some(offset);
        self.attempted = None;
        self.floor = self.floor.max(Some(offset));
    }

    pub(super) const fn refuse(&mut self, offset: Offset) {
        self.refused = Some(offset);
    }

    fn come_back(&mut self) {
        self.in_hand = false;
        if self.handed.is_some() {
            self.processed = self.handed;
        }
    }
}

impl State {
    /// Notes that records of one partition are handed out — the offset of each, and the place behind it —, and tells since when the partition is the member's. `None`:
    /// they may not be, something about the group is to be found out first.
    pub(in crate::consumer) fn hand_out(
        &mut self,
        key: Key,
        tenure: Tenure,
        records: impl IntoIterator<Item = (Offset, Place)>,
        now: Instant,
    ) -> Option<Generation> {
        let is_alive = self.is_alive(now);
        let entry = self.entries.get_mut(&key).filter(|entry| entry.tenure == tenure)?;
        let since = match entry.lease {
            Lease::ByHand => Generation(0),
            // Somebody else may have it by now.
            Lease::Active { generation } if is_alive => generation,
            _ => return None,
        };
        let acknowledged = self.config.auto_commit == AutoCommit::Acknowledged;
        for (offset, next) in records {
            entry.progress.handed = Some(next);
            if acknowledged {
                entry.progress.tracker.hand_out(offset, next);
            }
        }
        if !acknowledged && !entry.progress.in_hand {
            entry.progress.in_hand = true;
            self.in_hand.push(key);
        }
        Some(since)
    }

    /// Whether the broker has heard of the member so lately that nobody else can have its partitions.
    pub(in crate::consumer) fn is_alive(&self, now: Instant) -> bool {
        self.membership.as_ref().and_then(|membership| membership.alive_until).is_some_and(|until| now <= until)
    }

    /// Since when a partition is the member's; 0 where that is not known, or no group's.
    pub(in crate::consumer) fn generation(&self, key: Key) -> Generation {
        self.entries.get(&key).and_then(|entry| entry.lease.commits_under()).unwrap_or(Generation(0))
    }

    /// The application asks for more: what it was handed before counts as processed. Whether the tasks have something to do.
    pub(in crate::consumer) fn come_back(&mut self) -> bool {
        self.away_since = None;
        for key in std::mem::take(&mut self.in_hand) {
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.progress.come_back();
            }
        }
        self.rejoin() || self.gives_up()
    }

    /// A member that left, or was refused, tries again.
    pub(in crate::consumer) fn rejoin(&mut self) -> bool {
        let Some(membership) = &mut self.membership else { return false };
        let away = matches!(membership.phase, Phase::Away);
        if away {
            membership.phase = Phase::Joining;
        }
        away
    }

    /// The refusal that keeps the member out; it tries again after it was told.
    pub(in crate::consumer) fn take_refusal(&mut self) -> Option<crate::error::Error> {
        let membership = self.membership.as_mut()?;
        let Phase::Refused(error) = &membership.phase else { return None };
        let error = error.clone();
        membership.phase = Phase::Joining;
        Some(error)
    }

    fn gives_up(&self) -> bool {
        self.entries.values().any(|entry| matches!(entry.lease, Lease::Revoking { .. }))
    }

    /// The application goes away with what it was handed.
    pub(in crate::consumer) fn go_off(&mut self, now: Instant) {
        let holds = !self.in_hand.is_empty() || self.entries.values().any(|entry| entry.progress.in_hand());
        self.away_since = holds.then_some(now);
    }

    /// A record was processed. Whether the tasks have something to do.
    pub(in crate::consumer) fn acknowledge(&mut self, key: Key, tenure: Tenure, offset: Offset, next: Place, now: Instant) -> bool {
        self.away_since = self.away_since.map(|_| now);
        let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.tenure == tenure) else { return false };
        if self.config.auto_commit == AutoCommit::Acknowledged {
            entry.progress.tracker.done(offset);
        } else if entry.progress.handed.is_some_and(|handed| next.offset <= handed.offset) {
            if entry.progress.processed.is_none_or(|processed| processed.offset < next.offset) {
                entry.progress.processed = Some(next);
            }
            if entry.progress.handed == Some(next) {
                entry.progress.in_hand = false;
                self.in_hand.retain(|held| *held != key);
            }
        }
        matches!(entry.lease, Lease::Revoking { .. })
    }

    /// A record that was handed out will not be processed.
    pub(in crate::consumer) fn abandon(&mut self, key: Key, tenure: Tenure, offset: Offset) {
        if let Some(entry) = self.entries.get_mut(&key).filter(|entry| entry.tenure == tenure) {
            entry.progress.tracker.abandon(offset);
        }
    }

    /// The most records that a partition has from the first one on that is not processed.
    pub(in crate::consumer) fn most_ahead(&self) -> usize {
        self.entries.values().map(|entry| entry.progress.tracker.len()).max().unwrap_or(0)
    }

    /// Reading goes on elsewhere: what was handed out before is not owed any more.
    pub(in crate::consumer) fn seek(&mut self, key: Key) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.progress.handed = None;
            entry.progress.processed = None;
            entry.progress.in_hand = false;
            entry.progress.tracker.reset();
            entry.progress.floor = None;
            self.in_hand.retain(|held| *held != key);
        }
    }

    /// From now on records count as processed in another way.
    pub(in crate::consumer) fn count_as(&mut self, mode: AutoCommit) {
        self.config.auto_commit = mode;
    }

    pub(in crate::consumer) fn find(&self, topic: &str, partition: PartitionId) -> Option<(Key, Tenure, Arc<str>)> {
        let found = self.entries.iter().find(|(key, entry)| key.1 == partition && *entry.topic == *topic);
        found.map(|(key, entry)| (*key, entry.tenure, entry.topic.clone()))
    }
}
