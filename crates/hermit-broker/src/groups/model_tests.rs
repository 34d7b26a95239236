//! The state machine against a model: clients that follow the protocol, or sleep through it, and know for themselves what they hold.
//!
//! After every step: nobody owns what somebody else, who was not fenced, still holds; partition and generation name one owner for ever; who holds
//! a partition may commit for it, and nobody else may; generations rise; nobody is put out before its time, nor left in after it; moves are as few as can be.
//! In the end, when all have done what they were asked to: every partition that somebody asks for is somebody's, in equal shares.

use std::collections::{BTreeMap, BTreeSet};

use hermit_proto::session::AssignmentStrategy;
use hermit_proto::{Generation, MemberId, PartitionId, TopicId, TopicName};
use proptest::collection::vec;
use proptest::prelude::*;

use super::assign::TopicPartition;
use super::group::{Group, GroupTopic, Joining, Refusal, Waits};
use super::member::{Fence, Timeouts};

const MS: u64 = 1_000_000;
const TIMEOUTS: Timeouts = Timeouts { session: 10_000 * MS, processing: 15_000 * MS };
const WAITS: Waits = Waits { first: 100 * MS, returning: 3000 * MS };
/// Names of topics that may come to be; a new topic of a name has a new id.
const NAMES: usize = 4;

#[derive(Debug, Clone)]
enum Op {
    Join {
        asks: u8,
        claims: bool,
    },
    Leave(usize),
    Beat {
        who: usize,
        late: bool,
    },
    /// An answer that was late arrives.
    Deliver(usize),
    Sleep(usize),
    Wake(usize),
    /// A client is done with something that it was asked to give up.
    Finish(usize),
    Commit(usize),
    Subscribe {
        who: usize,
        asks: u8,
    },
    Create {
        name: usize,
        partitions: u32,
    },
    Delete(usize),
    Grow {
        name: usize,
        by: u32,
    },
    Pass(u64),
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let who = || 0..8usize;
    prop_oneof![
        4 => (any::<u8>(), any::<bool>()).prop_map(|(asks, claims)| Op::Join { asks, claims }),
        2 => who().prop_map(Op::Leave),
        12 => (who(), prop::bool::weighted(0.3)).prop_map(|(who, late)| Op::Beat { who, late }),
        3 => who().prop_map(Op::Deliver),
        1 => who().prop_map(Op::Sleep),
        2 => who().prop_map(Op::Wake),
        8 => who().prop_map(Op::Finish),
        4 => who().prop_map(Op::Commit),
        2 => (who(), any::<u8>()).prop_map(|(who, asks)| Op::Subscribe { who, asks }),
        2 => (0..NAMES, 1..9u32).prop_map(|(name, partitions)| Op::Create { name, partitions }),
        1 => (0..NAMES).prop_map(Op::Delete),
        1 => (0..NAMES, 1..4u32).prop_map(|(name, by)| Op::Grow { name, by }),
        6 => prop_oneof![10..400u64, 1000..6000u64].prop_map(Op::Pass),
        1 => Just(Op::Restart),
    ]
}

#[derive(Debug, Clone, Copy)]
struct Holding {
    generation: Generation,
    giving_up: bool,
}

/// A consumer, by the rules of docs/protocol.md.
#[derive(Debug)]
struct Client {
    id: MemberId,
    asks: u8,
    asleep: bool,
    version: u64,
    assignment: BTreeMap<TopicPartition, Generation>,
    holds: BTreeMap<TopicPartition, Holding>,
    /// Answers on their way.
    late: Vec<(u64, BTreeMap<TopicPartition, Generation>)>,
    /// When its last request came.
    seen_at: u64,
    /// When it was first told, in whatever version, to give up what it has not.
    told_at: BTreeMap<TopicPartition, u64>,
}

impl Client {
    const fn new(id: MemberId, asks: u8) -> Self {
        Self {
            id,
            asks,
            asleep: false,
            version: 0,
            assignment: BTreeMap::new(),
            holds: BTreeMap::new(),
            late: Vec::new(),
            seen_at: 0,
            told_at: BTreeMap::new(),
        }
    }

    fn take_up(&mut self, version: u64, assignment: BTreeMap<TopicPartition, Generation>) {
        if version < self.version {
            return;
        }
        (self.version, self.assignment) = (version, assignment);
        for (of, holding) in &mut self.holds {
            holding.giving_up = self.assignment.get(of) != Some(&holding.generation);
        }
        for (of, generation) in &self.assignment {
            self.holds.entry(*of).or_insert(Holding { generation: *generation, giving_up: false });
        }
    }

