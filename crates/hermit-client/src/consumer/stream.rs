//! Receiving: from deliveries to records in the application's hands.

use bytes::Bytes;
use hermit_proto::session::{DeliveryError, DeliveryHead, OffsetQuery, Response, ResponseError, SubscribeResponse, WireError};
use hermit_proto::{CorrelationId, LeaderEpoch, Unit};
use tokio::time::{Instant, sleep_until};

use super::assignment::{Remedy, Reset, State};
use super::chunk::Chunk;
use super::{Consumer, Current, Record};
use crate::conn::{Event, LinkState, Session, SlotId};
use crate::error::{Error, ProtocolFault, Result};

/// A subscription's window is not made smaller than this, however many there are.
const MIN_WINDOW_BYTES: u64 = 4 << 10;
/// Smaller payloads are copied out of the read buffer: in it, each could hold on to many times its own size.
const COPY_BELOW_BYTES: usize = 16 << 10;

/// What waits for its turn.
#[derive(Debug)]
pub(super) struct Waiting {
    slot: SlotId,
    subscription: CorrelationId,
    what: What,
}

#[derive(Debug)]
enum What {
    Records(Chunk),
    Trouble { error: WireError, ended: bool },
}

impl Consumer {
    /// The next record, waiting for it. `None` when nothing more can come: no partition is assigned, or all have reached
    /// their [`Consumer::stop_at`] or were stopped by an error.
    ///
    /// Can be cancelled at any time without losing a record.
    ///
    /// # Errors
    /// Those of one partition, which is stopped, or goes on, as its policy says: [`Error::Corrupt`], [`Error::BadRecordSet`],
    /// [`Error::Diverged`], [`Error::OutOfRange`], [`Error::UnknownTopic`], [`Error::Refused`]. Those of all: [`Error::Timeout`] each time the
    /// broker could not be reached for the length of the request timeout; trying goes on with the next call.
    pub async fn recv(&mut self) -> Result<Option<Record>> {
        if let Some(error) = self.deferred.take() {
            return Err(error);
        }
        loop {
            if let Some(record) = self.next_ready()? {
                return Ok(Some(record));
            }
            if self.resetting.is_some() {
                self.reset_position().await?;
            } else if self.assignments.iter().all(super::Assignment::is_over) {
                return Ok(None);
            } else {
                self.wait().await?;
            }
        }
    }

    /// The next record and those behind it that need no waiting, `max` at most. Empty when nothing more can come.
    ///
    /// # Errors
    /// As [`Consumer::recv`]; an error behind the first record is returned by the next call.
    pub async fn recv_batch(&mut self, max: usize) -> Result<Vec<Record>> {
        let mut batch = Vec::new();
        if max == 0 {
            return Ok(batch);
        }
        let Some(first) = self.recv().await? else { return Ok(batch) };
        batch.push(first);
        while batch.len() < max {
            match self.next_ready() {
                Ok(Some(record)) => batch.push(record),
                Ok(None) => break,
                Err(error) => {
                    self.deferred = Some(error);
                    break;
                }
            }
        }
        Ok(batch)
    }

