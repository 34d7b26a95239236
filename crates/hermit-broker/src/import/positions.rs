//! The older broker's committed positions: key `group:topic:partition`, payload u64, of which group and topic may hold colons themselves.

use std::collections::BTreeMap;

use hermit_proto::{GroupName, Header, Offset, PartitionId, TopicName};

use super::ImportError;
use super::findings::{Finding, Problem};
use super::walk::Visitor;

/// The longest key: two names of 255 bytes, a number, and two colons.
const MAX_KEY_BYTES: usize = 255 + 1 + 255 + 1 + 10;

/// Reads the positions; the last one for a key counts.
#[derive(Debug)]
pub(super) struct Positions {
    last: BTreeMap<Vec<u8>, Offset>,
    unreadable: u64,
    first_unreadable: Offset,
    limit: usize,
    over_limit: bool,
}

/// A position that has a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OldPosition {
    pub(super) group: GroupName,
    pub(super) topic: TopicName,
    pub(super) partition: PartitionId,
    pub(super) offset: Offset,
}

/// The ends of all partitions that are imported.
pub(super) type Ends = BTreeMap<TopicName, Vec<Offset>>;

impl Positions {
    /// Keeps `limit` positions at most.
    pub(super) const fn new(limit: usize) -> Self {
        Self { last: BTreeMap::new(), unreadable: 0, first_unreadable: Offset::ZERO, limit, over_limit: false }
    }

    /// What keeps them from being taken over.
    pub(super) fn problem(&self) -> Option<Problem> {
        let what = "committed positions or more";
        let count = self.last.len() as u64 + 1;
        self.over_limit.then_some(Problem::TooMany { what, count, limit: self.limit as u64 })
    }

    /// Gives each position its group, topic and partition.
    pub(super) fn resolve(self, ends: &Ends) -> (Vec<OldPosition>, Vec<Finding>) {
        let (mut positions, mut findings) = (Vec::new(), Vec::new());
        if self.unreadable > 0 {
            findings.push(Finding::PositionsUnreadable { count: self.unreadable, first: self.first_unreadable });
        }
        for (key, offset) in self.last {
            match resolve(&key, offset, ends) {
                Ok((position, beyond)) => {
                    positions.push(position);
                    findings.extend(beyond);
                }
                Err(finding) => findings.push(finding),
            }
        }
        (positions, findings)
    }
}

impl Visitor for Positions {
    const BODIES: bool = true;

    fn skip_to(&mut self, _to: Offset) -> Result<(), ImportError> {
        Ok(())
    }

    fn frame(&mut self, header: &Header, body: &[u8]) -> Result<(), ImportError> {
        let key_size = usize::try_from(header.key_size).unwrap_or(usize::MAX);
        let parts = body.split_at_checked(key_size).filter(|(key, _)| !key.is_empty() && key.len() <= MAX_KEY_BYTES);
        let value = parts.and_then(|(key, payload)| Some((key, u64::from_be_bytes(payload.try_into().ok()?))));
        let Some((key, offset)) = value else {
            if self.unreadable == 0 {
                self.first_unreadable = Offset(header.offset);
            }
            self.unreadable += 1;
            return Ok(());
        };
        if self.last.len() >= self.limit && !self.last.contains_key(key) {
            self.over_limit = true;
        } else {
            self.last.insert(key.to_vec(), Offset(offset));
        }
        Ok(())
    }
}

/// Every way to read `group:topic:partition` that names a partition that is there.
fn candidates<'a>(key: &'a [u8], ends: &Ends) -> Vec<(&'a [u8], TopicName, PartitionId, Offset)> {
    let colons = |bytes: &'a [u8]| bytes.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at);
    let Some(last) = colons(key).next_back() else { return Vec::new() };
    let (names, number) = (key.get(..last).unwrap_or_default(), key.get(last + 1..).unwrap_or_default());
    let number = std::str::from_utf8(number).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(number) = number.and_then(|digits| digits.parse::<u32>().ok()) else { return Vec::new() };
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    let read = |at: usize| {
        let (group, topic) = (names.get(..at)?, names.get(at + 1..)?);
        let topic = std::str::from_utf8(topic).ok()?;
        let (topic, ends) = ends.get_key_value(topic)?;
        let end = ends.get(index)?;
        (!group.is_empty()).then(|| (group, topic.clone(), PartitionId(number), *end))
    };
    colons(names).filter_map(read).collect()
}