    fn finish_one(&mut self) {
        let first = self.holds.iter().find(|(_, holding)| holding.giving_up).map(|(of, _)| *of);
        if let Some(of) = first {
            self.holds.remove(&of);
        }
    }
}

#[derive(Debug)]
struct World {
    strategy: AssignmentStrategy,
    now: u64,
    group: Option<Group>,
    next_generation: u64,
    last_generation: Generation,
    topics: BTreeMap<usize, (TopicId, u32)>,
    clients: Vec<Client>,
    /// What was held by ids that are members no more.
    former: Vec<(MemberId, TopicPartition, Generation)>,
    /// Whose each grant was.
    grants: BTreeMap<(TopicPartition, Generation), MemberId>,
    next_id: u128,
}

fn name(name: usize) -> TopicName {
    TopicName::new(format!("topic-{name}")).unwrap()
}

impl World {
    fn new(strategy: AssignmentStrategy) -> Self {
        Self {
            strategy,
            now: 1_700_000_000_000 * MS,
            group: None,
            next_generation: 0,
            last_generation: Generation(0),
            topics: BTreeMap::from([(0, (TopicId(1), 4))]),
            clients: Vec::new(),
            former: Vec::new(),
            grants: BTreeMap::new(),
            next_id: 100,
        }
    }

    fn id(&mut self) -> u128 {
        self.next_id += 1;
        self.next_id
    }

    fn asked(&self, asks: u8) -> BTreeMap<TopicId, GroupTopic> {
        let asked = self.topics.iter().filter(|(number, _)| asks & (1 << **number) != 0);
        asked.map(|(number, (id, partitions))| (*id, GroupTopic { name: name(*number), partitions: *partitions })).collect()
    }

    fn exists(&self, of: &TopicPartition) -> bool {
        self.topics.values().any(|(id, partitions)| *id == of.0 && of.1.0 < *partitions)
    }

    /// As the coordinator does before each request.
    fn tick(&mut self) {
        let Some(group) = &mut self.group else { return };
        group.tick(self.now);
        let fenced = group.take_effects().fenced;
        for (id, fence) in fenced {
            // Nobody is put out before its time.
            if let Some(client) = self.clients.iter().find(|client| client.id == id) {
                match fence {
                    Fence::Silent => assert!(client.seen_at + TIMEOUTS.session <= self.now),
                    Fence::Slow => {
                        let told = client.told_at.values().min().expect("it was told to give up nothing");
                        assert!(told + TIMEOUTS.processing <= self.now);
                    }
                }
            }
        }
        self.bury();
    }

    /// An empty group is forgotten, but for its generation.
    fn bury(&mut self) {
        if let Some(group) = self.group.as_ref().filter(|group| group.members().is_empty()) {
            self.next_generation = group.generation().0 + 1;
            self.group = None;
        }
    }

    fn join(&mut self, at: usize, claims: Vec<TopicPartition>) {
        self.tick();
        let joining = Joining { timeouts: TIMEOUTS, strategy: self.strategy, topics: self.asked(self.clients[at].asks), claims };
        let first = Generation(self.next_generation.max(self.now / MS));
        let (id, now) = (self.clients[at].id, self.now);
        let group = self.group.get_or_insert_with(|| Group::new(now, first, WAITS));
        group.join(now, id, joining).unwrap();
        self.clients[at].seen_at = now;
        self.answer(at, false);
    }

    /// The answer to a request of a client, which may be late, or never come.
    fn answer(&mut self, at: usize, late: bool) {
        let client = &mut self.clients[at];
        let Some(group) = &mut self.group else { return };
        let Ok(member) = group.tell(self.now, client.id) else { return };
        let (version, assignment) = (member.version(), member.assigned().collect::<BTreeMap<_, _>>());
        let owned: BTreeSet<_> = group.owners().iter().filter(|(_, owner)| **owner == client.id).map(|(of, _)| *of).collect();
        client.told_at.retain(|of, _| owned.contains(of) && !assignment.contains_key(of));
        for of in owned.iter().filter(|of| !assignment.contains_key(*of)) {
            client.told_at.entry(*of).or_insert(self.now);
        }
        if late {
            client.late.push((version, assignment));
        } else {
            client.take_up(version, assignment);
        }
    }

    fn beat(&mut self, at: usize, late: bool) {
        self.tick();
        let client = &mut self.clients[at];
        let owned = client.holds.keys().copied().collect();
        let beaten = match &mut self.group {
            Some(group) => group.heartbeat(self.now, client.id, client.version, &owned),
            None => Err(Refusal::UnknownMember),
        };
        match beaten {
            Ok(()) => {
                client.seen_at = self.now;
                self.answer(at, late);
            }
            Err(Refusal::UnknownMember) => self.start_anew(at),
            Err(other) => panic!("{other:?}"),
        }
    }