    /// The next record that needs no waiting.
    fn next_ready(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some(record) = self.next_decoded() {
                return Ok(Some(record));
            }
            self.follow_session()?;
            if !self.decode_more()? {
                return Ok(None);
            }
        }
    }

    fn next_decoded(&mut self) -> Option<Record> {
        let record = self.records.pop_front()?;
        let assignment = self.current.as_ref().and_then(|current| self.assignments.get_mut(current.slot.0))?;
        if !assignment.wants(record.offset) {
            // The rest lies behind the end as well.
            self.records.clear();
            assignment.advance(record.offset, None);
            return None;
        }
        assignment.advance(record.next_offset(), Some(record.leader_epoch));
        Some(record)
    }

    /// Decodes more records, or handles one event. `false` when there is nothing to work on.
    fn decode_more(&mut self) -> Result<bool> {
        if let Some(mut current) = self.current.take() {
            let Some(assignment) = self.assignments.get_mut(current.slot.0) else { return Ok(true) };
            if assignment.subscription() != Some(current.subscription) {
                // Its end is reached, or it went elsewhere.
                if assignment.state == State::Ended {
                    self.end_subscription(current.subscription);
                }
                return Ok(true);
            }
            match current.chunk.decode(&assignment.source, assignment.position(), &mut self.records) {
                Ok(true) => self.current = Some(current),
                Ok(false) => {
                    assignment.advance(current.chunk.next_offset(), None);
                    let grant = assignment.used(current.chunk.size_bytes());
                    let over = assignment.is_over();
                    if over {
                        self.end_subscription(current.subscription);
                    } else if let (Some(bytes), Some(session)) = (grant, &self.session) {
                        session.grant(current.subscription, bytes)?;
                    }
                }
                Err(error) => {
                    let (Error::Corrupt { next, .. } | Error::BadRecordSet { next, .. }) = error else { return Err(error) };
                    if assignment.damaged(next) {
                        self.current = Some(current);
                    } else {
                        self.end_subscription(current.subscription);
                    }
                    return Err(error);
                }
            }
            return Ok(true);
        }
        if let Some(Waiting { slot, subscription, what }) = self.waiting.pop_front() {
            let assigned = self.assignments.get(slot.0).and_then(super::Assignment::subscription);
            match what {
                _ if assigned != Some(subscription) => {}
                What::Records(chunk) => self.current = Some(Current { slot, subscription, chunk }),
                What::Trouble { error, ended } => self.take_trouble(slot, subscription, error, ended)?,
            }
            return Ok(true);
        }
        match self.inbox.pop() {
            None => Ok(false),
            Some(event) => self.take_event(event).map(|()| true),
        }
    }

    fn take_event(&mut self, event: Event) -> Result<()> {
        let (Event::Answer { slot, subscription, .. } | Event::Delivery { slot, subscription, .. }) = event;
        let Some(assignment) = self.assignments.get_mut(slot.0).filter(|found| found.subscription() == Some(subscription)) else {
            return Ok(());
        };
        let what = match event {
            Event::Answer { unit, .. } => match SubscribeResponse::decode_response(unit.header(), unit.key(), unit.payload()) {
                Ok(answer) => {
                    assignment.subscribed(&answer);
                    return Ok(());
                }
                Err(ResponseError::Refused(error)) => Ok(What::Trouble { error, ended: true }),
                Err(ResponseError::Malformed(fault)) => Err(ProtocolFault::from(fault)),
            },
            Event::Delivery { unit, .. } => read_delivery(unit)
                .inspect(|what| {
                    if let (What::Records(_), Some(end)) = (&what.0, what.1) {
                        assignment.high_watermark = Some(end);
                    }
                })
                .map(|what| what.0),
        };
        match what {
            Ok(what) => self.waiting.push_back(Waiting { slot, subscription, what }),
            // The link makes another session, and reading goes on in that.
            Err(source) => {
                if let Some(session) = self.session.take() {
                    session.fail(&Error::Protocol { server: session.server().clone(), source });
                }
                self.disconnected();
            }
        }
        Ok(())
    }

    fn take_trouble(&mut self, slot: SlotId, subscription: CorrelationId, error: WireError, ended: bool) -> Result<()> {
        let Some(assignment) = self.assignments.get_mut(slot.0) else { return Ok(()) };
        let remedy = assignment.trouble(error, ended, Instant::now());
        let dropped = assignment.subscription() != Some(subscription);
        if dropped && !ended {
            self.end_subscription(subscription);
        }
        match remedy {
            Remedy::GoOn => Ok(()),
            Remedy::Report(error) => Err(error),
            Remedy::Reset(reset) => {
                self.resetting = Some((slot, reset));
                Ok(())
            }
        }
    }

    /// Looks up where to go on, by the policy for lost positions.
    async fn reset_position(&mut self) -> Result<()> {
        let Some((slot, reset)) = self.resetting else { return Ok(()) };
        let Some(assignment) = self.assignments.get(slot.0) else {
            self.resetting = None;
            return Ok(());
        };
        let query = match reset {
            Reset::Earliest => OffsetQuery::Earliest,
            Reset::Latest => OffsetQuery::Latest,
        };
        let found = self.admin.list_offsets_by_id(assignment.topic_id, assignment.source.partition, query).await;
        self.resetting = None;
        self.unsubscribe(slot);
        let Some(assignment) = self.assignments.get_mut(slot.0) else { return Ok(()) };
        match found {
            Ok(found) => assignment.seek(found.offset, LeaderEpoch::UNKNOWN),
            Err(error) => {
                assignment.stop();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Notices a lost or new session, and subscribes what is not subscribed.
    fn follow_session(&mut self) -> Result<()> {
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
            Some(session) => self.subscribe(&session),
            None => {
                self.down_since.get_or_insert_with(Instant::now);
                Ok(())
            }
        }
    }

    /// What came and was not handed out comes again in the next session.
    fn disconnected(&mut self) {
        self.waiting.clear();
        self.records.clear();
        self.current = None;
        while self.inbox.pop().is_some() {}
        for assignment in &mut self.assignments {
            assignment.disconnected();
        }
    }

    fn subscribe(&mut self, session: &Session) -> Result<()> {
        let now = Instant::now();
        let patience = self.link.config().request_timeout;
        let window = self.window_bytes(session);
        let resetting = self.resetting.map(|(slot, _)| slot);
        for (slot, assignment) in self.assignments.iter_mut().enumerate() {
            let slot = SlotId(slot);
            if let State::Subscribing { subscription, since } = assignment.state
                && since + patience <= now
            {
                session.unsubscribe(subscription)?;
                assignment.state = State::Idle { until: None };
                assignment.retry(true, now);
                return Err(Error::Timeout { awaited: "answer to Subscribe", after: patience, source: None });
            }
            if !assignment.is_due(now) || resetting == Some(slot) {
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
        let Some(assignment) = self.assignments.get_mut(slot.0) else { return };
        let subscription = assignment.subscription();
        assignment.disconnected();
        if self.current.as_ref().is_some_and(|current| current.slot == slot) {
            self.current = None;
            self.records.clear();
        }
        if self.resetting.is_some_and(|(resetting, _)| resetting == slot) {
            self.resetting = None;
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
    async fn wait(&mut self) -> Result<()> {
        let patience = self.link.config().request_timeout;
        let report_at = self.down_since.map(|since| since + patience);
        let wake = self.assignments.iter().filter_map(|assignment| assignment.next_wake(patience)).min();
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
                    return Err(Error::Closed { what: "client" });
                }
            }
            () = timer => {
                if report_at.is_some_and(|at| at <= Instant::now()) {
                    self.down_since = Some(Instant::now());
                    let source = self.link.last_failure().map(std::sync::Arc::new);
                    return Err(Error::Timeout { awaited: "connection", after: patience, source });
                }
            }
        }
        Ok(())
    }
}

/// A delivery, and the high watermark that it tells of.
fn read_delivery(unit: Unit) -> std::result::Result<(What, Option<hermit_proto::Offset>), ProtocolFault> {
    if unit.header().record_count != 0 {
        let DeliveryError { ended, error } = DeliveryError::decode(unit.header(), unit.payload())?;
        return Ok((What::Trouble { error, ended }, None));
    }
    let head = DeliveryHead::decode(unit.key())?;
    let payload = match unit.payload() {
        small if small.len() < COPY_BELOW_BYTES => Bytes::copy_from_slice(small),
        _ => unit.into_payload().freeze(),
    };
    let chunk = Chunk::new(payload, head.next_offset);
    Ok((What::Records(chunk), Some(head.high_watermark)))
}

impl Drop for Consumer {
    fn drop(&mut self) {
        for slot in 0..self.assignments.len() {
            self.unsubscribe(SlotId(slot));
        }
    }
}
