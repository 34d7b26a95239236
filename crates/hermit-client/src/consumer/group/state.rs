//! The membership: which partitions are held, under which generation, and what is being given up.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use hermit_proto::session::{Assignment, GroupHeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest};
use hermit_proto::{Generation, MemberId};
use tokio::time::Instant;

use super::progress::Progress;
use super::queue::CommitQueue;
use super::{Key, Place, Tenure, fenced};
use crate::consumer::config::GroupConfig;
use crate::consumer::subscription::Subscription;
use crate::error::{Error, Fencing};

/// Everything that the consumer and its tasks share.
#[derive(Debug)]
pub(in crate::consumer) struct State {
    pub(super) group: Arc<str>,
    pub(super) config: GroupConfig,
    pub(super) entries: BTreeMap<Key, Entry>,
    next_tenure: u64,
    pub(super) membership: Option<Membership>,
    pub(super) queue: CommitQueue,
    /// For the next call of the application.
    pub(in crate::consumer) errors: VecDeque<Error>,
    /// Grows with each change that the consumer has to follow.
    pub(in crate::consumer) changes: u64,
    /// Partitions of which the application was handed records since it last came back.
    pub(super) in_hand: Vec<Key>,
    pub(super) away_since: Option<Instant>,
    /// A listener has to be told before a partition is given up.
    pub(in crate::consumer) listens: bool,
    pub(super) closing: Option<Instant>,
    pub(super) commits_done: bool,
}

#[derive(Debug)]
pub(super) struct Membership {
    pub(super) member: MemberId,
    pub(super) phase: Phase,
    subscription: Subscription,
    pub(super) version: u64,
    pub(super) session_timeout: Duration,
    pub(super) processing_timeout: Duration,
    pub(super) heartbeat_interval: Duration,
    /// Until when the broker cannot have taken the member for dead.
    pub(super) alive_until: Option<Instant>,
}

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Joining,
    Member,
    /// Left because the application did not come back.
    Away,
    /// The broker refused, and time does not cure it.
    Refused(Error),
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) topic: Arc<str>,
    pub(super) tenure: Tenure,
    pub(super) lease: Lease,
    pub(super) progress: Progress,
}

/// By what right a partition is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// The application assigned it.
    ByHand,
    /// It was held by a member that is no more, and is asked for again. `begun`: it was being read.
    Claimed { begun: bool },
    /// The group's, and where to read is not known. `begun`: it was being read before.
    Granted { generation: Generation, begun: bool },
    /// Being read.
    Active { generation: Generation },
    /// To be given up: nothing more is handed out. `told`: the application knows. `again`: it was granted anew meanwhile.
    Revoking { generation: Generation, told: bool, again: Option<Generation> },
}

impl Lease {
    /// The generation that a commit may carry now.
    pub(super) const fn commits_under(self) -> Option<Generation> {
        match self {
            Self::ByHand => Some(Generation(0)),
            Self::Active { generation } | Self::Revoking { generation, .. } => Some(generation),
            Self::Claimed { .. } | Self::Granted { .. } => None,
        }
    }
}

/// A partition of the group as the consumer has to see it.
#[derive(Clone, Debug)]
pub(in crate::consumer) struct View {
    pub(in crate::consumer) key: Key,
    pub(in crate::consumer) topic: Arc<str>,
    pub(in crate::consumer) tenure: Tenure,
    pub(in crate::consumer) held: Held,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::consumer) enum Held {
    /// Nothing is handed out until more is known.
    Waiting,
    /// To be read from there on, unless it is already.
    Active { start: Place },
    /// Nothing more is handed out. `told`: the application was told.
    Revoking { told: bool },
}

impl State {
    pub(in crate::consumer) fn new(group: Arc<str>, config: GroupConfig) -> Self {
        Self {
            group,
            config,
            entries: BTreeMap::new(),
            next_tenure: 0,
            membership: None,
            queue: CommitQueue::default(),
            errors: VecDeque::new(),
            changes: 0,
            in_hand: Vec::new(),
            away_since: None,
            listens: false,
            closing: None,
            commits_done: false,
        }
    }

    pub(super) fn tenure(&mut self) -> Tenure {
        self.next_tenure += 1;
        Tenure(self.next_tenure)
    }

