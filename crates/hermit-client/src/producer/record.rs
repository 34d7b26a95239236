//! What a producer takes, and what it answers.

use std::sync::Arc;

use hermit_proto::record_set::NewRecord;
use hermit_proto::{Offset, PartitionId};

use super::delivery::BatchResult;
use crate::error::Result;

/// A record to be sent. It borrows: the producer copies it into its batch.
///
/// ```
/// use hermit_client::ProducerRecord;
///
/// let record = ProducerRecord::new(b"on time").key(b"UA").headers(&[("gate", Some(b"B7"))]);
/// let deletion = ProducerRecord::tombstone(b"UA");
/// assert_eq!(deletion.value, None);
/// # let _ = record;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerRecord<'a> {
    /// `None`: chosen by the key, or by the producer if there is no key.
    pub partition: Option<PartitionId>,
    /// `None` is not the same as empty.
    pub key: Option<&'a [u8]>,
    /// `None`, a tombstone, is not the same as empty.
    pub value: Option<&'a [u8]>,
    /// Names and values. Not for compacted topics.
    pub headers: &'a [(&'a str, Option<&'a [u8]>)],
    /// Nanoseconds since the Unix epoch, kept to the millisecond; `None`: now.
    pub timestamp: Option<u64>,
}

impl<'a> ProducerRecord<'a> {
    /// A record without a key.
    #[must_use]
    pub fn new(value: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { value: Some(value.as_ref()), ..Self::default() }
    }

    /// A record that voids the key's earlier values.
    #[must_use]
    pub fn tombstone(key: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self { key: Some(key.as_ref()), ..Self::default() }
    }

    /// Gives it a key, if perhaps an empty one.
    #[must_use]
    pub fn key(mut self, key: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        self.key = Some(key.as_ref());
        self
    }

    /// Sends it to this partition, whatever its key.
    #[must_use]
    pub fn partition(mut self, partition: impl Into<PartitionId>) -> Self {
        self.partition = Some(partition.into());
        self
    }

    /// Gives it headers.
    #[must_use]
    pub const fn headers(mut self, headers: &'a [(&'a str, Option<&'a [u8]>)]) -> Self {
        self.headers = headers;
        self
    }

    /// Gives it a time, in ns since the Unix epoch.
    #[must_use]
    pub const fn timestamp(mut self, timestamp: u64) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    #[inline]
    pub(super) fn in_set(&self, timestamp: u64) -> NewRecord<'a> {
        // 2⁶⁴ ns are fewer than 2⁶³ ms.
        let timestamp_ms = (timestamp / 1_000_000).cast_signed();
        NewRecord { timestamp_ms, key: self.key, value: self.value, headers: self.headers }
    }

    /// Bytes of key, value and headers.
    #[inline]
    pub(super) fn data_bytes(&self) -> usize {
        let plain = self.key.map_or(0, <[u8]>::len).saturating_add(self.value.map_or(0, <[u8]>::len));
        if self.headers.is_empty() {
            return plain;
        }
        let headers = self.headers.iter().map(|(name, value)| name.len().saturating_add(value.map_or(0, <[u8]>::len)));
        headers.fold(plain, usize::saturating_add)
    }
}

/// Where a record was stored.
#[derive(Clone)]
pub struct RecordMetadata {
    /// The partition.
    pub partition: PartitionId,
    /// The record's offset. `None` with [`Acks::None`](crate::Acks::None), and where a retry was recognised as stored before but the
    /// broker does not remember where.
    pub offset: Option<Offset>,
    /// The record's time, in ns since the Unix epoch.
    pub timestamp: u64,
    /// What it shares with the others of its batch.
    pub(super) batch: Arc<BatchResult>,
}

impl RecordMetadata {
    /// The topic.
    #[must_use]
    pub fn topic(&self) -> &Arc<str> {
        &self.batch.topic
    }
}

impl std::fmt::Debug for RecordMetadata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { partition, offset, timestamp, .. } = self;
        let mut out = f.debug_struct("RecordMetadata");
        out.field("topic", self.topic())
            .field("partition", partition)
            .field("offset", offset)
            .field("timestamp", timestamp)
            .finish()
    }
}

impl PartialEq for RecordMetadata {
    fn eq(&self, other: &Self) -> bool {
        let all = |of: &Self| (of.partition, of.offset, of.timestamp);
        self.topic() == other.topic() && all(self) == all(other)
    }
}

impl Eq for RecordMetadata {}

/// Where records were stored that were sent together and went into the same batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchMetadata {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: PartitionId,
    /// How many records.
    pub records: u32,
    /// The first one's offset; the others follow it without a gap. `None` in the same cases as [`RecordMetadata::offset`].
    pub first_offset: Option<Offset>,
    /// The last one's offset (inclusive).
    pub last_offset: Option<Offset>,
}

/// How a part of what was sent together fared.
#[derive(Clone, Debug)]
pub struct BatchOutcome {
    /// The partition; `None` where the records did not come so far, as the producer was closed or the topic deleted meanwhile.
    pub partition: Option<PartitionId>,
    /// How many records.
    pub records: u32,
    /// Where they are, or why they are not.
    pub result: Result<BatchMetadata>,
}
