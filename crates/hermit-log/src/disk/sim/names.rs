//! A directory's names: what the process sees, what is on the platter, and what is between the two.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::content::Fate;
use super::rng::Rng;

pub(super) type NodeId = u64;

#[derive(Debug, Clone)]
pub(super) enum NameChange {
    Set { name: OsString, node: NodeId },
    Unset { name: OsString },
    Rename { from: OsString, to: OsString, node: NodeId },
}

impl NameChange {
    fn names(&self) -> impl Iterator<Item = &OsStr> {
        let (first, second) = match self {
            Self::Set { name, .. } | Self::Unset { name } => (name, None),
            Self::Rename { from, to, .. } => (from, Some(to)),
        };
        std::iter::once(first.as_os_str()).chain(second.map(OsString::as_os_str))
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) live: BTreeMap<OsString, NodeId>,
    pub(super) durable: BTreeMap<OsString, NodeId>,
    /// In order, with the sequence number of each.
    pub(super) pending: Vec<(u64, NameChange)>,
}

fn apply(names: &mut BTreeMap<OsString, NodeId>, change: &NameChange) {
    match change {
        NameChange::Set { name, node } => {
            names.insert(name.clone(), *node);
        }
        NameChange::Unset { name } => {
            names.remove(name);
        }
        NameChange::Rename { from, to, node } => {
            names.remove(from);
            names.insert(to.clone(), *node);
        }
    }
}

impl Names {
    pub(super) fn change(&mut self, sequence: u64, change: NameChange) {
        apply(&mut self.live, &change);
        self.pending.push((sequence, change));
    }

    pub(super) fn sync(&mut self) {
        for (_, change) in self.pending.drain(..) {
            apply(&mut self.durable, &change);
        }
    }

    /// The un-synced changes meet their fate; the process still sees what it did. Changes of one name, and of names that a rename
    /// joins, stay in order and whole; others are independent.
    pub(super) fn settle(&mut self, fate: Fate, rng: &mut Rng) {
        let pending = std::mem::take(&mut self.pending);
        let keep: Vec<bool> = match fate {
            Fate::Lost | Fate::Holes => vec![false; pending.len()],
            Fate::Kept => vec![true; pending.len()],
            Fate::Before(cut) => pending.iter().map(|(sequence, _)| *sequence < cut).collect(),
            Fate::Torn => torn(&pending, rng),
        };
        for ((_, change), keep) in pending.iter().zip(keep) {
            if keep {
                apply(&mut self.durable, change);
            }
        }
    }

    pub(super) fn reload(&mut self) {
        self.live.clone_from(&self.durable);
    }
}

/// For each group of joined names a prefix of its changes.
fn torn(pending: &[(u64, NameChange)], rng: &mut Rng) -> Vec<bool> {
    let mut group_of: BTreeMap<&OsStr, usize> = BTreeMap::new();
    for (number, (_, change)) in pending.iter().enumerate() {
        for name in change.names() {
            let old = group_of.insert(name, number);
            // All that was joined with this name before is now joined with this change's other name.
            for group in group_of.values_mut().filter(|group| Some(**group) == old) {
                *group = number;
            }
        }
    }
    let group = |change: &NameChange| change.names().next().and_then(|name| group_of.get(name)).copied().unwrap_or(0);
    let mut left: BTreeMap<usize, usize> = BTreeMap::new();
    for (_, change) in pending {
        *left.entry(group(change)).or_default() += 1;
    }
    for changes in left.values_mut() {
        *changes = rng.below(*changes + 1);
    }
    pending
        .iter()
        .map(|(_, change)| left.get_mut(&group(change)).filter(|left| **left > 0).map(|left| *left -= 1).is_some())
        .collect()
}