    /// A partition that the application assigned, for automatic commits of it.
    pub(in crate::consumer) fn assign_by_hand(&mut self, key: Key, topic: &Arc<str>) -> Tenure {
        let tenure = self.tenure();
        let entry = Entry { topic: topic.clone(), tenure, lease: Lease::ByHand, progress: Progress::default() };
        self.entries.insert(key, entry);
        tenure
    }

    /// The application gave up a partition that it had assigned.
    pub(in crate::consumer) fn unassign_by_hand(&mut self, key: Key) {
        self.entries.remove(&key);
    }

    /// Becomes a member, or changes what the member subscribes to.
    pub(in crate::consumer) fn subscribe(&mut self, subscription: Subscription, random: impl FnOnce() -> MemberId) {
        match &mut self.membership {
            Some(membership) => {
                membership.subscription = subscription;
                membership.phase = Phase::Joining;
            }
            None => {
                self.membership = Some(Membership {
                    member: random(),
                    phase: Phase::Joining,
                    subscription,
                    version: 0,
                    session_timeout: self.config.session_timeout,
                    processing_timeout: self.config.processing_timeout,
                    heartbeat_interval: self.config.session_timeout / 3,
                    alive_until: None,
                });
            }
        }
    }

    /// Whether the member has joined since the last [`State::subscribe`], or why it cannot.
    pub(in crate::consumer) fn join_outcome(&self) -> Option<Result<(), Error>> {
        match &self.membership.as_ref()?.phase {
            Phase::Joining => None,
            Phase::Member | Phase::Away => Some(Ok(())),
            Phase::Refused(error) => Some(Err(error.clone())),
        }
    }

    pub(super) fn join_request(&self) -> Option<JoinGroupRequest> {
        let membership = self.membership.as_ref()?;
        let ms = |timeout: Duration| u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        let claims = self.entries.iter().filter(|(_, entry)| matches!(entry.lease, Lease::Claimed { .. }));
        Some(JoinGroupRequest {
            group: self.group.to_string(),
            member: membership.member,
            session_timeout_ms: ms(self.config.session_timeout),
            processing_timeout_ms: ms(self.config.processing_timeout),
            strategy: self.config.strategy,
            topics: membership.subscription.topics.clone(),
            patterns: membership.subscription.patterns.clone(),
            claims: claims.map(|(key, _)| *key).collect(),
        })
    }

    /// The broker took the member in; it was asked at `sent`.
    pub(super) fn joined(&mut self, request: &JoinGroupRequest, answer: &JoinGroupResponse, sent: Instant) {
        let Some(membership) = self.membership.as_mut().filter(|membership| membership.member == request.member) else { return };
        let ms = |ms: u32| Duration::from_millis(ms.into());
        membership.session_timeout = ms(answer.session_timeout_ms);
        membership.processing_timeout = ms(answer.processing_timeout_ms);
        membership.heartbeat_interval = ms(answer.heartbeat_interval_ms.max(1));
        // The subscription may have been changed once more meanwhile.
        let current = membership.subscription.topics == request.topics && membership.subscription.patterns == request.patterns;
        if matches!(membership.phase, Phase::Joining) && current {
            membership.phase = Phase::Member;
        }
        self.assigned(&answer.assignment, sent);
    }

    pub(super) fn refused(&mut self, error: Error) {
        if let Some(membership) = &mut self.membership {
            membership.phase = Phase::Refused(error);
            self.changes += 1;
        }
    }

    pub(super) fn heartbeat_request(&self) -> Option<GroupHeartbeatRequest> {
        let membership = self.membership.as_ref()?;
        Some(GroupHeartbeatRequest {
            group: self.group.to_string(),
            member: membership.member,
            version: membership.version,
            owned: self.entries.iter().filter(|(_, entry)| entry.is_owned()).map(|(key, _)| *key).collect(),
            wait_ms: u32::try_from(membership.heartbeat_interval.as_millis()).unwrap_or(u32::MAX),
        })
    }

    pub(super) fn leave_request(&self) -> Option<LeaveGroupRequest> {
        let membership = self.membership.as_ref()?;
        Some(LeaveGroupRequest { group: self.group.to_string(), member: membership.member })
    }

