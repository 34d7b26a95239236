//! What a damaged manifest is made good with: the copies in the partitions' directories. Pure.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use hermit_proto::{LeaderEpoch, PartitionId, ProducerId, TopicId};

use crate::manifest::{Record, State};
use crate::topic::TopicMeta;

/// A partition's directory, and the copy of its topic's metadata where there is a sound one.
#[derive(Debug, Clone)]
pub(super) struct FoundDir {
    pub(super) topic: TopicId,
    pub(super) partition: PartitionId,
    pub(super) copy: Option<TopicMeta>,
}

/// The directories of each topic, in the order of the ids.
fn by_topic(found: &[FoundDir]) -> BTreeMap<TopicId, Vec<&FoundDir>> {
    let mut topics: BTreeMap<TopicId, Vec<&FoundDir>> = BTreeMap::new();
    for dir in found {
        topics.entry(dir.topic).or_default().push(dir);
    }
    topics
}

/// The newest sound copy among a topic's directories.
fn newest(dirs: &[&FoundDir]) -> Option<TopicMeta> {
    let sound = dirs.iter().filter_map(|dir| dir.copy.as_ref().filter(|copy| copy.id == dir.topic));
    sound.max_by_key(|copy| copy.revision).cloned()
}

/// Adds to `state` every topic that only the copies know; gives their metadata. The newest copy tells the settings and the partitions; directories
/// that follow on those belong to the topic too: they were being added.
///
/// A topic that was deleted is not among them: its copies go first, before anything else of it.
pub(super) fn adopt(state: &mut State, found: &[FoundDir]) -> Vec<TopicMeta> {
    let mut adopted = Vec::new();
    for (id, dirs) in by_topic(found) {
        let Some(copy) = newest(&dirs).filter(|_| !state.topics.contains_key(&id)) else { continue };
        let numbers: HashSet<u32> = dirs.iter().map(|dir| dir.partition.0).collect();
        let with_copy = dirs.iter().filter(|dir| dir.copy.is_some());
        let highest = with_copy.map(|dir| dir.partition.0.saturating_add(1)).max();
        let mut partitions = copy.partitions.max(highest.unwrap_or(0));
        while numbers.contains(&partitions) {
            partitions = partitions.saturating_add(1);
        }
        let meta = TopicMeta { partitions, ..copy };
        // Where another topic has the name by now, the directory stays where it is, and is reported.
        let applied = state.apply(Record::CreateIntent(meta.clone())).and_then(|()| state.apply(Record::CreateDone(meta.id)));
        if applied.is_ok() {
            adopted.push(meta);
        }
    }
    adopted
}

/// Takes over what the copies tell of later changes to topics that `state` knows; gives those topics.
pub(super) fn renew(state: &mut State, found: &[FoundDir]) -> Vec<TopicMeta> {
    let copies: Vec<_> = by_topic(found).into_values().filter_map(|dirs| newest(&dirs)).collect();
    copies.into_iter().filter(|copy| state.renew(copy)).collect()
}

/// Forgets topics of which no directory is there: the record of their deletion is what the damage took. There are no data to lose by it, and the
/// damaged manifest is kept.
pub(super) fn forget_deleted(state: &mut State, found: &[FoundDir]) -> Vec<TopicMeta> {
    let gone = |meta: &&TopicMeta| found.iter().all(|dir| dir.topic != meta.id);
    let gone: Vec<TopicMeta> = state.topics.values().map(|entry| &entry.meta).filter(gone).cloned().collect();
    for meta in &gone {
        // Both fit any topic that is there.
        let _applies = state.apply(Record::DeleteIntent(meta.id)).and_then(|()| state.apply(Record::DeleteDone(meta.id)));
    }
    gone
}

/// Moves the numbers that must never be given out twice past all that a damaged manifest may have forgotten: epochs to the wall clock's
/// seconds, producer ids to its microseconds. No broker starts uncleanly every second, or makes a million producers in one, for ever.
pub(super) fn jump(state: &mut State, now: Duration) {
    let seconds = u32::try_from(now.as_secs()).unwrap_or(LeaderEpoch::UNKNOWN.0 - 1);
    state.epoch = LeaderEpoch(next_epoch(state.epoch).0.max(seconds));
    let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX / 2);
    state.next_producer = ProducerId(state.next_producer.0.max(micros));
}

