//! Two members and a broker that plays by the rules of `docs/protocol.md`, in random turns: whatever happens, no record is passed over, each commit is
//! made by the owner, and nobody is handed a record of what another may hold.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::admin::Committed;
use crate::consumer::config::{AutoCommit, Otherwise};
use hermit_proto::session::{AssignedPartition, AssignedTopic, CommitResponse, CommitResult, Status, WireError};
use hermit_proto::{LeaderEpoch, Offset, PartitionId, TopicId};

const PARTITIONS: u32 = 3;

#[derive(Clone, Debug)]
enum Turn {
    /// A heartbeat or a join, whatever is due.
    Speak(usize),
    FindPlaces(usize),
    Take(usize, u32),
    ComeBack(usize),
    Commit(usize),
    /// The commit arrives, its answer does not.
    CommitUnheard(usize),
    GiveUp(usize),
    /// The target of a partition changes.
    Retarget(u32, usize),
    /// The broker takes the member for dead.
    Expire(usize),
    /// The broker is restarted.
    Restart,
}

fn turn() -> impl Strategy<Value = Turn> {
    let who = 0..2usize;
    prop_oneof![
        6 => who.clone().prop_map(Turn::Speak),
        6 => who.clone().prop_map(Turn::FindPlaces),
        8 => (who.clone(), 0..PARTITIONS).prop_map(|(who, partition)| Turn::Take(who, partition)),
        5 => who.clone().prop_map(Turn::ComeBack),
        4 => who.clone().prop_map(Turn::Commit),
        1 => who.clone().prop_map(Turn::CommitUnheard),
        4 => who.clone().prop_map(Turn::GiveUp),
        2 => (0..PARTITIONS, who.clone()).prop_map(|(partition, who)| Turn::Retarget(partition, who)),
        1 => who.prop_map(Turn::Expire),
        1 => Just(Turn::Restart),
    ]
}

struct Member {
    state: State,
    /// The next offset to take of what it reads, under this tenure.
    reading: BTreeMap<u32, (Tenure, u64)>,
    /// Behind what the application is done with.
    done: BTreeMap<u32, u64>,
}

#[derive(Default)]
struct Broker {
    /// Known members, with the versions and what they were told.
    known: BTreeMap<MemberId, (u64, BTreeMap<u32, u64>)>,
    /// Owner and generation.
    owners: BTreeMap<u32, (MemberId, u64)>,
    targets: BTreeMap<u32, usize>,
    generation: u64,
    committed: BTreeMap<u32, u64>,
}

struct World {
    members: Vec<Member>,
    broker: Broker,
    now: Instant,
    ids: u128,
}

const fn key(partition: u32) -> Key {
    (TopicId(1), PartitionId(partition))
}

const fn place(offset: u64) -> Place {
    Place { offset: Offset(offset), epoch: LeaderEpoch(0) }
}

impl World {
    fn new() -> Self {
        let config = GroupConfig {
            session_timeout: Duration::from_secs(10),
            processing_timeout: Duration::from_secs(60),
            strategy: hermit_proto::session::AssignmentStrategy::Balanced,
            uncommitted: Otherwise::Earliest,
            commits_start: false,
            auto_commit: AutoCommit::Processed,
            auto_commit_interval: Duration::from_secs(1),
            request_timeout: Duration::from_secs(10),
        };
        let members = (1..=2u128).map(|id| {
            let mut state = State::new("g".into(), config);
            state.subscribe(Subscription::from("t"), || MemberId(id));
            Member { state, reading: BTreeMap::new(), done: BTreeMap::new() }
        });
        let targets = (0..PARTITIONS).map(|partition| (partition, partition as usize % 2)).collect();
        Self { members: members.collect(), broker: Broker { targets, ..Broker::default() }, now: Instant::now(), ids: 10 }
    }

    fn id(&self, who: usize) -> MemberId {
        self.members[who].state.membership.as_ref().unwrap().member
    }

    fn next_id(&mut self) -> MemberId {
        self.ids += 1;
        MemberId(self.ids)
    }

