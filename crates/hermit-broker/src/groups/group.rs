//! One group as a state machine: events and the time go in, what has changed comes out. No I/O, no clock, no lock.
//!
//! What always holds:
//! - A partition has one owner, or none. It gets the next one only after the last one has given it up, has left, or was fenced.
//! - A grant is made under the group's generation, which rises with every change of the target; within one generation a partition's target does not change. So
//!   partition and generation together name one owner for ever.
//! - What has no owner and has a target is granted at once. So a group in which nothing is being given up is where it is meant to be.

use std::collections::{BTreeMap, BTreeSet};

use hermit_proto::session::AssignmentStrategy;
use hermit_proto::{Generation, MemberId, PartitionId, TopicId, TopicName};

use super::assign::{Target, TopicPartition};
use super::member::{Fence, Held, Member, Timeouts};

/// A topic as the group sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupTopic {
    pub(crate) name: TopicName,
    pub(crate) partitions: u32,
}

/// What a member asks for.
#[derive(Debug, Clone)]
pub(crate) struct Joining {
    pub(crate) timeouts: Timeouts,
    pub(crate) strategy: AssignmentStrategy,
    /// The topics of its subscription that exist.
    pub(crate) topics: BTreeMap<TopicId, GroupTopic>,
    /// What it held before.
    pub(crate) claims: Vec<TopicPartition>,
}

/// How long a group waits for others before it divides for the first time, in ns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    pub(crate) first: u64,
    /// Where somebody claims what it held before: others may come back too.
    pub(crate) returning: u64,
}

/// Why a member's request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is not in the group.
    UnknownMember,
    /// The members divide in this other way.
    Strategy(AssignmentStrategy),
    /// It tells a version that it was never told; this is the newest.
    Version(u64),
}

/// What an event has brought about.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Members whose assignment has changed.
    pub(crate) changed: BTreeSet<MemberId>,
    /// Members that were put out.
    pub(crate) fenced: Vec<(MemberId, Fence)>,
}

/// A group with its members.
#[derive(Debug)]
pub(crate) struct Group {
    pub(super) strategy: AssignmentStrategy,
    pub(super) generation: Generation,
    pub(super) members: BTreeMap<MemberId, Member>,
    pub(super) topics: BTreeMap<TopicId, GroupTopic>,
    pub(super) target: Target,
    pub(super) owners: Target,
    pub(super) seats: Vec<MemberId>,
    waits: Waits,
    /// When the group came to be, and until when the first division waits.
    pub(super) first_division: Option<(u64, u64)>,
    /// No deadline lies before this.
    next_deadline: u64,
    pub(super) effects: Effects,
}

impl Group {
    /// A group without members.
    pub(crate) fn new(now: u64, generation: Generation, waits: Waits) -> Self {
        Self {
            strategy: AssignmentStrategy::default(),
            generation,
            members: BTreeMap::new(),
            topics: BTreeMap::new(),
            target: Target::new(),
            owners: Target::new(),
            seats: Vec::new(),
            waits,
            first_division: Some((now, now.saturating_add(waits.first))),
            next_deadline: u64::MAX,
            effects: Effects::default(),
        }
    }

    /// A member comes, or changes what it asks for.
    pub(crate) fn join(&mut self, now: u64, id: MemberId, joining: Joining) -> Result<(), Refusal> {
        let others = self.members.keys().any(|other| *other != id);
        if others && joining.strategy != self.strategy {
            return Err(Refusal::Strategy(self.strategy));
        }
        let divides_anew = joining.strategy != self.strategy;
        self.strategy = joining.strategy;
        let is_new = !self.members.contains_key(&id);
        let member = self.members.entry(id).or_insert_with(|| Member::new(now, joining.timeouts));
        member.seen_at = now;
        member.timeouts = joining.timeouts;
        let topics: BTreeSet<_> = joining.topics.keys().copied().collect();
        let asks_otherwise = member.topics != topics;
        member.topics = topics;
        let deadline = member.deadline().0;
        self.watch(deadline);
        let mut grown = false;
        for (topic, about) in joining.topics {
            grown |= self.learn(topic, about);
        }
        let claims = self.free_claims(id, &joining.claims);
        if let Some((since, until)) = &mut self.first_division
            && !joining.claims.is_empty()
        {
            *until = since.saturating_add(self.waits.returning).max(*until);
        }
        match self.first_division {
            Some((_, until)) if until <= now => self.first_division = None,
            Some((_, until)) => self.watch(until),
            None => {}
        }
        if is_new || asks_otherwise || divides_anew || grown || !claims.is_empty() {
            self.divide(&claims);
        }
        Ok(())
    }

