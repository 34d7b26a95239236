//! Reading records of a partition, a bounded piece at a time. Blocks while the disk reads.

use std::borrow::Cow;
use std::sync::Arc;

use hermit_broker::log::{Log, LogError, Range};
use hermit_broker::proto::record_set::RecordSet;
use hermit_broker::proto::{Attributes, FrameSalt, FrameView, Offset};
use hermit_broker::{Broker, Partition};

use crate::problem::Problem;
use crate::records::{Form, Parts, RecordOut};
use crate::room::{NoRoom, Room};
use crate::sets::{self, OpenSet, Refused, SetHead};
use crate::untold::{Untold, Why};

/// What a piece may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    /// Roughly so many bytes of answer; one record is told in any case.
    pub(crate) bytes: usize,
    /// So many records.
    pub(crate) records: usize,
    /// How values are told.
    pub(crate) form: Form,
    /// Bytes of the answer around the JSON of each record.
    pub(crate) around_bytes: usize,
    /// Bytes of the answer for each line break in that.
    pub(crate) break_bytes: usize,
    /// Whether who reads will go on with a set that was told in part.
    pub(crate) keeps_sets: bool,
}

/// A piece of a partition.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) records: Vec<RecordOut>,
    /// What they take in the answer, which there is room for.
    pub(crate) text_bytes: usize,
    /// Where to go on.
    pub(crate) next: u64,
}

const NS_PER_MS: u64 = 1_000_000;
/// Bytes that are read at a time, at least.
const LEAST_CREDIT_BYTES: u64 = 4 << 10;
/// What is read, what is made of it, and the text of that.
const COPIES: u64 = 3;

/// Reads from `from` on. Offsets without a record are passed over. Ends early where there is no more room, and before what cannot be told, which who goes on there is
/// then told of. A set that `open` holds is gone on with, and one that is told in part may be left there.
pub(crate) fn read(
    broker: &Broker,
    partition: &Arc<Partition>,
    from: u64,
    most: Most,
    room: &mut Room,
    open: &mut Option<OpenSet>,
) -> Result<Piece, Untold> {
    let log = partition.log()?;
    let piece = Piece { records: Vec::new(), text_bytes: 0, next: from };
    let set_bytes = broker.limits().max_request_bytes.into();
    let mut reading = Reading { piece, room, most, set_bytes, open, frame_bytes: 0 };
    let read = reading.all(log, partition.salt());
    let Some(first) = reading.piece.records.first() else {
        return read.map(|()| reading.piece);
    };
    partition.count_delivery(Offset(first.offset), Offset(reading.piece.next), reading.frame_bytes);
    Ok(reading.piece)
}

struct Reading<'a> {
    piece: Piece,
    room: &'a mut Room,
    most: Most,
    /// Most bytes that a record set may unpack to.
    set_bytes: u64,
    open: &'a mut Option<OpenSet>,
    /// Of the frames that records were taken of, as they lie in the log; a set that is kept counts once.
    frame_bytes: u64,
}

