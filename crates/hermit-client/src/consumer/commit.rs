//! Committing: what the application has processed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hermit_proto::PartitionId;
use tokio::time::Instant;

use super::assignment::not_assigned;
use super::group::{CommitWait, Place, Shared};
use super::{Consumer, Position, Record, Records};
use crate::admin::Committed;
use crate::error::{Error, Fencing, Result};

/// The outcome of a commit that is on its way. It is made whether or not somebody waits for it.
///
/// Commits are sent in the order of the calls. What is committed for one partition while an earlier request is under way is sent as one position,
/// the newest; the handles of the others tell its outcome.
#[derive(Debug)]
#[must_use = "the commit goes its way, but nobody hears whether it arrived; drop the handle where that is meant"]
pub struct CommitHandle(CommitWait);

impl Future for CommitHandle {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.0).poll(cx)
    }
}

/// Acknowledges records from wherever they are processed: see [`AutoCommit::Acknowledged`](crate::AutoCommit::Acknowledged). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Acker {
    shared: Arc<Shared>,
}

impl Acker {
    /// The record is processed. What is committed by itself is the longest run of records of a partition of which all are. A record of a
    /// partition that was given up or lost meanwhile changes nothing.
    pub fn ack(&self, record: &Record) {
        let next = Place { offset: record.next_offset(), epoch: record.leader_epoch };
        let key = (record.topic_id, record.partition);
        if self.shared.with(|state| state.acknowledge(key, record.tenure, record.offset, next, Instant::now())) {
            self.shared.wake();
        }
    }

    /// All of these records are processed, as [`Acker::ack`] says it of one.
    pub fn ack_records(&self, records: &Records) {
        let next = Place { offset: records.next_offset(), epoch: records.leader_epoch() };
        let (key, tenure, first) = (records.key(), records.tenure, records.first_offset());
        if self.shared.with(|state| state.acknowledge(key, tenure, first, next, Instant::now())) {
            self.shared.wake();
        }
    }

    /// Records from the first one on that is not processed, in the partition where these are most.
    pub(super) fn most_ahead(&self) -> usize {
        self.shared.with(|state| state.most_ahead())
    }

    /// The record will not be processed by this consumer.
    pub(super) fn abandon(&self, record: &Record) {
        self.shared.tell(|state| state.abandon((record.topic_id, record.partition), record.tenure, record.offset));
    }
}

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
    /// A member whose membership was lost joins again first, and commits where no other member had the partition in between.
    ///
    /// # Errors
    /// [`Error::NoGroup`]; [`Error::NotAssigned`]; [`Error::Fenced`] for partitions that are another member's now; [`Error::Refused`] with the first
    /// refusal, where the others may have been stored; connection errors, after which the positions may have been stored.
    pub async fn commit_positions(&self, positions: &[Position]) -> Result<()> {
        self.enqueue(positions)?.await
    }

    /// As [`Consumer::commit`], without waiting. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::NoGroup`]; [`Error::NotAssigned`]; [`Error::Fenced`]. Others are told by the handle.
    pub fn commit_async(&self) -> Result<CommitHandle> {
        self.commit_positions_async(&self.positions())
    }

    /// As [`Consumer::commit_through`], without waiting. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// As [`Consumer::commit_async`].
    pub fn commit_through_async(&self, record: &Record) -> Result<CommitHandle> {
        self.commit_positions_async(&[Position::from(record)])
    }

    /// As [`Consumer::commit_positions`], without waiting. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// As [`Consumer::commit_async`].
    pub fn commit_positions_async(&self, positions: &[Position]) -> Result<CommitHandle> {
        self.enqueue(positions).map(CommitHandle)
    }

    pub(super) fn enqueue(&self, positions: &[Position]) -> Result<CommitWait> {
        let shared = self.group.as_ref().ok_or(Error::NoGroup)?;
        shared.start(&self.link);
        let wait = shared.with(|state| {
            let mut found = Vec::with_capacity(positions.len());
            for Position { topic, partition, offset, leader_epoch } in positions {
                let Some((key, tenure, topic)) = state.find(topic, *partition) else {
                    let (topic, partition) = (topic.clone(), *partition);
                    return Err(if self.subscribed {
                        Error::Fenced { topic, partition, reason: Fencing::Moved }
                    } else {
                        not_assigned(&topic, partition)
                    });
                };
                found.push((key, tenure, topic, Place { offset: *offset, epoch: *leader_epoch }));
            }
            // The application is there.
            state.rejoin();
            Ok(state.commit(found, Instant::now()))
        })?;
        shared.wake();
        Ok(wait)
    }

    /// A handle to acknowledge records with from other tasks.
    ///
    /// # Errors
    /// [`Error::NoGroup`].
    pub fn acker(&self) -> Result<Acker> {
        Ok(Acker { shared: self.group.clone().ok_or(Error::NoGroup)? })
    }

    /// The record is processed, without waiting for the application to ask for the next: see [`AutoCommit`](crate::AutoCommit).
    ///
    /// # Errors
    /// [`Error::NoGroup`].
    pub fn ack(&self, record: &Record) -> Result<()> {
        self.acker().map(|acker| acker.ack(record))
    }

    /// All of these records are processed, as [`Consumer::ack`] says it of one.
    ///
    /// # Errors
    /// [`Error::NoGroup`].
    pub fn ack_records(&self, records: &Records) -> Result<()> {
        self.acker().map(|acker| acker.ack_records(records))
    }

    /// What the group has committed for an assigned partition.
    ///
    /// # Errors
    /// [`Error::NoGroup`]; [`Error::NotAssigned`]; [`Error::Refused`]; connection errors.
    pub async fn committed(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Option<Committed>> {
        let group = self.settings.group.as_deref().ok_or(Error::NoGroup)?;
        let partition = partition.into();
        let slot = self.slot_of(topic, partition)?;
        let id = self.assignments.get(&slot).map(|assignment| assignment.topic_id).unwrap_or_default();
        self.admin.committed_by_id(group, id, partition).await
    }

    /// Commits what is owed by [`AutoCommit`](crate::AutoCommit), leaves the group, so that other members go on at once, and ends. A record that
    /// was handed out last and neither acknowledged nor followed by a call for the next does not count as processed: it comes again.
    ///
    /// # Errors
    /// What became of the commits, as [`Consumer::commit_positions`].
    pub async fn close(mut self) -> Result<()> {
        let Some(shared) = self.group.clone() else { return Ok(()) };
        for slot in self.assignments.keys().copied().collect::<Vec<_>>() {
            self.unsubscribe(slot);
        }
        let held = self.assignments.values().map(|assignment| (assignment.key(), assignment.place())).collect();
        let wanted = if self.subscribed { self.revoke(held) } else { None };
        let owed = shared.with(|state| state.commit_owed(Instant::now()));
        shared.close(self.link.deadline());
        let first = match wanted {
            Some(wanted) => wanted.await,
            None => Ok(()),
        };
        let second = match owed {
            Some(owed) => owed.await,
            None => Ok(()),
        };
        shared.ended().await;
        first.and(second)
    }
}
