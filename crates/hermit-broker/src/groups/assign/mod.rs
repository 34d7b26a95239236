//! Who shall have which partition: pure functions of the members, the topics they ask for, and who holds what now.

mod balanced;
mod range;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use hermit_proto::session::AssignmentStrategy;
use hermit_proto::{MemberId, PartitionId, TopicId};

/// A partition of a topic.
pub(crate) type TopicPartition = (TopicId, PartitionId);
/// Whose each partition is, or shall be.
pub(crate) type Target = BTreeMap<TopicPartition, MemberId>;

/// What a division is made from.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    /// The members, with the topics that they ask for.
    pub(crate) members: BTreeMap<MemberId, &'a BTreeSet<TopicId>>,
    /// How many partitions each topic has.
    pub(crate) topics: BTreeMap<TopicId, u32>,
    /// Who holds, or claims, what. Leaving it there is no move.
    pub(crate) holders: &'a Target,
    /// The division before: where what moves was on its way to.
    pub(crate) previous: &'a Target,
    /// The seats of the division before: the order in which [`AssignmentStrategy::Range`] dealt.
    pub(crate) seats: &'a [MemberId],
}

/// A division.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Every partition of a topic that somebody asks for, and whose it shall be.
    pub(crate) target: Target,
    /// The seats, for the next division.
    pub(crate) seats: Vec<MemberId>,
}

/// Divides all partitions.
pub(crate) fn divide(strategy: AssignmentStrategy, input: &Input<'_>) -> Division {
    match strategy {
        AssignmentStrategy::Balanced => Division { target: balanced::divide(input), seats: Vec::new() },
        AssignmentStrategy::Range => range::divide(input),
    }
}

impl Input<'_> {
    /// Who holds a partition and still asks for its topic.
    fn holder(&self, of: &TopicPartition) -> Option<MemberId> {
        self.in_group(self.holders, of)
    }

    /// To whom a partition was on its way, if that one still asks for its topic.
    fn destination(&self, of: &TopicPartition) -> Option<MemberId> {
        self.in_group(self.previous, of)
    }

    fn in_group(&self, map: &Target, of: &TopicPartition) -> Option<MemberId> {
        let member = *map.get(of)?;
        self.members.get(&member).is_some_and(|topics| topics.contains(&of.0)).then_some(member)
    }
}
