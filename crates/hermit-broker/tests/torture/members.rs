//! Consumer groups with members: only who owns a partition commits, and nobody that a restart has put out.

use std::task::Poll;

use hermit_broker::testing::Member;
use hermit_broker::{Broker, BrokerError, Position};
use hermit_log::disk::sim::Rng;
use hermit_proto::{GroupName, LeaderEpoch, MemberId, Offset, PartitionId};

use crate::actions::{NAMES, pick};
use crate::model::{Model, Possible};
use crate::world::World;

/// The group that has members.
pub const GROUP: &str = "m";

fn group() -> GroupName {
    GroupName::new(GROUP).unwrap()
}

/// A member comes, goes, or commits.
pub fn act(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    for member in &mut model.members {
        // One that was silent for too long is out of the group, which its commits must be told.
        if !rng.one_in(4) && member.beat().is_err() {
            world.tell(format!("member {} is out", member.id()));
        }
    }
    match rng.below(6) {
        0 if model.members.len() < 3 => {
            let id = MemberId(u128::from(rng.next_u64()) + 1);
            world.tell(format!("member {id} joins"));
            model.members.push(Member::join(broker, &group(), id, &NAMES)?);
            Ok(())
        }
        1 if model.members.len() > 1 => {
            let member = model.members.remove(0);
            world.tell(format!("member {} leaves", member.id()));
            // It may have been put out before.
            let _left = member.leave();
            Ok(())
        }
        2 => commit_as_ghost(world, broker, model, rng),
        _ => commit(world, broker, model, rng),
    }
}

fn commit(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let Some(member) = pick(rng, &model.members) else { return Ok(()) };
    let Some((topic, partition, generation)) = pick(rng, &member.owned()).copied() else { return Ok(()) };
    let Some(at) = model.topics.iter().position(|other| other.id == Some(topic)) else { return Ok(()) };
    let Ok(served) = broker.partition(topic, partition) else { return Ok(()) };
    let offset = rng.below(served.bounds()?.high_watermark.0 as usize + 1) as u64;
    world.tell(format!("member {} commits {offset} of {}-{partition} since {generation}", member.id(), model.topics[at].name));
    let position = model.positions.entry((GROUP.to_owned(), at, partition.0)).or_insert_with(|| Possible::new(None));
    position.ask(Some(offset));
    let sent = Position { topic, partition, offset: Offset(offset), leader_epoch: LeaderEpoch::UNKNOWN };
    model.ghosts.push((member.id(), sent, generation));
    let ticket = match member.commit(sent, generation) {
        Err(BrokerError::UnknownMember { .. } | BrokerError::StaleGeneration { .. }) => {
            position.retract();
            return Ok(());
        }
        committed => committed?,
    };
    model.touched.insert(GROUP.to_owned(), world.monotonic());
    if rng.one_in(3) {
        return Ok(());
    }
    world.flusher.run_until_idle();
    match ticket.poll() {
        Poll::Pending => panic!("the flusher is idle, and the commit is not answered"),
        Poll::Ready(answer) => answer?,
    }
    position.answer();
    let shown = broker.committed(&group(), topic, partition)?.map(|committed| committed.offset.0);
    assert_eq!(shown, Some(offset));
    Ok(())
}

/// A member of an earlier life of the broker tries to commit what it had in mind then.
fn commit_as_ghost(world: &World, broker: &Broker, model: &mut Model, rng: &mut Rng) -> Result<(), BrokerError> {
    let is_ghost = |id: &MemberId| model.members.iter().all(|member| member.id() != *id);
    let ghosts: Vec<_> = model.ghosts.iter().filter(|(id, ..)| is_ghost(id)).copied().collect();
    let Some((id, position, generation)) = pick(rng, &ghosts).copied() else { return Ok(()) };
    if broker.partition(position.topic, PartitionId(position.partition.0)).is_err() {
        return Ok(());
    }
    world.tell(format!("member {id}, which is out, commits {}", position.offset));
    match Member::commit_as(broker, &group(), id, Position { offset: Offset(0), ..position }, generation) {
        Ok(_) => panic!("member {id} is out, and has committed"),
        Err(BrokerError::UnknownMember { .. } | BrokerError::StaleGeneration { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