    /// The partitions claimed that nobody has, and that the member asks for.
    fn free_claims(&self, member: MemberId, claims: &[TopicPartition]) -> Target {
        let Some(asked) = self.members.get(&member).map(|member| &member.topics) else { return Target::new() };
        let exists = |(topic, partition): &TopicPartition| {
            self.topics.get(topic).is_some_and(|about| partition.0 < about.partitions) && asked.contains(topic)
        };
        claims.iter().filter(|of| exists(of) && !self.owners.contains_key(*of)).map(|of| (*of, member)).collect()
    }

    /// A member lives, has taken up the assignment of `version`, and holds `owned`.
    pub(crate) fn heartbeat(
        &mut self,
        now: u64,
        id: MemberId,
        version: u64,
        owned: &BTreeSet<TopicPartition>,
    ) -> Result<(), Refusal> {
        let member = self.members.get_mut(&id).ok_or(Refusal::UnknownMember)?;
        if version > member.version {
            return Err(Refusal::Version(member.version));
        }
        member.seen_at = now;
        if member.revoked == 0 {
            return Ok(());
        }
        // What it was asked to give up later than it knows is not given up by not being told.
        let given_up = |of: &TopicPartition, held: &Held| {
            held.revoked.is_some_and(|revoked| revoked.version <= version) && !owned.contains(of)
        };
        let free: Vec<_> = member.held.iter().filter(|(of, held)| given_up(of, held)).map(|(of, _)| *of).collect();
        if free.is_empty() {
            return Ok(());
        }
        for of in free {
            self.release(id, of);
            self.grant(of);
        }
        self.forget_topics();
        Ok(())
    }

    /// A member gives a sign of life other than a heartbeat.
    pub(crate) fn seen(&mut self, now: u64, id: MemberId) -> Result<(), Refusal> {
        let member = self.members.get_mut(&id).ok_or(Refusal::UnknownMember)?;
        member.seen_at = now;
        Ok(())
    }

    /// A member goes.
    pub(crate) fn leave(&mut self, id: MemberId) -> Result<(), Refusal> {
        if !self.remove(id) {
            return Err(Refusal::UnknownMember);
        }
        self.divide(&Target::new());
        Ok(())
    }

    /// A topic has appeared, or has got partitions, and these members ask for it.
    pub(crate) fn topic(&mut self, topic: TopicId, about: GroupTopic, subscribers: &BTreeSet<MemberId>) {
        let mut changed = false;
        for (id, member) in &mut self.members {
            if subscribers.contains(id) {
                changed |= member.topics.insert(topic);
            }
        }
        if !subscribers.is_empty() || self.topics.contains_key(&topic) {
            changed |= self.learn(topic, about);
        }
        if changed {
            self.divide(&Target::new());
        }
    }

    /// A member may have other topics of its subscription than before.
    pub(crate) fn asks(&mut self, id: MemberId, topics: BTreeMap<TopicId, GroupTopic>) {
        let Some(member) = self.members.get_mut(&id) else { return };
        let asked: BTreeSet<_> = topics.keys().copied().collect();
        let mut changed = member.topics != asked;
        member.topics = asked;
        for (topic, about) in topics {
            changed |= self.learn(topic, about);
        }
        if changed {
            self.divide(&Target::new());
        }
    }

