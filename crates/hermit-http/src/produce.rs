//! Records on their way into partitions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::BytesMut;
use hermit_broker::proto::record_set::{NewRecord, RecordSetBuilder};
use hermit_broker::proto::{Attributes, Codec, PartitionId, ProducedFrame, partition_for_key};
use hermit_broker::{Caller, Ticket, Topic};

use crate::problem::Problem;
use crate::records::{RecordIn, bytes_of};
use crate::schema::{Stored, StoredPart};

const NS_PER_MS: u64 = 1_000_000;

/// Where the next batch without keys goes.
static NEXT_PARTITION: AtomicU32 = AtomicU32::new(0);

/// A record that was decoded.
struct Decoded<'a> {
    timestamp_ms: u64,
    key: Option<Cow<'a, [u8]>>,
    value: Option<Cow<'a, [u8]>>,
    headers: Vec<(&'a str, Option<Cow<'a, [u8]>>)>,
}

/// Appends records to their partitions. They are stored once [`Appending::stored`] says so.
pub(crate) fn append(caller: &Caller, topic: &Topic, records: &[RecordIn<'_>]) -> Result<Appending, Problem> {
    let now_ms = now_ms();
    let decoded = records.iter().enumerate().map(|(index, record)| {
        let decoded = decode(record, now_ms).map_err(|problem| problem.within(index))?;
        Ok((record.partition, decoded))
    });
    append_decoded(caller, topic, decoded.collect::<Result<Vec<_>, Problem>>()?)
}

/// Appends one record whose value is none of those that JSON gives.
pub(crate) fn append_with_value(caller: &Caller, topic: &Topic, record: &RecordIn<'_>, value: &[u8]) -> Result<Appending, Problem> {
    let decoded = Decoded { value: Some(Cow::Borrowed(value)), ..decode(record, now_ms())? };
    append_decoded(caller, topic, vec![(record.partition, decoded)])
}

fn append_decoded(caller: &Caller, topic: &Topic, records: Vec<(Option<u32>, Decoded<'_>)>) -> Result<Appending, Problem> {
    let mut by_partition: BTreeMap<u32, Vec<Decoded<'_>>> = BTreeMap::new();
    let partitions = topic.meta.partitions.max(1);
    let unkeyed = NEXT_PARTITION.fetch_add(1, Ordering::Relaxed) % partitions;
    for (index, (asked, decoded)) in records.into_iter().enumerate() {
        let partition = match (asked, &decoded.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_for_key(key, partitions).0,
            (None, None) => unkeyed,
        };
        topic.partition(PartitionId(partition)).map_err(|error| Problem::from(error).within(index))?;
        by_partition.entry(partition).or_default().push(decoded);
    }
    // All of them are encoded, and checked, before any is appended.
    let mut batches = Vec::with_capacity(by_partition.len());
    for (partition, records) in &by_partition {
        let partition = topic.partition(PartitionId(*partition))?;
        batches.push((Arc::clone(partition), caller.broker().parse(encode(records, topic.meta.settings.compaction)?)?));
    }
    let mut appending = Appending { tickets: Vec::with_capacity(batches.len()), failed: None };
    for (partition, mut batch) in batches {
        match caller.append(&partition, &mut batch) {
            Ok(ticket) => appending.tickets.push(ticket),
            Err(error) => {
                appending.failed = Some(error.into());
                break;
            }
        }
    }
    Ok(appending)
}

/// What was appended, and is on its way to the disk.
#[derive(Debug)]
pub(crate) struct Appending {
    tickets: Vec<Ticket>,
    failed: Option<Problem>,
}

impl Appending {
    /// Waits until all of it is as durable as the topic promises.
    pub(crate) async fn stored(self) -> Result<Stored, Problem> {
        let (mut stored, mut failed) = (Vec::with_capacity(self.tickets.len()), self.failed);
        for ticket in &self.tickets {
            match ticket.committed().await {
                Ok(()) => {
                    let appended = ticket.appended();
                    let (base_offset, next_offset) = (appended.base_offset.0, appended.next_offset.0);
                    stored.push(StoredPart { partition: ticket.partition().id().0, base_offset, next_offset });
                }
                Err(error) => failed = failed.or_else(|| Some(error.into())),
            }
        }
        match failed {
            None => Ok(Stored { partitions: stored }),
            Some(problem) => Err(problem.with_stored(stored)),
        }
    }
}

fn decode<'a>(record: &'a RecordIn<'_>, now_ms: u64) -> Result<Decoded<'a>, Problem> {
    let mut headers = Vec::with_capacity(record.headers.len());
    for header in &record.headers {
        headers.push((header.name.as_ref(), bytes_of(header.value.as_ref(), header.value_base64.as_ref(), "headers.value")?));
    }
    let (key, value) = (record.key_bytes()?, record.value_bytes()?);
    Ok(Decoded { timestamp_ms: record.timestamp_ms.unwrap_or(now_ms), key, value, headers })
}

/// One record set; for a compacted topic, a frame for each record.
fn encode(records: &[Decoded<'_>], compacted: bool) -> Result<BytesMut, Problem> {
    let mut out = BytesMut::new();
    let refused = |error: &dyn std::fmt::Display| Problem::bad("records", error.to_string());
    if compacted {
        for record in records {
            single(record)?.encode_into(&mut out).map_err(|error| refused(&error))?;
        }
        return Ok(out);
    }
    let first_ms = records.first().map_or(0, |record| record.timestamp_ms);
    let timestamp = first_ms.checked_mul(NS_PER_MS).ok_or_else(|| Problem::bad("timestamp_ms", "it is too far in the future"))?;
    let mut set = RecordSetBuilder::new(timestamp);
    set.reserve(records.iter().map(|record| record.value.as_ref().map_or(0, |value| value.len()) + 32).sum());
    for record in records {
        let headers: Vec<_> = record.headers.iter().map(|(name, value)| (*name, value.as_deref())).collect();
        let timestamp_ms =
            i64::try_from(record.timestamp_ms).map_err(|_over| Problem::bad("timestamp_ms", "it is too far in the future"))?;
        let new = NewRecord { timestamp_ms, key: record.key.as_deref(), value: record.value.as_deref(), headers: &headers };
        set.append(&new).map_err(|error| refused(&error))?;
    }
    let count = set.count();
    let frame = by_broker(ProducedFrame::record_set(timestamp, Codec::None, count, set.as_bytes()));
    frame.encode_into(&mut out).map_err(|error| refused(&error))?;
    Ok(out)
}

fn single<'a>(record: &'a Decoded<'_>) -> Result<ProducedFrame<'a>, Problem> {
    if !record.headers.is_empty() {
        return Err(Problem::bad("headers", "records of a compacted topic have no headers"));
    }
    let timestamp =
        record.timestamp_ms.checked_mul(NS_PER_MS).ok_or_else(|| Problem::bad("timestamp_ms", "it is too far in the future"))?;
    Ok(by_broker(match (&record.key, &record.value) {
        (Some(key), None) => ProducedFrame::tombstone(timestamp, key),
        (key, value) => ProducedFrame::message(timestamp, key.as_deref(), value.as_deref().unwrap_or_default()),
    }))
}

/// The checksum was not made by who made the record.
const fn by_broker(frame: ProducedFrame<'_>) -> ProducedFrame<'_> {
    ProducedFrame { attributes: frame.attributes.with(Attributes::CHECKSUM_BY_BROKER), ..frame }
}

#[expect(clippy::disallowed_methods, reason = "the time of a producer that does not say its own")]
fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
