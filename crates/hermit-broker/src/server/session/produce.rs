//! Produce: frames for one partition.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::BytesMut;
use hermit_log::{Batch, BatchFrame, LogError, ProducerError};
use hermit_proto::session::{AccessOperations, Acks, ProduceResponse, ProduceTarget};
use hermit_proto::{CorrelationId, Offset, Unit};

use super::owed::Answer;
use super::state::{Session, Stage};
use crate::error::{BrokerError, to_wire};
use crate::hooks::Client;
use crate::partition::Partition;
use crate::record_sets;

/// Room for frames that a thread keeps for the next requests.
const KEEP_ROOM_BYTES: usize = 512 << 10;
/// Requests with more bytes of frames are appended by themselves, without being copied.
const SMALL_BYTES: usize = 8 << 10;
/// Small requests are gathered up to so many bytes.
const GATHERED_BYTES: usize = 128 << 10;

thread_local! {
    /// Where small requests are gathered. An append waits for nothing, so that all sessions of a thread use the same room in turn.
    static ROOM: RefCell<Gathering> = RefCell::default();
    /// Where requests are parsed that are appended by themselves: it keeps no bytes, only lists.
    static ALONE: RefCell<Batch> = RefCell::default();
}

/// Small produce requests for one partition that were read together: one append writes them all, as its call costs more than what it writes. Their answers
/// are those that each would have had alone.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    partition: Option<Arc<Partition>>,
    batch: Batch,
    requests: Vec<Gathered>,
}

#[derive(Debug, Clone, Copy)]
struct Gathered {
    correlation: CorrelationId,
    acks: Acks,
    /// Where its frames end within the batch.
    frames_end: usize,
}

impl Gathering {
    pub(super) const fn len(&self) -> usize {
        self.requests.len()
    }

    const fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// The partition, if it is this one.
    fn to(&self, target: &ProduceTarget) -> Option<&Arc<Partition>> {
        self.partition.as_ref().filter(|partition| (partition.topic(), partition.id()) == (target.topic, target.partition))
    }

    /// Gives the room back to the thread.
    fn leave(mut self) {
        self.partition = None;
        self.requests.clear();
        self.batch.clear();
        if self.batch.room_bytes() <= KEEP_ROOM_BYTES {
            ROOM.set(self);
        }
    }

    /// The answers to those who want one, in order.
    fn answers(&self, append_time: u64) -> impl Iterator<Item = (CorrelationId, Offset, Answer)> {
        let mut begin = 0;
        self.requests.iter().filter_map(move |request| {
            let frames = self.batch.frames().get(begin..request.frames_end).unwrap_or_default();
            begin = request.frames_end;
            let response = response(frames, append_time)?;
            let wanted = request.acks == Acks::Committed;
            wanted.then(|| (request.correlation, response.end_offset, Answer::Produced(response)))
        })
    }
}

fn target_of(partition: &Partition, request: &Gathered) -> ProduceTarget {
    ProduceTarget { topic: partition.topic(), partition: partition.id(), acks: request.acks }
}

/// Whether a refusal of many may be the fault of one, or what less room would be enough for. All others would hear the same one by one, at the cost of a
/// look at the disk for each.
const fn is_of_one(error: &BrokerError) -> bool {
    !matches!(
        error,
        BrokerError::LowSpace { .. } | BrokerError::ShuttingDown | BrokerError::Log(LogError::ReadOnly { .. } | LogError::Closed)
    )
}

/// What is answered for frames that were appended.
fn response(frames: &[BatchFrame], append_time: u64) -> Option<ProduceResponse> {
    let end = |frame: &BatchFrame| Offset(frame.offset.0.saturating_add(u64::from(frame.prefix.header.record_count)));
    Some(ProduceResponse {
        base_offset: frames.first()?.offset,
        end_offset: frames.iter().map(end).max()?,
        append_time,
        duplicate: frames.iter().all(|frame| frame.duplicate),
    })
}

impl Session {
    pub(super) fn produce(&mut self, unit: Unit) {
        let correlation = unit.correlation();
        let target = match ProduceTarget::decode(unit.key()) {
            Ok(target) => target,
            Err(error) => return self.tell(correlation, &error.into()),
        };
        if self.gathering.to(&target).is_none() || self.gathering.batch.as_bytes().len() > GATHERED_BYTES {
            self.append_gathered();
        }
        if self.stage == Stage::Stopping {
            return self.refuse_produce(&target, correlation, &BrokerError::ShuttingDown);
        }
        let allowed = self.check_topic(target.topic, AccessOperations::PRODUCE);
        let partition = match (allowed, self.gathering.to(&target)) {
            (Ok(()), Some(partition)) => Ok(Arc::clone(partition)),
            (Ok(()), None) => self.broker.writable(target.topic, target.partition),
            (Err(error), _) => Err(error),
        };
        let partition = match partition {
            Ok(partition) => partition,
            Err(error) => {
                self.append_gathered();
                return self.refuse_produce(&target, correlation, &error);
            }
        };
        // Hooks have their say on each request.
        let gathers = unit.payload().len() <= SMALL_BYTES && !unit.payload().is_empty();
        if gathers && !partition.is_compacted() && self.broker.events().is_none() {
            return self.gather(partition, &target, &unit);
        }
        self.append_gathered();
        self.append_alone(&partition, &target, correlation, unit.into_payload());
    }

