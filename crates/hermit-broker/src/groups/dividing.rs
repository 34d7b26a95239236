//! From who owns what towards who shall own it: dividing, asking to give up, granting.

use hermit_proto::{MemberId, PartitionId, TopicId};

use super::assign::{self, Division, Input, Target, TopicPartition};
use super::group::Group;
use super::member::{Held, Revoked};

impl Group {
    /// Decides anew who shall have what, and sets out towards it.
    pub(super) fn divide(&mut self, claims: &Target) {
        let mut holders = self.owners.clone();
        holders.extend(claims);
        let target = self.target(&holders);
        if target != self.target {
            self.generation.0 += 1;
            self.target = target;
        }
        self.set_out();
        self.forget_topics();
    }

    fn target(&mut self, holders: &Target) -> Target {
        let topics = self.topics.iter().map(|(topic, about)| (*topic, about.partitions));
        let input = Input {
            members: self.members.iter().map(|(id, member)| (*id, &member.topics)).collect(),
            topics: topics.filter(|(topic, _)| self.members.values().any(|member| member.topics.contains(topic))).collect(),
            holders,
            previous: &self.target,
            seats: &self.seats,
        };
        if self.first_division.is_some() {
            let all: u64 = input.topics.values().map(|partitions| u64::from(*partitions)).sum();
            let asked = |of: &TopicPartition, holder| self.members.get(holder).is_some_and(|member| member.topics.contains(&of.0));
            let held: Target = holders.iter().filter(|(of, holder)| asked(of, holder)).map(|(of, holder)| (*of, *holder)).collect();
            // Others are waited for, unless nothing is left for them.
            if all == 0 || (held.len() as u64) < all {
                return held;
            }
            self.first_division = None;
        }
        let Division { target, seats } = assign::divide(self.strategy, &input);
        self.seats = seats;
        target
    }

    /// Asks owners to give up what shall be another's, and grants what is free.
    fn set_out(&mut self) {
        let mut returned = Vec::new();
        let mut revoked = Vec::new();
        for (of, owner) in &self.owners {
            let is_revoked = self.held(*owner, of).is_some_and(|held| held.revoked.is_some());
            match (self.target.get(of) == Some(owner), is_revoked) {
                (true, true) => returned.push((*of, *owner)),
                (false, false) => revoked.push((*of, *owner)),
                _ => {}
            }
        }
        let free: Vec<_> = self.target.keys().filter(|of| !self.owners.contains_key(*of)).copied().collect();
        for (of, owner) in returned {
            self.revoke(owner, of, false);
        }
        for (of, owner) in revoked {
            self.revoke(owner, of, true);
        }
        for of in free {
            self.grant(of);
        }
    }

    fn held(&self, owner: MemberId, of: &TopicPartition) -> Option<&Held> {
        self.members.get(&owner)?.held.get(of)
    }

    /// Asks the owner to give a partition up, or to keep it after all.
    fn revoke(&mut self, owner: MemberId, of: TopicPartition, revoke: bool) {
        let Some(version) = self.change(owner) else { return };
        let Some(member) = self.members.get_mut(&owner) else { return };
        let Some(held) = member.held.get_mut(&of) else { return };
        held.revoked = revoke.then_some(Revoked { version, told_at: None });
        member.revoked = if revoke { member.revoked + 1 } else { member.revoked.saturating_sub(1) };
    }

    /// Takes a partition from its owner.
    pub(super) fn release(&mut self, owner: MemberId, of: TopicPartition) -> Option<Held> {
        self.owners.remove(&of);
        let member = self.members.get_mut(&owner)?;
        let held = member.held.remove(&of)?;
        if held.revoked.is_some() {
            member.revoked = member.revoked.saturating_sub(1);
        }
        Some(held)
    }

    /// Gives a partition that nobody owns to whom it is meant for.
    pub(super) fn grant(&mut self, of: TopicPartition) {
        let Some(owner) = self.target.get(&of).copied() else { return };
        self.change(owner);
        if let Some(member) = self.members.get_mut(&owner) {
            member.held.insert(of, Held { generation: self.generation, revoked: None });
            self.owners.insert(of, owner);
        }
    }

    /// Counts the member's assignment up, once for each event; gives its version.
    pub(super) fn change(&mut self, id: MemberId) -> Option<u64> {
        let member = self.members.get_mut(&id)?;
        if self.effects.changed.insert(id) {
            member.version += 1;
        }
        Some(member.version)
    }

    /// Topics that nobody asks for, and of which nobody holds anything, are none of the group's.
    pub(super) fn forget_topics(&mut self) {
        let (owners, members) = (&self.owners, &self.members);
        let is_asked_for = |topic: &TopicId| members.values().any(|member| member.topics.contains(topic));
        let is_held = |topic: TopicId| {
            let mut held = owners.range((topic, PartitionId(0))..=(topic, PartitionId(u32::MAX)));
            held.next().is_some()
        };
        self.topics.retain(|topic, _| is_asked_for(topic) || is_held(*topic));
    }
}
