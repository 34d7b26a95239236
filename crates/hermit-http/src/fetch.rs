//! Reading records of a partition, a bounded piece at a time. Blocks while the disk reads.

use std::sync::Arc;

use hermit_broker::log::LogError;
use hermit_broker::proto::record_set::{RecordSet, unpack};
use hermit_broker::proto::{Attributes, FrameView, Offset};
use hermit_broker::{Broker, BrokerError, Partition};

use crate::problem::Problem;
use crate::records::{Form, Parts, RecordOut};

/// What a piece may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    /// Roughly so many bytes of answer; one record is told in any case.
    pub(crate) bytes: usize,
    /// So many records.
    pub(crate) records: usize,
    /// How values are told.
    pub(crate) form: Form,
}

/// A piece of a partition.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) records: Vec<RecordOut>,
    /// Where to go on.
    pub(crate) next: u64,
}

const NS_PER_MS: u64 = 1_000_000;

/// Reads from `from` on. Offsets without a record are passed over.
pub(crate) fn read(broker: &Broker, partition: &Arc<Partition>, from: u64, most: Most) -> Result<Piece, Problem> {
    let log = partition.log()?;
    let mut reading = Reading {
        piece: Piece { records: Vec::new(), next: from },
        bytes: 0,
        most,
        set_bytes: broker.limits().max_request_bytes as usize,
    };
    let high_watermark = log.bounds().high_watermark.0;
    let mut cursor = log.cursor(Offset(from)).map_err(BrokerError::Log)?;
    let mut bytes = Vec::new();
    let credit = (most.bytes as u64).clamp(4 << 10, 1 << 20);
    while reading.has_room() {
        let Some(range) = cursor.next(credit).map_err(BrokerError::Log)? else {
            // What compaction or a control frame has left without records is behind the reader, too.
            reading.piece.next = reading.piece.next.max(high_watermark);
            break;
        };
        bytes.clear();
        range.read_into(&mut bytes).map_err(BrokerError::Log)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() && reading.has_room() {
            let (frame, behind) = FrameView::split_stamped(rest, &partition.salt()).map_err(damaged)?;
            frame.verify_body().map_err(damaged)?;
            reading.take(&frame)?;
            rest = behind;
        }
    }
    Ok(reading.piece)
}

fn damaged(source: hermit_broker::proto::FrameError) -> Problem {
    BrokerError::Log(LogError::Frame { index: 0, source }).into()
}

struct Reading {
    piece: Piece,
    bytes: usize,
    most: Most,
    /// Most bytes that a record set may unpack to.
    set_bytes: usize,
}

impl Reading {
    fn has_room(&self) -> bool {
        self.piece.records.is_empty() || (self.bytes < self.most.bytes && self.piece.records.len() < self.most.records)
    }

    fn push(&mut self, record: RecordOut) {
        self.bytes = self.bytes.saturating_add(record.bytes());
        self.piece.next = record.offset.saturating_add(1);
        self.piece.records.push(record);
    }

    fn take(&mut self, frame: &FrameView<'_>) -> Result<(), Problem> {
        let (header, base) = (&frame.prefix.header, frame.prefix.offset().0);
        let next = frame.prefix.next_offset().0;
        if frame.prefix.has(Attributes::CONTROL) || next <= self.piece.next {
            return Ok(());
        }
        let form = self.most.form;
        if !frame.prefix.has(Attributes::RECORD_SET) {
            let value = (!frame.prefix.has(Attributes::TOMBSTONE)).then(|| frame.payload());
            let parts = Parts { offset: base, timestamp_ms: header.timestamp / NS_PER_MS, key: frame.key(), value };
            self.push(RecordOut::new(&parts, std::iter::empty(), form));
            // One opaque payload may take several offsets.
            self.piece.next = next;
            return Ok(());
        }
        let bad = |error: &dyn std::fmt::Display| {
            Problem::from(hermit_broker::proto::session::WireError::new(
                hermit_broker::proto::session::Status::CorruptLog,
                format!("the record set at offset {base} cannot be read: {error}"),
            ))
        };
        let set = unpack(frame.prefix.extension.attributes, frame.payload(), self.set_bytes).map_err(|error| bad(&error))?;
        for record in RecordSet::new(&set).records() {
            let record = record.map_err(|error| bad(&error))?;
            let offset = base.saturating_add(record.offset_delta.into());
            if offset < self.piece.next {
                continue;
            }
            if offset >= next {
                return Err(bad(&"it has more records than its frame says"));
            }
            if !self.has_room() {
                return Ok(());
            }
            let timestamp_ms = record.timestamp_ns(header.timestamp) / NS_PER_MS;
            let parts = Parts { offset, timestamp_ms, key: record.key, value: record.value };
            self.push(RecordOut::new(&parts, record.headers, form));
        }
        self.piece.next = next;
        Ok(())
    }
}