    /// Grants what is free to whom it is meant for; tells each member a new version where its share has changed.
    fn divide(&mut self) {
        let ids = [self.id(0), self.id(1)];
        let broker = &mut self.broker;
        for (partition, target) in &broker.targets {
            if !broker.owners.contains_key(partition) && broker.known.contains_key(&ids[*target]) {
                broker.generation += 1;
                broker.owners.insert(*partition, (ids[*target], broker.generation));
            }
        }
        for (who, id) in ids.iter().enumerate() {
            let Some((version, told)) = broker.known.get_mut(id) else { continue };
            let share: BTreeMap<u32, u64> = broker
                .owners
                .iter()
                .filter(|(partition, (owner, _))| owner == id && broker.targets[*partition] == who)
                .map(|(partition, (_, generation))| (*partition, *generation))
                .collect();
            if *told != share {
                *told = share;
                *version += 1;
            }
        }
    }

    fn assignment(&self, id: MemberId) -> Assignment {
        let (version, share) = &self.broker.known[&id];
        let partitions = share.iter().map(|(partition, generation)| AssignedPartition {
            partition: PartitionId(*partition),
            generation: Generation(*generation),
        });
        let topics = vec![AssignedTopic { topic: TopicId(1), name: "t".into(), partitions: partitions.collect() }];
        Assignment { version: *version, generation: Generation(self.broker.generation), topics }
    }

    fn speak(&mut self, who: usize) {
        let id = self.id(who);
        if matches!(self.members[who].state.membership.as_ref().unwrap().phase, Phase::Joining) {
            let request = self.members[who].state.join_request().unwrap();
            self.broker.known.entry(id).or_insert_with(|| (1, BTreeMap::new()));
            for (_, partition) in &request.claims {
                self.broker.targets.insert(partition.0, who);
            }
            self.divide();
            let answer = JoinGroupResponse {
                session_timeout_ms: 10_000,
                processing_timeout_ms: 60_000,
                heartbeat_interval_ms: 3_000,
                assignment: self.assignment(id),
            };
            self.members[who].state.joined(&request, &answer, self.now);
            return;
        }
        let request = self.members[who].state.heartbeat_request().unwrap();
        if !self.broker.known.contains_key(&id) {
            let next = self.next_id();
            self.members[who].state.fence(id, || next);
            return;
        }
        // What the member was told to give up, and does not name any more, is free.
        let (version, share) = self.broker.known[&id].clone();
        if request.version == version {
            self.broker.owners.retain(|partition, (owner, _)| {
                *owner != id || share.contains_key(partition) || request.owned.contains(&key(*partition))
            });
        }
        self.divide();
        let assignment = self.assignment(id);
        self.members[who].state.heard(&request, &assignment, self.now);
    }

    fn find_places(&mut self, who: usize) {
        let member = &mut self.members[who];
        for wanted in member.state.wanted() {
            let committed = self.broker.committed.get(&wanted.key.1.0).copied();
            let found = committed.map(|offset| Committed { offset: Offset(offset), leader_epoch: LeaderEpoch(0) });
            member.state.found(wanted, found, place(committed.unwrap_or(0)), self.now);
        }
    }

    /// As the consumer does: it begins where the state says, and goes on while the tenure lasts.
    fn take(&mut self, who: usize, partition: u32) {
        let member = &mut self.members[who];
        let Some(view) = member.state.views().into_iter().find(|view| view.key == key(partition)) else { return };
        let Held::Active { start } = view.held else { return };
        let reading = member.reading.entry(partition).or_insert((view.tenure, start.offset.0));
        if reading.0 != view.tenure {
            *reading = (view.tenure, start.offset.0);
        }
        let offset = reading.1;
        if member.state.hand_out(key(partition), view.tenure, [(Offset(offset), place(offset + 1))], self.now).is_some() {
            reading.1 += 1;
        }
    }

    fn come_back(&mut self, who: usize) {
        let member = &mut self.members[who];
        member.state.come_back();
        member.state.errors.clear();
        for (partition, (_, next)) in &member.reading {
            let done = member.done.entry(*partition).or_insert(0);
            *done = (*done).max(*next);
        }
    }

