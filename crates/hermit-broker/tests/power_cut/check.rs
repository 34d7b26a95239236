//! Whether a broker has what it must have, and nothing that it cannot have.

use std::collections::HashSet;

use bytes::BytesMut;
use hermit_broker::Broker;
use hermit_proto::{FrameLimits, FrameView, GroupName, Offset, PartitionId, ProducerEpoch, ProducerId, TopicId, TopicName};

use crate::actions::frame;
use crate::model::{Commit, Model, Moment, Record, Span, Topic, possible};
use crate::world::World;

/// The log start of a partition, and all payloads from there on, checked, with the offsets that they must have.
fn read(broker: &Broker, topic: TopicId, partition: u32) -> (usize, Vec<Vec<u8>>) {
    let partition = broker.partition(topic, PartitionId(partition)).unwrap();
    let log = partition.log().unwrap();
    let log_start = log.bounds().log_start;
    let mut cursor = log.cursor(log_start).unwrap();
    let mut bytes = Vec::new();
    while let Some(range) = cursor.next(1 << 20).unwrap() {
        range.read_into(&mut bytes).unwrap();
    }
    let mut payloads = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (view, behind) = FrameView::split(rest, &FrameLimits::default()).unwrap();
        view.verify_frame(&partition.salt()).unwrap();
        view.verify_body().unwrap();
        assert_eq!(view.prefix.offset(), Offset(log_start.0 + payloads.len() as u64));
        payloads.push(view.payload().to_vec());
        rest = behind;
    }
    let bounds = log.bounds();
    let end = Offset(log_start.0 + payloads.len() as u64);
    assert_eq!((bounds.high_watermark, bounds.log_end), (end, end));
    (usize::try_from(log_start.0).unwrap(), payloads)
}

/// How many records of a partition are there: at least those that were answered, at most those that were sent, in order.
fn surviving_records(broker: &Broker, topic: &Topic, id: TopicId, partition: usize, cut: Moment) -> usize {
    let records = &topic.records[partition];
    let (log_start, found) = read(broker, id, partition as u32);
    let starts = topic.trimmed.get(&partition).map_or_else(|| vec![0], |trimmed| possible(trimmed, cut));
    assert!(
        starts.contains(&(log_start as u64)),
        "topic {} partition {partition} begins at {log_start}, not {starts:?}",
        topic.name
    );
    let end = log_start + found.len();
    let at_most = records.iter().take_while(|record| record.span.may_hold(cut)).count();
    let promised = records.iter().rposition(|record| record.span.must_hold(cut)).map_or(0, |last| last + 1);
    assert!(
        (promised..=at_most).contains(&end),
        "topic {} partition {partition}: {end} records where {promised} to {at_most} are possible",
        topic.name,
    );
    for (record, payload) in records.iter().skip(log_start).zip(&found) {
        assert!(record.payload == *payload, "topic {} partition {partition}: other bytes", topic.name);
    }
    end
}

/// Checks a topic's settings and how many partitions it has, and notes both.
fn check_shape(broker: &Broker, topic: &Topic, kept: &mut Topic, id: TopicId, cut: Moment) {
    let meta = broker.topic_by_id(id).unwrap().meta.clone();
    let settings = (meta.settings.durability, meta.settings.retention_bytes);
    let allowed = possible(&topic.settings, cut);
    assert!(allowed.contains(&settings), "topic {} has settings {settings:?}, not one of {allowed:?}, cut at {cut}", topic.name);
    let partitions = meta.partitions as usize;
    let allowed = possible(&topic.partitions, cut);
    assert!(
        allowed.contains(&partitions),
        "topic {} has {partitions} partitions, not one of {allowed:?}, cut at {cut}",
        topic.name
    );
    kept.durability = settings.0;
    kept.settings = vec![(Span::ALWAYS, settings)];
    kept.partitions = vec![(Span::ALWAYS, partitions)];
    kept.records.resize(partitions, Vec::new());
    kept.trimmed.clear();
    for partition in 0..partitions {
        let log_start = broker.partition(id, PartitionId(partition as u32)).unwrap().bounds().unwrap().log_start.0;
        kept.trimmed.insert(partition, vec![(Span::ALWAYS, log_start)]);
    }
}

/// The topic of the model that is on the disk under its name.
fn find(broker: &Broker, topic: &Topic, cut: Moment) -> Option<TopicId> {
    let name = TopicName::new(&topic.name).unwrap();
    let found = match topic.id {
        Some(id) => broker.topic_by_id(id).ok().filter(|found| found.meta.name == name),
        // A creation that was not answered has an id that nobody knows.
        None => broker.topic(&name).ok(),
    };
    let deleting = topic.deleted.is_some_and(|deleted| deleted.may_hold(cut));
    let deleted = topic.deleted.is_some_and(|deleted| deleted.must_hold(cut));
    if topic.created.must_hold(cut) && !deleting {
        assert!(found.is_some(), "topic {} is lost", topic.name);
    }
    if topic.id.is_some() && (deleted || !topic.created.may_hold(cut)) {
        assert!(
            found.is_none(),
            "topic {} is there: {:?} {:?} cut at {cut}, {:?}",
            topic.name,
            topic.created,
            topic.deleted,
            broker.report()
        );
    }
    found.map(|found| found.meta.id)
}

