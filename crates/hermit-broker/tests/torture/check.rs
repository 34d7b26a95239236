//! Whether a broker that was started has what it must have, and nothing that it cannot have.

use std::collections::HashSet;
use std::rc::Rc;

use hermit_broker::{Broker, Durability};
use hermit_proto::{GroupName, Offset, PartitionId, TopicId, TopicName};

use crate::model::{Fate, Model, Possible, Topic};
use crate::records::{self, Found};
use crate::world::World;

const GROUPS: [&str; 3] = ["g", "h", crate::members::GROUP];

/// How the life before ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The process ended, whatever else: what it had written is there.
    Killed,
    /// The power went.
    Cut,
}

/// Checks a start against the model, which takes over what is there: all of it must last from now on.
pub fn check(world: &World, broker: &Broker, model: &mut Model, end: End, lost_manifest: bool) {
    let report = broker.report();
    assert!(report.positions_down.is_none() && report.positions.refused == 0, "{report:?}");
    assert!(report.unfinished.is_empty(), "{report:?}");
    // The record that was being written may be torn; no topic depends on it.
    assert!(lost_manifest || report.manifest.as_ref().is_none_or(|repair| repair.adopted.is_empty()), "{report:?}");
    for partition in &report.partitions {
        let sound = partition.recovery.as_ref().is_ok_and(|recovery| recovery.fenced.is_empty());
        assert!(sound, "nothing has rotted: {partition:?}");
    }
    let mut claimed: HashSet<TopicId> = model.topics.iter().filter_map(|topic| topic.id).collect();
    for at in 0..model.topics.len() {
        let found = find(broker, &model.topics[at], &claimed);
        let topic = &mut model.topics[at];
        if let Some(id) = found {
            claimed.insert(id);
            (topic.id, topic.fate) = (Some(id), Fate::There);
            check_topic(world, broker, model, at, id, end);
        } else {
            topic.fate = Fate::Gone;
            topic.id = topic.id.or(Some(TopicId(0)));
            model.positions.retain(|(_, of, _), _| *of != at);
        }
    }
    crate::users::check(broker, &mut model.access);
    let there = broker.topics().iter().filter(|topic| !topic.meta.name.is_internal()).count();
    let expected = model.topics.iter().filter(|topic| topic.fate == Fate::There).count();
    assert_eq!(there, expected, "topics that nobody created");
    model.touched.clear();
    for group in GROUPS {
        model.touched.insert(group.into(), world.monotonic());
    }
}

/// The topic that is on the disk for one of the model.
fn find(broker: &Broker, topic: &Topic, claimed: &HashSet<TopicId>) -> Option<TopicId> {
    let name = TopicName::new(&topic.name).unwrap();
    let Some(id) = topic.id else {
        // A creation that was not answered has an id that nobody knows.
        let found = broker.topic(&name).ok()?;
        let fits = topic.settings.allows(&found.meta.settings) && topic.partitions.allows(&(found.meta.partitions as usize));
        return Some(found.meta.id).filter(|id| topic.fate == Fate::Asked && fits && !claimed.contains(id));
    };
    let found = broker.topic_by_id(id).ok().filter(|found| found.meta.name == name);
    match topic.fate {
        Fate::There => assert!(found.is_some(), "topic {} is lost", topic.name),
        Fate::Gone => assert!(found.is_none(), "topic {} is back", topic.name),
        Fate::Asked | Fate::Deleting => {}
    }
    found.map(|found| found.meta.id)
}

fn check_topic(world: &World, broker: &Broker, model: &mut Model, at: usize, id: TopicId, end: End) {
    let meta = broker.topic_by_id(id).unwrap().meta.clone();
    let topic = &mut model.topics[at];
    assert!(topic.settings.allows(&meta.settings), "topic {} has {:?}, not {:?}", topic.name, meta.settings, topic.settings);
    let partitions = meta.partitions as usize;
    assert!(topic.partitions.allows(&partitions), "topic {} has {partitions} partitions, not {:?}", topic.name, topic.partitions);
    topic.settings.settle(meta.settings);
    topic.partitions.settle(partitions);
    topic.parts.resize_with(partitions, Default::default);
    for number in 0..partitions {
        let found = records::read(broker, id, number).unwrap();
        check_part(&mut model.topics[at], number, &found, end);
        check_positions(world, broker, model, at, id, number);
        // What it shows is flushed, and it goes on where it ends.
        let bounds = broker.partition(id, PartitionId(number as u32)).unwrap().bounds().unwrap();
        assert_eq!((bounds.log_end, bounds.flushed_end), (Offset(found.end), Offset(found.end)));
    }
}

