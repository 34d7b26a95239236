//! What the log holds, against what was sent: every line exactly as often, in the order of the file for each key.

use std::collections::HashMap;

use bytes::Bytes;

use super::checksum::{Checksum, sorted_checksum};
use super::{Found, Kind, Violations};
use crate::stream::Line;

/// Checks one whole reading of the log, from its start to its end.
#[derive(Debug)]
pub struct LogCheck<'a> {
    sent: &'a [Line],
    /// From a text to the numbers of its lines in the file, in order, and how many of them the log has shown.
    lines: HashMap<&'a [u8], (Vec<usize>, usize)>,
    /// For each key: its partition, and the number of its last line so far.
    keys: HashMap<Bytes, (u32, usize)>,
    /// For each partition: the records so far, in order.
    partitions: HashMap<u32, Vec<Found>>,
    violations: Violations,
}

/// What a reading of the log has shown; other checks look records up here.
#[derive(Debug)]
pub struct LogFacts {
    partitions: HashMap<u32, Vec<Found>>,
}

impl<'a> LogCheck<'a> {
    /// Begins a check against what was sent.
    #[must_use]
    pub fn new(sent: &'a [Line]) -> Self {
        let mut lines = HashMap::<_, (Vec<_>, _)>::with_capacity(sent.len());
        for (at, line) in sent.iter().enumerate() {
            lines.entry(&line.text[..]).or_default().0.push(at);
        }
        Self { sent, lines, keys: HashMap::new(), partitions: HashMap::new(), violations: Violations::default() }
    }

    /// Takes the next record of a partition.
    pub fn read(&mut self, found: Found) {
        let before = self.partitions.get(&found.partition).and_then(|records| records.last());
        let follows = before.map_or(0, |before| before.offset + 1);
        if found.offset != follows {
            self.violations.add(Kind::Gap, || format!("partition {}: {} where {follows} follows", found.partition, found.offset));
        }
        self.place(&found);
        self.partitions.entry(found.partition).or_default().push(found);
    }

    fn place(&mut self, found: &Found) {
        let show = || format!("partition {} offset {}: {}", found.partition, found.offset, String::from_utf8_lossy(&found.text));
        let Some((numbers, shown)) = self.lines.get_mut(&found.text[..]) else {
            return self.violations.add(Kind::Phantom, show);
        };
        *shown += 1;
        let Some(&number) = numbers.get(*shown - 1) else {
            return self.violations.add(Kind::Doubled, show);
        };
        let key = &self.sent[number].key;
        if found.key != key {
            self.violations.add(Kind::WrongKey, show);
        }
        let (partition, last) = self.keys.entry(key.clone()).or_insert((found.partition, number));
        if *partition != found.partition {
            self.violations.add(Kind::SplitKey, show);
        }
        if number < *last {
            self.violations.add(Kind::Reordered, show);
        }
        *last = number.max(*last);
    }

    /// Ends the check: what was not shown is lost.
    #[must_use]
    pub fn finish(mut self) -> (LogFacts, Violations) {
        for (numbers, shown) in self.lines.values() {
            for number in numbers.iter().skip(*shown) {
                let text = String::from_utf8_lossy(&self.sent[*number].text);
                self.violations.add(Kind::Lost, || format!("line {}: {text}", number + 1));
            }
        }
        (LogFacts { partitions: self.partitions }, self.violations)
    }
}

impl LogFacts {
    /// The record at an offset.
    #[must_use]
    pub fn at(&self, partition: u32, offset: u64) -> Option<&Found> {
        let records = self.partitions.get(&partition)?;
        let at = records.binary_search_by_key(&offset, |found| found.offset).ok()?;
        records.get(at)
    }

    /// The offset behind a partition's last record.
    #[must_use]
    pub fn end(&self, partition: u32) -> u64 {
        self.partitions.get(&partition).and_then(|records| records.last()).map_or(0, |last| last.offset + 1)
    }

    /// All records, partition by partition.
    pub fn records(&self) -> impl Iterator<Item = &Found> {
        self.partitions.values().flatten()
    }

    /// The checksum of all lines in the log.
    #[must_use]
    pub fn checksum(&self) -> Checksum {
        sorted_checksum(self.records().map(|found| &found.text[..]))
    }

