//! Committed positions: never back, never invented, and where a group goes on.

use std::collections::HashMap;

use super::index::Index;
use super::{Happened, History, Keeps, Part};
use crate::check::{Kind, Violations};

/// The commits of a group for a partition.
#[derive(Debug, Default)]
struct Commits {
    /// When a commit was answered, and the largest position answered by then.
    answered: Vec<(u64, u64)>,
    /// All positions that somebody tried to commit.
    tried: Vec<u64>,
}

impl Commits {
    /// The largest position whose commit was answered before a time.
    fn before(&self, at: u64) -> Option<u64> {
        let later = self.answered.partition_point(|(answered, _)| *answered < at);
        self.answered.get(later.checked_sub(1)?).map(|(_, offset)| *offset)
    }

    fn answer(&mut self, at: u64, offset: u64) {
        let largest = self.answered.last().map_or(0, |(_, largest)| *largest);
        self.answered.push((at, offset.max(largest)));
    }
}

pub(super) fn check(history: &History, index: &Index, violations: &mut Violations) {
    let mut groups: HashMap<(u16, Part), Commits> = HashMap::new();
    for event in &history.events {
        match event.what {
            Happened::Commits { group, part, offset } => groups.entry((group, part)).or_default().tried.push(offset),
            Happened::Committed { group, part, offset, begun } => {
                let commits = groups.entry((group, part)).or_default();
                if commits.before(begun).is_some_and(|before| offset < before) {
                    violations.add(Kind::CommitLost, || show(history, group, part, offset, "was accepted over a later one"));
                }
                commits.answer(event.at, offset);
            }
            Happened::Fetched { group, part, offset, begun } => {
                let commits = groups.entry((group, part)).or_default();
                if commits.before(begun).is_some_and(|before| offset.is_none_or(|offset| offset < before)) {
                    violations.add(Kind::CommitLost, || {
                        show(history, group, part, offset.unwrap_or(0), "is what is committed, after a later one")
                    });
                }
                // "One below the log's start reads as its start."
                let moved = history.keeps(part) == Keeps::Newest;
                if let Some(offset) = offset
                    && !moved
                    && !commits.tried.contains(&offset)
                {
                    violations.add(Kind::CommitInvented, || show(history, group, part, offset, "nobody committed"));
                }
            }
            Happened::Resumes { group, part, offset, begun } => {
                let commits = groups.entry((group, part)).or_default();
                if commits.before(begun).is_some_and(|before| offset < before) {
                    violations.add(Kind::CommittedReadAgain, || {
                        show(history, group, part, offset, "is where the group goes on, below what it committed")
                    });
                }
                let latest = commits.tried.iter().max().copied().unwrap_or(0);
                let deleted = index.deleted.contains(&part.topic);
                if offset > latest && !deleted && skips(history, part, latest, offset) {
                    violations.add(Kind::Skipped, || {
                        show(history, group, part, offset, &format!("is where the group goes on, which came to {latest}"))
                    });
                }
            }
            _ => {}
        }
    }
}

fn skips(history: &History, part: Part, from: u64, to: u64) -> bool {
    history.held.get(&part).is_some_and(|held| held.records.iter().any(|(offset, ..)| (from..to).contains(offset)))
}

fn show(history: &History, group: u16, part: Part, offset: u64, what: &str) -> String {
    let name = history.groups.get(usize::from(group)).map_or("?", |group| &group.name);
    format!("{name}, {}: {offset} {what}{}", history.name(part), history.around(None, Some((part, offset))))
}
