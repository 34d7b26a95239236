//! Committing: what the application has processed.

use hermit_proto::session::{CommitEntry, CommitRequest, Operation, WireError};
use hermit_proto::{Generation, MemberId, PartitionId};

use super::{Consumer, Position, Record};
use crate::admin::Committed;
use crate::conn::Retry;
use crate::error::{Error, ProtocolFault, Result};

impl Consumer {
    /// Commits every partition up to the last record handed out. Call it only when all of them are processed: what is
    /// committed is not read again.
    ///
    /// # Errors
    /// As [`Consumer::commit_positions`].
    pub async fn commit(&self) -> Result<()> {
        self.commit_positions(&self.positions()).await
    }

    /// Commits a record as processed, and with it all before it in its partition.
    ///
    /// # Errors
    /// As [`Consumer::commit_positions`].
    pub async fn commit_through(&self, record: &Record) -> Result<()> {
        self.commit_positions(&[Position::from(record)]).await
    }

    /// Commits positions, of assigned partitions. When it returns they are on disk.
    ///
    /// # Errors
    /// [`Error::NoGroup`]; [`Error::NotAssigned`]; [`Error::Refused`] with the first refusal, where the others may have been stored;
    /// connection errors.
    pub async fn commit_positions(&self, positions: &[Position]) -> Result<()> {
        let group = self.settings.group.clone().ok_or(Error::NoGroup)?;
        let entries = positions.iter().map(|position| self.entry(position)).collect::<Result<Vec<_>>>()?;
        if entries.is_empty() {
            return Ok(());
        }
        let request = CommitRequest { group, entries, member: MemberId::NONE };
        let answer = self.link.call(&request, Retry::Always).await?;
        let matches = answer.results.len() == request.entries.len()
            && answer
                .results
                .iter()
                .zip(&request.entries)
                .all(|(result, entry)| result.topic == entry.topic && result.partition == entry.partition);
        if !matches {
            let server = self.session.as_ref().map_or_else(|| "the broker".into(), |session| session.server().clone());
            let source =
                ProtocolFault::Answer { operation: Operation::Commit, problem: "it is not about the partitions committed" };
            return Err(Error::Protocol { server, source });
        }
        match answer.results.iter().zip(positions).find(|(result, _)| !result.status.is_ok()) {
            None => Ok(()),
            Some((result, Position { topic, partition, offset, .. })) => {
                let message = format!("offset {offset} of topic `{topic}`, partition {partition} was not committed");
                Err(Error::refused(Operation::Commit, WireError::new(result.status, message)))
            }
        }
    }

    fn entry(&self, position: &Position) -> Result<CommitEntry> {
        let slot = self.slot_of(&position.topic, position.partition)?;
        let found = self.assignments.get(slot.0);
        let topic = found.map(|assignment| assignment.topic_id).unwrap_or_default();
        Ok(CommitEntry {
            topic,
            partition: position.partition,
            offset: position.offset,
            leader_epoch: position.leader_epoch,
            generation: Generation(0),
        })
    }

    /// What the group has committed for an assigned partition.
    ///
    /// # Errors
    /// [`Error::NoGroup`]; [`Error::NotAssigned`]; [`Error::Refused`]; connection errors.
    pub async fn committed(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Option<Committed>> {
        let group = self.settings.group.as_deref().ok_or(Error::NoGroup)?;
        let partition = partition.into();
        let slot = self.slot_of(topic, partition)?;
        let id = self.assignments.get(slot.0).map(|assignment| assignment.topic_id).unwrap_or_default();
        self.admin.committed_by_id(group, id, partition).await
    }
}
