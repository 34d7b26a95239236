//! A member of a consumer group without a session, for simulations in which nothing happens but what the test does.

use std::sync::Arc;

use hermit_proto::session::{Assignment, AssignmentStrategy, GroupHeartbeatRequest, JoinGroupRequest, LeaveGroupRequest};
use hermit_proto::{Generation, GroupName, MemberId, PartitionId, TopicId};

use crate::access::Principal;
use crate::broker::{Broker, Position};
use crate::error::BrokerError;
use crate::groups::{Beat, Peer, Waiter};
use crate::partition::Ticket;
use crate::signal::Signal;

/// A member that joins, beats and commits on the calling thread, and does nothing by itself.
#[derive(Debug)]
pub struct Member {
    broker: Broker,
    group: GroupName,
    id: MemberId,
    assignment: Assignment,
}

impl Member {
    /// Joins a group under an id that no member had before, for topics of these names.
    ///
    /// # Errors
    /// Those of a client's request to join.
    pub fn join(broker: &Broker, group: &GroupName, id: MemberId, topics: &[&str]) -> Result<Self, BrokerError> {
        let request = JoinGroupRequest {
            group: group.to_string(),
            member: id,
            session_timeout_ms: 0,
            processing_timeout_ms: 0,
            strategy: AssignmentStrategy::Balanced,
            topics: topics.iter().map(ToString::to_string).collect(),
            patterns: Vec::new(),
            claims: Vec::new(),
        };
        let peer = Peer { client: "", address: "", principal: &Principal::Anyone };
        let assignment = broker.groups().join(&request, peer)?.assignment;
        Ok(Self { broker: broker.clone(), group: group.clone(), id, assignment })
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> MemberId {
        self.id
    }

    /// What it holds, each since a generation.
    #[must_use]
    pub fn owned(&self) -> Vec<(TopicId, PartitionId, Generation)> {
        let topics = self.assignment.topics.iter();
        topics.flat_map(|of| of.partitions.iter().map(|assigned| (of.topic, assigned.partition, assigned.generation))).collect()
    }

    /// Tells that it lives, gives up at once what it is asked to, and takes up what it is given.
    ///
    /// # Errors
    /// [`BrokerError::UnknownMember`] where it is not in the group any more.
    pub fn beat(&mut self) -> Result<(), BrokerError> {
        let request = GroupHeartbeatRequest {
            group: self.group.to_string(),
            member: self.id,
            version: self.assignment.version,
            owned: self.owned().into_iter().map(|(topic, partition, _)| (topic, partition)).collect(),
            wait_ms: 0,
        };
        let nobody = Waiter { signal: Arc::new(Signal::new()), token: 0 };
        if let Beat::Answer(answer) = self.broker.groups().heartbeat(&self.group, &request, &nobody)? {
            self.assignment = answer.assignment;
        }
        Ok(())
    }

    /// Commits a position as the owner since `generation`; it is stored once the ticket says so.
    ///
    /// # Errors
    /// [`BrokerError::UnknownMember`], [`BrokerError::StaleGeneration`], and those of [`Broker::commit`].
    pub fn commit(&self, position: Position, generation: Generation) -> Result<Ticket, BrokerError> {
        Self::commit_as(&self.broker, &self.group, self.id, position, generation)
    }

    /// As [`Member::commit`], for one that may not be there any more.
    ///
    /// # Errors
    /// As [`Member::commit`].
    pub fn commit_as(
        broker: &Broker,
        group: &GroupName,
        id: MemberId,
        position: Position,
        generation: Generation,
    ) -> Result<Ticket, BrokerError> {
        let stored = broker.commit_each(group, id, &[(position, generation)])?;
        stored.results.into_iter().collect::<Result<Vec<()>, _>>()?;
        stored.ticket.ok_or(BrokerError::UnknownMember { group: group.clone(), member: id })
    }

    /// Leaves the group.
    ///
    /// # Errors
    /// [`BrokerError::UnknownMember`] where it was not in it any more.
    pub fn leave(self) -> Result<(), BrokerError> {
        self.broker.groups().leave(&LeaveGroupRequest { group: self.group.to_string(), member: self.id })
    }
}