/// The positions that a group can have: the last that was answered, or one that was sent later.
fn check_position(broker: &Broker, group: &str, id: TopicId, partition: u32, commits: &[Commit], cut: Moment) -> Option<u64> {
    let found = broker.committed(&GroupName::new(group).unwrap(), id, PartitionId(partition)).unwrap();
    let found = found.map(|committed| committed.offset.0);
    let promised = commits.iter().rposition(|commit| commit.span.must_hold(cut));
    let possible = commits.iter().enumerate().filter(|(at, commit)| commit.span.may_hold(cut) && promised.is_none_or(|p| *at >= p));
    let mut possible = possible.map(|(_, commit)| commit.offset);
    let fits = match found {
        Some(offset) => possible.any(|other| other == offset),
        None => promised.is_none(),
    };
    assert!(fits, "group {group}: position {found:?} after {commits:?}, cut at {cut}");
    found
}

pub fn check(world: &World, broker: &Broker, model: &Model, cut: Moment) {
    // The record that was being written may be torn; no topic depends on it.
    assert!(broker.report().manifest.as_ref().is_none_or(|repair| repair.adopted.is_empty()), "{:?}", broker.report().manifest);
    assert!(broker.report().unfinished.is_empty() && broker.report().unknown.is_empty(), "{:?}", broker.report());
    assert!(broker.report().positions_down.is_none() && broker.report().positions.refused == 0, "{:?}", broker.report());
    let survivors = survivors(broker, model, cut);
    let expected = survivors.topics.iter().filter(|topic| topic.deleted.is_none()).count();
    let there = broker.topics().iter().filter(|topic| !topic.meta.name.is_internal()).count();
    assert_eq!(there, expected, "topics that nobody created");
    // Ids are never given out twice.
    let (id, _) = broker.init_producer(ProducerId::NONE, ProducerEpoch(-1)).unwrap();
    assert!(!survivors.producers.contains_key(&id.0), "producer id {id} was given out twice");
    for at in survivors.live() {
        for partition in 0..survivors.topics[at].records.len() {
            check_producers(world, broker, model, &survivors, at, partition);
        }
    }
}

/// Every producer sends its last frame again, whether or not it survived: it is there once afterwards.
fn check_producers(world: &World, broker: &Broker, model: &Model, survivors: &Model, at: usize, partition: usize) {
    let id = survivors.topics[at].id.unwrap();
    let sent: &[Record] = model.topics[at].records.get(partition).map_or(&[], Vec::as_slice);
    let there = survivors.topics[at].records[partition].len();
    let mut end = there;
    // One that was not given its id yet has sent nothing.
    for producer in survivors.producers.keys() {
        let is_theirs = |record: &&Record| record.producer.is_some_and(|stamp| stamp.id.0 == *producer);
        let kept = sent[..there].iter().rposition(|record| is_theirs(&record));
        let lost = sent[there..].iter().find(is_theirs);
        let target = broker.writable(id, PartitionId(partition as u32)).unwrap();
        let send = |record: &Record| {
            let mut batch = broker.parse(BytesMut::from(&frame(record)[..])).unwrap();
            let ticket = broker.append(&target, &mut batch).unwrap();
            (ticket.appended().base_offset.0, ticket.appended().duplicates)
        };
        if let Some(kept) = kept {
            assert_eq!(send(&sent[kept]), (kept as u64, 1), "a retry is not recognised");
        }
        if let Some(lost) = lost {
            assert_eq!(send(lost), (end as u64, 0), "what was lost cannot be sent again");
            end += 1;
        }
    }
    world.flusher.run_until_idle();
    let log_end = broker.partition(id, PartitionId(partition as u32)).unwrap().bounds().unwrap().high_watermark;
    assert_eq!(log_end, Offset(end as u64));
}

/// Checks what is there, and gives the model of it: all of it was answered, before anything that follows.
pub fn survivors(broker: &Broker, model: &Model, cut: Moment) -> Model {
    let always = Span::ALWAYS;
    let mut survivors = model.clone();
    // Several creations of one name may have gone without an answer: one of them may be there.
    let mut claimed: HashSet<_> = model.topics.iter().filter_map(|topic| topic.id).collect();
    survivors.producers.retain(|_, given| *given <= cut);
    survivors.commits.clear();
    survivors.sequences.clear();
    for (at, topic) in model.topics.iter().enumerate() {
        let kept = &mut survivors.topics[at];
        let is_free = |id: &TopicId| topic.id.is_some() || !claimed.contains(id);
        let Some(id) = find(broker, topic, cut).filter(is_free) else {
            kept.deleted = Some(always);
            kept.id = kept.id.or(Some(TopicId(0)));
            continue;
        };
        claimed.insert(id);
        (kept.id, kept.created, kept.deleted) = (Some(id), always, None);
        check_shape(broker, topic, kept, id, cut);
        for partition in 0..kept.records.len().min(topic.records.len()) {
            let there = surviving_records(broker, topic, id, partition, cut);
            let records = &mut kept.records[partition];
            records.truncate(there);
            for record in records.iter_mut() {
                record.span = always;
                if let Some(stamp) = record.producer {
                    let key = (stamp.id.0, at, partition as u32);
                    survivors.sequences.insert(key, stamp.first_sequence.0 + 1);
                }
            }
        }
        for ((group, of_topic, partition), commits) in &model.commits {
            if *of_topic != at || *partition as usize >= kept.records.len() {
                continue;
            }
            if let Some(offset) = check_position(broker, group, id, *partition, commits, cut) {
                let key = (group.clone(), at, *partition);
                survivors.commits.insert(key, vec![Commit { span: always, offset }]);
            }
        }
    }
    survivors
}
