//! Taking up an assignment, and giving up what is not in it.

use std::collections::BTreeMap;

use hermit_proto::Generation;
use hermit_proto::session::Assignment;
use tokio::time::Instant;

use super::commits::CommitWait;
use super::progress::Progress;
use super::state::{Entry, Lease, State};
use super::{Key, Place, Tenure};
use crate::admin::Committed;
use crate::consumer::config::AutoCommit;
use crate::error::Fencing;

/// A granted partition whose place is to be found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) key: Key,
    pub(super) tenure: Tenure,
    pub(super) generation: Generation,
}

impl State {
    /// All that the member may hold, as an answer to what was asked at `sent` says.
    pub(super) fn assigned(&mut self, assignment: &Assignment, sent: Instant) {
        let Some(membership) = &mut self.membership else { return };
        membership.alive_until = Some(sent + membership.session_timeout);
        if assignment.version < membership.version {
            return;
        }
        membership.version = assignment.version;
        let mut named: BTreeMap<Key, (&str, Generation)> = BTreeMap::new();
        for topic in &assignment.topics {
            let of_topic = topic.partitions.iter();
            named.extend(of_topic.map(|found| ((topic.topic, found.partition), (topic.name.as_str(), found.generation))));
        }
        let (mut lost, mut changed) = (Vec::new(), false);
        for (key, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.lease != Lease::ByHand) {
            let granted = named.remove(key).map(|(_, generation)| generation);
            let lease = next_lease(entry.lease, granted, self.listens);
            match lease {
                Some(lease) => {
                    changed |= lease != entry.lease;
                    entry.lease = lease;
                }
                None => lost.push(*key),
            }
        }
        for key in lost {
            self.lose(key, Fencing::Expired);
        }
        for (key, (name, generation)) in named {
            let entry = Entry {
                topic: name.into(),
                tenure: self.tenure(),
                lease: Lease::Granted { generation, begun: false },
                progress: Progress::default(),
            };
            self.entries.insert(key, entry);
            changed = true;
        }
        if changed {
            self.changes += 1;
        }
    }

    /// Granted partitions whose places are not known.
    pub(super) fn wanted(&self) -> Vec<Wanted> {
        let wanted = |(key, entry): (&Key, &Entry)| match entry.lease {
            Lease::Granted { generation, .. } => Some(Wanted { key: *key, tenure: entry.tenure, generation }),
            _ => None,
        };
        self.entries.iter().filter_map(wanted).collect()
    }

    /// What is committed for a granted partition, and where reading begins if there is nothing else to go by.
    pub(super) fn found(&mut self, wanted: Wanted, committed: Option<Committed>, start: Place, now: Instant) {
        let Some(entry) = self.entries.get_mut(&wanted.key) else { return };
        let Lease::Granted { generation, begun } = entry.lease else { return };
        if entry.tenure != wanted.tenure || generation != wanted.generation {
            return;
        }
        self.changes += 1;
        let offset = committed.map(|committed| committed.offset);
        if begun && entry.progress.goes_on_from(offset) {
            entry.lease = Lease::Active { generation };
            return;
        }
        let topic = entry.topic.clone();
        if begun {
            // Another member went on; what this one did and did not commit is done again.
            self.lose(wanted.key, Fencing::Overtaken);
        }
        let tenure = self.tenure();
        let progress = Progress::beginning(start, offset);
        let entry = Entry { topic: topic.clone(), tenure, lease: Lease::Active { generation }, progress };
        self.entries.insert(wanted.key, entry);
        if committed.is_none() && self.config.commits_start {
            // So that whoever is next begins here, and not at an end that has moved on.
            self.queue.push(wanted.key, &topic, start, tenure, now + self.config.request_timeout, None);
        }
    }

    /// The application was told that these are to be given up.
    pub(in crate::consumer) fn told(&mut self, keys: &[Key]) {
        for key in keys {
            if let Some(Lease::Revoking { told, .. }) = self.entries.get_mut(key).map(|entry| &mut entry.lease) {
                *told = true;
            }
        }
    }

