//! What clients do.

use std::collections::BTreeMap;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerError, Durability, Position, TopicConfig};
use hermit_log::disk::sim::Rng;
use hermit_proto::{
    GroupName, LeaderEpoch, Offset, PartitionId, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence, TopicName,
};

use crate::model::{Commit, Model, Record, Span, Topic};
use crate::world::World;

const NAMES: [&str; 3] = ["orders", "clicks", "ü"];
const GROUPS: [&str; 2] = ["g", "h"];

/// One thing that a client, or the broker, does. An error is the disk's: what was asked was not answered.
pub fn act(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    world.clock.advance(Duration::from_millis(rng.below(1000) as u64));
    match rng.below(25) {
        0 | 1 => create(world, broker, model, rng),
        2 => delete(world, broker, model, rng),
        3 | 4 => init_producer(world, broker, model),
        5..=7 => commit(world, broker, model, rng),
        8 => {
            broker.maintain();
            Ok(())
        }
        9 => retry(world, broker, model, rng),
        20 | 21 => alter(world, broker, model, rng),
        22 => grow(world, broker, model, rng),
        23 | 24 => trim(world, broker, model, rng),
        10..=12 => {
            world.flusher.run_until_idle();
            Ok(())
        }
        _ => append(world, broker, model, rng),
    }
}

fn pick<'a, T>(rng: &mut Rng, items: &'a [T]) -> Option<&'a T> {
    items.get(rng.below(items.len()))
}

fn create(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let name = *pick(rng, &NAMES).unwrap();
    let durability = if rng.one_in(4) { Durability::Os } else { Durability::Sync };
    let partitions = 1 + rng.below(2);
    let config = TopicConfig { durability: Some(durability), ..TopicConfig::default() };
    let exists = broker.topic(&TopicName::new(name).unwrap()).is_ok();
    if exists {
        let refused = broker.create_topic(name, 1, &config);
        assert!(matches!(refused, Err(BrokerError::TopicExists { .. })));
        return Ok(());
    }
    let at = model.topics.len();
    let created = Span::begin(world.disk.mutations());
    model.topics.push(Topic {
        name: name.into(),
        id: None,
        durability,
        settings: vec![(Span::ALWAYS, (durability, hermit_broker::NEVER))],
        partitions: vec![(Span::ALWAYS, partitions)],
        trimmed: BTreeMap::new(),
        created,
        deleted: None,
        records: vec![Vec::new(); partitions],
    });
    let topic = broker.create_topic(name, partitions as u32, &config)?;
    model.topics[at].id = Some(topic.meta.id);
    model.topics[at].created.answered = Some(world.disk.mutations());
    Ok(())
}

fn delete(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some(at) = pick(rng, &model.live()).copied() else { return Ok(()) };
    let topic = &mut model.topics[at];
    topic.deleted = Some(Span::begin(world.disk.mutations()));
    broker.delete_topic(&TopicName::new(&topic.name).unwrap())?;
    topic.deleted.as_mut().unwrap().answered = Some(world.disk.mutations());
    Ok(())
}

fn alter(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some(at) = pick(rng, &model.live()).copied() else { return Ok(()) };
    model.written += 1;
    // Another number each time, and none that retention would ever reach.
    let retention_bytes = (1 << 40) + model.written;
    let topic = &mut model.topics[at];
    let durability = if rng.one_in(2) { Durability::Os } else { Durability::Sync };
    topic.settings.push((Span::begin(world.disk.mutations()), (durability, retention_bytes)));
    let config = TopicConfig { durability: Some(durability), retention_bytes: Some(retention_bytes), ..TopicConfig::default() };
    broker.alter_topic(&TopicName::new(&topic.name).unwrap(), &config)?;
    let now = world.disk.mutations();
    topic.settings.last_mut().unwrap().0.answered = Some(now);
    if durability == Durability::Sync && topic.durability == Durability::Os {
        // Whatever readers were shown is on the disk.
        topic.records.iter_mut().flatten().for_each(|record| record.span.answer(now));
    }
    topic.durability = durability;
    let partition = broker.partition(topic.id.unwrap(), PartitionId(0))?;
    let bounds = partition.bounds()?;
    match durability {
        Durability::Sync => assert!(bounds.high_watermark <= bounds.flushed_end, "{bounds:?}"),
        Durability::Os => assert_eq!(bounds.high_watermark, bounds.log_end),
    }
    Ok(())
}

fn grow(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some(at) = pick(rng, &model.live()).copied() else { return Ok(()) };
    let topic = &mut model.topics[at];
    let partitions = topic.records.len() + 1 + rng.below(2);
    topic.partitions.push((Span::begin(world.disk.mutations()), partitions));
    broker.add_partitions(&TopicName::new(&topic.name).unwrap(), partitions as u32)?;
    topic.partitions.last_mut().unwrap().0.answered = Some(world.disk.mutations());
    topic.records.resize(partitions, Vec::new());
    Ok(())
}

fn trim(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some(at) = pick(rng, &model.live()).copied() else { return Ok(()) };
    let topic = &mut model.topics[at];
    let (id, partition) = (topic.id.unwrap(), rng.below(topic.records.len()));
    let bounds = broker.partition(id, PartitionId(partition as u32))?.bounds()?;
    let to = rng.below(usize::try_from(bounds.high_watermark.0).unwrap() + 1) as u64;
    let trimmed = topic.trimmed.entry(partition).or_insert_with(|| vec![(Span::ALWAYS, 0)]);
    trimmed.push((Span::begin(world.disk.mutations()), to.max(bounds.log_start.0)));
    let log_start = broker.trim(id, PartitionId(partition as u32), Offset(to))?;
    assert_eq!(log_start, Offset(to).max(bounds.log_start));
    trimmed.last_mut().unwrap().0.answered = Some(world.disk.mutations());
    Ok(())
}

