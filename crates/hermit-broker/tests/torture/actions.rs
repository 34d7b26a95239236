//! What clients do, but for records and positions.

use std::time::Duration;

use hermit_broker::{Broker, BrokerError, Durability, NEVER, TopicConfig, TopicSettings};
use hermit_log::disk::sim::Rng;
use hermit_proto::{Offset, PartitionId, ProducerEpoch, ProducerId, TopicId, TopicName};

use crate::model::{Fate, Model, Part, Possible, Topic};
use crate::world::World;
use crate::{members, positions, records, users};

pub const NAMES: [&str; 3] = ["orders", "clicks", "ü"];

/// One thing that a client, or the broker, does. An error is the disk's: what was asked was not answered.
pub fn act(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    world.clock.advance(Duration::from_millis(rng.below(1000) as u64));
    match rng.below(41) {
        0 | 1 => create(world, broker, model, rng),
        2 => delete(world, broker, model, rng),
        3 | 4 => alter(world, broker, model, rng),
        5 => grow(world, broker, model, rng),
        6 | 7 => trim(world, broker, model, rng),
        8 => init_producer(world, broker, model),
        9..=16 => records::append(world, broker, model, rng, false),
        17..=22 => records::append(world, broker, model, rng, true),
        23..=25 => positions::commit(world, broker, model, rng),
        26 => positions::delete_group(world, broker, model, rng),
        27 => positions::ask(world, broker, model, rng),
        28 | 29 => maintain(world, broker, model),
        38..=40 => users::act(world, broker, model, rng),
        34..=37 => members::act(world, broker, model, rng),
        30 => records::read_one(world, broker, model, rng),
        _ => {
            world.tell("flush".into());
            world.flusher.run_until_idle();
            Ok(())
        }
    }
}

pub fn pick<'a, T>(rng: &mut Rng, items: &'a [T]) -> Option<&'a T> {
    items.get(rng.below(items.len()))
}

/// One of the topics that are served now, and one of its partitions.
pub fn pick_part(broker: &Broker, model: &Model, rng: &mut Rng) -> Option<(usize, TopicId, usize)> {
    let (at, id) = pick_topic(broker, model, rng)?;
    Some((at, id, rng.below(model.topics[at].parts.len())))
}

fn pick_topic(broker: &Broker, model: &Model, rng: &mut Rng) -> Option<(usize, TopicId)> {
    let served = |(at, topic): (usize, &Topic)| topic.id.filter(|id| broker.topic_by_id(*id).is_ok()).map(|id| (at, id));
    let live: Vec<_> = model.topics.iter().enumerate().filter_map(served).collect();
    pick(rng, &live).copied()
}

fn name(topic: &Topic) -> TopicName {
    TopicName::new(&topic.name).unwrap()
}

fn some_durability(rng: &mut Rng) -> Durability {
    if rng.one_in(3) { Durability::Os } else { Durability::Sync }
}

fn create(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let name = *pick(rng, &NAMES).unwrap();
    let partitions = 1 + rng.below(2);
    let keyed = rng.one_in(2);
    let retention_bytes = rng.one_in(5).then(|| 60_000 + rng.below(100_000) as u64);
    let compaction = keyed && rng.one_in(2);
    let config = TopicConfig {
        durability: Some(some_durability(rng)),
        compaction: Some(compaction),
        retention_bytes,
        ..TopicConfig::default()
    };
    let settings = TopicSettings { segment_bytes: hermit_broker::MIN_SEGMENT_BYTES, ..TopicSettings::default() }
        .for_new_topics()
        .with(&config)
        .unwrap();
    world.tell(format!("create {name} with {partitions}: {settings:?}"));
    if broker.topic(&TopicName::new(name).unwrap()).is_ok() {
        let refused = broker.create_topic(name, 1, &config);
        assert!(matches!(refused, Err(BrokerError::TopicExists { .. })), "{refused:?}");
        return Ok(());
    }
    let at = model.topics.len();
    let (parts, partitions_then) = ((0..partitions).map(|_| Part::default()).collect(), Possible::new(partitions));
    let (id, fate, settings) = (None, Fate::Asked, Possible::new(settings));
    model.topics.push(Topic { name: name.into(), id, fate, settings, partitions: partitions_then, keyed, parts });
    match broker.create_topic(name, partitions as u32, &config) {
        Ok(topic) => {
            model.topics[at].id = Some(topic.meta.id);
            model.topics[at].fate = Fate::There;
            Ok(())
        }
        // An earlier creation, or a deletion, could not be brought to its end: the next start does that.
        Err(error @ BrokerError::TopicExists { .. }) => {
            model.topics.pop();
            Err(error)
        }
        Err(error) => Err(error),
    }
}

