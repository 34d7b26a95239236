//! Which commits to send, under which generation, and what their answers mean.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hermit_proto::session::{CommitEntry, CommitRequest, CommitResponse, Operation, Status, WireError};
use hermit_proto::{Generation, MemberId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::queue::{Pending, Verdict};
use super::state::{Lease, Phase, State};
use super::tracker::Place;
use super::{Key, Tenure, fenced};
use crate::error::{Error, Fencing, Result};

/// The outcome of a commit.
#[derive(Debug)]
pub(in crate::consumer) struct CommitWait(oneshot::Receiver<Result<()>>);

impl Future for CommitWait {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let outcome = Pin::new(&mut self.0).poll(cx);
        outcome.map(|outcome| outcome.unwrap_or(Err(Error::Closed { what: "consumer" })))
    }
}

impl State {
    /// Has positions committed.
    pub(in crate::consumer) fn commit(&mut self, positions: Vec<(Key, Tenure, Arc<str>, Place)>, now: Instant) -> CommitWait {
        let deadline = now + self.config.request_timeout;
        let (ticket, told) = self.queue.ticket(positions.len());
        for (key, tenure, topic, place) in positions {
            self.queue.push(key, &topic, place, tenure, deadline, Some(ticket));
        }
        if self.closing.is_some() && self.commits_done {
            self.queue.fail_all(&Error::Closed { what: "consumer" });
        }
        CommitWait(told)
    }

    /// The next request to send, if there is something to commit that may be committed.
    pub(super) fn next_commit(&mut self, now: Instant) -> Option<CommitRequest> {
        if !self.queue.sent().is_empty() {
            return None;
        }
        let (entries, membership) = (&self.entries, self.membership.as_ref());
        let joined = membership.is_none_or(|membership| matches!(membership.phase, Phase::Member));
        let after = self.config.request_timeout;
        // Then nobody joins again, nor finds out where it would go on.
        let closing = self.closing.is_some();
        self.queue.sort(|key, pending| match entries.get(&key) {
            _ if pending.deadline <= now => Verdict::Fail(Error::Timeout { awaited: "answer to Commit", after, source: None }),
            Some(entry) if entry.tenure == pending.tenure => match entry.lease.commits_under() {
                Some(_) if joined => Verdict::Send,
                _ if closing => Verdict::Fail(fenced(&pending.topic, key, Fencing::Expired)),
                _ => Verdict::Wait,
            },
            None if membership.is_none() => Verdict::Send,
            _ => Verdict::Fail(fenced(&pending.topic, key, Fencing::Moved)),
        });
        if self.queue.sent().is_empty() {
            return None;
        }
        let mut request = CommitRequest {
            group: self.group.to_string(),
            entries: Vec::new(),
            member: membership.map_or(MemberId::NONE, |membership| membership.member),
        };
        for (key, pending) in self.queue.sent() {
            let entry = self.entries.get_mut(key);
            let generation = entry.as_ref().and_then(|entry| entry.lease.commits_under()).unwrap_or(Generation(0));
            if let Some(entry) = entry {
                entry.progress.attempt(pending.place.offset);
            }
            request.entries.push(CommitEntry {
                topic: key.0,
                partition: key.1,
                offset: pending.place.offset,
                leader_epoch: pending.place.epoch,
                generation,
            });
        }
        Some(request)
    }

    /// How the request fared.
    pub(super) fn answered(&mut self, request: &CommitRequest, answer: Result<CommitResponse>, random: impl FnOnce() -> MemberId) {
        let sent = self.queue.take_sent();
        match answer {
            Ok(answer) => {
                for ((key, pending), (entry, result)) in sent.into_iter().zip(request.entries.iter().zip(&answer.results)) {
                    self.settled(key, pending, entry, result.status);
                }
            }
            Err(error) if error.status() == Some(Status::UnknownMember) && request.member.is_some() => {
                self.fence(request.member, random);
                for (key, pending) in sent {
                    self.queue.put_back(key, pending);
                }
            }
            Err(error) => {
                let active = error.status() == Some(Status::GroupActive);
                let error = if active { Error::GroupActive { group: self.group.clone() } } else { error };
                let lasting = !error.is_retryable() && !error.is_transport();
                let mut unheard = false;
                for (key, pending) in sent {
                    if let Some(entry) = self.entries.get_mut(&key).filter(|_| lasting) {
                        entry.progress.refuse(pending.place.offset);
                    }
                    unheard |= !self.queue.settle(pending, &Err(error.clone()));
                }
                if unheard && lasting {
                    self.report(error);
                }
            }
        }
    }

    fn settled(&mut self, key: Key, pending: Pending, sent: &CommitEntry, status: Status) {
        let entry = self.entries.get_mut(&key).filter(|entry| entry.tenure == pending.tenure);
        match (status, entry) {
            (Status::Ok, entry) => {
                if let Some(entry) = entry {
                    entry.progress.stored(sent.offset);
                }
                self.queue.settle(pending, &Ok(()));
            }
            (Status::StaleGeneration, Some(entry)) if entry.lease != Lease::ByHand => {
                if entry.lease.commits_under() == Some(sent.generation) {
                    let error = fenced(&pending.topic, key, Fencing::Moved);
                    self.lose(key, Fencing::Moved);
                    self.queue.settle(pending, &Err(error));
                } else {
                    // It was granted anew while the answer was under way.
                    self.queue.put_back(key, pending);
                }
            }
            (status, entry) => {
                let error = if status == Status::GroupActive {
                    Error::GroupActive { group: self.group.clone() }
                } else {
                    let (topic, partition) = (&pending.topic, key.1);
                    let message = format!("offset {} of topic `{topic}`, partition {partition} was not committed", sent.offset);
                    Error::refused(Operation::Commit, WireError::new(status, message))
                };
                if let Some(entry) = entry.filter(|_| !status.is_retryable()) {
                    entry.progress.refuse(sent.offset);
                }
                if !self.queue.settle(pending, &Err(error.clone())) && !status.is_retryable() {
                    self.report(error);
                }
            }
        }
    }

    /// When the queue is to be looked at even if nothing happens.
    pub(super) fn commit_wake(&self) -> Option<Instant> {
        self.queue.next_deadline()
    }

    /// Whether nothing more has to be committed before the member leaves.
    pub(super) fn all_committed(&self) -> bool {
        self.queue.is_empty()
    }
}