fn resolve(key: &[u8], offset: Offset, ends: &Ends) -> Result<(OldPosition, Option<Finding>), Finding> {
    let text = || String::from_utf8_lossy(key).into_owned();
    let mut candidates = candidates(key, ends);
    if candidates.len() > 1 {
        let told = candidates.iter().map(|(group, topic, partition, _)| {
            format!("group {} in topic {topic}, partition {partition}", String::from_utf8_lossy(group))
        });
        return Err(Finding::PositionAmbiguous { key: text(), offset, candidates: told.collect() });
    }
    let Some((group, topic, partition, end)) = candidates.pop() else {
        return Err(Finding::PositionUnknown { key: text(), offset });
    };
    let group = GroupName::new(group).map_err(|source| Finding::PositionGroup { key: text(), offset, source })?;
    let beyond = (offset > end).then(|| Finding::PositionBeyondEnd { key: text(), offset, end });
    Ok((OldPosition { group, topic, partition, offset: offset.min(end) }, beyond))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(topics: &[(&str, &[u64])]) -> Ends {
        let topics = topics.iter();
        topics.map(|(name, ends)| (TopicName::new(name).unwrap(), ends.iter().copied().map(Offset).collect())).collect()
    }

    fn read(records: &[(&str, u64)], ends: &Ends) -> (Vec<String>, Vec<Finding>) {
        let mut positions = Positions::new(100);
        for (at, (key, offset)) in records.iter().enumerate() {
            let size = u32::try_from(key.len()).unwrap();
            let header = Header { magic: 1, timestamp: 0, offset: at as u64, key_size: size, payload_size: 8, record_count: 1 };
            positions.frame(&header, &[key.as_bytes(), &offset.to_be_bytes()].concat()).unwrap();
        }
        let (positions, findings) = positions.resolve(ends);
        let told = positions.iter().map(|p| format!("{} {} {} {}", p.group, p.topic, p.partition, p.offset));
        (told.collect(), findings)
    }

    #[test]
    fn the_last_position_counts_and_names_may_hold_colons() {
        let ends = ends(&[("golden", &[10]), ("a:b", &[10, 20])]);
        let (positions, findings) =
            read(&[("grp:golden:0", 3), ("g:x:golden:0", 4), ("g:a:b:1", 15), (":a:b:0", 1), ("grp:golden:0", 1)], &ends);
        assert_eq!(positions, ["g a:b 1 15", "g:x golden 0 4", "grp golden 0 1"]);
        // The group before the topic is empty, and `a` is not a group of a topic `b`.
        assert!(matches!(&findings[..], [Finding::PositionUnknown { key, .. }] if key == ":a:b:0"), "{findings:?}");
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_told_and_not_guessed() {
        let ends = ends(&[("b", &[10]), ("a:b", &[10])]);
        let (positions, findings) = read(&[("g:a:b:0", 3)], &ends);
        assert!(positions.is_empty());
        let text = findings[0].to_string();
        assert!(text.contains("group g:a in topic b") && text.contains("group g in topic a:b"), "{text}");
    }

    #[test]
    fn positions_of_what_is_not_there_are_told_and_those_beyond_the_end_are_clamped() {
        let ends = ends(&[("t", &[10])]);
        let (positions, findings) = read(
            &[("g:t:0", 11), ("g:t:1", 1), ("g:u:0", 1), ("nonsense", 1), ("g:t:x", 1), ("\u{1}:t:0", 2), ("h:t:0", 10)],
            &ends,
        );
        assert_eq!(positions, ["g t 0 10", "h t 0 10"]);
        assert_eq!(findings.len(), 6, "{findings:#?}");
        assert!(findings.iter().any(|finding| matches!(finding, Finding::PositionBeyondEnd { end: Offset(10), .. })));
        assert!(findings.iter().any(|finding| matches!(finding, Finding::PositionGroup { .. })));
    }

    #[test]
    fn records_that_make_no_sense_are_counted_and_the_number_of_positions_is_bounded() {
        let mut positions = Positions::new(1);
        let header = |key_size| Header { magic: 1, timestamp: 0, offset: 7, key_size, payload_size: 8, record_count: 1 };
        positions.frame(&header(0), &[0; 8]).unwrap();
        positions.frame(&header(9), &[0; 8]).unwrap();
        positions.frame(&header(1), &[0; 10]).unwrap();
        assert_eq!((positions.unreadable, positions.first_unreadable), (3, Offset(7)));
        for key in [b"a", b"a", b"b"] {
            positions.frame(&header(1), &[&key[..], &[0; 8]].concat()).unwrap();
        }
        assert_eq!(positions.last.len(), 1);
        assert!(positions.problem().is_some());
    }
}