    /// A topic has vanished: its partitions are nobody's, at once.
    pub(crate) fn topic_gone(&mut self, topic: TopicId) {
        if self.topics.remove(&topic).is_none() {
            return;
        }
        for member in self.members.values_mut() {
            member.topics.remove(&topic);
        }
        let of_topic = (topic, PartitionId(0))..=(topic, PartitionId(u32::MAX));
        let owned: Vec<_> = self.owners.range(of_topic).map(|(of, owner)| (*of, *owner)).collect();
        for (of, owner) in owned {
            let was_assigned = self.release(owner, of).is_some_and(|held| held.revoked.is_none());
            if was_assigned {
                self.change(owner);
            }
        }
        self.divide(&Target::new());
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: u64) {
        if now < self.next_deadline {
            return;
        }
        let late: Vec<_> = self
            .members
            .iter()
            .filter_map(|(id, member)| {
                let (deadline, fence) = member.deadline();
                (deadline <= now).then_some((*id, fence))
            })
            .collect();
        let waited = self.first_division.is_some_and(|(_, until)| until <= now);
        if waited {
            self.first_division = None;
        }
        for (id, _) in &late {
            self.remove(*id);
        }
        if waited || !late.is_empty() {
            self.divide(&Target::new());
        }
        self.effects.fenced.extend(late);
        let wait = self.first_division.map(|(_, until)| until);
        let deadlines = self.members.values().map(|member| member.deadline().0).chain(wait);
        self.next_deadline = deadlines.min().unwrap_or(u64::MAX);
    }

    /// The member's assignment, which it is being told now.
    pub(crate) fn tell(&mut self, now: u64, id: MemberId) -> Result<&Member, Refusal> {
        let member = self.members.get_mut(&id).ok_or(Refusal::UnknownMember)?;
        if member.revoked > 0 {
            for revoked in member.held.values_mut().filter_map(|held| held.revoked.as_mut()) {
                revoked.told_at.get_or_insert(now);
            }
            self.next_deadline = self.next_deadline.min(member.deadline().0);
        }
        // What changes from here on is another version.
        self.effects.changed.remove(&id);
        Ok(member)
    }

    /// Whether a member may commit for a partition that it says to own since `generation`.
    pub(crate) fn may_commit(&self, id: MemberId, of: TopicPartition, generation: Generation) -> bool {
        let held = self.members.get(&id).and_then(|member| member.held.get(&of));
        held.is_some_and(|held| held.generation == generation)
    }

    /// What has been brought about since the last call.
    pub(crate) fn take_effects(&mut self) -> Effects {
        std::mem::take(&mut self.effects)
    }

    /// No deadline lies before this.
    pub(crate) const fn next_deadline(&self) -> u64 {
        self.next_deadline
    }

    pub(crate) const fn generation(&self) -> Generation {
        self.generation
    }

    pub(crate) const fn strategy(&self) -> AssignmentStrategy {
        self.strategy
    }

    pub(crate) const fn members(&self) -> &BTreeMap<MemberId, Member> {
        &self.members
    }

    pub(crate) const fn topics(&self) -> &BTreeMap<TopicId, GroupTopic> {
        &self.topics
    }

    /// Who owns what.
    pub(crate) const fn owners(&self) -> &Target {
        &self.owners
    }

    /// Since when the owner of a partition has it.
    pub(crate) fn granted(&self, of: &TopicPartition) -> Option<(MemberId, Generation)> {
        let owner = *self.owners.get(of)?;
        Some((owner, self.members.get(&owner)?.held.get(of)?.generation))
    }

    /// Whether every partition is where it is meant to be.
    pub(crate) fn is_stable(&self) -> bool {
        self.first_division.is_none() && self.members.values().all(|member| member.revoked == 0)
    }

    /// Takes note of a topic; answers whether it has more partitions than known.
    fn learn(&mut self, topic: TopicId, about: GroupTopic) -> bool {
        let known = self.topics.entry(topic).or_insert_with(|| GroupTopic { partitions: 0, ..about.clone() });
        let grown = about.partitions > known.partitions;
        known.partitions = known.partitions.max(about.partitions);
        grown
    }

    fn watch(&mut self, deadline: u64) {
        self.next_deadline = self.next_deadline.min(deadline);
    }

    /// Takes a member out. What it held is free.
    fn remove(&mut self, id: MemberId) -> bool {
        let Some(member) = self.members.remove(&id) else { return false };
        for of in member.held.keys() {
            self.owners.remove(of);
        }
        self.effects.changed.remove(&id);
        true
    }
}
