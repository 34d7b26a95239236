//! From the bytes of a delivery to records: checksums, record sets, and what lies before the position.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use hermit_proto::record_set::{Record as InSet, RecordSet, RecordSetError, unpack};
use hermit_proto::{
    Attributes, FrameError, FrameLimits, FramePrefix, FrameSalt, FrameView, Generation, Offset, PREFIX_SIZE, PartitionId, TopicId,
};

use super::group::Tenure;
use super::record::Record;
use super::records::Records;
use crate::conn::SPARE_BYTES;
use crate::error::Error;

/// Records that are decoded at a time: enough to make the call cheap, few enough to keep what waits small.
const MAX_DECODED: usize = 4096;

/// Messages that came alone and are handed out together.
const MAX_GATHERED: usize = 1024;

/// The unit's own limit bounds a frame, and nothing is allocated by its record count.
const LIMITS: FrameLimits = FrameLimits { max_body_bytes: u32::MAX as u64, max_record_count: u32::MAX };

/// Whose bytes they are.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) topic: Arc<str>,
    pub(super) topic_id: TopicId,
    pub(super) partition: PartitionId,
    pub(super) salt: FrameSalt,
    pub(super) max_unpacked_bytes: usize,
}

/// The frames of one delivery, as far as they are not decoded.
#[derive(Debug)]
pub(super) struct Chunk {
    /// All that came. Kept to the end, so that its memory can be used again; nothing, where that is too large, once the last frame was cut off.
    frames: Bytes,
    /// Where the next frame begins.
    at: usize,
    set: Option<OpenSet>,
    /// What is wrong behind the records that were decoded last.
    trouble: Option<Error>,
    /// Behind the last record of the delivery.
    next_offset: Offset,
    size_bytes: u64,
}

/// A record set that is partly decoded.
#[derive(Debug)]
struct OpenSet {
    prefix: FramePrefix,
    /// From the first record on that is not decoded.
    rest: Bytes,
    /// Records that are.
    decoded: usize,
}

impl Chunk {
    pub(super) fn new(frames: Bytes, next_offset: Offset) -> Self {
        let size_bytes = frames.len() as u64;
        Self { frames, at: 0, set: None, trouble: None, next_offset, size_bytes }
    }

    /// What came, when nothing more is to be decoded.
    pub(super) fn into_bytes(self) -> Bytes {
        self.frames
    }

    /// Bytes of credit that it took.
    pub(super) const fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    pub(super) const fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// Decodes some records at or behind `position` into `records`. `false` when nothing is left.
    ///
    /// # Errors
    /// [`Error::Corrupt`] and [`Error::BadRecordSet`]: call again to go on behind what is damaged.
    pub(super) fn decode(&mut self, source: &Source, position: Offset, records: &mut VecDeque<Record>) -> Result<bool, Error> {
        if let Some(error) = self.trouble.take() {
            return Err(error);
        }
        loop {
            if let Some(open) = &mut self.set {
                let more = open.decode(source, position, records);
                if !matches!(more, Ok(true)) {
                    self.set = None;
                }
                if let Err(error) = more {
                    if records.is_empty() {
                        return Err(error);
                    }
                    self.trouble = Some(error);
                }
            } else if !self.open_frame(source, position, records)? {
                return Ok(false);
            }
            if !records.is_empty() {
                return Ok(true);
            }
        }
    }

    /// As [`Chunk::decode`], but a set, or what is left of it, is taken in one piece. Messages that came alone are gathered. `None` when
    /// nothing is left.
    ///
    /// # Errors
    /// As [`Chunk::decode`].
    pub(super) fn take(&mut self, source: &Source, mut position: Offset) -> Result<Option<Records>, Error> {
        if let Some(error) = self.trouble.take() {
            return Err(error);
        }
        let mut alone = VecDeque::new();
        while alone.len() < MAX_GATHERED {
            if self.set.is_some() && !alone.is_empty() {
                break;
            }
            if let Some(open) = self.set.take() {
                match open.take(source, position) {
                    (None, None) => continue,
                    (None, Some(error)) => return Err(error),
                    (records, trouble) => {
                        self.trouble = trouble;
                        return Ok(records);
                    }
                }
            }
            match self.open_frame(source, position, &mut alone) {
                Ok(true) => position = alone.back().map_or(position, Record::next_offset),
                Ok(false) => break,
                Err(error) if alone.is_empty() => return Err(error),
                Err(error) => {
                    self.trouble = Some(error);
                    break;
                }
            }
        }
        Ok(Records::apart(alone.into()))
    }

