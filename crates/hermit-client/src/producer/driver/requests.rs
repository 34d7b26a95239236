//! Requests of a producer: sending batches, and what their answers mean.

use std::io;
use std::sync::Arc;

use hermit_proto::Unit;
use hermit_proto::session::{Operation, ProduceResponse, ProduceTarget, Response, Status};
use tokio::time::Instant;

use super::{Driver, Request};
use crate::conn::{ProduceAnswer, ProduceOutcome};
use crate::error::{Error, RecordFault};
use crate::producer::lane::{Outcome, Token};

impl Driver {
    pub(super) fn take_answer(&mut self, answer: ProduceAnswer) {
        let ProduceAnswer { session, correlation, outcome } = answer;
        let token = Token { session, correlation };
        let Some(request) = self.requests.remove(&token) else {
            if let ProduceOutcome::Answered(unit) = outcome {
                self.take_refusal(&unit);
            }
            return;
        };
        let outcome = match outcome {
            ProduceOutcome::Answered(unit) => self.read_answer(&unit, request.record_count),
            ProduceOutcome::Written => Outcome::Stored { base: None, duplicate: false },
            ProduceOutcome::Lost(error) => Outcome::Lost(error),
        };
        if let Some(stream) = self.streams.get_mut(&request.stream) {
            if let Outcome::Refused(error) = &outcome {
                match error.status() {
                    Some(Status::UnknownTopic | Status::UnknownPartition) => stream.slot.mark_gone(),
                    // Compaction was turned on or off.
                    Some(Status::KeyRequired | Status::RecordSetNotAllowed) => stream.slot.mark_stale(),
                    _ => {}
                }
            }
            let finished = stream.lane.answered(token, outcome, Instant::now());
            self.touched.insert(request.stream);
            let fenced = finished.iter().find_map(|finished| match &finished.outcome {
                Err(error @ Error::ProducerFenced { .. }) => Some(error.clone()),
                Err(Error::OutcomeUnknown { source }) if matches!(**source, Error::ProducerFenced { .. }) => {
                    Some((**source).clone())
                }
                _ => None,
            });
            self.finish(finished);
            if let Some(fenced) = fenced.filter(|_| !self.shared.is_fatal()) {
                self.fence(&fenced);
            }
        }
    }

    fn read_answer(&self, unit: &Unit, record_count: u32) -> Outcome {
        let server: Arc<str> = self.session.as_ref().map_or_else(|| Arc::from("the broker"), |session| session.server().clone());
        match ProduceResponse::decode_response(unit.header(), unit.key(), unit.payload()) {
            Ok(stored) => {
                // Offsets are told only where they follow one another.
                let contiguous = stored.base_offset.checked_add(record_count.into()) == Some(stored.end_offset);
                Outcome::Stored { base: contiguous.then_some(stored.base_offset), duplicate: stored.duplicate }
            }
            Err(error) => match Error::answer(Operation::Produce, &server, error) {
                refused @ Error::Refused { .. } => Outcome::Refused(refused),
                broken => {
                    // Whatever it meant to say, the session cannot be trusted any more.
                    if let Some(session) = &self.session {
                        session.fail(&broken);
                    }
                    Outcome::Lost(broken)
                }
            },
        }
    }

    /// A refusal of records that were sent with [`Acks::None`], whose deliveries are done long since.
    fn take_refusal(&self, unit: &Unit) {
        if Some(unit.correlation()) == self.refusals
            && let Outcome::Refused(error) = self.read_answer(unit, 0)
        {
            tracing::warn!(%error, "records that were sent without asking for an answer were refused");
            self.shared.note_failure(&error);
        }
    }

    pub(super) fn send_from(&mut self, number: usize, now: Instant) {
        loop {
            let Some(stream) = self.streams.get_mut(&number) else { return };
            if stream.lane.wants_identity() && !self.identity.is_some_and(|identity| stream.lane.offer_identity(identity)) {
                return self.ask_identity();
            }
            let Some(session) = &self.session else { return };
            let Some((batch, stamp)) = stream.lane.next_to_send(now) else { return };
            let record_count = batch.record_count();
            let target = ProduceTarget { topic: stream.slot.topic, partition: stream.slot.partition, acks: self.acks };
            let sent = match batch.encode(stamp) {
                Ok(frames) => session.produce(&target, &frames.head, frames.tail, &self.answers_to, self.refusals),
                Err(error) => {
                    let source = RecordFault::Encoding(error.to_string().into());
                    Err(Error::InvalidRecord { topic: stream.slot.name.clone(), source })
                }
            };
            match sent {
                Ok(correlation) => {
                    let token = Token { session: session.number(), correlation };
                    stream.lane.sent(token);
                    self.requests.insert(token, Request { stream: number, record_count });
                    self.sent.push_back((now, token));
                }
                Err(error @ (Error::InvalidRecord { .. } | Error::Encode(_))) => {
                    let finished = stream.lane.unsendable(error, now);
                    self.finish(finished);
                }
                // The session has failed; the link will bring another.
                Err(error) => {
                    stream.lane.note(&error);
                    self.session = None;
                    return;
                }
            }
        }
    }

    /// Gives up a session that leaves a request unanswered for too long: its successor gets everything in the right order.
    pub(super) fn check_requests(&mut self, now: Instant) -> Option<Instant> {
        let patience = self.link.config().request_timeout;
        while let Some((at, token)) = self.sent.front().copied() {
            if !self.requests.contains_key(&token) {
                self.sent.pop_front();
                continue;
            }
            if at + patience > now {
                return Some(at + patience);
            }
            self.sent.pop_front();
            if let Some(session) = self.session.as_ref().filter(|session| session.number() == token.session) {
                let source = io::Error::new(io::ErrorKind::TimedOut, format!("records were not answered within {patience:?}"));
                session.fail(&Error::ConnectionLost { server: session.server().clone(), source: Arc::new(source) });
            }
        }
        None
    }
}
