//! What the members of a consumer group did, each by its own journal, against what the log holds.
//!
//! Members are processes of one machine and stamp their journals by its monotonic clock, so that events of several of them can be put in order.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;

use super::{Kind, LogFacts, Violations};

/// Something that a member did, or was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A partition came to the member.
    Assigned {
        /// The partition.
        partition: u32,
    },
    /// The member gave a partition up, after its last record and its last commit.
    Released {
        /// The partition.
        partition: u32,
        /// Since which generation the partition was the member's.
        generation: u64,
    },
    /// The member was told that the partition is not its own any more, without being asked.
    Lost {
        /// The partition.
        partition: u32,
    },
    /// The handler began with a record.
    Began {
        /// The partition.
        partition: u32,
        /// The offset.
        offset: u64,
        /// Since which generation the partition was the member's.
        generation: u64,
        /// [`fingerprint`] of key and text.
        fingerprint: u64,
    },
    /// The handler was done with it.
    Ended {
        /// The partition.
        partition: u32,
        /// The offset.
        offset: u64,
    },
    /// Somebody who looks on saw what is committed.
    Committed {
        /// The partition.
        partition: u32,
        /// The next offset to read.
        offset: u64,
        /// The generation of the owner at that time. Who owns the partition under this generation, or a later one, has no reason to read below the offset.
        generation: u64,
    },
}

/// An event, and when: nanoseconds of the machine's monotonic clock.
pub type Stamped = (u64, Event);

/// The journal of one process, in the order in which it was written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Journal(pub Vec<Stamped>);

/// Tells one record from another.
#[must_use]
pub fn fingerprint(key: &[u8], text: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (key, text).hash(&mut hasher);
    hasher.finish()
}

/// What the journals add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GroupFacts {
    /// Records that a handler began with, repetitions included.
    pub handled: u64,
    /// Distinct records among them.
    pub distinct: u64,
    /// Times that a partition came to a member.
    pub assigned: u64,
    /// Times that a member gave one up.
    pub released: u64,
    /// Times that a member was told it had lost one.
    pub lost: u64,
    /// Times that a committed position was looked at.
    pub looks: u64,
}

/// Checks the journals of all processes that were members.
#[must_use]
pub fn check(journals: &[Journal], log: &LogFacts) -> (GroupFacts, Violations) {
    let mut violations = Violations::default();
    let mut facts = GroupFacts::default();
    let mut seen = HashSet::new();
    let commits = Commits::of(journals);
    for journal in journals {
        let mut keys = Keys::default();
        for (at, event) in &journal.0 {
            match *event {
                Event::Began { partition, offset, generation, fingerprint: shown } => {
                    facts.handled += 1;
                    seen.insert((partition, offset));
                    let place = || format!("partition {partition} offset {offset}, generation {generation}");
                    let Some(found) = log.at(partition, offset) else {
                        violations.add(Kind::TakenBack, place);
                        continue;
                    };
                    if fingerprint(&found.key, &found.text) != shown {
                        violations.add(Kind::TakenBack, place);
                    }
                    if commits.covers(partition, offset, generation, *at) {
                        violations.add(Kind::CommittedReadAgain, place);
                    }
                    if !keys.begin(&found.key, partition, offset, generation) {
                        violations.add(Kind::Reordered, place);
                    }
                }
                Event::Ended { partition, offset } => {
                    if let Some(found) = log.at(partition, offset) {
                        keys.end(&found.key, partition, offset);
                    }
                }
                Event::Assigned { .. } => facts.assigned += 1,
                Event::Released { .. } => facts.released += 1,
                Event::Lost { .. } => facts.lost += 1,
                Event::Committed { .. } => facts.looks += 1,
            }
        }
    }
    facts.distinct = seen.len() as u64;
    for found in log.records() {
        if !seen.contains(&(found.partition, found.offset)) {
            violations.add(Kind::NeverRead, || format!("partition {} offset {}", found.partition, found.offset));
        }
    }
    check_owners(journals, &mut violations);
    (facts, violations)
}

/// The commits seen: for each partition and generation the times, each with the largest offset so far.
#[derive(Debug, Default)]
struct Commits(HashMap<u32, BTreeMap<u64, Vec<(u64, u64)>>>);

