//! A member of a group, as the state machine sees it.

use std::collections::{BTreeMap, BTreeSet};

use hermit_proto::{Generation, TopicId};

use super::assign::TopicPartition;

/// How long a member may be silent, and how long it may take to give up a partition, in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeouts {
    pub(crate) session: u64,
    pub(crate) processing: u64,
}

/// A member.
#[derive(Debug)]
pub(crate) struct Member {
    pub(super) timeouts: Timeouts,
    /// When its last request came.
    pub(super) seen_at: u64,
    /// Counts its assignments, from 1.
    pub(super) version: u64,
    pub(super) topics: BTreeSet<TopicId>,
    pub(super) held: BTreeMap<TopicPartition, Held>,
    /// How many of them it was, or will be, asked to give up.
    pub(super) revoked: usize,
}

/// A partition that a member owns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    /// Since when.
    pub(super) generation: Generation,
    pub(super) revoked: Option<Revoked>,
}

/// A partition that a member has to give up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Revoked {
    /// The first assignment that does not name it.
    pub(super) version: u64,
    /// When that was first told.
    pub(super) told_at: Option<u64>,
}

/// Why a member was put out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    /// It was silent for too long.
    Silent,
    /// It did not give up what it was asked to.
    Slow,
}

impl Member {
    pub(super) fn new(now: u64, timeouts: Timeouts) -> Self {
        Self { timeouts, seen_at: now, version: 1, topics: BTreeSet::new(), held: BTreeMap::new(), revoked: 0 }
    }

    /// When the member will be put out, and why, if nothing comes from it.
    pub(super) fn deadline(&self) -> (u64, Fence) {
        let silent = (self.seen_at.saturating_add(self.timeouts.session), Fence::Silent);
        if self.revoked == 0 {
            return silent;
        }
        let told = self.held.values().filter_map(|held| held.revoked?.told_at).min();
        match told.map(|told_at| told_at.saturating_add(self.timeouts.processing)) {
            Some(deadline) if deadline < silent.0 => (deadline, Fence::Slow),
            _ => silent,
        }
    }

    pub(crate) const fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    /// The newest version of its assignment.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// What it may hold, in order.
    pub(crate) fn assigned(&self) -> impl Iterator<Item = (TopicPartition, Generation)> + '_ {
        self.held.iter().filter(|(_, held)| held.revoked.is_none()).map(|(of, held)| (*of, held.generation))
    }

    /// How many partitions it owns, those to be given up included.
    pub(crate) fn owns(&self) -> usize {
        self.held.len()
    }
}
