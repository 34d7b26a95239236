//! One assigned partition: where it is, whether it is subscribed, and what an answer means. Knows no sockets and no clock.

use std::sync::Arc;

use hermit_proto::session::{Operation, Status, SubscribeRequest, SubscribeResponse, WireError};
use hermit_proto::{CorrelationId, LeaderEpoch, Offset, PartitionId, TopicId};
use tokio::time::Instant;

use super::chunk::Source;
use super::config::{OnDamage, OnLostPosition};
use super::group::{Key, Tenure};
use super::record::Position;
use crate::backoff::Backoff;
use crate::error::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Without a subscription, until then.
    Idle {
        until: Option<Instant>,
    },
    /// Asked for, and not answered yet.
    Subscribing {
        subscription: CorrelationId,
        since: Instant,
    },
    Subscribed {
        subscription: CorrelationId,
    },
    /// The position is not there any more, and where to go on has to be looked up.
    Lost(Reset),
    /// An error was reported; [`Assignment::seek`] begins again.
    Stopped,
    /// The end that was set is reached.
    Ended,
}

/// What comes of trouble with a subscription.
#[derive(Debug)]
pub(super) enum Remedy {
    /// Nothing to report; the state says how it goes on.
    GoOn,
    /// To be reported; the state says how it goes on.
    Report(Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reset {
    Earliest,
    Latest,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Policies {
    pub(super) on_damage: OnDamage,
    pub(super) on_lost_position: OnLostPosition,
}

#[derive(Debug)]
pub(super) struct Assignment {
    pub(super) topic_id: TopicId,
    pub(super) source: Source,
    /// The next offset to hand out.
    position: Offset,
    /// The leader epoch of the record before it.
    epoch: LeaderEpoch,
    end: Option<Offset>,
    pub(super) state: State,
    pub(super) high_watermark: Option<Offset>,
    policies: Policies,
    backoff: Backoff,
    /// The application wants nothing of it for now.
    pub(super) paused: bool,
    /// It has to be found out first whether the group still lets it be read.
    pub(super) held_back: bool,
    pub(super) tenure: Tenure,
}

impl Assignment {
    pub(super) fn new(
        topic_id: TopicId,
        source: Source,
        position: Offset,
        epoch: LeaderEpoch,
        policies: Policies,
        backoff: Backoff,
    ) -> Self {
        Self {
            topic_id,
            source,
            position,
            epoch,
            end: None,
            state: State::Idle { until: None },
            high_watermark: None,
            policies,
            backoff,
            paused: false,
            held_back: false,
            tenure: Tenure(0),
        }
    }

    pub(super) const fn of(mut self, tenure: Tenure) -> Self {
        self.tenure = tenure;
        self
    }

    pub(super) const fn key(&self) -> Key {
        (self.topic_id, self.source.partition)
    }

    pub(super) fn is(&self, topic: &str, partition: PartitionId) -> bool {
        self.source.partition == partition && *self.source.topic == *topic
    }

    pub(super) const fn position(&self) -> Offset {
        self.position
    }

    pub(super) fn place(&self) -> Position {
        Position {
            topic: self.source.topic.clone(),
            partition: self.source.partition,
            offset: self.position,
            leader_epoch: self.epoch,
        }
    }

    pub(super) const fn subscription(&self) -> Option<CorrelationId> {
        match self.state {
            State::Subscribing { subscription, .. } | State::Subscribed { subscription } => Some(subscription),
            State::Idle { .. } | State::Lost(_) | State::Stopped | State::Ended => None,
        }
    }

    /// Whether nothing more will come by itself.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.state, State::Stopped | State::Ended)
    }

    /// Goes elsewhere. The subscription, if there is one, has to be ended.
    pub(super) fn seek(&mut self, position: Offset, epoch: LeaderEpoch) {
        self.position = position;
        self.epoch = epoch;
        self.state = State::Idle { until: None };
        self.end_if_reached();
    }

    /// Hands out nothing at or behind `end`.
    pub(super) fn stop_at(&mut self, end: Offset) {
        self.end = Some(end);
        self.end_if_reached();
    }

    /// Whether the record lies before the end that was set.
    pub(super) fn wants(&self, offset: Offset) -> bool {
        self.end.is_none_or(|end| offset < end)
    }

    /// The end that was set: nothing at or behind it is handed out.
    pub(super) const fn end(&self) -> Option<Offset> {
        self.end
    }

    /// Everything before `next` was handed out, or is not there.
    pub(super) fn advance(&mut self, next: Offset, epoch: Option<LeaderEpoch>) {
        self.position = self.position.max(next);
        if let Some(epoch) = epoch {
            self.epoch = epoch;
        }
        self.end_if_reached();
    }

    fn end_if_reached(&mut self) {
        if self.end.is_some_and(|end| self.position >= end) && self.state != State::Stopped {
            self.state = State::Ended;
        }
    }

    /// The session is gone, and with it the subscription.
    pub(super) fn disconnected(&mut self) {
        if self.subscription().is_some() {
            self.state = State::Idle { until: None };
        }
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.paused && !self.held_back && matches!(self.state, State::Idle { until } if until.is_none_or(|until| until <= now))
    }

    pub(super) fn request(&self, credit_bytes: u64) -> SubscribeRequest {
        SubscribeRequest {
            topic: self.topic_id,
            partition: self.source.partition,
            offset: self.position,
            leader_epoch: self.epoch,
            credit_bytes,
        }
    }

    pub(super) fn requested(&mut self, subscription: CorrelationId, now: Instant) {
        self.state = State::Subscribing { subscription, since: now };
    }

    pub(super) fn subscribed(&mut self, answer: &SubscribeResponse) {
        if let State::Subscribing { subscription, .. } = self.state {
            self.state = State::Subscribed { subscription };
        }
        self.backoff.reset();
        self.high_watermark = Some(answer.high_watermark);
        if answer.start_offset > self.position {
            tracing::warn!(
                topic = %self.source.topic, partition = %self.source.partition, position = %self.position, log_start = %answer.start_offset,
                "the records from the position up to the log's start are not there any more"
            );
            self.advance(answer.start_offset, Some(LeaderEpoch::UNKNOWN));
        }
    }

    /// Damage that was found in what came. Whether to go on behind it.
    pub(super) fn damaged(&mut self, next: Offset) -> bool {
        match self.policies.on_damage {
            OnDamage::Stop => {
                self.state = State::Stopped;
                false
            }
            OnDamage::Skip => {
                self.advance(next, Some(LeaderEpoch::UNKNOWN));
                true
            }
        }
    }

    /// The broker refused the subscription, or told of trouble; `ended`: no more deliveries follow.
    pub(super) fn trouble(&mut self, error: WireError, ended: bool, now: Instant) -> Remedy {
        let (topic, partition) = (self.source.topic.clone(), self.source.partition);
        let detail = |at: usize| error.details.get(at).copied().map(Offset);
        match error.status {
            Status::CorruptLog => {
                let first = detail(0).unwrap_or(self.position).max(self.position);
                let next = detail(1).unwrap_or(first);
                let report = Error::Corrupt { topic, partition, first, next, source: None };
                let before = self.position;
                if next <= before && self.policies.on_damage == OnDamage::Skip {
                    // Behind us already, or nowhere: asking again at once would go in circles.
                    self.retry(ended, now);
                } else if self.damaged(next) {
                    self.again(ended);
                }
                Remedy::Report(report)
            }
            Status::Diverged => {
                let epoch_end = detail(0).unwrap_or(Offset::ZERO);
                self.lost_position(
                    Error::Diverged { topic, partition, position: self.position, leader_epoch: self.epoch, epoch_end },
                    epoch_end,
                )
            }
            Status::OffsetOutOfRange => {
                let log_start = detail(0).unwrap_or(Offset::ZERO);
                let high_watermark = detail(1).unwrap_or(Offset::ZERO);
                let end = high_watermark.max(log_start);
                self.lost_position(Error::OutOfRange { topic, partition, position: self.position, log_start, high_watermark }, end)
            }
            Status::UnknownTopic => {
                self.state = State::Stopped;
                Remedy::Report(Error::UnknownTopic { topic })
            }
            status if status.is_retryable() => {
                tracing::debug!(%topic, %partition, %error, "asking again");
                self.retry(ended, now);
                Remedy::GoOn
            }
            _ => {
                self.state = State::Stopped;
                Remedy::Report(Error::refused(Operation::Subscribe, error))
            }
        }
    }

    fn lost_position(&mut self, error: Error, last_good: Offset) -> Remedy {
        let policy = self.policies.on_lost_position;
        if policy == OnLostPosition::Fail {
            self.state = State::Stopped;
            return Remedy::Report(error);
        }
        tracing::warn!(%error, ?policy, "going on elsewhere");
        match policy {
            OnLostPosition::Fail | OnLostPosition::Earliest => self.state = State::Lost(Reset::Earliest),
            OnLostPosition::Latest => self.state = State::Lost(Reset::Latest),
            OnLostPosition::EpochEnd => self.seek(last_good, LeaderEpoch::UNKNOWN),
        }
        Remedy::GoOn
    }

    fn again(&mut self, ended: bool) {
        if ended && !self.is_over() {
            self.state = State::Idle { until: None };
        }
    }

    /// Subscribes again, but not at once.
    pub(super) fn retry(&mut self, ended: bool, now: Instant) {
        if ended && !self.is_over() {
            self.state = State::Idle { until: Some(now + self.backoff.next()) };
        }
    }

    pub(super) fn stop(&mut self) {
        self.state = State::Stopped;
    }

    /// When something has to be done, if nothing comes.
    pub(super) fn next_wake(&self, patience: std::time::Duration) -> Option<Instant> {
        match self.state {
            State::Idle { .. } if self.paused || self.held_back => None,
            State::Idle { until } => until,
            State::Subscribing { since, .. } => Some(since + patience),
            State::Subscribed { .. } | State::Lost(_) | State::Stopped | State::Ended => None,
        }
    }
}

pub(super) fn not_assigned(topic: &str, partition: PartitionId) -> Error {
    Error::NotAssigned { topic: Arc::from(topic), partition }
}

#[cfg(test)]
#[path = "assignment_tests.rs"]
mod tests;
