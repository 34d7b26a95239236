//! Writing a topic's file.

use std::io::Write;

use anyhow::{Context, Result};
use hermit_client::{Codec, LeaderEpoch, Offset, PartitionId, Record, TopicId};
use hermit_proto::record_set::{NewRecord, RecordSetBuilder};
use hermit_proto::{BrokerStamp, FramePrefix, FrameSalt, ProducedFrame, crc32c};

use super::{END, Head, MAGIC, VERSION};

/// Bytes of records, uncompressed, at which a block is full.
const BLOCK_BYTES: usize = 256 << 10;
const NS_PER_MS: u64 = 1_000_000;

/// Writes a topic's file.
#[derive(Debug)]
pub(crate) struct TopicWriter<W> {
    out: W,
    topic: TopicId,
    codec: Codec,
    open: Option<Open>,
    records: u64,
}

/// A record and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored<'a> {
    pub(crate) partition: PartitionId,
    pub(crate) offset: Offset,
    /// The offset behind it.
    pub(crate) next: Offset,
    /// In ns since the Unix epoch, as is `append_time`.
    pub(crate) timestamp: u64,
    pub(crate) append_time: u64,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Vec<(&'a str, Option<&'a [u8]>)>,
}

impl<'a> From<&'a Record> for Stored<'a> {
    fn from(record: &'a Record) -> Self {
        Self {
            partition: record.partition,
            offset: record.offset,
            next: record.next_offset(),
            timestamp: record.timestamp,
            append_time: record.append_time,
            leader_epoch: record.leader_epoch,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect(),
        }
    }
}

/// A block that takes more records.
#[derive(Debug)]
struct Open {
    partition: PartitionId,
    first: Offset,
    next: Offset,
    append_time: u64,
    leader_epoch: LeaderEpoch,
    set: RecordSetBuilder,
}

impl Open {
    /// A set holds what follows each other without a gap, and a frame has one time to the ns: the others are kept to the ms.
    fn takes(&self, record: &Stored<'_>) -> bool {
        let frame = self.set.frame_timestamp();
        let same_ms = frame / NS_PER_MS == record.timestamp / NS_PER_MS;
        let keeps_time = if same_ms { frame == record.timestamp } else { record.timestamp.is_multiple_of(NS_PER_MS) };
        self.partition == record.partition && self.next == record.offset && keeps_time && self.set.len_bytes() < BLOCK_BYTES
    }
}

impl<W: Write> TopicWriter<W> {
    /// Writes the head.
    pub(crate) fn new(mut out: W, head: &Head, codec: Codec) -> Result<Self> {
        let json = head.to_json().to_string();
        let size = u32::try_from(json.len()).context("the topic's name")?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_be_bytes());
        bytes.extend(size.to_be_bytes());
        bytes.extend(json.as_bytes());
        bytes.extend(crc32c(&bytes).to_be_bytes());
        out.write_all(&bytes)?;
        Ok(Self { out, topic: head.id, codec, open: None, records: 0 })
    }

    /// Adds a record.
    pub(crate) fn append(&mut self, record: &Stored<'_>) -> Result<()> {
        if !self.open.as_ref().is_some_and(|open| open.takes(record)) {
            self.close_block()?;
        }
        let open = self.open.get_or_insert_with(|| Open {
            partition: record.partition,
            first: record.offset,
            next: record.offset,
            append_time: record.append_time,
            leader_epoch: record.leader_epoch,
            set: RecordSetBuilder::new(record.timestamp),
        });
        // 2⁶⁴ ns are fewer than 2⁶³ ms.
        let timestamp_ms = (record.timestamp / NS_PER_MS).cast_signed();
        let (key, value) = (record.key, record.value);
        open.set.append(&NewRecord { timestamp_ms, key, value, headers: &record.headers })?;
        open.next = record.next;
        self.records += 1;
        Ok(())
    }

    fn close_block(&mut self) -> Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let payload = open.set.finish(self.codec)?;
        let frame = ProducedFrame::record_set(open.set.frame_timestamp(), self.codec, open.set.count(), &payload);
        let mut prefix = frame.prefix()?;
        let stamp =
            BrokerStamp { offset: open.first, leader_epoch: open.leader_epoch, append_time: open.append_time, flushed_distance: 0 };
        FramePrefix::stamp(&mut prefix, &stamp, &FrameSalt::new(self.topic, open.partition));
        self.out.write_all(&open.partition.0.to_be_bytes())?;
        self.out.write_all(&prefix)?;
        self.out.write_all(&payload)?;
        Ok(())
    }

    /// Writes the end; gives what was written to, and the number of records.
    pub(crate) fn finish(mut self) -> Result<(W, u64)> {
        self.close_block()?;
        let mut end = END.to_be_bytes().to_vec();
        end.extend(self.records.to_be_bytes());
        end.extend(crc32c(&end).to_be_bytes());
        self.out.write_all(&end)?;
        self.out.flush()?;
        Ok((self.out, self.records))
    }
}
