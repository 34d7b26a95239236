//! Producing and consuming.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::Poll;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerError, Ticket};
use hermit_log::disk::sim::Rng;
use hermit_proto::{
    Attributes, FrameLimits, FrameView, Offset, PartitionId, ProducerEpoch, ProducerId, ProducerStamp, Sequence, TopicId,
};

use crate::actions::{pick, pick_part};
pub use crate::model::Record;
use crate::model::{Model, Part};
use crate::world::World;

/// Few, so that compaction finds something to do.
const KEYS: usize = 4;

/// What a log shows.
pub struct Found {
    pub start: u64,
    pub end: u64,
    /// Record numbers and contents by offset, with their leader epochs.
    pub records: BTreeMap<u64, (u32, Record)>,
}

/// Reads a partition as a consumer does who checks everything.
pub fn read(broker: &Broker, topic: TopicId, partition: usize) -> Result<Found, BrokerError> {
    let partition = broker.partition(topic, PartitionId(partition as u32))?;
    let log = partition.log()?;
    let mut cursor = log.cursor(log.bounds().log_start)?;
    let mut bytes = Vec::new();
    while let Some(range) = cursor.next(1 << 20)? {
        range.read_into(&mut bytes)?;
    }
    let bounds = log.bounds();
    let (start, end) = (bounds.log_start.0, bounds.high_watermark.0);
    let mut records = BTreeMap::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (view, behind) = FrameView::split(rest, &FrameLimits::default()).unwrap();
        view.verify_frame(&partition.salt()).unwrap();
        view.verify_body().unwrap();
        let offset = view.prefix.offset().0;
        let tombstone = view.prefix.has(Attributes::TOMBSTONE);
        let record = Record {
            number: view.prefix.header.timestamp,
            key: view.key().map(<[u8]>::to_vec),
            payload: (!tombstone).then(|| view.payload().to_vec()),
            producer: view.prefix.producer(),
        };
        let after = records.last_key_value().map_or(start, |(last, _): (&u64, _)| last + 1);
        assert!((after..end).contains(&offset), "offset {offset} where {after} to {end} could come");
        records.insert(offset, (view.prefix.extension.leader_epoch.0, record));
        rest = behind;
    }
    Ok(Found { start, end, records })
}

impl Part {
    /// Checks what a consumer is shown against what it was shown before, and remembers it.
    pub fn show(&mut self, found: &Found) {
        for (offset, (epoch, record)) in &found.records {
            let before = self.shown.insert((*epoch, *offset), record.number);
            assert!(
                before.is_none_or(|number| number == record.number),
                "offset {offset} of epoch {epoch} was record {before:?}, and is {}",
                record.number
            );
        }
    }

    /// Why a record that was kept is not there, if that is as it should be: a newer one of its key is.
    pub fn is_compacted(&self, record: &Record, offset: u64, end: u64) -> bool {
        let Some(key) = &record.key else { return false };
        self.kept.range(offset + 1..end).any(|(_, newer)| newer.key.as_ref() == Some(key))
    }
}

pub fn read_one(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some((at, id, number)) = pick_part(broker, model, rng) else { return Ok(()) };
    world.tell(format!("read {}-{number}", model.topics[at].name));
    read_and_check(broker, model, at, id, number)
}

/// Reads what is visible of a partition, and compares it with what was appended.
pub fn read_and_check(broker: &Broker, model: &mut Model, at: usize, id: TopicId, number: usize) -> Result<(), BrokerError> {
    let found = read(broker, id, number)?;
    let topic = &mut model.topics[at];
    let part = &mut topic.parts[number];
    for (offset, (_, record)) in &found.records {
        assert!(
            part.kept.get(offset).is_some_and(|kept| **kept == *record),
            "{}-{number} shows something else at {offset}",
            topic.name
        );
    }
    for (offset, record) in part.kept.range(found.start..found.end) {
        let there = found.records.contains_key(offset);
        assert!(
            there || topic.keyed && part.is_compacted(record, *offset, found.end),
            "{}-{number} does not show {offset}",
            topic.name
        );
    }
    part.show(&found);
    Ok(())
}

fn payload(model: &Model, rng: &mut Rng) -> Vec<u8> {
    // Some are long enough to roll segments.
    let size = if rng.one_in(6) { 20_000 } else { rng.below(300) };
    let mut payload = format!("{}:", model.written).into_bytes();
    payload.resize(payload.len() + size, b'.');
    payload
}