impl Reading<'_> {
    fn has_room(&self) -> bool {
        let piece = &self.piece;
        piece.records.is_empty() || (piece.text_bytes < self.most.bytes && piece.records.len() < self.most.records)
    }

    fn all(&mut self, log: &Log, salt: FrameSalt) -> Result<(), Untold> {
        let high_watermark = log.bounds().high_watermark.0;
        let opened = self.open.take().filter(|set| set.at == self.piece.next);
        if let Some(mut set) = opened {
            let told = self.records(set.head, &set.bytes, &mut set.position);
            self.leave_open(set);
            told?;
        }
        if !self.has_room() {
            return Ok(());
        }
        let mut cursor = log.cursor(Offset(self.piece.next))?;
        while self.has_room() {
            let Some(range) = cursor.next(self.credit())? else {
                // What compaction or a control frame has left without records is behind the reader, too.
                self.piece.next = self.piece.next.max(high_watermark);
                break;
            };
            self.range(&range, salt)?;
        }
        Ok(())
    }

    /// What to read at a time: less where there is little room.
    fn credit(&mut self) -> u64 {
        let mut credit = (self.most.bytes as u64).clamp(LEAST_CREDIT_BYTES, 1 << 20);
        while credit > LEAST_CREDIT_BYTES && self.room.take(credit * COPIES).is_err() {
            credit /= 2;
        }
        if credit > LEAST_CREDIT_BYTES {
            self.room.give_back(credit * COPIES);
        }
        credit
    }

    /// Takes room for what ends at `next`.
    fn take_room(&mut self, bytes: u64, next: u64) -> Result<(), Untold> {
        self.room.take(bytes).map_err(|no_room| self.refused(no_room, next))
    }

    fn refused(&self, no_room: NoRoom, next: u64) -> Untold {
        match no_room {
            NoRoom::Now => Untold::NoRoom,
            NoRoom::Ever => Untold::Skip { next, why: Why::TooLarge, problem: Problem::too_large_to_tell(self.piece.next) },
        }
    }

    fn range(&mut self, range: &Range, salt: FrameSalt) -> Result<(), Untold> {
        self.take_room(range.len_bytes(), range.next_offset().0)?;
        let mut bytes = Vec::new();
        range.read_into(&mut bytes)?;
        let told = self.frames(&bytes, range, salt);
        self.room.give_back(range.len_bytes());
        told
    }

    fn frames(&mut self, bytes: &[u8], range: &Range, salt: FrameSalt) -> Result<(), Untold> {
        let mut rest = bytes;
        while !rest.is_empty() && self.has_room() {
            let split = FrameView::split_stamped(rest, &salt);
            let sound = split.and_then(|(frame, behind)| frame.verify_body().map(|()| (frame, behind)));
            let (frame, behind) = match sound {
                Ok(sound) => sound,
                // The log finds out where the damage ends, and remembers it.
                Err(source) => {
                    range.verify()?;
                    return Err(LogError::Frame { index: 0, source }.into());
                }
            };
            let count = self.piece.records.len();
            let told = self.frame(&frame);
            if self.piece.records.len() > count {
                self.frame_bytes = self.frame_bytes.saturating_add(rest.len().saturating_sub(behind.len()) as u64);
            }
            told?;
            rest = behind;
        }
        Ok(())
    }

    fn frame(&mut self, frame: &FrameView<'_>) -> Result<(), Untold> {
        let (header, base) = (&frame.prefix.header, frame.prefix.offset().0);
        let next = frame.prefix.next_offset().0;
        if frame.prefix.has(Attributes::CONTROL) || next <= self.piece.next {
            return Ok(());
        }
        if !frame.prefix.has(Attributes::RECORD_SET) {
            let value = (!frame.prefix.has(Attributes::TOMBSTONE)).then(|| frame.payload());
            let parts = Parts { offset: base, next, timestamp_ms: header.timestamp / NS_PER_MS, key: frame.key(), value };
            return self.push(&parts, std::iter::empty());
        }
        let head = SetHead { base, next, timestamp: header.timestamp };
        let set = sets::unpack(frame, self.set_bytes, self.room).map_err(|refused| match refused {
            Refused::Room(no_room) => self.refused(no_room, next),
            Refused::Set(error) => Untold::unsound(head, &error),
        })?;
        let mut position = 0;
        let told = self.records(head, &set, &mut position);
        self.leave(head, set, position);
        told
    }

    /// Tells the records of a set from `position` on, which is then behind the last of them.
    fn records(&mut self, head: SetHead, set: &[u8], position: &mut usize) -> Result<(), Untold> {
        let mut records = RecordSet::new(set.get(*position..).unwrap_or_default()).records();
        while self.has_room() {
            let Some(record) = records.next() else { break };
            let record = record.map_err(|error| Untold::unsound(head, &error))?;
            let offset = head.base.saturating_add(record.offset_delta.into());
            if offset >= head.next {
                return Err(Untold::unsound(head, &"it has more records than its frame says"));
            }
            if offset >= self.piece.next {
                let timestamp_ms = record.timestamp_ns(head.timestamp) / NS_PER_MS;
                let next = offset.saturating_add(1);
                let parts = Parts { offset, next, timestamp_ms, key: record.key, value: record.value };
                self.push(&parts, record.headers)?;
            }
            *position = set.len().saturating_sub(records.as_bytes().len());
        }
        if *position >= set.len() {
            *position = set.len();
            self.piece.next = self.piece.next.max(head.next);
        }
        Ok(())
    }

    /// Keeps what is left of a set, where that is wanted and there is room for it.
    fn leave(&mut self, head: SetHead, set: Cow<'_, [u8]>, position: usize) {
        let set_bytes = set.len() as u64;
        let was_unpacked = matches!(set, Cow::Owned(_));
        if position < set.len() && self.most.keeps_sets && (was_unpacked || self.room.take(set_bytes).is_ok()) {
            self.leave_open(OpenSet { head, bytes: set.into_owned(), position, at: 0, loan: None });
            self.room.give_back(set_bytes);
        } else if was_unpacked {
            self.room.give_back(set_bytes);
        }
    }

    fn leave_open(&mut self, set: OpenSet) {
        if set.position < set.bytes.len() {
            *self.open = Some(OpenSet { at: self.piece.next, ..set });
        }
    }

    fn push<'a>(
        &mut self,
        parts: &Parts<'_>,
        headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)> + Clone,
    ) -> Result<(), Untold> {
        let memory_bytes = RecordOut::most_bytes(parts, headers.clone()) as u64;
        self.take_room(memory_bytes, parts.next)?;
        let record = RecordOut::new(parts, headers, self.most.form);
        let breaks_bytes = if self.most.break_bytes == 0 { 0 } else { record.breaks().saturating_mul(self.most.break_bytes) };
        let text_bytes = record.json_bytes()?.saturating_add(breaks_bytes).saturating_add(self.most.around_bytes);
        if let Err(no_room) = self.take_room(text_bytes as u64, parts.next) {
            drop(record);
            self.room.give_back(memory_bytes);
            return Err(no_room);
        }
        self.piece.text_bytes = self.piece.text_bytes.saturating_add(text_bytes);
        self.piece.next = parts.next;
        self.piece.records.push(record);
        Ok(())
    }
}
