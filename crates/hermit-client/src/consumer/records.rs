//! Records that are handed out together: borrowed from what they came in, rather than each with its share of it.

use std::sync::Arc;

use bytes::Bytes;
use hermit_proto::record_set::{Headers, RecordSet, Records as InSet};
use hermit_proto::{FramePrefix, Generation, LeaderEpoch, Offset, PartitionId};

use super::group::{Key, Tenure};
use super::record::{Position, Record};

/// Records of one partition, one behind the other: what [`Consumer::recv_records`](crate::Consumer::recv_records) hands out. All of them were checked; iterating
/// allocates nothing and counts no references.
///
/// As large as the record set they came in, which its producer chose.
#[derive(Clone, Debug)]
pub struct Records {
    topic: Arc<str>,
    key: Key,
    append_time: u64,
    leader_epoch: LeaderEpoch,
    first: Offset,
    next: Offset,
    len: usize,
    content: Content,
    pub(super) generation: Generation,
    pub(super) tenure: Tenure,
}

#[derive(Clone, Debug)]
enum Content {
    /// `bytes` begin with the first record. Every record was read once, so that reading it again does not fail.
    Set { bytes: Bytes, base: Offset, timestamp: u64 },
    /// Not empty.
    Apart(Vec<Record>),
}

impl Records {
    /// `len` records of a set that begin with `first`, all of which can be read.
    pub(super) fn of_set(topic: Arc<str>, key: Key, prefix: &FramePrefix, first: Offset, len: usize, bytes: Bytes) -> Self {
        Self {
            topic,
            key,
            append_time: prefix.extension.append_time,
            leader_epoch: prefix.extension.leader_epoch,
            first,
            next: first.checked_add(len as u64).unwrap_or(Offset(u64::MAX)),
            len,
            content: Content::Set { bytes, base: prefix.offset(), timestamp: prefix.header.timestamp },
            generation: Generation(0),
            tenure: Tenure::default(),
        }
    }

    /// Records of one partition in the order of their offsets; `None` where there are none.
    pub(super) fn apart(records: Vec<Record>) -> Option<Self> {
        let (first, last) = (records.first()?, records.last()?);
        Some(Self {
            topic: first.topic.clone(),
            key: (first.topic_id, first.partition),
            append_time: last.append_time,
            leader_epoch: last.leader_epoch,
            first: first.offset,
            next: last.next_offset(),
            len: records.len(),
            generation: Generation(0),
            tenure: Tenure::default(),
            content: Content::Apart(records),
        })
    }

    /// Leaves out what lies at or behind `end`; at least the first record lies before it.
    pub(super) fn cut_at(&mut self, end: Offset) {
        if self.next <= end {
            return;
        }
        match &mut self.content {
            Content::Set { .. } => {
                self.next = end;
                self.len = usize::try_from(end.0.saturating_sub(self.first.0)).unwrap_or(self.len);
            }
            Content::Apart(records) => {
                records.truncate(records.partition_point(|record| record.offset < end));
                self.len = records.len();
                self.next = records.last().map_or(self.first, Record::next_offset);
            }
        }
    }

    /// Each by itself, to be handed out one by one.
    pub(super) fn into_each(self) -> Vec<Record> {
        let set = match self.content {
            Content::Apart(records) => return records,
            Content::Set { ref bytes, .. } => bytes.clone(),
        };
        let slice = |part: Option<&[u8]>| part.map(|part| set.slice_ref(part));
        let each = self.iter().map(|record| Record {
            topic: self.topic.clone(),
            topic_id: self.key.0,
            partition: self.key.1,
            offset: record.offset,
            timestamp: record.timestamp,
            append_time: self.append_time,
            key: slice(record.key),
            value: slice(record.value),
            headers: record.headers().map(|(name, value)| (name.to_owned(), slice(value))).collect(),
            leader_epoch: self.leader_epoch,
            span: 1,
            generation: Generation(0),
            tenure: Tenure::default(),
        });
        each.collect()
    }