    /// The broker does not know the member: it joins under another id, and asks for what it held.
    pub(super) fn fence(&mut self, member: MemberId, random: impl FnOnce() -> MemberId) {
        let Some(membership) = self.membership.as_mut().filter(|membership| membership.member == member) else { return };
        if !matches!(membership.phase, Phase::Away) {
            membership.phase = Phase::Joining;
        }
        membership.member = random();
        membership.version = 0;
        membership.alive_until = None;
        self.changes += 1;
        let mut lost = Vec::new();
        for (key, entry) in &mut self.entries {
            match entry.lease {
                Lease::Active { .. } => entry.lease = Lease::Claimed { begun: true },
                Lease::Granted { begun, .. } => entry.lease = Lease::Claimed { begun },
                Lease::Revoking { .. } => lost.push(*key),
                Lease::ByHand | Lease::Claimed { .. } => {}
            }
        }
        for key in lost {
            self.lose(key, Fencing::Expired);
        }
    }

    /// A partition is gone without having been given up. The application is told where it may have processed what it cannot commit.
    pub(super) fn lose(&mut self, key: Key, reason: Fencing) {
        let Some(entry) = self.entries.remove(&key) else { return };
        self.changes += 1;
        self.in_hand.retain(|held| *held != key);
        if entry.progress.owes_anything() {
            self.errors.push_back(fenced(&entry.topic, key, reason));
        }
    }

    /// The application held records for too long: the member leaves.
    pub(super) fn go_away(&mut self, random: impl FnOnce() -> MemberId) -> Option<LeaveGroupRequest> {
        let leave = self.leave_request()?;
        let membership = self.membership.as_mut()?;
        membership.phase = Phase::Away;
        self.away_since = None;
        self.errors.push_back(Error::ProcessingTimeout { after: membership.processing_timeout });
        self.fence(leave.member, random);
        Some(leave)
    }

    /// An answer to a heartbeat that was sent at `sent`.
    pub(super) fn heard(&mut self, request: &GroupHeartbeatRequest, assignment: &Assignment, sent: Instant) {
        let member = self.membership.as_ref().filter(|membership| matches!(membership.phase, Phase::Member));
        if member.is_some_and(|membership| membership.member == request.member) {
            self.assigned(assignment, sent);
        }
    }

    /// Whether the heartbeat still tells all that the broker has to know.
    pub(super) fn is_current(&self, request: &GroupHeartbeatRequest) -> bool {
        self.membership.as_ref().is_some_and(|membership| {
            matches!(membership.phase, Phase::Member)
                && membership.member == request.member
                && membership.version == request.version
        })
    }

    /// Something that the application has to know.
    pub(super) fn report(&mut self, error: Error) {
        self.errors.push_back(error);
        self.changes += 1;
    }

    pub(in crate::consumer) fn is_in_hand(&self, key: Key) -> bool {
        self.entries.get(&key).is_some_and(|entry| entry.progress.in_hand())
    }

    /// When the application has to be back.
    pub(super) fn processing_deadline(&self) -> Option<Instant> {
        let membership = self.membership.as_ref().filter(|membership| matches!(membership.phase, Phase::Member))?;
        Some(self.away_since? + membership.processing_timeout)
    }

    /// The partitions of the group, for the consumer to follow.
    pub(in crate::consumer) fn views(&self) -> Vec<View> {
        let group = self.entries.iter().filter(|(_, entry)| entry.lease != Lease::ByHand);
        let view = |(key, entry): (&Key, &Entry)| View {
            key: *key,
            topic: entry.topic.clone(),
            tenure: entry.tenure,
            held: match entry.lease {
                Lease::Active { .. } => Held::Active { start: entry.progress.start() },
                Lease::Revoking { told, .. } => Held::Revoking { told },
                _ => Held::Waiting,
            },
        };
        group.map(view).collect()
    }
}

impl Entry {
    /// Whether heartbeats name it.
    const fn is_owned(&self) -> bool {
        matches!(self.lease, Lease::Granted { .. } | Lease::Active { .. } | Lease::Revoking { .. })
    }
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "model_tests.rs"]
mod model_tests;
