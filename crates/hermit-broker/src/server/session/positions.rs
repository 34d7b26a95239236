//! Commit and FetchCommitted.

use std::sync::Arc;

use hermit_proto::session::{
    AccessOperations, CommitEntry, CommitRequest, CommitResponse, CommitResult, CommittedOffset, FetchCommittedRequest,
    FetchCommittedResponse, Message, Status, WireError,
};
use hermit_proto::{CorrelationId, Generation, GroupName, LeaderEpoch, Offset, PartitionId, TopicId, Unit};

use super::owed::Answer;
use super::state::Session;
use crate::broker::{Broker, Position, Stored};
use crate::error::{BrokerError, status_of, to_wire};
use crate::partition::Partition;
use crate::server::Line;

impl Session {
    pub(super) fn commit(&mut self, unit: &Unit) {
        let correlation = unit.correlation();
        let committed = CommitRequest::decode(unit.key(), unit.payload())
            .map_err(WireError::from)
            .and_then(|request| self.store(correlation, &request));
        if let Err(error) = committed {
            self.tell(correlation, &error);
        }
    }

    /// Each position is stored or refused by itself; those that pass go into one append.
    fn store(&mut self, correlation: CorrelationId, request: &CommitRequest) -> Result<(), WireError> {
        self.check_group(&request.group).map_err(|error| to_wire(&error))?;
        let group = GroupName::new_public(&request.group)?;
        let mut may = |entry: &CommitEntry| self.check_topic(entry.topic, AccessOperations::CONSUME);
        let refused: Vec<_> = request.entries.iter().map(|entry| may(entry).err()).collect();
        let allowed = request.entries.iter().zip(&refused).filter(|(_, refused)| refused.is_none());
        let positions: Vec<_> = allowed.map(|(entry, _)| position(entry)).collect();
        let committed = self.broker.commit_each(&group, request.member, &positions);
        let Stored { results: stored, ticket } = committed.map_err(|error| to_wire(&error))?;
        let mut stored = stored.into_iter();
        let counters = self.broker.counters();
        let results = request.entries.iter().zip(refused).map(|(entry, refused)| {
            let error = refused.or_else(|| stored.next().and_then(Result::err));
            let status = error.map_or(Status::Ok, |error| status_of(&error));
            if !status.is_ok() {
                counters.refused(status);
            }
            CommitResult { topic: entry.topic, partition: entry.partition, status }
        });
        let response = CommitResponse { results: results.collect() };
        let Some(ticket) = ticket else {
            self.respond(correlation, &response);
            return Ok(());
        };
        self.owe(correlation, ticket.partition(), ticket.appended().next_offset, Answer::Committed(response));
        Ok(())
    }

    fn check_group(&self, group: &str) -> Result<(), BrokerError> {
        self.rights.authority().check_group(group, AccessOperations::CONSUME)
    }

    fn owe(&mut self, correlation: CorrelationId, partition: &Arc<Partition>, until: Offset, answer: Answer) {
        let token = self.token();
        let token = self.owed.push(partition, token, correlation, until, answer);
        self.owed.settle(token, &self.signal, self.broker.counters(), &mut self.out);
    }

    pub(super) fn fetch_committed(&mut self, unit: &Unit) {
        let correlation = unit.correlation();
        let fetched = FetchCommittedRequest::decode(unit.key(), unit.payload())
            .map_err(WireError::from)
            .and_then(|request| self.fetch(correlation, request));
        if let Err(error) = fetched {
            self.tell(correlation, &error);
        }
    }

    /// What another member committed and is still being flushed is waited for: whoever begins below it would read again what was committed.
    fn fetch(&mut self, correlation: CorrelationId, request: FetchCommittedRequest) -> Result<(), WireError> {
        self.check_group(&request.group).map_err(|error| to_wire(&error))?;
        let mut topics = request.partitions.iter().map(|(topic, _)| *topic);
        topics.try_for_each(|topic| self.check_any_right(topic)).map_err(|error| to_wire(&error))?;
        let group = GroupName::new(&request.group)?;
        match self.broker.pending_commits(&group, &request.partitions) {
            Ok(Some((partition, until))) => {
                self.owe(correlation, &partition, until, Answer::Fetched(self.broker.clone(), request));
            }
            // Where the positions are down, each says so.
            Ok(None) | Err(_) => self.respond(correlation, &fetch(&self.broker, &request)),
        }
        Ok(())
    }
}

fn position(entry: &CommitEntry) -> (Position, Generation) {
    let CommitEntry { topic, partition, offset, leader_epoch, generation } = *entry;
    (Position { topic, partition, offset, leader_epoch }, generation)
}

/// The stored positions, as far as they can be told.
pub(super) fn fetch(broker: &Broker, request: &FetchCommittedRequest) -> FetchCommittedResponse {
    let group = GroupName::new(&request.group);
    let positions = request.partitions.iter().map(|(topic, partition)| match &group {
        Ok(group) => stored(broker, group, *topic, *partition),
        Err(error) => missing(*topic, *partition, WireError::from(error.clone()).status),
    });
    FetchCommittedResponse { positions: positions.collect() }
}

fn stored(broker: &Broker, group: &GroupName, topic: TopicId, partition: PartitionId) -> CommittedOffset {
    let found = broker.partition(topic, partition).and_then(|_exists| broker.committed(group, topic, partition));
    match found {
        Ok(committed) => CommittedOffset {
            offset: committed.map(|committed| committed.offset),
            leader_epoch: committed.map_or(LeaderEpoch::UNKNOWN, |committed| committed.leader_epoch),
            ..missing(topic, partition, Status::Ok)
        },
        Err(error) => {
            if matches!(error, BrokerError::PartitionDown { .. })
                && let Line::Write { left_out } = broker.lines().unreadable.line()
            {
                tracing::warn!(%group, left_out, error = %crate::error::line(&error), "committed positions cannot be read");
            }
            missing(topic, partition, status_of(&error))
        }
    }
}

const fn missing(topic: TopicId, partition: PartitionId, status: Status) -> CommittedOffset {
    CommittedOffset { topic, partition, status, offset: None, leader_epoch: LeaderEpoch::UNKNOWN }
}