    fn commit(&mut self, who: usize, heard: bool) -> Result<(), TestCaseError> {
        let next = self.next_id();
        let (member, broker) = (&mut self.members[who], &mut self.broker);
        member.state.enqueue_owed(self.now + Duration::from_secs(10));
        let Some(request) = member.state.next_commit(self.now) else { return Ok(()) };
        if !broker.known.contains_key(&request.member) {
            let refusal = Error::refused(hermit_proto::session::Operation::Commit, WireError::new(Status::UnknownMember, "who?"));
            member.state.answered(&request, Err(refusal), || next);
            return Ok(());
        }
        let mut results = Vec::new();
        for entry in &request.entries {
            let partition = entry.partition.0;
            let owns = broker.owners.get(&partition) == Some(&(request.member, entry.generation.0));
            prop_assert!(owns, "a member that is known commits only what it owns: {entry:?} of {:?}", broker.owners);
            let before = broker.committed.insert(partition, entry.offset.0).unwrap_or(0);
            prop_assert!(before <= entry.offset.0, "{partition} goes back from {before} to {}", entry.offset);
            let done = member.done.get(&partition).copied().unwrap_or(0);
            prop_assert!(entry.offset.0 <= done, "{partition}: {} is committed, {done} are processed", entry.offset);
            results.push(CommitResult { topic: entry.topic, partition: entry.partition, status: Status::Ok });
        }
        let answer = if heard {
            Ok(CommitResponse { results })
        } else {
            Err(Error::Timeout { awaited: "answer", after: Duration::ZERO, source: None })
        };
        member.state.answered(&request, answer, || next);
        Ok(())
    }

    fn step(&mut self, turn: &Turn) -> Result<(), TestCaseError> {
        match *turn {
            Turn::Speak(who) => self.speak(who),
            Turn::FindPlaces(who) => self.find_places(who),
            Turn::Take(who, partition) => self.take(who, partition),
            Turn::ComeBack(who) => self.come_back(who),
            Turn::Commit(who) => self.commit(who, true)?,
            Turn::CommitUnheard(who) => self.commit(who, false)?,
            Turn::GiveUp(who) => drop(self.members[who].state.give_up()),
            Turn::Retarget(partition, who) => {
                self.broker.targets.insert(partition, who);
                self.divide();
            }
            Turn::Expire(who) => {
                let id = self.id(who);
                self.broker.known.remove(&id);
                self.broker.owners.retain(|_, (owner, _)| *owner != id);
                self.divide();
            }
            Turn::Restart => {
                self.broker.known.clear();
                self.broker.owners.clear();
            }
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn members_never_step_on_each_other_and_always_come_to_an_end(turns in prop::collection::vec(turn(), 0..150)) {
        let mut world = World::new();
        for turn in &turns {
            world.step(turn)?;
        }
        // From here on all goes well: everything is owned, by those it is meant for, and read to the end.
        for _ in 0..12 {
            for who in 0..2 {
                for turn in [Turn::Speak(who), Turn::FindPlaces(who), Turn::ComeBack(who), Turn::Commit(who), Turn::GiveUp(who)] {
                    world.step(&turn)?;
                }
            }
        }
        for partition in 0..PARTITIONS {
            let target = world.broker.targets[&partition];
            let owner = world.broker.owners.get(&partition).map(|(owner, _)| *owner);
            prop_assert_eq!(owner, Some(world.id(target)), "partition {}", partition);
            let from = world.broker.committed.get(&partition).copied().unwrap_or(0);
            world.step(&Turn::Take(target, partition))?;
            let (_, next) = world.members[target].reading[&partition];
            prop_assert_eq!(next, from + 1, "partition {}: neither passed over nor again", partition);
            world.step(&Turn::ComeBack(target))?;
            world.step(&Turn::Commit(target))?;
            prop_assert_eq!(world.broker.committed.get(&partition).copied(), Some(from + 1));
        }
    }
}