fn delete(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some((at, _)) = pick_topic(broker, model, rng) else { return Ok(()) };
    let topic = &mut model.topics[at];
    world.tell(format!("delete {}", topic.name));
    topic.fate = Fate::Deleting;
    broker.delete_topic(&name(topic))?;
    topic.fate = Fate::Gone;
    Ok(())
}

fn alter(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some((at, id)) = pick_topic(broker, model, rng) else { return Ok(()) };
    model.written += 1;
    let topic = &mut model.topics[at];
    // Mostly another number each time, and none that retention would ever reach; the last but one means the broker's default.
    let retention_bytes = if rng.one_in(8) { 60_000 } else { NEVER - 1 - model.written };
    let config = TopicConfig {
        durability: Some(some_durability(rng)),
        compaction: Some(topic.keyed && rng.one_in(2)),
        retention_bytes: Some(retention_bytes),
        ..TopicConfig::default()
    };
    let settings = broker.topic_by_id(id)?.meta.settings.with(&config)?;
    world.tell(format!("alter {} to {settings:?}", topic.name));
    topic.settings.ask(settings);
    broker.alter_topic(&name(topic), &config)?;
    topic.settings.answer();
    Ok(())
}

fn grow(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some((at, _)) = pick_topic(broker, model, rng) else { return Ok(()) };
    let topic = &mut model.topics[at];
    let partitions = topic.parts.len() + 1;
    world.tell(format!("grow {} to {partitions}", topic.name));
    topic.partitions.ask(partitions);
    broker.add_partitions(&name(topic), partitions as u32)?;
    topic.partitions.answer();
    topic.parts.push(Part::default());
    Ok(())
}

fn trim(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some((at, id, number)) = pick_part(broker, model, rng) else { return Ok(()) };
    let partition = PartitionId(number as u32);
    let bounds = broker.partition(id, partition)?.bounds()?;
    let to = rng.below(bounds.high_watermark.0 as usize + 1) as u64;
    world.tell(format!("trim {}-{number} to {to}", model.topics[at].name));
    let part = &mut model.topics[at].parts[number];
    part.start.ask(to.max(bounds.log_start.0));
    let log_start = broker.trim(id, partition, Offset(to))?;
    assert_eq!(log_start, Offset(to).max(bounds.log_start));
    part.start.see(&log_start.0);
    Ok(())
}

fn maintain(world: &World, broker: &Broker, model: &mut Model) -> Result<(), BrokerError> {
    world.tell("maintain".into());
    for topic in &mut model.topics {
        let served = topic.id.and_then(|id| broker.topic_by_id(id).ok());
        if served.is_some_and(|served| served.meta.settings.retention_bytes < NEVER / 2) {
            topic.parts.iter_mut().for_each(|part| part.retained = true);
        }
    }
    positions::note_expiry(world, model);
    broker.maintain();
    Ok(())
}

pub fn init_producer(world: &World, broker: &Broker, model: &mut Model) -> Result<(), BrokerError> {
    let (id, epoch) = broker.init_producer(ProducerId::NONE, ProducerEpoch(-1))?;
    world.tell(format!("producer {id}"));
    assert_eq!(epoch, ProducerEpoch(0));
    assert!(model.producers.insert(id.0), "producer id {id} was given out twice");
    Ok(())
}