fn check_part(topic: &mut Topic, number: usize, found: &Found, end: End) {
    let name = format!("topic {} partition {number}", topic.name);
    let keyed = topic.keyed;
    let part = &mut topic.parts[number];
    if end == End::Killed {
        // All that the process wrote is there for whoever comes next.
        part.promised_end = part.promised_end.max(part.end);
    }
    let promised = part.promised_end;
    let at_most = part.sent.last_key_value().map_or(promised, |(last, _)| last + 1).max(promised);
    assert!((promised..=at_most).contains(&found.end), "{name}: {} records where {promised} to {at_most} are possible", found.end);
    let allowed = part.start.allows(&found.start) || part.retained && (*part.start.answered()..=promised).contains(&found.start);
    assert!(allowed, "{name} begins at {}, not {:?}", found.start, part.start);
    for (offset, (_, record)) in &found.records {
        let sent = part.sent.get(offset).is_some_and(|sent| sent.iter().any(|sent| **sent == *record));
        let kept = *offset >= promised || part.kept.get(offset).is_some_and(|kept| **kept == *record);
        assert!(sent && kept, "{name}: other bytes at {offset}");
    }
    // What was trimmed may be beyond what a power cut has left.
    for (offset, record) in part.kept.range(found.start.min(promised)..promised) {
        let there = found.records.contains_key(offset);
        assert!(there || keyed && part.is_compacted(record, *offset, found.end), "{name} has lost {offset}");
    }
    part.show(found);
    part.kept.split_off(&promised);
    let all = found.records.iter().map(|(offset, (_, record))| (*offset, Rc::new(copy(record))));
    part.kept.extend(all);
    part.sent = part.kept.iter().map(|(offset, record)| (*offset, vec![Rc::clone(record)])).collect();
    (part.end, part.promised_end, part.seen_start) = (found.end, found.end, found.start);
    part.shown_unflushed_end = 0;
    if end == End::Cut {
        part.start = Possible::new(found.start);
        part.retained = false;
    } else {
        // A start that nobody was told of may be undone by a power cut.
        part.start.retain(|start| *start <= found.start);
    }
    resume_producers(topic, number);
}

fn copy(record: &records::Record) -> records::Record {
    records::Record { number: record.number, key: record.key.clone(), payload: record.payload.clone(), producer: record.producer }
}

/// What each producer does next: it sends again what was not answered, if that can still follow.
fn resume_producers(topic: &mut Topic, number: usize) {
    let part = &mut topic.parts[number];
    part.next.clear();
    for stamp in part.kept.values().filter_map(|record| record.producer) {
        let next = part.next.entry(stamp.id.0).or_default();
        *next = (*next).max(stamp.first_sequence.0 + 1);
    }
    let next = &mut part.next;
    part.unanswered.retain(|id, batch| {
        let sequence = |record: &Rc<records::Record>| record.producer.map_or(0, |stamp| stamp.first_sequence.0);
        let (first, last) = (batch.first().map_or(0, sequence), batch.last().map_or(0, sequence));
        let known = next.entry(*id).or_default();
        let follows = first <= *known;
        if follows {
            *known = (*known).max(last + 1);
        }
        follows
    });
}

/// The positions that groups can have: the last that was answered or shown, or one that was sent later.
fn check_positions(world: &World, broker: &Broker, model: &mut Model, at: usize, id: TopicId, number: usize) {
    for group in GROUPS {
        let found = broker.committed(&GroupName::new(group).unwrap(), id, PartitionId(number as u32)).unwrap();
        let found = found.map(|committed| committed.offset.0);
        let position = model.positions.entry((group.to_owned(), at, number as u32)).or_insert_with(|| Possible::new(None));
        assert!(
            position.allows(&found),
            "group {group}: position {found:?} of {}-{number}, not one of {position:?}",
            model.topics[at].name
        );
        world.tell(format!("found position {found:?} of {}-{number} for {group}", model.topics[at].name));
        position.settle(found);
    }
}

/// What holds at any time while a broker runs.
pub fn watch(broker: &Broker, model: &mut Model) {
    for topic in &mut model.topics {
        let Some(id) = topic.id else { continue };
        let served = broker.topic_by_id(id);
        match topic.fate {
            Fate::There => assert!(served.is_ok(), "topic {} is not served", topic.name),
            Fate::Gone => assert!(served.is_err(), "topic {} is served", topic.name),
            Fate::Asked | Fate::Deleting => {}
        }
        if let Ok(served) = served {
            watch_topic(&served, topic);
        }
    }
}

fn watch_topic(served: &hermit_broker::Topic, topic: &mut Topic) {
    let is_sync = topic.is_sync() && served.meta.settings.durability == Durability::Sync;
    for (number, part) in topic.parts.iter_mut().enumerate() {
        let name = format!("{}-{number}", topic.name);
        let bounds = served.partitions()[number].bounds().unwrap();
        assert_eq!(bounds.log_end.0, part.end, "the end of {name}");
        let flushed = bounds.high_watermark.min(bounds.flushed_end);
        part.promised_end = part.promised_end.max(flushed.0);
        if is_sync {
            let failed = served.partitions()[number].trouble().is_some();
            let shown_before = if failed { part.shown_unflushed_end } else { 0 };
            let most = bounds.flushed_end.0.max(shown_before);
            assert!(bounds.high_watermark.0 <= most, "{name} shows what is not on disk: {bounds:?}");
        } else {
            part.shown_unflushed_end = bounds.high_watermark.0;
        }
        let start = bounds.log_start.0;
        if start > part.seen_start {
            assert!(part.start.allows(&start) || part.retained, "{name} begins at {start}");
            part.seen_start = start;
            part.start.retain(|asked| *asked > start);
            part.start.begin(start);
        }
    }
}
