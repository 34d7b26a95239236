//! Reading records of a partition, a bounded piece at a time. Blocks while the disk reads.

use std::sync::Arc;

use hermit_broker::log::LogError;
use hermit_broker::proto::record_set::{RecordSet, unpack};
use hermit_broker::proto::{Attributes, FrameView, Offset};
use hermit_broker::{Broker, BrokerError, Partition};

use crate::problem::Problem;
use crate::records::{Form, Parts, RecordOut};
use crate::room::Room;

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
    /// Roughly what they take.
    pub(crate) bytes: usize,
    /// Where to go on.
    pub(crate) next: u64,
}

const NS_PER_MS: u64 = 1_000_000;
/// Bytes that are read at a time, at least.
const LEAST_CREDIT_BYTES: u64 = 4 << 10;

/// Reads from `from` on. Offsets without a record are passed over. Ends early where there is no more room.
pub(crate) fn read(broker: &Broker, partition: &Arc<Partition>, from: u64, most: Most, room: &mut Room) -> Result<Piece, Problem> {
    let log = partition.log()?;
    let mut reading = Reading {
        piece: Piece { records: Vec::new(), bytes: 0, next: from },
        bytes: 0,
        is_full: false,
        room,
        most,
        set_bytes: broker.limits().max_request_bytes as usize,
        frame_bytes: 0,
        first: None,
    };
    let high_watermark = log.bounds().high_watermark.0;
    let mut cursor = log.cursor(Offset(from)).map_err(BrokerError::Log)?;
    let mut bytes = Vec::new();
    let mut credit = (most.bytes as u64).clamp(LEAST_CREDIT_BYTES, 1 << 20);
    while reading.has_room() {
        // What is read, what is made of it, and the text of that: less is read where there is little room.
        while credit > LEAST_CREDIT_BYTES && reading.room.take(credit * 3).map(|()| reading.room.give_back(credit * 3)).is_err() {
            credit /= 2;
        }
        let Some(range) = cursor.next(credit).map_err(BrokerError::Log)? else {
            // What compaction or a control frame has left without records is behind the reader, too.
            reading.piece.next = reading.piece.next.max(high_watermark);
            break;
        };
        bytes.clear();
        if !reading.takes(range.len_bytes())? {
            break;
        }
        range.read_into(&mut bytes).map_err(BrokerError::Log)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() && reading.has_room() {
            let (frame, behind) = FrameView::split_stamped(rest, &partition.salt()).map_err(damaged)?;
            frame.verify_body().map_err(damaged)?;
            let taken = reading.piece.records.len();
            reading.take(&frame)?;
            if reading.piece.records.len() > taken {
                reading.frame_bytes = reading.frame_bytes.saturating_add((rest.len() - behind.len()) as u64);
            }
            rest = behind;
        }
        reading.room.give_back(range.len_bytes());
    }
    if let Some(first) = reading.first {
        partition.count_delivery(Offset(first), Offset(reading.piece.next), reading.frame_bytes);
    }
    Ok(Piece { bytes: reading.bytes, ..reading.piece })
}

fn damaged(source: hermit_broker::proto::FrameError) -> Problem {
    BrokerError::Log(LogError::Frame { index: 0, source }).into()
}

struct Reading<'a> {
    piece: Piece,
    bytes: usize,
    /// No more of the budget can be had now.
    is_full: bool,
    room: &'a mut Room,
    most: Most,
    /// Most bytes that a record set may unpack to.
    set_bytes: usize,
    /// Of the frames that records were taken of, as they lie in the log.
    frame_bytes: u64,
    /// The offset of the first record.
    first: Option<u64>,
}

impl Reading<'_> {
    fn has_room(&self) -> bool {
        !self.is_full
            && (self.piece.records.is_empty() || (self.bytes < self.most.bytes && self.piece.records.len() < self.most.records))
    }

    /// Takes room; where there is none, what was read so far is all. Nothing at all is told as a refusal.
    fn takes(&mut self, bytes: u64) -> Result<bool, Problem> {
        match self.room.take(bytes) {
            Ok(()) => Ok(true),
            Err(_no_room) if !self.piece.records.is_empty() => {
                self.is_full = true;
                Ok(false)
            }
            Err(no_room) => Err(no_room),
        }
    }

    /// Answers whether there was room for it, and for its text.
    fn push(&mut self, record: RecordOut) -> Result<bool, Problem> {
        if !self.takes((record.bytes() as u64).saturating_mul(2))? {
            return Ok(false);
        }
        self.bytes = self.bytes.saturating_add(record.bytes());
        self.piece.next = record.offset.saturating_add(1);
        self.first.get_or_insert(record.offset);
        self.piece.records.push(record);
        Ok(true)
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
            if self.push(RecordOut::new(&parts, std::iter::empty(), form))? {
                // One opaque payload may take several offsets.
                self.piece.next = next;
            }
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
            if !self.push(RecordOut::new(&parts, record.headers, form))? {
                return Ok(());
            }
        }
        self.piece.next = next;
        Ok(())
    }
}
