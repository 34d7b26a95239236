//! Receiving: from deliveries to records in the application's hands.

use bytes::Bytes;
use hermit_proto::session::{DeliveryError, DeliveryHead, OffsetQuery, Response, ResponseError, SubscribeResponse, WireError};
use hermit_proto::{CorrelationId, LeaderEpoch, Offset, Unit};
use tokio::time::Instant;

use super::assignment::{Remedy, Reset, State};
use super::chunk::Chunk;
use super::{Consumer, Current, Record};
use crate::conn::{Event, SlotId};
use crate::error::{Error, ProtocolFault, Result};

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
            if let Some((slot, reset)) = self.lost() {
                self.find_position(slot, reset).await?;
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
                    if assignment.is_over() {
                        self.end_subscription(current.subscription);
                    } else if let Some(session) = &self.session {
                        session.consumed(current.subscription, current.chunk.size_bytes())?;
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
            Event::Answer { unit, .. } => read_answer(&unit),
            Event::Delivery { unit, .. } => read_delivery(unit),
        };
        match what {
            Ok(News::Subscribed(answer)) => assignment.subscribed(&answer),
            Ok(News::Records { chunk, high_watermark }) => {
                assignment.high_watermark = Some(high_watermark);
                self.waiting.push_back(Waiting { slot, subscription, what: What::Records(chunk) });
            }
            Ok(News::Trouble { error, ended }) => {
                self.waiting.push_back(Waiting { slot, subscription, what: What::Trouble { error, ended } });
            }
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
        }
    }

    fn lost(&self) -> Option<(SlotId, Reset)> {
        self.assignments.iter().enumerate().find_map(|(slot, assignment)| match assignment.state {
            State::Lost(reset) => Some((SlotId(slot), reset)),
            _ => None,
        })
    }

    /// Looks up where to go on, by the policy for lost positions.
    async fn find_position(&mut self, slot: SlotId, reset: Reset) -> Result<()> {
        let Some(assignment) = self.assignments.get(slot.0) else { return Ok(()) };
        let query = match reset {
            Reset::Earliest => OffsetQuery::Earliest,
            Reset::Latest => OffsetQuery::Latest,
        };
        let found = self.admin.list_offsets_by_id(assignment.topic_id, assignment.source.partition, query).await;
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
}

/// What the reader task left in the inbox.
enum News {
    Subscribed(SubscribeResponse),
    Records { chunk: Chunk, high_watermark: Offset },
    Trouble { error: WireError, ended: bool },
}

fn read_answer(unit: &Unit) -> Result<News, ProtocolFault> {
    match SubscribeResponse::decode_response(unit.header(), unit.key(), unit.payload()) {
        Ok(answer) => Ok(News::Subscribed(answer)),
        Err(ResponseError::Refused(error)) => Ok(News::Trouble { error, ended: true }),
        Err(ResponseError::Malformed(fault)) => Err(fault.into()),
    }
}

fn read_delivery(unit: Unit) -> Result<News, ProtocolFault> {
    if unit.header().record_count != 0 {
        let DeliveryError { ended, error } = DeliveryError::decode(unit.header(), unit.payload())?;
        return Ok(News::Trouble { error, ended });
    }
    let head = DeliveryHead::decode(unit.key())?;
    let payload = match unit.payload() {
        small if small.len() < COPY_BELOW_BYTES => Bytes::copy_from_slice(small),
        _ => unit.into_payload().freeze(),
    };
    Ok(News::Records { chunk: Chunk::new(payload, head.next_offset), high_watermark: head.high_watermark })
}