    /// Checks the next frame, and takes its record or opens its set.
    fn open_frame(&mut self, source: &Source, position: Offset, records: &mut VecDeque<Record>) -> Result<bool, Error> {
        if self.rest().is_empty() {
            return Ok(false);
        }
        let (prefix, frame) = self.take_frame(source, position)?;
        if prefix.has(Attributes::CONTROL) || prefix.next_offset() <= position {
            return Ok(true);
        }
        let (first, next) = (prefix.offset().max(position), prefix.next_offset());
        let view = match FrameView::split(&frame, &LIMITS) {
            Ok((view, _nothing)) => view,
            // A frame that its broker vouches for, and that this release cannot read.
            Err(error) => return Err(source.bad_set(first, next, &error)),
        };
        view.verify_body().map_err(|error| source.corrupt(first, next, error))?;
        if prefix.has(Attributes::RECORD_SET) {
            let payload = view.payload();
            let set = match unpack(prefix.extension.attributes, payload, source.max_unpacked_bytes) {
                Ok(std::borrow::Cow::Borrowed(set)) => frame.slice_ref(set),
                Ok(std::borrow::Cow::Owned(set)) => set.into(),
                Err(error) => return Err(source.bad_set(first, next, &error)),
            };
            self.set = Some(OpenSet { prefix, rest: set, decoded: 0 });
            return Ok(true);
        }
        let value = (!prefix.has(Attributes::TOMBSTONE)).then(|| frame.slice_ref(view.payload()));
        records.push_back(Record {
            topic: source.topic.clone(),
            topic_id: source.topic_id,
            partition: source.partition,
            offset: prefix.offset(),
            timestamp: prefix.header.timestamp,
            append_time: prefix.extension.append_time,
            key: view.key().map(|key| frame.slice_ref(key)),
            value,
            headers: Vec::new(),
            leader_epoch: prefix.extension.leader_epoch,
            span: prefix.header.record_count,
            generation: Generation(0),
            tenure: Tenure::default(),
        });
        Ok(true)
    }

    /// The frames that were not looked at yet.
    fn rest(&self) -> &[u8] {
        self.frames.get(self.at..).unwrap_or_default()
    }

    /// Cuts off the next frame by the sizes that its frame CRC vouches for. Without them the rest cannot be read.
    fn take_frame(&mut self, source: &Source, position: Offset) -> Result<(FramePrefix, Bytes), Error> {
        let rest = self.rest();
        let have_bytes = rest.len() as u64;
        let cut = FrameError::Truncated { needed_bytes: PREFIX_SIZE as u64, have_bytes };
        let prefix = rest.first_chunk().ok_or(cut).and_then(|prefix| FramePrefix::verify(prefix, &source.salt));
        let sized = prefix.and_then(|prefix| {
            let needed_bytes = prefix.frame_bytes();
            let size = usize::try_from(needed_bytes).ok().filter(|size| *size <= rest.len());
            size.map(|size| (prefix, size)).ok_or(FrameError::Truncated { needed_bytes, have_bytes })
        });
        match sized {
            Ok((prefix, size)) => {
                let begin = self.at;
                self.at = begin.saturating_add(size);
                let frame = self.frames.slice(begin..self.at);
                // Memory that will not be used again goes with who has the record, who then has it alone.
                if self.at == self.frames.len() && self.at > *SPARE_BYTES.end() {
                    (self.frames, self.at) = (Bytes::new(), 0);
                }
                Ok((prefix, frame))
            }
            Err(error) => {
                self.at = self.frames.len();
                Err(source.corrupt(position, self.next_offset, error))
            }
        }
    }
}

impl OpenSet {
    /// The offset of a record of the set.
    fn at(&self, index: usize) -> Offset {
        self.prefix.offset().checked_add(index as u64).unwrap_or(self.prefix.next_offset())
    }