    /// A client that was fenced, or whose broker has restarted, comes back under another id.
    fn start_anew(&mut self, at: usize) {
        let id = MemberId(self.id());
        let client = &mut self.clients[at];
        let holds = std::mem::take(&mut client.holds);
        self.former.extend(holds.iter().map(|(of, holding)| (client.id, *of, holding.generation)));
        *client = Client::new(id, client.asks);
        self.join(at, holds.into_keys().collect());
    }

    fn commit(&mut self, at: usize) {
        self.tick();
        let Some(group) = &self.group else { return };
        let client = &self.clients[at];
        let is_member = group.members().contains_key(&client.id);
        for (of, holding) in &client.holds {
            let accepted = group.may_commit(client.id, *of, holding.generation);
            assert_eq!(accepted, is_member && self.exists(of), "{} commits for {of:?} since {}", client.id, holding.generation);
        }
        for (id, of, generation) in &self.former {
            assert!(!group.may_commit(*id, *of, *generation), "a former member {id} commits for {of:?}");
        }
    }

    fn step(&mut self, op: Op) {
        let clients = self.clients.len().max(1);
        let awake = |who: usize, world: &Self| world.clients.get(who % clients).is_some_and(|client| !client.asleep);
        match op {
            Op::Join { asks, claims } if self.clients.len() < 8 => {
                let id = MemberId(self.id());
                self.clients.push(Client::new(id, asks));
                // Claims need not be true.
                let all = self.topics.values().flat_map(|(id, partitions)| (0..*partitions).map(|of| (*id, PartitionId(of))));
                let claimed = if claims { all.step_by(2).collect() } else { Vec::new() };
                self.join(self.clients.len() - 1, claimed);
            }
            Op::Leave(who) if awake(who, self) => {
                self.tick();
                let client = self.clients.remove(who % clients);
                self.former.extend(client.holds.iter().map(|(of, holding)| (client.id, *of, holding.generation)));
                let left = self.group.as_mut().map(|group| group.leave(client.id));
                assert!(matches!(left, None | Some(Ok(()) | Err(Refusal::UnknownMember))));
                self.bury();
            }
            Op::Beat { who, late } if awake(who, self) => self.beat(who % clients, late),
            Op::Deliver(who) if awake(who, self) => {
                let client = &mut self.clients[who % clients];
                if let Some((version, assignment)) = client.late.pop() {
                    client.take_up(version, assignment);
                }
            }
            Op::Sleep(who) if awake(who, self) => self.clients[who % clients].asleep = true,
            Op::Wake(who) if who < self.clients.len() => self.clients[who].asleep = false,
            Op::Finish(who) if awake(who, self) => self.clients[who % clients].finish_one(),
            // Zombies, too, commit when they wake up.
            Op::Commit(who) if who < self.clients.len() => self.commit(who),
            Op::Subscribe { who, asks } if awake(who, self) => {
                let at = who % clients;
                self.tick();
                if self.group.as_ref().is_some_and(|group| group.members().contains_key(&self.clients[at].id)) {
                    self.clients[at].asks = asks;
                    self.join(at, Vec::new());
                }
            }
            Op::Create { name, partitions } if !self.topics.contains_key(&name) => {
                let id = TopicId(self.id());
                self.topics.insert(name, (id, partitions));
                self.tell_topic(name);
            }
            Op::Grow { name, by } if self.topics.contains_key(&name) => {
                self.topics.get_mut(&name).unwrap().1 += by;
                self.tell_topic(name);
            }
            Op::Delete(name) => {
                let Some((id, _)) = self.topics.remove(&name) else { return };
                self.tick();
                if let Some(group) = &mut self.group {
                    group.topic_gone(id);
                }
                for client in &mut self.clients {
                    client.told_at.retain(|of, _| of.0 != id);
                }
            }
            Op::Pass(ms) => {
                self.now += ms * MS;
                self.tick();
            }
            Op::Restart => {
                self.now += 1000 * MS;
                self.group = None;
                self.next_generation = 0;
            }
            _ => {}
        }
    }

    fn tell_topic(&mut self, number: usize) {
        self.tick();
        let (id, partitions) = self.topics[&number];
        let Some(group) = &mut self.group else { return };
        let asks = |client: &&Client| client.asks & (1 << number) != 0 && group.members().contains_key(&client.id);
        let subscribers = self.clients.iter().filter(asks).map(|client| client.id).collect();
        group.topic(id, GroupTopic { name: name(number), partitions }, &subscribers);
    }

