//! Sessions and subscriptions: made again whenever they are lost.

use std::sync::Arc;
use std::time::Duration;

use hermit_proto::CorrelationId;
use tokio::time::{Instant, sleep_until};

use super::Consumer;
use super::assignment::State;
use crate::conn::{LinkState, Session, SlotId};
use crate::error::{Error, Result};

/// A subscription's window is not made smaller than this, however many there are.
const MIN_WINDOW_BYTES: u64 = 4 << 10;

/// How long the tasks of a consumer that was dropped may take to commit and to leave the group.
const PATIENCE_WITHOUT_WAITING: Duration = Duration::from_secs(5);

impl Consumer {
    /// Notices a lost or new session, and subscribes what is not subscribed.
    pub(super) fn follow_session(&mut self) -> Result<()> {
        if self.session.as_ref().is_some_and(|session| session.failure().is_some()) {
            self.session = None;
            self.disconnected();
        }
        if self.session.is_none()
            && let LinkState::Up(session) = &*self.link_state.borrow_and_update()
            && session.failure().is_none()
        {
            self.session = Some(session.clone());
            self.down_since = None;
        }
        match self.session.clone() {
            Some(session) => self.subscribe_all(&session),
            None => {
                self.down_since.get_or_insert_with(Instant::now);
                Ok(())
            }
        }
    }

    /// What came and was not handed out comes again in the next session.
    pub(super) fn disconnected(&mut self) {
        self.waiting.clear();
        self.records.clear();
        self.current = None;
        while self.inbox.pop().is_some() {}
        for assignment in self.assignments.values_mut() {
            assignment.disconnected();
        }
    }

    fn subscribe_all(&mut self, session: &Session) -> Result<()> {
        let now = Instant::now();
        let patience = self.link.config().request_timeout;
        let window = self.window_bytes(session);
        for (&slot, assignment) in &mut self.assignments {
            if let State::Subscribing { subscription, since } = assignment.state
                && since + patience <= now
            {
                session.unsubscribe(subscription)?;
                assignment.state = State::Idle { until: None };
                assignment.retry(true, now);
                return Err(Error::Timeout { awaited: "answer to Subscribe", after: patience, source: None });
            }
            if !assignment.is_due(now) {
                continue;
            }
            match session.subscribe(&assignment.request(window), &self.inbox, slot) {
                Ok(subscription) => assignment.requested(subscription, now),
                // It has failed; the next one is not far.
                Err(error) if error.is_transport() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Each partition's share of the prefetch, within what one delivery may hold.
    fn window_bytes(&self, session: &Session) -> u64 {
        let share = self.settings.prefetch_bytes / (self.assignments.len().max(1) as u64);
        let most = self.link.config().max_unit_bytes.saturating_sub(session.limits().max_frame_bytes.into());
        share.max(MIN_WINDOW_BYTES).min(self.settings.prefetch_bytes).min(most.max(1))
    }

    /// Ends a partition's subscription and forgets what came of it.
    pub(super) fn unsubscribe(&mut self, slot: SlotId) {
        let Some(assignment) = self.assignments.get_mut(&slot) else { return };
        let subscription = assignment.subscription();
        assignment.disconnected();
        if self.current.as_ref().is_some_and(|current| current.slot == slot) {
            self.current = None;
            self.records.clear();
        }
        if let Some(subscription) = subscription {
            self.end_subscription(subscription);
        }
    }

    pub(super) fn end_subscription(&self, subscription: CorrelationId) {
        if let Some(session) = &self.session
            && let Err(error) = session.unsubscribe(subscription)
        {
            tracing::debug!(%error, "ending a subscription");
        }
    }

    /// Waits until there may be something to do.
    pub(super) async fn wait(&mut self) -> Result<()> {
        let patience = self.link.config().request_timeout;
        let report_at = self.down_since.map(|since| since + patience);
        let wake = self.assignments.values().filter_map(|assignment| assignment.next_wake(patience)).min();
        // Without a session, there is nothing to do for the partitions.
        let wake = if report_at.is_some() { report_at } else { wake };
        let timer = async {
            match wake {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let session = self.session.clone();
        let ended = async {
            match &session {
                Some(session) => session.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.inbox.arrived() => {}
            _error = ended => {}
            changed = self.link_state.changed() => {
                if changed.is_err() {
                    return Err(self.link.over());
                }
            }
            () = timer => {
                if report_at.is_some_and(|at| at <= Instant::now()) {
                    self.down_since = Some(Instant::now());
                    let source = self.link.last_failure().map(Arc::new);
                    return Err(Error::Timeout { awaited: "connection", after: patience, source });
                }
            }
        }
        Ok(())
    }
}

impl Drop for Consumer {
    /// Leaves the group, without waiting for it. What is owed by automatic commits is committed if that can be done soon.
    fn drop(&mut self) {
        for slot in self.assignments.keys().copied().collect::<Vec<_>>() {
            self.unsubscribe(slot);
        }
        if let Some(shared) = &self.group {
            shared.close(Instant::now() + self.link.config().request_timeout.min(PATIENCE_WITHOUT_WAITING));
        }
    }
}