/// The epoch after this one; the last one stays.
pub(super) const fn next_epoch(epoch: LeaderEpoch) -> LeaderEpoch {
    if epoch.0 < LeaderEpoch::UNKNOWN.0 - 1 { LeaderEpoch(epoch.0 + 1) } else { epoch }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::TopicSettings;
    use hermit_proto::TopicName;

    fn dir(topic: u128, partition: u32, name: &str) -> FoundDir {
        let copy = TopicMeta {
            id: TopicId(topic),
            name: TopicName::new(name).unwrap(),
            partitions: 2,
            created_at: 0,
            settings: TopicSettings::default(),
            revision: 0,
        };
        FoundDir { topic: TopicId(topic), partition: PartitionId(partition), copy: Some(copy) }
    }

    #[test]
    fn topics_come_back_from_their_copies_but_never_two_under_one_name() {
        let mut state = State::default();
        let found = [dir(1, 0, "a"), dir(1, 1, "a"), dir(2, 0, "a"), dir(3, 4, "b"), FoundDir { copy: None, ..dir(4, 0, "c") }];
        let adopted = adopt(&mut state, &found);
        let names: Vec<_> = adopted.iter().map(|meta| (meta.id.0, meta.name.as_str(), meta.partitions)).collect();
        assert_eq!(names, [(1, "a", 2), (3, "b", 5)]);
        assert_eq!(adopt(&mut state, &found), []);
    }

    #[test]
    fn the_newest_copy_tells_settings_and_partitions() {
        let copy = |partition, partitions, revision, segment_bytes| {
            let mut dir = dir(1, partition, "a");
            let copy = dir.copy.as_mut().unwrap();
            (copy.partitions, copy.revision, copy.settings.segment_bytes) = (partitions, revision, segment_bytes);
            dir
        };
        let bare = |partition| FoundDir { copy: None, ..dir(1, partition, "a") };
        // Grown from 2 to 4, and altered before: the first directory has missed both.
        let found = [copy(0, 2, 0, 1), copy(1, 2, 1, 2), copy(2, 4, 2, 2), copy(3, 4, 2, 2)];
        let mut state = State::default();
        let adopted = adopt(&mut state, &found);
        assert_eq!((adopted[0].partitions, adopted[0].revision, adopted[0].settings.segment_bytes), (4, 2, 2));
        // A growth to 4 of which nothing was answered, as directories without copies: with a gap, or without.
        assert_eq!(adopt(&mut State::default(), &[copy(0, 2, 0, 1), copy(1, 2, 0, 1), bare(3)])[0].partitions, 2);
        assert_eq!(adopt(&mut State::default(), &[copy(0, 2, 0, 1), copy(1, 2, 0, 1), bare(2)])[0].partitions, 3);
        // A manifest that has lost its end knows the topic as it was.
        let mut state = State::default();
        adopt(&mut state, &found[..1]);
        assert_eq!(renew(&mut state, &found).len(), 1);
        let entry = &state.topics[&TopicId(1)];
        assert_eq!((entry.meta.partitions, entry.meta.settings.segment_bytes), (4, 2));
        assert_eq!(renew(&mut state, &found), []);
    }

    #[test]
    fn topics_without_any_directory_are_forgotten_and_their_names_are_free() {
        let mut state = State::default();
        adopt(&mut state, &[dir(1, 0, "a"), dir(2, 0, "b")]);
        let gone = forget_deleted(&mut state, &[dir(2, 1, "b")]);
        assert_eq!(gone.iter().map(|meta| meta.id.0).collect::<Vec<_>>(), [1]);
        assert_eq!(adopt(&mut state, &[dir(3, 0, "a")]).len(), 1);
    }

    #[test]
    fn a_copy_in_another_topics_directory_is_not_believed() {
        let mut state = State::default();
        let moved = FoundDir { topic: TopicId(9), ..dir(1, 0, "a") };
        assert_eq!(adopt(&mut state, &[moved]), []);
    }

    #[test]
    fn numbers_jump_forward_only() {
        let mut state = State::begin(1, LeaderEpoch(5));
        state.next_producer = ProducerId(7);
        jump(&mut state, Duration::from_secs(3));
        assert_eq!((state.epoch, state.next_producer), (LeaderEpoch(6), ProducerId(3_000_000)));
        jump(&mut state, Duration::from_secs(100));
        assert_eq!((state.epoch, state.next_producer), (LeaderEpoch(100), ProducerId(100_000_000)));
        jump(&mut state, Duration::MAX);
        jump(&mut state, Duration::MAX);
        assert_eq!(state.epoch, LeaderEpoch(u32::MAX - 1));
    }
}