fn init_producer(world: &World, broker: &Broker, model: &mut Model) -> Result<(), BrokerError> {
    let (id, epoch) = broker.init_producer(ProducerId::NONE, ProducerEpoch(-1))?;
    assert_eq!(epoch, ProducerEpoch(0));
    let before = model.producers.insert(id.0, world.disk.mutations());
    assert_eq!(before, None, "producer id {id} was given out twice");
    Ok(())
}

pub fn frame(record: &Record) -> Vec<u8> {
    ProducedFrame { producer: record.producer, ..ProducedFrame::message(1, None, &record.payload) }.to_vec().unwrap()
}

fn append(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some(at) = pick(rng, &model.live()).copied() else { return Ok(()) };
    let partition = rng.below(model.topics[at].records.len());
    let known: Vec<i64> = model.producers.keys().copied().collect();
    let producer = if rng.one_in(2) { pick(rng, &known).copied() } else { None };
    let span = Span::begin(world.disk.mutations());
    let mut records = Vec::new();
    for _ in 0..=rng.below(3) {
        model.written += 1;
        // Some are long enough to roll segments.
        let size = if rng.one_in(6) { 20_000 } else { rng.below(300) };
        let mut payload = format!("{}:", model.written).into_bytes();
        payload.resize(payload.len() + size, b'.');
        let producer = producer.map(|id| {
            let next = model.sequences.entry((id, at, partition as u32)).or_default();
            let stamp = ProducerStamp { id: ProducerId(id), epoch: ProducerEpoch(0), first_sequence: Sequence(*next) };
            *next += 1;
            stamp
        });
        records.push(Record { span, payload, producer });
    }
    let first = model.topics[at].records[partition].len();
    let bytes: Vec<u8> = records.iter().flat_map(frame).collect();
    model.topics[at].records[partition].extend(records);
    let ticket = (|| {
        let mut batch = broker.parse(BytesMut::from(&bytes[..]))?;
        let partition = broker.writable(model.topics[at].id.unwrap(), PartitionId(partition as u32))?;
        broker.append(&partition, &mut batch)
    })()?;
    assert_eq!(ticket.appended().base_offset, Offset(first as u64));
    if rng.one_in(2) {
        return Ok(());
    }
    world.flusher.run_until_idle();
    settle(world, model, at, partition, &ticket.poll())
}

/// Once something is answered, so is everything before it.
fn settle(
    world: &World,
    model: &mut Model,
    at: usize,
    partition: usize,
    answer: &Poll<Result<(), BrokerError>>,
) -> Result<(), BrokerError> {
    match answer {
        Poll::Pending => panic!("the flusher is idle, and the append is not answered"),
        Poll::Ready(Err(error)) => Err(error.clone()),
        Poll::Ready(Ok(())) => {
            let now = world.disk.mutations();
            let topic = &mut model.topics[at];
            if topic.durability == Durability::Sync {
                topic.records[partition].iter_mut().for_each(|record| record.span.answer(now));
            }
            Ok(())
        }
    }
}

/// A client that has not seen its answer sends the same frame again.
fn retry(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some(at) = pick(rng, &model.live()).copied() else { return Ok(()) };
    let partition = rng.below(model.topics[at].records.len());
    let records = &model.topics[at].records[partition];
    let Some(index) = records.iter().rposition(|record| record.producer.is_some()) else { return Ok(()) };
    let mut batch = broker.parse(BytesMut::from(&frame(&records[index])[..]))?;
    let target = broker.writable(model.topics[at].id.unwrap(), PartitionId(partition as u32))?;
    let ticket = broker.append(&target, &mut batch)?;
    assert_eq!((ticket.appended().base_offset, ticket.appended().duplicates), (Offset(index as u64), 1));
    world.flusher.run_until_idle();
    match ticket.poll() {
        Poll::Ready(Err(error)) => Err(error),
        Poll::Pending => panic!("the flusher is idle, and the retry is not answered"),
        Poll::Ready(Ok(())) => {
            let now = world.disk.mutations();
            let topic = &mut model.topics[at];
            if topic.durability == Durability::Sync {
                topic.records[partition][..=index].iter_mut().for_each(|record| record.span.answer(now));
            }
            Ok(())
        }
    }
}

fn commit(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some(at) = pick(rng, &model.live()).copied() else { return Ok(()) };
    let partition = rng.below(model.topics[at].records.len()) as u32;
    let group = *pick(rng, &GROUPS).unwrap();
    let id = model.topics[at].id.unwrap();
    let high_watermark = broker.partition(id, PartitionId(partition))?.bounds()?.high_watermark.0;
    let offset = rng.below(usize::try_from(high_watermark).unwrap() + 1) as u64;
    let key = (group.to_owned(), at, partition);
    let commits = model.commits.entry(key).or_default();
    commits.push(Commit { span: Span::begin(world.disk.mutations()), offset });
    let position =
        Position { topic: id, partition: PartitionId(partition), offset: Offset(offset), leader_epoch: LeaderEpoch::UNKNOWN };
    let ticket = broker.commit(&GroupName::new(group).unwrap(), &[position])?;
    if rng.one_in(3) {
        return Ok(());
    }
    world.flusher.run_until_idle();
    match ticket.poll() {
        Poll::Pending => panic!("the flusher is idle, and the commit is not answered"),
        Poll::Ready(Err(error)) => Err(error),
        Poll::Ready(Ok(())) => {
            commits.last_mut().unwrap().span.answered = Some(world.disk.mutations());
            let shown = broker.committed(&GroupName::new(group).unwrap(), id, PartitionId(partition))?;
            assert_eq!(shown.map(|committed| committed.offset), Some(Offset(offset)));
            Ok(())
        }
    }
}