impl Commits {
    fn of(journals: &[Journal]) -> Self {
        let mut commits = Self::default();
        for (at, event) in journals.iter().flat_map(|journal| &journal.0) {
            if let Event::Committed { partition, offset, generation } = *event {
                commits.0.entry(partition).or_default().entry(generation).or_default().push((*at, offset));
            }
        }
        for seen in commits.0.values_mut().flat_map(BTreeMap::values_mut) {
            seen.sort_unstable();
            let mut largest = 0;
            for (_, offset) in seen {
                largest = largest.max(*offset);
                *offset = largest;
            }
        }
        commits
    }

    /// Whether a commit of this generation, or one before it, was seen before `at` and covers the offset. A commit of a *later* generation
    /// says nothing: whoever handles the record then was fenced, and does not know it yet.
    fn covers(&self, partition: u32, offset: u64, generation: u64, at: u64) -> bool {
        let Some(generations) = self.0.get(&partition) else { return false };
        generations.range(..=generation).rev().any(|(_, seen)| {
            let before = seen.partition_point(|(time, _)| *time < at);
            before.checked_sub(1).is_some_and(|last| seen[last].1 > offset)
        })
    }
}

/// The order of each key within one process.
#[derive(Debug, Default)]
struct Keys(HashMap<(Bytes, u32), KeyState>);

#[derive(Debug, Default)]
struct KeyState {
    generation: u64,
    last: Option<u64>,
    running: Option<u64>,
}

impl Keys {
    /// Whether the record may begin: none of its key is under way, and it comes behind the one before.
    fn begin(&mut self, key: &Bytes, partition: u32, offset: u64, generation: u64) -> bool {
        let state = self.0.entry((key.clone(), partition)).or_default();
        if state.generation != generation {
            // Under another generation it may begin again at what is committed.
            *state = KeyState { generation, last: None, running: state.running };
        }
        let good = state.running.is_none() && state.last.is_none_or(|last| offset > last);
        state.last = Some(offset);
        state.running = Some(offset);
        good
    }

    fn end(&mut self, key: &Bytes, partition: u32, offset: u64) {
        if let Some(state) = self.0.get_mut(&(key.clone(), partition))
            && state.running == Some(offset)
        {
            state.running = None;
        }
    }
}

/// One process's time with a partition under one generation.
#[derive(Debug, Clone, Copy)]
struct Tenure {
    process: usize,
    /// When its first record began.
    began: u64,
    /// When the partition was given up under this generation, of one's own will. Under another generation the process had it anew, after it
    /// was fenced or the broker had forgotten it.
    released: Option<u64>,
}