    /// Gives up what is revoked and done with. Whether the broker has to hear of it.
    pub(super) fn give_up(&mut self) -> bool {
        let done: Vec<_> = self
            .entries
            .iter()
            .filter(|(key, entry)| {
                matches!(entry.lease, Lease::Revoking { told: true, .. })
                    && !entry.progress.in_hand()
                    && !self.queue.has(**key)
                    && entry.progress.owed(self.config.auto_commit).is_none()
            })
            .map(|(key, _)| *key)
            .collect();
        for key in &done {
            let Some(mut entry) = self.entries.remove(key) else { continue };
            self.changes += 1;
            if let Lease::Revoking { again: Some(generation), .. } = entry.lease {
                entry.lease = Lease::Granted { generation, begun: false };
                entry.tenure = self.tenure();
                entry.progress = Progress::default();
                self.entries.insert(*key, entry);
            }
        }
        !done.is_empty()
    }

    /// Everything is to be given up, because the consumer closes.
    pub(in crate::consumer) fn close(&mut self, until: Instant) {
        self.closing.get_or_insert(until);
        self.enqueue_owed(until);
    }

    /// What is owed for partitions that are to be given up, and are done with.
    pub(super) fn enqueue_revoked(&mut self, deadline: Instant) {
        for (key, entry) in &self.entries {
            if matches!(entry.lease, Lease::Revoking { .. })
                && !entry.progress.in_hand()
                && let Some(place) = entry.progress.owed(self.config.auto_commit)
                && !self.queue.covers(*key, place)
            {
                self.queue.push(*key, &entry.topic, place, entry.tenure, deadline, None);
            }
        }
    }

    /// Has everything committed that is owed.
    pub(in crate::consumer) fn commit_owed(&mut self, now: Instant) -> Option<CommitWait> {
        let mode = self.config.auto_commit;
        let owed =
            |(key, entry): (&Key, &Entry)| entry.progress.owed(mode).map(|place| (*key, entry.tenure, entry.topic.clone(), place));
        let mut owed: Vec<_> = self.entries.iter().filter_map(owed).collect();
        // Who committed more waits for that.
        owed.retain(|(key, _, _, place)| self.queue.newest(*key).is_none_or(|newest| newest.offset <= place.offset));
        (!owed.is_empty()).then(|| self.commit(owed, now))
    }

    pub(super) fn enqueue_owed(&mut self, deadline: Instant) {
        if self.config.auto_commit == AutoCommit::Off {
            return;
        }
        for (key, entry) in &self.entries {
            if let Some(place) = entry.progress.owed(self.config.auto_commit)
                && !self.queue.covers(*key, place)
            {
                self.queue.push(*key, &entry.topic, place, entry.tenure, deadline, None);
            }
        }
    }
}

/// How a partition is held when the newest assignment grants it, or does not; `None`: not at all.
fn next_lease(lease: Lease, granted: Option<Generation>, listens: bool) -> Option<Lease> {
    Some(match (lease, granted) {
        (Lease::ByHand, _) => Lease::ByHand,
        (Lease::Claimed { begun }, Some(generation)) => Lease::Granted { generation, begun },
        (Lease::Claimed { .. }, None) => return None,
        (Lease::Granted { begun, .. }, Some(generation)) => Lease::Granted { generation, begun },
        (Lease::Granted { generation, begun: true } | Lease::Active { generation }, None) => {
            Lease::Revoking { generation, told: !listens, again: None }
        }
        // Nothing was read of it, so that nothing has to be finished.
        (Lease::Granted { begun: false, .. }, None) => return None,
        (Lease::Active { generation }, Some(same)) if generation == same => lease,
        (Lease::Active { .. }, Some(generation)) => Lease::Granted { generation, begun: true },
        // The application knows of nothing yet.
        (Lease::Revoking { generation, told: false, .. }, Some(same)) if generation == same => Lease::Active { generation },
        (Lease::Revoking { generation, told, .. }, again) => Lease::Revoking { generation, told, again },
    })
}
