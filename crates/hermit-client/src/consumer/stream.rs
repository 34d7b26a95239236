//! Receiving: from deliveries to records in the application's hands.

use bytes::Bytes;
use hermit_proto::session::{DeliveryError, DeliveryHead, OffsetQuery, Response, ResponseError, SubscribeResponse, WireError};
use hermit_proto::{CorrelationId, LeaderEpoch, Offset, Unit};
use tokio::time::Instant;

use super::assignment::{Remedy, Reset, State};
use super::chunk::Chunk;
use super::group::{Key, Place};
use super::{Consumer, Current, Record, Records};
use crate::conn::{Event, SlotId};
use crate::error::{Error, ProtocolFault, Result};

/// Smaller payloads are copied out of the read buffer: in it, each could hold on to many times its own size.
const COPY_BELOW_BYTES: usize = 16 << 10;

/// What a wait brought.
#[derive(Debug)]
pub(super) enum Turn<T> {
    Taken(T),
    /// Nothing more of these is handed out.
    Gone(Vec<Key>),
    /// Nothing more can come.
    Over,
}

#[derive(Debug)]
pub(super) enum Ready<T> {
    Taken(T),
    Nothing,
    /// There is a record, but something about the group is to be found out first.
    Held,
}

/// Takes what needs no waiting.
pub(super) type Take<T> = fn(&mut Consumer) -> Result<Ready<T>>;

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
    /// broker could not be reached for the length of the request timeout; trying goes on with the next call. Those of a member of a group, which
    /// goes on with the next call too: [`Error::Fenced`] for a partition that was lost with records that were not committed,
    /// [`Error::ProcessingTimeout`], [`Error::Refused`] where the group does not take the member in again.
    pub async fn recv(&mut self) -> Result<Option<Record>> {
        let _call = self.enter();
        self.taken(Self::next_ready).await
    }

    async fn taken<T>(&mut self, take: Take<T>) -> Result<Option<T>> {
        loop {
            match self.turn(Some(take)).await? {
                Turn::Taken(taken) => return Ok(Some(taken)),
                Turn::Over => return Ok(None),
                Turn::Gone(_) => {}
            }
        }
    }

    /// The next records, as many as came together in one record set (or one behind the other without sets), waiting for them. The fastest
    /// way to read: they are borrowed from what came over the network. `None` when nothing more can come.
    ///
    /// All promises of [`Consumer::recv`] hold, and what counts as processed ([`AutoCommit`](crate::AutoCommit)) is counted for all of them together: acknowledge
    /// them by [`Consumer::ack_records`], and commit them by [`Consumer::commit`], or
    /// [`Consumer::commit_positions`] with [`Position::from`](crate::Position). Can be cancelled at any time without losing a record, and called in turn with
    /// `recv`.
    ///
    /// ```no_run
    /// use hermit_client::{Client, Start};
    ///
    /// # async fn example() -> hermit_client::Result<()> {
    /// let client = Client::connect("127.0.0.1:9092").await?;
    /// let mut consumer = client.consumer().build()?;
    /// consumer.assign("flights", 0, Start::Earliest).await?;
    /// while let Some(records) = consumer.recv_records().await? {
    ///     for record in &records {
    ///         println!("{} {:?}", record.offset, record.value);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Consumer::recv`]. Records before a damaged place are handed out first.
    pub async fn recv_records(&mut self) -> Result<Option<Records>> {
        let _call = self.enter();
        self.taken(Self::next_records).await
    }

    /// The next records, if some are at hand. Must be called again and again for reading to go on.
    ///
    /// # Errors
    /// As [`Consumer::recv_records`], but for [`Error::Timeout`].
    pub fn try_recv_records(&mut self) -> Result<Option<Records>> {
        self.try_take(Self::next_records)
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
        let _call = self.enter();
        match self.taken(Self::next_ready).await? {
            Some(first) => batch.push(first),
            None => return Ok(batch),
        }
        while batch.len() < max {
            if let Ready::Taken(count) = self.hand_out_decoded(max - batch.len()) {
                batch.extend(self.records.drain(..count));
                continue;
            }
            match self.next_ready() {
                Ok(Ready::Taken(record)) => batch.push(record),
                Ok(Ready::Nothing | Ready::Held) => break,
                Err(error) => {
                    self.deferred = Some(error);
                    break;
                }
            }
        }
        Ok(batch)
    }

    /// The next record, if one is at hand. Must be called again and again, like [`Consumer::recv`], for reading to go on.
    ///
    /// # Errors
    /// As [`Consumer::recv`], but for [`Error::Timeout`].
    pub fn try_recv(&mut self) -> Result<Option<Record>> {
        self.try_take(Self::next_ready)
    }

    fn try_take<T>(&mut self, take: Take<T>) -> Result<Option<T>> {
        let _call = self.enter();
        if let Some(error) = self.deferred.take() {
            return Err(error);
        }
        let gone = self.follow_group()?;
        self.gone.extend(gone);
        match take(self)? {
            Ready::Taken(taken) => Ok(Some(taken)),
            Ready::Nothing | Ready::Held => Ok(None),
        }
    }

    /// Waits for something to happen: something to take, if it is to be taken, or partitions that are not read any more.
    pub(super) async fn turn<T>(&mut self, take: Option<Take<T>>) -> Result<Turn<T>> {
        if let Some(error) = self.deferred.take() {
            return Err(error);
        }
        loop {
            let gone = self.follow_group()?;
            if !gone.is_empty() {
                return Ok(Turn::Gone(gone));
            }
            let ready = if let Some(take) = take {
                take(self)?
            } else {
                // Nobody wants a record now, but lost sessions are noticed, and answers heard.
                self.take_events()?;
                self.follow_session()?;
                Ready::Held
            };
            if let Ready::Taken(taken) = ready {
                return Ok(Turn::Taken(taken));
            }
            if self.is_behind() {
                continue;
            }
            if let Some((slot, reset)) = self.lost() {
                self.find_position(slot, reset).await?;
            } else if take.is_some() && self.is_over() {
                return Ok(Turn::Over);
            } else {
                self.wait().await?;
            }
        }
    }

    /// Whether something changed in the group that is not followed yet.
    fn is_behind(&self) -> bool {
        self.tracked().is_some_and(|shared| shared.changes() != self.seen_changes)
    }

    /// Whether nothing more can come. A member of a group may still get partitions, as long as it has none.
    fn is_over(&self) -> bool {
        self.assignments.values().all(super::Assignment::is_over) && !(self.subscribed && self.assignments.is_empty())
    }

    /// The next record that needs no waiting.
    pub(super) fn next_ready(&mut self) -> Result<Ready<Record>> {
        loop {
            match self.next_decoded() {
                Ready::Nothing => {}
                ready => return Ok(ready),
            }
            // First, so that no answer is missed that came while the application was busy.
            self.take_events()?;
            self.follow_session()?;
            if !self.decode_more(None)? {
                return Ok(Ready::Nothing);
            }
        }
    }

    /// The next records that need no waiting.
    pub(super) fn next_records(&mut self) -> Result<Ready<Records>> {
        loop {
            // Those that `recv` decoded before it was their turn.
            if let Some(records) = Records::apart(std::mem::take(&mut self.records).into()) {
                match self.hand_out(records) {
                    Ready::Nothing => {}
                    ready => return Ok(ready),
                }
            }
            self.take_events()?;
            self.follow_session()?;
            let mut whole = None;
            let more = self.decode_more(Some(&mut whole))?;
            match whole.map_or(Ready::Nothing, |records| self.hand_out(records)) {
                Ready::Nothing if more => {}
                ready => return Ok(ready),
            }
        }
    }

    /// Hands out records of the present partition, as far as they lie before its end.
    fn hand_out(&mut self, mut records: Records) -> Ready<Records> {
        let Some(assignment) = self.current.as_ref().and_then(|current| self.assignments.get_mut(&current.slot)) else {
            return Ready::Nothing;
        };
        if !assignment.wants(records.first_offset()) {
            assignment.advance(records.first_offset(), None);
            return Ready::Nothing;
        }
        if let Some(end) = assignment.end() {
            records.cut_at(end);
        }
        let next = Place { offset: records.next_offset(), epoch: records.leader_epoch() };
        if let Some(shared) = self.group.as_ref().filter(|_| self.tracks) {
            let (key, tenure, offset) = (assignment.key(), assignment.tenure, records.first_offset());
            let handed = shared.with(|state| state.hand_out(key, tenure, [(offset, next)], Instant::now()));
            let Some(generation) = handed else {
                self.records = records.into_each().into();
                return Ready::Held;
            };
            records.generation = generation;
            records.tenure = tenure;
        }
        assignment.advance(next.offset, Some(next.epoch));
        Ready::Taken(records)
    }

    fn next_decoded(&mut self) -> Ready<Record> {
        match self.hand_out_decoded(1) {
            Ready::Taken(_one) => self.records.pop_front().map_or(Ready::Nothing, Ready::Taken),
            Ready::Nothing => Ready::Nothing,
            Ready::Held => Ready::Held,
        }
    }

    /// Hands out some of the decoded records, `max` at most, at one look at the group; how many of the first ones.
    fn hand_out_decoded(&mut self, max: usize) -> Ready<usize> {
        let Some(first) = self.records.front() else { return Ready::Nothing };
        let Some(assignment) = self.current.as_ref().and_then(|current| self.assignments.get_mut(&current.slot)) else {
            self.records.clear();
            return Ready::Nothing;
        };
        if !assignment.wants(first.offset) {
            // The rest lies behind the end as well.
            assignment.advance(first.offset, None);
            self.records.clear();
            return Ready::Nothing;
        }
        let mut count = 0;
        let mut last = Place { offset: first.offset, epoch: first.leader_epoch };
        let place = |record: &Record| Place { offset: record.next_offset(), epoch: record.leader_epoch };
        for record in self.records.iter().take(max).take_while(|record| assignment.wants(record.offset)) {
            (count, last) = (count + 1, place(record));
        }
        if let Some(shared) = self.group.as_ref().filter(|_| self.tracks) {
            let (key, tenure) = (assignment.key(), assignment.tenure);
            let records = self.records.iter().take(count).map(|record| (record.offset, place(record)));
            let handed = shared.with(|state| state.hand_out(key, tenure, records, Instant::now()));
            let Some(generation) = handed else { return Ready::Held };
            for record in self.records.iter_mut().take(count) {
                record.generation = generation;
                record.tenure = tenure;
            }
        }
        assignment.advance(last.offset, Some(last.epoch));
        Ready::Taken(count)
    }

    /// Decodes more records, or handles trouble. `false` when there is nothing to work on. Records come one by one, or in one piece, where
    /// there is a place for it.
    fn decode_more(&mut self, whole: Option<&mut Option<Records>>) -> Result<bool> {
        if let Some(mut current) = self.current.take() {
            let Some(assignment) = self.assignments.get_mut(&current.slot) else { return Ok(true) };
            if assignment.subscription() != Some(current.subscription) {
                // Its end is reached, or it went elsewhere.
                if assignment.state == State::Ended {
                    self.end_subscription(current.subscription);
                }
                return Ok(true);
            }
            let (source, position) = (&assignment.source, assignment.position());
            let decoded = match whole {
                None => current.chunk.decode(source, position, &mut self.records),
                Some(place) => current.chunk.take(source, position).map(|records| {
                    *place = records;
                    place.is_some()
                }),
            };
            match decoded {
                Ok(true) => self.current = Some(current),
                Ok(false) => {
                    assignment.advance(current.chunk.next_offset(), None);
                    if assignment.is_over() {
                        self.end_subscription(current.subscription);
                    } else if let Some(session) = &self.session {
                        session.consumed(current.subscription, current.chunk.size_bytes())?;
                        session.spares().give(current.chunk.into_bytes());
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
            let assigned = self.assignments.get(&slot).and_then(super::Assignment::subscription);
            match what {
                _ if assigned != Some(subscription) => {}
                What::Records(chunk) => self.current = Some(Current { slot, subscription, chunk }),
                What::Trouble { error, ended } => self.take_trouble(slot, subscription, error, ended)?,
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Takes in what came; records stay encoded, and their credit used.
    fn take_events(&mut self) -> Result<()> {
        while let Some(event) = self.inbox.pop() {
            self.take_event(event)?;
        }
        Ok(())
    }

    fn take_event(&mut self, event: Event) -> Result<()> {
        let (Event::Answer { slot, subscription, .. } | Event::Delivery { slot, subscription, .. }) = event;
        let Some(assignment) = self.assignments.get_mut(&slot).filter(|found| found.subscription() == Some(subscription)) else {
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
                // News of offsets only: the newer makes the older useless.
                let superseded = |last: &Waiting| {
                    let What::Records(before) = &last.what else { return false };
                    last.subscription == subscription && before.size_bytes() == 0 && chunk.size_bytes() == 0
                };
                if self.waiting.back().is_some_and(superseded) {
                    self.waiting.pop_back();
                }
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
        let Some(assignment) = self.assignments.get_mut(&slot) else { return Ok(()) };
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
        self.assignments.iter().find_map(|(slot, assignment)| match assignment.state {
            State::Lost(reset) => Some((*slot, reset)),
            _ => None,
        })
    }

    /// Looks up where to go on, by the policy for lost positions.
    async fn find_position(&mut self, slot: SlotId, reset: Reset) -> Result<()> {
        let Some(assignment) = self.assignments.get(&slot) else { return Ok(()) };
        let query = match reset {
            Reset::Earliest => OffsetQuery::Earliest,
            Reset::Latest => OffsetQuery::Latest,
        };
        let found = self.admin.list_offsets_by_id(assignment.topic_id, assignment.source.partition, query).await;
        let Some(assignment) = self.assignments.get_mut(&slot) else { return Ok(()) };
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
