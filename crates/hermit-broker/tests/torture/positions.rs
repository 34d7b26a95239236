//! Committed positions.

use std::task::Poll;

use hermit_broker::{Broker, BrokerError, Position, Ticket};
use hermit_log::disk::sim::Rng;
use hermit_proto::{GroupName, LeaderEpoch, Offset, PartitionId};

use crate::actions::{pick, pick_part};
use crate::model::{Model, Possible};
use crate::world::{OFFSETS_RETENTION, World};

const GROUPS: [&str; 2] = ["g", "h"];

fn wait(world: &World, ticket: &Ticket) -> Result<(), BrokerError> {
    world.flusher.run_until_idle();
    match ticket.poll() {
        Poll::Pending => panic!("the flusher is idle, and the commit is not answered"),
        Poll::Ready(answer) => answer,
    }
}

pub fn commit(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some((at, id, number)) = pick_part(broker, model, rng) else { return Ok(()) };
    let (group, partition) = (*pick(rng, &GROUPS).unwrap(), PartitionId(number as u32));
    let high_watermark = broker.partition(id, partition)?.bounds()?.high_watermark.0;
    let offset = rng.below(high_watermark as usize + 1) as u64;
    world.tell(format!("commit {offset} of {}-{number} for {group}", model.topics[at].name));
    let position = model.positions.entry((group.to_owned(), at, partition.0)).or_insert_with(|| Possible::new(None));
    position.ask(Some(offset));
    let sent = Position { topic: id, partition, offset: Offset(offset), leader_epoch: LeaderEpoch::UNKNOWN };
    let name = GroupName::new(group).unwrap();
    let ticket = broker.commit(&name, &[sent])?;
    model.touched.insert(group.to_owned(), world.monotonic());
    if rng.one_in(3) {
        return Ok(());
    }
    wait(world, &ticket)?;
    position.answer();
    let shown = broker.committed(&name, id, partition)?.map(|committed| committed.offset.0);
    assert_eq!(shown, Some(offset));
    Ok(())
}

pub fn delete_group(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let group = *pick(rng, &GROUPS).unwrap();
    world.tell(format!("delete group {group}"));
    let of_group = |key: &&(String, usize, u32)| key.0 == group;
    let keys: Vec<_> = model.positions.keys().filter(of_group).cloned().collect();
    for key in &keys {
        if let Some(position) = model.positions.get_mut(key) {
            position.ask(None);
        }
    }
    let ticket = match broker.delete_group(&GroupName::new(group).unwrap()) {
        // It had none, or none any more.
        Err(BrokerError::UnknownGroup { .. }) => return Ok(()),
        deleted => deleted?,
    };
    wait(world, &ticket)?;
    for key in &keys {
        if let Some(position) = model.positions.get_mut(key) {
            position.answer();
        }
    }
    Ok(())
}

/// Somebody asks for a position: what is shown is on the disk, and so no older one comes back.
pub fn ask(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some((at, id, number)) = pick_part(broker, model, rng) else { return Ok(()) };
    let group = *pick(rng, &GROUPS).unwrap();
    world.tell(format!("position of {}-{number} for {group}", model.topics[at].name));
    let shown = broker.committed(&GroupName::new(group).unwrap(), id, PartitionId(number as u32))?;
    let shown = shown.map(|committed| committed.offset.0);
    let key = (group.to_owned(), at, number as u32);
    let position = model.positions.entry(key).or_insert_with(|| Possible::new(None));
    assert!(position.allows(&shown), "group {group} is shown {shown:?}, not one of {position:?}");
    position.see(&shown);
    Ok(())
}

/// Where the groups' time is over, their positions may go.
pub fn note_expiry(world: &World, model: &mut Model) {
    if !world.expires {
        return;
    }
    for ((group, _, _), position) in &mut model.positions {
        let touched = model.touched.get(group).copied().unwrap_or_default();
        if world.monotonic().saturating_sub(touched) >= OFFSETS_RETENTION {
            position.ask(None);
        }
    }
}