    /// Checks that every answered line is where its answer said: `answers` are (number of the line, partition, offset).
    pub fn check_answers(&self, sent: &[Line], answers: impl Iterator<Item = (usize, u32, u64)>) -> Violations {
        let mut violations = Violations::default();
        for (number, partition, offset) in answers {
            if self.at(partition, offset).is_none_or(|found| found.text != sent[number].text) {
                violations.add(Kind::AnswerBroken, || format!("line {}: partition {partition} offset {offset}", number + 1));
            }
        }
        violations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys are the first letters; `a` lives in partition 0 and all else in partition 1.
    fn sent() -> Vec<Line> {
        ["a1", "b1", "a2", "b2", "a3", "b2"].map(|text| Line { key: Bytes::from(&text[..1]), text: text.into() }).to_vec()
    }

    fn read(lines: &[&'static str]) -> (LogFacts, Violations) {
        let sent = sent();
        let mut check = LogCheck::new(&sent);
        let mut ends = [0, 0];
        for text in lines {
            let partition = u32::from(!text.starts_with('a'));
            let end = &mut ends[partition as usize];
            check.read(Found { partition, offset: *end, key: Bytes::from(&text[..1]), text: Bytes::from(*text) });
            *end += 1;
        }
        check.finish()
    }

    /// The only kind of violation found, and how many.
    fn only(violations: &Violations, kind: Kind, count: u64) {
        assert_eq!(violations.count(kind), count, "{violations}");
        let others = violations.to_string().lines().filter(|line| !line.starts_with(' ')).count();
        assert_eq!(others, 1, "{violations}");
    }

    #[test]
    fn the_file_itself_passes_however_its_partitions_interleave() {
        for lines in [["a1", "b1", "a2", "b2", "a3", "b2"], ["b1", "b2", "b2", "a1", "a2", "a3"]] {
            let (facts, violations) = read(&lines);
            assert!(violations.is_empty(), "{violations}");
            assert_eq!(facts.checksum(), sorted_checksum(sent().iter().map(|line| &line.text[..])));
            assert_eq!((facts.end(0), facts.end(1), facts.end(2), facts.records().count()), (3, 3, 0, 6));
        }
    }

    #[test]
    fn a_lost_line_is_found_also_one_of_two_that_are_equal() {
        only(&read(&["a1", "b1", "a2", "b2", "b2"]).1, Kind::Lost, 1);
        only(&read(&["a1", "b1", "a2", "b2", "a3"]).1, Kind::Lost, 1);
        only(&read(&[]).1, Kind::Lost, 6);
    }

    #[test]
    fn a_doubled_line_is_found_also_of_two_that_are_equal() {
        only(&read(&["a1", "a2", "a3", "a3", "b1", "b2", "b2"]).1, Kind::Doubled, 1);
        only(&read(&["a1", "a2", "a3", "b1", "b2", "b2", "b2"]).1, Kind::Doubled, 1);
    }

    #[test]
    fn reordered_lines_are_found_within_a_key() {
        only(&read(&["a2", "a1", "a3", "b1", "b2", "b2"]).1, Kind::Reordered, 1);
        only(&read(&["a3", "a1", "a2", "b1", "b2", "b2"]).1, Kind::Reordered, 2);
    }

    #[test]
    fn a_phantom_line_is_found() {
        only(&read(&["a1", "a2", "a3", "b1", "b2", "b2", "zz"]).1, Kind::Phantom, 1);
    }

    fn found(partition: u32, offset: u64, key: &'static str, text: &'static str) -> Found {
        Found { partition, offset, key: key.into(), text: text.into() }
    }

    #[test]
    fn gaps_wrong_keys_and_split_keys_are_found() {
        let sent = sent();
        let mut check = LogCheck::new(&sent[..1]);
        check.read(found(0, 1, "a", "a1"));
        only(&check.finish().1, Kind::Gap, 1);

        let mut check = LogCheck::new(&sent[..1]);
        check.read(found(0, 0, "b", "a1"));
        only(&check.finish().1, Kind::WrongKey, 1);

        let mut check = LogCheck::new(&sent[1..4]);
        check.read(found(0, 0, "b", "b1"));
        check.read(found(1, 0, "a", "a2"));
        check.read(found(1, 1, "b", "b2"));
        only(&check.finish().1, Kind::SplitKey, 1);
    }

    #[test]
    fn an_answer_that_was_not_kept_is_found() {
        let (facts, _) = read(&["a1", "b1", "a2", "b2", "a3", "b2"]);
        assert!(facts.check_answers(&sent(), [(0, 0, 0), (1, 1, 0), (5, 1, 2)].into_iter()).is_empty());
        let broken = facts.check_answers(&sent(), [(0, 0, 1), (2, 0, 9), (3, 7, 0)].into_iter());
        only(&broken, Kind::AnswerBroken, 3);
    }
}
