//! What a consumer was shown and what it committed, through restarts of itself and of the broker.

use std::collections::BTreeMap;

use super::{Found, Kind, LogFacts, Violations};

/// Follows one consumer group that reads every partition.
#[derive(Debug, Default)]
pub struct ConsumerCheck {
    partitions: BTreeMap<u32, Partition>,
    violations: Violations,
    reads: u64,
}

#[derive(Debug, Default)]
struct Partition {
    /// The records shown, by offset; the text is compared with the log at the end.
    shown: BTreeMap<u64, Found>,
    /// What the next record must be, once the first one since a start was shown.
    next: Option<u64>,
    /// Nothing below it may be shown until the next start.
    floor: u64,
    /// The largest offset whose commit was answered.
    answered: u64,
    /// The largest offset whose commit was tried: without an answer it may have happened or not.
    tried: u64,
}

impl ConsumerCheck {
    /// The consumer begins anew, and the broker says what is committed for a partition.
    pub fn started(&mut self, partition: u32, committed: Option<u64>) {
        let state = self.partitions.entry(partition).or_default();
        let at = committed.unwrap_or(0);
        if at < state.answered {
            let answered = state.answered;
            self.violations.add(Kind::CommitLost, || format!("partition {partition}: {committed:?} after {answered} was answered"));
        }
        if at > state.tried {
            let tried = state.tried;
            self.violations
                .add(Kind::CommitInvented, || format!("partition {partition}: {at}, but {tried} was the last one tried"));
        }
        state.floor = at.max(state.answered);
        state.next = None;
    }

    /// The consumer was shown a record.
    pub fn read(&mut self, found: Found) {
        self.reads += 1;
        let state = self.partitions.entry(found.partition).or_default();
        let place = || format!("partition {} offset {}", found.partition, found.offset);
        match state.next {
            _ if found.offset < state.floor => self.violations.add(Kind::CommittedReadAgain, place),
            Some(next) if found.offset != next => self.violations.add(Kind::Gap, || format!("{} where {next} follows", place())),
            None if found.offset > state.floor => {
                self.violations.add(Kind::Gap, || format!("{} at a start from {}", place(), state.floor));
            }
            _ => {}
        }
        state.next = Some(found.offset + 1);
        if let Some(before) = state.shown.get(&found.offset)
            && *before != found
        {
            self.violations.add(Kind::TakenBack, || format!("{}: another record than before", place()));
        }
        state.shown.insert(found.offset, found);
    }

    /// A commit is being sent.
    pub fn committing(&mut self, partition: u32, offset: u64) {
        let state = self.partitions.entry(partition).or_default();
        state.tried = state.tried.max(offset);
    }

    /// The commit was answered.
    pub fn committed(&mut self, partition: u32, offset: u64) {
        let state = self.partitions.entry(partition).or_default();
        state.answered = state.answered.max(offset);
    }

    /// Records shown so far, repeated ones included.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.reads
    }

    /// Distinct records shown so far, partition by partition.
    pub fn distinct(&self) -> impl Iterator<Item = &Found> {
        self.partitions.values().flat_map(|state| state.shown.values())
    }

    /// The sum of the offsets whose commits were answered: the records that are done with.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.partitions.values().map(|state| state.answered).sum()
    }

    /// Compares all that was shown with the log, in both directions.
    #[must_use]
    pub fn finish(mut self, log: &LogFacts) -> Violations {
        for found in self.partitions.values().flat_map(|state| state.shown.values()) {
            if log.at(found.partition, found.offset) != Some(found) {
                self.violations.add(Kind::TakenBack, || {
                    format!("partition {} offset {}: {}", found.partition, found.offset, String::from_utf8_lossy(&found.text))
                });
            }
        }
        for found in log.records() {
            if !self.partitions.get(&found.partition).is_some_and(|state| state.shown.contains_key(&found.offset)) {
                self.violations.add(Kind::NeverRead, || format!("partition {} offset {}", found.partition, found.offset));
            }
        }
        self.violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::LogCheck;
    use crate::stream::Line;

    fn found(offset: u64) -> Found {
        Found { partition: 0, offset, key: "k".into(), text: format!("line {offset}").into() }
    }

    fn log(records: u64) -> LogFacts {
        let sent: Vec<Line> = (0..records).map(found).map(|found| Line { key: found.key, text: found.text }).collect();
        let mut check = LogCheck::new(&sent);
        (0..records).for_each(|offset| check.read(found(offset)));
        let (facts, violations) = check.finish();
        assert!(violations.is_empty());
        facts
    }

    /// A consumer that was shown 0..3, committed 2 with an answer and 3 without one.
    fn consumer() -> ConsumerCheck {
        let mut check = ConsumerCheck::default();
        check.started(0, None);
        (0..3).for_each(|offset| check.read(found(offset)));
        check.committing(0, 2);
        check.committed(0, 2);
        check.committing(0, 3);
        check
    }

    #[test]
    fn a_restart_may_begin_at_any_commit_since_the_last_answered() {
        for committed in [2, 3] {
            let mut check = consumer();
            check.started(0, Some(committed));
            (committed..4).for_each(|offset| check.read(found(offset)));
            assert_eq!((check.distinct().count() as u64, check.reads(), check.done()), (4, 3 + 4 - committed, 2));
            let violations = check.finish(&log(4));
            assert!(violations.is_empty(), "{violations}");
        }
    }

    #[test]
    fn lost_and_invented_commits_are_found() {
        for (committed, kind) in [(None, Kind::CommitLost), (Some(1), Kind::CommitLost), (Some(4), Kind::CommitInvented)] {
            let mut check = consumer();
            check.started(0, committed);
            assert_eq!(check.finish(&log(3)).count(kind), 1, "{committed:?}");
        }
    }

    #[test]
    fn reading_again_what_was_committed_is_found() {
        let mut check = consumer();
        check.started(0, Some(2));
        check.read(found(1));
        assert_eq!(check.finish(&log(3)).count(Kind::CommittedReadAgain), 1);
    }

    #[test]
    fn skipping_is_found_at_a_start_and_later() {
        let mut check = consumer();
        check.started(0, Some(2));
        check.read(found(3));
        check.read(found(5));
        let violations = check.finish(&log(6));
        assert_eq!((violations.count(Kind::Gap), violations.count(Kind::NeverRead)), (2, 1));
    }

    #[test]
    fn a_repetition_without_a_restart_is_found() {
        let mut check = consumer();
        check.read(found(2));
        assert_eq!(check.finish(&log(3)).count(Kind::Gap), 1);
    }

    #[test]
    fn what_was_shown_must_still_be_there() {
        assert_eq!(consumer().finish(&log(2)).count(Kind::TakenBack), 1);

        let mut check = consumer();
        check.started(0, Some(2));
        check.read(Found { text: "another".into(), ..found(2) });
        assert_eq!(check.finish(&log(3)).count(Kind::TakenBack), 2);
    }
}