    fn check(&mut self) {
        let Some(group) = &self.group else { return };
        assert!(group.generation() >= self.last_generation, "the generation fell");
        self.last_generation = group.generation();
        for of in group.owners().keys() {
            let (owner, generation) = group.granted(of).expect("an owner without a grant");
            assert!(group.members().contains_key(&owner));
            assert!(self.exists(of), "{of:?} is owned and does not exist");
            let first = *self.grants.entry((*of, generation)).or_insert(owner);
            assert_eq!(first, owner, "{of:?} had two owners in generation {generation}");
        }
        for client in self.clients.iter().filter(|client| group.members().contains_key(&client.id)) {
            assert!(client.seen_at + TIMEOUTS.session > self.now, "{} was left in", client.id);
            for of in client.holds.keys().filter(|of| self.exists(of)) {
                assert_eq!(group.owners().get(of), Some(&client.id), "{of:?} was taken from {} before it gave it up", client.id);
            }
        }
        self.check_moves(group);
    }

    /// What is being given up is no more than equal shares need.
    fn check_moves(&self, group: &Group) {
        let members: Vec<_> = self.clients.iter().filter(|client| group.members().contains_key(&client.id)).collect();
        let topics: BTreeSet<_> = members.iter().map(|client| self.asked(client.asks).into_keys().collect::<Vec<_>>()).collect();
        if self.strategy != AssignmentStrategy::Balanced || topics.len() != 1 {
            return;
        }
        let topics = topics.first().unwrap();
        let all: u32 = self.topics.values().filter(|(id, _)| topics.contains(id)).map(|(_, partitions)| *partitions).sum();
        let owned = |id: MemberId| group.owners().iter().filter(|(of, owner)| **owner == id && topics.contains(&of.0)).count();
        let (share, over) = (all as usize / members.len(), all as usize % members.len());
        let mut excess: Vec<_> = members.iter().map(|client| owned(client.id).saturating_sub(share)).collect();
        excess.sort_unstable_by(|a, b| b.cmp(a));
        let fewest: usize = excess.iter().enumerate().map(|(at, excess)| excess.saturating_sub(usize::from(at < over))).sum();
        let assigned: usize = group.members().values().map(|member| member.assigned().count()).sum();
        let of_topics = group.owners().keys().filter(|of| topics.contains(&of.0)).count();
        assert!(of_topics - assigned <= fewest, "{} moves, and {fewest} do", of_topics - assigned);
    }

    /// Everybody who is awake does what it was asked to; those asleep are put out.
    fn come_to_rest(&mut self) {
        for _ in 0..20 {
            self.now += 1000 * MS;
            self.tick();
            for at in (0..self.clients.len()).filter(|at| !self.clients[*at].asleep).collect::<Vec<_>>() {
                while self.clients[at].holds.values().any(|holding| holding.giving_up) {
                    self.clients[at].finish_one();
                }
                self.beat(at, false);
                self.check();
            }
        }
        self.clients.retain(|client| !client.asleep);
    }

    fn check_rest(&self) {
        let Some(group) = &self.group else {
            assert!(self.clients.is_empty());
            return;
        };
        assert!(group.is_stable());
        assert_eq!(group.members().len(), self.clients.len());
        for (number, (id, partitions)) in &self.topics {
            let asks = |client: &Client| client.asks & (1 << number) != 0;
            for partition in (0..*partitions).map(PartitionId) {
                let owner = group.owners().get(&(*id, partition));
                let owner = owner.map(|owner| self.clients.iter().find(|client| client.id == *owner).expect("nobody's id"));
                match owner {
                    Some(owner) => assert!(asks(owner)),
                    None => assert!(!self.clients.iter().any(asks), "{number}-{partition} is nobody's"),
                }
            }
        }
        let mut counts = BTreeMap::<_, BTreeSet<usize>>::new();
        for client in &self.clients {
            let held: BTreeSet<_> = client.holds.keys().copied().filter(|of| self.exists(of)).collect();
            let owned: BTreeSet<_> = group.owners().iter().filter(|(_, id)| **id == client.id).map(|(of, _)| *of).collect();
            assert_eq!(held, owned, "what {} holds, and what it owns", client.id);
            counts.entry(self.asked(client.asks).into_keys().collect::<Vec<_>>()).or_default().insert(owned.len());
        }
        if self.strategy == AssignmentStrategy::Balanced {
            for counts in counts.values() {
                assert!(counts.last().unwrap() - counts.first().unwrap() <= 1, "{counts:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_group_keeps_its_promises_whatever_happens(ops in vec(op(), 1..80), range in any::<bool>()) {
        let mut world = World::new(if range { AssignmentStrategy::Range } else { AssignmentStrategy::Balanced });
        for op in ops {
            world.step(op);
            world.check();
        }
        world.come_to_rest();
        world.check_rest();
    }
}