/// New records, for one append.
fn some_records(model: &mut Model, rng: &mut Rng, at: usize, number: usize, producer: Option<i64>) -> Vec<Rc<Record>> {
    let mut records = Vec::new();
    for _ in 0..=rng.below(3) {
        model.written += 1;
        let payload = payload(model, rng);
        let keyed = model.topics[at].keyed;
        let key = keyed.then(|| vec![b'k', rng.below(KEYS) as u8]);
        let payload = Some(payload).filter(|_| !(keyed && rng.one_in(8)));
        let producer = producer.map(|id| {
            let next = model.topics[at].parts[number].next.entry(id).or_default();
            let stamp = ProducerStamp { id: ProducerId(id), epoch: ProducerEpoch(0), first_sequence: Sequence(*next) };
            *next += 1;
            stamp
        });
        records.push(Rc::new(Record { number: model.written, key, payload, producer }));
    }
    records
}

/// A producer sends a batch; an idempotent one sends the last again until it is answered.
pub fn append(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng, idempotent: bool) -> Result<(), BrokerError> {
    let Some((at, id, number)) = pick_part(broker, model, rng) else { return Ok(()) };
    let known: Vec<i64> = model.producers.iter().copied().collect();
    let producer = if idempotent { pick(rng, &known).copied() } else { None };
    let waiting = producer.and_then(|producer| model.topics[at].parts[number].unanswered.get(&producer).cloned());
    let records = waiting.unwrap_or_else(|| some_records(model, rng, at, number, producer));
    send(world, broker, model, (at, id, number), &records, rng.one_in(2))
}

/// Sends records, some of which may be there already.
pub fn send(
    world: &World,
    broker: &Broker,
    model: &mut Model,
    (at, id, number): (usize, TopicId, usize),
    records: &[Rc<Record>],
    wait: bool,
) -> Result<(), BrokerError> {
    let topic = &mut model.topics[at];
    let is_sync = topic.is_sync();
    let part = &mut topic.parts[number];
    let producer = records.first().and_then(|record| record.producer).map(|stamp| stamp.id.0);
    let is_there = |record: &Rc<Record>| part.kept.iter().rev().find(|(_, kept)| kept.number == record.number).map(|(at, _)| *at);
    let there: Vec<u64> = if producer.is_some() { records.iter().map_while(is_there).collect() } else { Vec::new() };
    let new = &records[there.len()..];
    assert!(producer.is_none() || new.iter().all(|record| is_there(record).is_none()), "a batch lost its beginning");
    world.tell(format!(
        "append to {}-{number} at {}: records {}.. ({} new, {} there) of producer {producer:?}",
        topic.name,
        part.end,
        records[0].number,
        new.len(),
        there.len()
    ));
    for (record, offset) in new.iter().zip(part.end..) {
        part.sent.entry(offset).or_default().push(Rc::clone(record));
    }
    if let Some(producer) = producer {
        part.unanswered.insert(producer, records.to_vec());
    }
    let bytes: Vec<u8> = records.iter().flat_map(|record| record.frame()).collect();
    let ticket = append_frames(broker, id, number, &bytes)?;
    let appended = ticket.appended();
    let expected = there.first().copied().unwrap_or(part.end);
    assert_eq!((appended.base_offset, appended.duplicates), (Offset(expected), there.len()));
    for (record, offset) in new.iter().zip(part.end..) {
        part.kept.insert(offset, Rc::clone(record));
    }
    part.end += new.len() as u64;
    if !wait {
        return Ok(());
    }
    world.flusher.run_until_idle();
    match ticket.poll() {
        Poll::Pending => panic!("the flusher is idle, and the append is not answered"),
        Poll::Ready(Err(error)) => Err(error),
        Poll::Ready(Ok(())) => {
            if is_sync {
                part.promised_end = part.promised_end.max(appended.next_offset.0);
            }
            if let Some(producer) = producer {
                part.unanswered.remove(&producer);
            }
            Ok(())
        }
    }
}

fn append_frames(broker: &Broker, id: TopicId, number: usize, bytes: &[u8]) -> Result<Ticket, BrokerError> {
    let mut batch = broker.parse(BytesMut::from(bytes))?;
    let partition = broker.writable(id, PartitionId(number as u32))?;
    broker.append(&partition, &mut batch)
}
