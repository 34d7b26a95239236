//! Produce: frames for one partition.

use std::cell::RefCell;
use std::sync::Arc;

use hermit_log::{Batch, LogError, ProducerError};
use hermit_proto::session::{AccessOperations, Acks, ProduceResponse, ProduceTarget};
use hermit_proto::{CorrelationId, Offset, Unit};

use super::owed::Answer;
use super::state::{Session, Stage};
use crate::error::{BrokerError, to_wire};
use crate::hooks::Client;
use crate::partition::Partition;
use crate::record_sets;

/// Room for frames that a thread keeps for the next request.
const KEEP_ROOM_BYTES: usize = 64 << 10;

thread_local! {
    /// Where requests are parsed. An append waits for nothing, so that all sessions of a thread use the same room in turn.
    static BATCH: RefCell<Batch> = RefCell::default();
}

impl Session {
    pub(super) fn produce(&mut self, unit: Unit) {
        let correlation = unit.correlation();
        let target = match ProduceTarget::decode(unit.key()) {
            Ok(target) => target,
            Err(error) => return self.tell(correlation, &error.into()),
        };
        if self.stage == Stage::Stopping {
            return self.refuse_produce(&target, correlation, &BrokerError::ShuttingDown);
        }
        let allowed = self.check_topic(target.topic, AccessOperations::PRODUCE);
        let partition = match allowed.and_then(|()| self.broker.writable(target.topic, target.partition)) {
            Ok(partition) => partition,
            Err(error) => return self.refuse_produce(&target, correlation, &error),
        };
        let (until, answer) = match self.append(&partition, unit) {
            Ok(response) if target.acks == Acks::Committed => (response.end_offset, Answer::Produced(response)),
            Ok(_not_answered) => return,
            Err(error) => match Self::passed(&partition, &error) {
                Some(until) => (until, Answer::Passed(to_wire(&error))),
                None => return self.refuse_produce(&target, correlation, &error),
            },
        };
        let token = self.token();
        let token = self.owed.push(&partition, token, correlation, until, answer);
        self.owed.settle(token, &self.signal, self.broker.counters(), &mut self.out);
    }

    fn append(&self, partition: &Arc<Partition>, unit: Unit) -> Result<ProduceResponse, BrokerError> {
        let mut batch = BATCH.take();
        let appended = self.append_with(partition, unit, &mut batch);
        batch.release();
        if batch.room_bytes() <= KEEP_ROOM_BYTES {
            BATCH.set(batch);
        }
        appended
    }

    fn append_with(&self, partition: &Arc<Partition>, unit: Unit, batch: &mut Batch) -> Result<ProduceResponse, BrokerError> {
        self.broker.parse_into(unit.into_payload(), batch)?;
        if partition.is_compacted() {
            record_sets::check_compacted(batch)?;
        }
        let client = Client { name: &self.client, address: &self.address };
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
