//! Commit and FetchCommitted.

use hermit_proto::session::{
    CommitRequest, CommitResponse, CommitResult, CommittedOffset, FetchCommittedRequest, FetchCommittedResponse, Message, Status,
    WireError,
};
use hermit_proto::{CorrelationId, GroupName, LeaderEpoch, PartitionId, TopicId, Unit};

use super::owed::Answer;
use super::state::Session;
use crate::broker::Position;
use crate::error::{BrokerError, status_of, to_wire};

impl Session {
    pub(super) fn commit(&mut self, unit: &Unit) {
        let correlation = unit.correlation();
        let committed = CommitRequest::decode(unit.key(), unit.payload())
            .map_err(WireError::from)
            .and_then(|request| self.store(correlation, &request));
        if let Err(error) = committed {
            error.encode(correlation, &mut self.out);
        }
    }

    /// Each position is stored or refused by itself; those that pass go into one append.
    fn store(&mut self, correlation: CorrelationId, request: &CommitRequest) -> Result<(), WireError> {
        let group = GroupName::new_public(&request.group)?;
        let mut results = Vec::with_capacity(request.entries.len());
        let mut good = Vec::with_capacity(request.entries.len());
        for entry in &request.entries {
            let (topic, partition) = (entry.topic, entry.partition);
            let position = Position { topic, partition, offset: entry.offset, leader_epoch: entry.leader_epoch };
            let status = match self.broker.check_position(&position) {
                Ok(()) => {
                    good.push(position);
                    Status::Ok
                }
                Err(error) => status_of(&error),
            };
            results.push(CommitResult { topic, partition, status });
        }
        if good.is_empty() {
            self.respond(correlation, &CommitResponse { results });
            return Ok(());
        }
        let ticket = self.broker.commit(&group, &good).map_err(|error| to_wire(&error))?;
        let token = self.token();
        let until = ticket.appended().next_offset;
        let answer = Answer::Committed(CommitResponse { results });
        let token = self.owed.push(ticket.partition(), token, correlation, until, answer);
        self.owed.settle(token, &self.signal, &mut self.out);
        Ok(())
    }

    pub(super) fn fetch_committed(&mut self, unit: &Unit) {
        let correlation = unit.correlation();
        let fetched = FetchCommittedRequest::decode(unit.key(), unit.payload())
            .map_err(WireError::from)
            .and_then(|request| self.fetch(&request));
        match fetched {
            Ok(response) => self.respond(correlation, &response),
            Err(error) => error.encode(correlation, &mut self.out),
        }
    }

    fn fetch(&self, request: &FetchCommittedRequest) -> Result<FetchCommittedResponse, WireError> {
        let group = GroupName::new(&request.group)?;
        let positions = request.partitions.iter().map(|(topic, partition)| self.position(&group, *topic, *partition)).collect();
        Ok(FetchCommittedResponse { positions })
    }

    fn position(&self, group: &GroupName, topic: TopicId, partition: PartitionId) -> CommittedOffset {
        let found = self.broker.partition(topic, partition).and_then(|_exists| self.broker.committed(group, topic, partition));
        let (status, committed) = match found {
            Ok(committed) => (Status::Ok, committed),
            Err(error @ BrokerError::PartitionDown { .. }) => {
                tracing::warn!(%group, %error, "committed positions cannot be read");
                (status_of(&error), None)
            }
            Err(error) => (status_of(&error), None),
        };
        CommittedOffset {
            topic,
            partition,
            status,
            offset: committed.map(|committed| committed.offset),
            leader_epoch: committed.map_or(LeaderEpoch::UNKNOWN, |committed| committed.leader_epoch),
        }
    }
}