    /// The records, in the order of their offsets.
    #[must_use]
    pub fn iter(&self) -> RecordsIter<'_> {
        let source = match &self.content {
            Content::Set { bytes, base, timestamp } => {
                Walk::Set { records: RecordSet::new(bytes).records(), base: *base, timestamp: *timestamp }
            }
            Content::Apart(records) => Walk::Apart(records.iter()),
        };
        RecordsIter { left: self.len, source }
    }

    /// How many records there are: at least 1.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "they are never empty")]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The topic.
    #[must_use]
    pub const fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// The partition.
    #[must_use]
    pub const fn partition(&self) -> PartitionId {
        self.key.1
    }

    pub(super) const fn key(&self) -> Key {
        self.key
    }

    /// The offset of the first record.
    #[must_use]
    pub const fn first_offset(&self) -> Offset {
        self.first
    }

    /// The offset behind the last record: the position to commit once all are processed.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        self.next
    }

    /// The leader epoch that the last record was appended under.
    #[must_use]
    pub const fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// When the broker appended the last record, in ns since the Unix epoch.
    #[must_use]
    pub const fn append_time(&self) -> u64 {
        self.append_time
    }

    /// As [`Record::generation`].
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }
}

impl From<&Records> for Position {
    /// The place behind the last record.
    fn from(records: &Records) -> Self {
        Self { topic: records.topic.clone(), partition: records.key.1, offset: records.next, leader_epoch: records.leader_epoch }
    }
}

impl<'a> IntoIterator for &'a Records {
    type Item = RecordRef<'a>;
    type IntoIter = RecordsIter<'a>;

    fn into_iter(self) -> RecordsIter<'a> {
        self.iter()
    }
}

/// Goes over [`Records`].
#[derive(Clone, Debug)]
pub struct RecordsIter<'a> {
    left: usize,
    source: Walk<'a>,
}

#[derive(Clone, Debug)]
enum Walk<'a> {
    Set { records: InSet<'a>, base: Offset, timestamp: u64 },
    Apart(std::slice::Iter<'a, Record>),
}

impl<'a> Iterator for RecordsIter<'a> {
    type Item = RecordRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<RecordRef<'a>> {
        self.left = self.left.checked_sub(1)?;
        match &mut self.source {
            Walk::Set { records, base, timestamp } => {
                // They were read once before, so this does not fail.
                let record = records.next()?.ok()?;
                Some(RecordRef {
                    offset: Offset(base.0.saturating_add(u64::from(record.offset_delta))),
                    timestamp: record.timestamp_ns(*timestamp),
                    key: record.key,
                    value: record.value,
                    span: 1,
                    headers: RecordHeaders(Either::InSet(record.headers)),
                })
            }
            Walk::Apart(records) => {
                let record = records.next()?;
                Some(RecordRef {
                    offset: record.offset,
                    timestamp: record.timestamp,
                    key: record.key.as_deref(),
                    value: record.value.as_deref(),
                    span: record.span,
                    headers: RecordHeaders(Either::Apart(record.headers.iter())),
                })
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for RecordsIter<'_> {}
impl std::iter::FusedIterator for RecordsIter<'_> {}

/// A record, borrowed from [`Records`].
#[derive(Clone, Debug)]
pub struct RecordRef<'a> {
    /// The record's offset.
    pub offset: Offset,
    /// The producer's time, in ns since the Unix epoch; to the millisecond within record sets.
    pub timestamp: u64,
    /// `None` is not the same as empty.
    pub key: Option<&'a [u8]>,
    /// `None`, a tombstone, is not the same as empty.
    pub value: Option<&'a [u8]>,
    span: u32,
    headers: RecordHeaders<'a>,
}

impl<'a> RecordRef<'a> {
    /// Names and values.
    #[must_use]
    pub fn headers(&self) -> RecordHeaders<'a> {
        self.headers.clone()
    }

    /// The offset behind the record.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        Offset(self.offset.0.saturating_add(self.span as u64))
    }

    /// As [`Record::span`].
    #[must_use]
    pub const fn span(&self) -> u32 {
        self.span
    }
}

/// The headers of a [`RecordRef`]: names and values, `None` being another value than empty.
#[derive(Clone, Debug)]
pub struct RecordHeaders<'a>(Either<'a>);

#[derive(Clone, Debug)]
enum Either<'a> {
    InSet(Headers<'a>),
    Apart(std::slice::Iter<'a, (String, Option<Bytes>)>),
}

impl<'a> Iterator for RecordHeaders<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Either::InSet(headers) => headers.next(),
            Either::Apart(headers) => headers.next().map(|(name, value)| (name.as_str(), value.as_deref())),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            Either::InSet(headers) => headers.size_hint(),
            Either::Apart(headers) => headers.size_hint(),
        }
    }
}

impl ExactSizeIterator for RecordHeaders<'_> {}