    /// Checks that a record is what its place in the set says.
    fn check<'a>(
        &self,
        source: &Source,
        position: Offset,
        found: usize,
        record: Result<InSet<'a>, RecordSetError>,
    ) -> Result<InSet<'a>, Error> {
        let (count, next) = (self.prefix.header.record_count, self.prefix.next_offset());
        let bad = |problem: &dyn std::fmt::Display| source.bad_set(self.at(found).max(position), next, problem);
        match record {
            Err(error) => Err(bad(&error)),
            Ok(_) if found >= count as usize => {
                let problem = format_args!("it holds more than the {count} records that its frame names");
                Err(source.bad_set(next, next, &problem))
            }
            Ok(record) if record.offset_delta as usize != found => {
                Err(bad(&format_args!("record {found} counts itself as {}", record.offset_delta)))
            }
            Ok(record) => Ok(record),
        }
    }

    /// That there is no record behind `found`.
    fn check_end(&self, source: &Source, position: Offset, found: usize) -> Result<(), Error> {
        let count = self.prefix.header.record_count;
        if found >= count as usize {
            return Ok(());
        }
        let problem = format_args!("it holds {found} of the {count} records that its frame names");
        Err(source.bad_set(self.at(found).max(position), self.prefix.next_offset(), &problem))
    }

    /// Decodes some records. `false` when the set has no more.
    fn decode(&mut self, source: &Source, position: Offset, records: &mut VecDeque<Record>) -> Result<bool, Error> {
        let mut found = self.decoded;
        let mut in_set = RecordSet::new(&self.rest).records();
        for record in in_set.by_ref().take(MAX_DECODED) {
            let record = self.check(source, position, found, record)?;
            let offset = self.at(found);
            found += 1;
            if offset < position {
                continue;
            }
            records.push_back(Record {
                topic: source.topic.clone(),
                topic_id: source.topic_id,
                partition: source.partition,
                offset,
                timestamp: record.timestamp_ns(self.prefix.header.timestamp),
                append_time: self.prefix.extension.append_time,
                key: record.key.map(|key| self.rest.slice_ref(key)),
                value: record.value.map(|value| self.rest.slice_ref(value)),
                headers: record
                    .headers
                    .map(|(name, value)| (name.to_owned(), value.map(|value| self.rest.slice_ref(value))))
                    .collect(),
                leader_epoch: self.prefix.extension.leader_epoch,
                span: 1,
                generation: Generation(0),
                tenure: Tenure::default(),
            });
        }
        if found == self.decoded {
            return self.check_end(source, position, found).map(|()| false);
        }
        self.rest = self.rest.slice_ref(in_set.as_bytes());
        self.decoded = found;
        Ok(true)
    }

    /// Takes the records from `position` on, up to what is wrong behind them.
    fn take(self, source: &Source, position: Offset) -> (Option<Records>, Option<Error>) {
        let first = self.at(self.decoded).max(position);
        let skipped = usize::try_from(first.0 - self.at(self.decoded).0).unwrap_or(usize::MAX);
        let count = self.prefix.header.record_count as usize;
        let mut found = self.decoded;
        let mut in_set = RecordSet::new(&self.rest).records();
        let mut begin = in_set.as_bytes();
        let mut trouble = None;
        loop {
            let passed = found < count && u32::try_from(found).is_ok_and(|delta| in_set.pass(delta));
            if !passed {
                let Some(record) = in_set.next() else { break };
                if let Err(error) = self.check(source, position, found, record) {
                    trouble = Some(error);
                    break;
                }
            }
            found += 1;
            if found - self.decoded == skipped {
                begin = in_set.as_bytes();
            }
        }
        let trouble = trouble.or_else(|| self.check_end(source, position, found).err());
        let len = (found - self.decoded).saturating_sub(skipped);
        let key = (source.topic_id, source.partition);
        let records =
            (len > 0).then(|| Records::of_set(source.topic.clone(), key, &self.prefix, first, len, self.rest.slice_ref(begin)));
        (records, trouble)
    }
}

impl Source {
    fn corrupt(&self, first: Offset, next: Offset, source: FrameError) -> Error {
        Error::Corrupt { topic: self.topic.clone(), partition: self.partition, first, next, source: Some(source) }
    }

    fn bad_set(&self, first: Offset, next: Offset, problem: &dyn std::fmt::Display) -> Error {
        let problem = problem.to_string().into();
        Error::BadRecordSet { topic: self.topic.clone(), partition: self.partition, first, next, problem }
    }
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