/// A generation of a partition belongs to one process; and where a partition was given up, the next owner begins with its first record only
/// after that.
fn check_owners(journals: &[Journal], violations: &mut Violations) {
    let mut tenures: HashMap<u32, BTreeMap<u64, Tenure>> = HashMap::new();
    for (process, journal) in journals.iter().enumerate() {
        for (at, event) in &journal.0 {
            match *event {
                Event::Began { partition, generation, offset, .. } => {
                    let fresh = Tenure { process, began: *at, released: None };
                    let owner = tenures.entry(partition).or_default().entry(generation).or_insert(fresh).process;
                    if owner != process {
                        violations
                            .add(Kind::TwoOwners, || format!("partition {partition} offset {offset}, generation {generation}"));
                    }
                }
                Event::Released { partition, generation } => {
                    let tenure = tenures.get_mut(&partition).and_then(|tenures| tenures.get_mut(&generation));
                    if let Some(tenure) = tenure.filter(|tenure| tenure.process == process) {
                        tenure.released = Some(*at);
                    }
                }
                Event::Assigned { .. } | Event::Lost { .. } | Event::Ended { .. } | Event::Committed { .. } => {}
            }
        }
    }
    for (partition, tenures) in tenures {
        for ((_, before), (generation, after)) in tenures.iter().zip(tenures.iter().skip(1)) {
            if let Some(released) = before.released
                && before.process != after.process
                && after.began < released
            {
                let early = released - after.began;
                violations.add(Kind::TwoOwners, || {
                    format!("partition {partition}: generation {generation} began {early} ns before its predecessor was done")
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Found, LogCheck};
    use crate::stream::Line;

    const KEYS: [&str; 2] = ["a", "b"];

    fn found(offset: u64) -> Found {
        let key = KEYS[usize::try_from(offset % 2).unwrap()];
        Found { partition: 0, offset, key: key.into(), text: format!("line {offset}").into() }
    }

    fn log(records: u64) -> LogFacts {
        let sent: Vec<Line> = (0..records).map(found).map(|found| Line { key: found.key, text: found.text }).collect();
        let mut check = LogCheck::new(&sent);
        (0..records).for_each(|offset| check.read(found(offset)));
        check.finish().0
    }

    const ASSIGNED: Event = Event::Assigned { partition: 0 };

    fn began(offset: u64, generation: u64) -> Event {
        let Found { key, text, .. } = found(offset);
        Event::Began { partition: 0, offset, generation, fingerprint: fingerprint(&key, &text) }
    }

    fn ended(offset: u64) -> Event {
        Event::Ended { partition: 0, offset }
    }

    fn committed(offset: u64, generation: u64) -> Event {
        Event::Committed { partition: 0, offset, generation }
    }

    const RELEASED: Event = Event::Released { partition: 0, generation: 1 };
    const LOST: Event = Event::Lost { partition: 0 };

    fn journal(first: u64, events: &[Event]) -> Journal {
        Journal((first..).zip(events.iter().copied()).collect())
    }

    fn only(journals: &[Journal], records: u64, kind: Kind) {
        let (_, violations) = check(journals, &log(records));
        let kinds = violations.to_string().lines().filter(|line| !line.starts_with(' ')).count();
        assert!(violations.count(kind) > 0 && kinds == 1, "{violations}");
    }

    fn good(journals: &[Journal], records: u64) -> GroupFacts {
        let (facts, violations) = check(journals, &log(records));
        assert!(violations.is_empty(), "{violations}");
        facts
    }

    #[test]
    fn a_hand_over_and_keys_side_by_side_are_fine() {
        let first = journal(0, &[ASSIGNED, began(0, 1), began(1, 1), ended(1), ended(0), committed(2, 1), RELEASED]);
        let second = journal(100, &[ASSIGNED, began(2, 2), ended(2), committed(3, 2)]);
        let facts = good(&[first, second], 3);
        assert_eq!((facts.handled, facts.distinct, facts.assigned, facts.released), (3, 3, 2, 1));
    }

    #[test]
    fn what_was_not_committed_comes_again_and_what_was_must_not() {
        let first = journal(0, &[ASSIGNED, began(0, 1), ended(0), committed(1, 1), began(1, 1), ended(1)]);
        good(&[first.clone(), journal(100, &[ASSIGNED, began(1, 2), ended(1)])], 2);
        only(&[first, journal(100, &[ASSIGNED, began(0, 2), ended(0), began(1, 2), ended(1)])], 2, Kind::CommittedReadAgain);
        only(
            &[journal(0, &[ASSIGNED, began(0, 1), ended(0), committed(1, 1), ASSIGNED, began(0, 2)])],
            1,
            Kind::CommittedReadAgain,
        );
    }

    #[test]
    fn a_fenced_member_may_be_behind() {
        let second = journal(0, &[ASSIGNED, began(0, 2), ended(0), committed(1, 2)]);
        good(&[second, journal(100, &[ASSIGNED, began(0, 1), ended(0), LOST])], 1);
    }

    #[test]
    fn records_of_one_key_neither_overlap_nor_turn_round() {
        only(&[journal(0, &[ASSIGNED, began(0, 1), began(2, 1), ended(0), ended(2), began(1, 1)])], 3, Kind::Reordered);
        only(&[journal(0, &[ASSIGNED, began(2, 1), ended(2), began(0, 1), ended(0), began(1, 1)])], 3, Kind::Reordered);
    }

    #[test]
    fn an_owner_that_begins_before_the_one_before_is_done_is_found() {
        let first = journal(0, &[ASSIGNED, began(0, 1), ended(0), RELEASED]);
        only(&[first, Journal(vec![(1, ASSIGNED), (2, began(1, 2))])], 2, Kind::TwoOwners);
        // It was fenced, and had the partition anew: the first time was not given up.
        let first = journal(0, &[ASSIGNED, began(0, 1), ended(0), Event::Released { partition: 0, generation: 3 }]);
        good(&[first, Journal(vec![(1, ASSIGNED), (2, began(1, 2))])], 2);
        let twins = [journal(0, &[ASSIGNED, began(0, 1)]), journal(9, &[ASSIGNED, began(0, 1)])];
        only(&twins, 1, Kind::TwoOwners);
    }

    #[test]
    fn what_was_never_handled_or_never_there_is_found() {
        only(&[journal(0, &[ASSIGNED, began(0, 1)])], 2, Kind::NeverRead);
        only(&[journal(0, &[ASSIGNED, began(0, 1), began(1, 1)])], 1, Kind::TakenBack);
        let other = Event::Began { partition: 0, offset: 0, generation: 1, fingerprint: 7 };
        only(&[journal(0, &[ASSIGNED, other])], 1, Kind::TakenBack);
    }
}