    fn gather(&mut self, partition: Arc<Partition>, target: &ProduceTarget, unit: &Unit) {
        if self.gathering.is_empty() {
            self.gathering = ROOM.take();
            self.gathering.partition = Some(partition);
        }
        if let Err(error) = self.broker.parse_more(unit.payload(), &mut self.gathering.batch) {
            self.append_gathered();
            return self.refuse_produce(target, unit.correlation(), &error);
        }
        let frames_end = self.gathering.batch.frames().len();
        self.gathering.requests.push(Gathered { correlation: unit.correlation(), acks: target.acks, frames_end });
    }

    /// Appends what was gathered. Behind this, nothing is.
    pub(super) fn append_gathered(&mut self) {
        let Some(partition) = self.gathering.partition.take() else { return };
        let mut gathering = std::mem::take(&mut self.gathering);
        if !gathering.is_empty() {
            let client = Client { name: &self.client, address: &self.address, user: self.rights.user() };
            match self.broker.append_from(&partition, &mut gathering.batch, Some(client)) {
                Ok(ticket) => {
                    let token = self.token();
                    let token = self.owed.push_all(&partition, token, gathering.answers(ticket.appended().append_time));
                    self.owed.settle(token, &self.signal, self.broker.counters(), &mut self.out);
                }
                // Whichever of them is at fault: the others are not.
                Err(refused) if is_of_one(&refused) => self.append_each(&partition, &gathering),
                Err(refused) => {
                    for request in &gathering.requests {
                        self.refuse_produce(&target_of(&partition, request), request.correlation, &refused);
                    }
                }
            }
        }
        gathering.leave();
    }

    fn append_each(&mut self, partition: &Arc<Partition>, gathering: &Gathering) {
        let (frames, bytes) = (gathering.batch.frames(), gathering.batch.as_bytes());
        let start = |index: usize| frames.get(index).map_or(bytes.len(), |frame| frame.start);
        let mut begin = 0;
        for request in &gathering.requests {
            let own = bytes.get(start(begin)..start(request.frames_end)).unwrap_or_default();
            begin = request.frames_end;
            self.append_alone(partition, &target_of(partition, request), request.correlation, BytesMut::from(own));
        }
    }

    fn append_alone(&mut self, partition: &Arc<Partition>, target: &ProduceTarget, correlation: CorrelationId, frames: BytesMut) {
        let (until, answer) = match self.append(partition, frames) {
            Ok(response) if target.acks == Acks::Committed => (response.end_offset, Answer::Produced(response)),
            Ok(_not_answered) => return,
            Err(error) => match Self::passed(partition, &error) {
                Some(until) => (until, Answer::Passed(to_wire(&error))),
                None => return self.refuse_produce(target, correlation, &error),
            },
        };
        let token = self.token();
        let token = self.owed.push(partition, token, correlation, until, answer);
        self.owed.settle(token, &self.signal, self.broker.counters(), &mut self.out);
    }

    fn append(&self, partition: &Arc<Partition>, frames: BytesMut) -> Result<ProduceResponse, BrokerError> {
        let mut batch = ALONE.take();
        let appended = self.append_with(partition, frames, &mut batch);
        batch.release();
        if batch.room_bytes() <= KEEP_ROOM_BYTES {
            ALONE.set(batch);
        }
        appended
    }

    fn append_with(&self, partition: &Arc<Partition>, frames: BytesMut, batch: &mut Batch) -> Result<ProduceResponse, BrokerError> {
        self.broker.parse_into(frames, batch)?;
        if partition.is_compacted() {
            record_sets::check_compacted(batch)?;
        }
        let client = Client { name: &self.client, address: &self.address, user: self.rights.user() };
        let ticket = self.broker.append_from(partition, batch, Some(client))?;
        let appended = ticket.appended();
        Ok(ProduceResponse {
            base_offset: appended.base_offset,
            end_offset: appended.next_offset,
            append_time: appended.append_time,
            duplicate: appended.duplicates > 0 && appended.duplicates == batch.frames().len(),
        })
    }

    /// Where sequences were there before, and are too long ago to tell at which offsets, the refusal tells the client that they are stored: as durable as
    /// the topic promises, then.
    fn passed(partition: &Partition, error: &BrokerError) -> Option<Offset> {
        match error {
            BrokerError::Log(LogError::Producer(ProducerError::OutOfSequence { .. })) => Some(partition.bounds().ok()?.log_end),
            _ => None,
        }
    }

    /// In its turn: behind the answers that the partition still owes.
    fn refuse_produce(&mut self, target: &ProduceTarget, correlation: CorrelationId, error: &BrokerError) {
        if let Err(error) = self.owed.refuse(target.topic, target.partition, correlation, to_wire(error)) {
            self.tell(correlation, &error);
        }
    }
}
