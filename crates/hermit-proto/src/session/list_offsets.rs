//! ListOffsets: where a partition begins and ends, and the offset for a time.

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response};
use super::operation::Operation;
use crate::ids::{LeaderEpoch, Offset, PartitionId, TopicId};

/// Which offset is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetQuery {
    /// The oldest. Tag 0.
    Earliest,
    /// The next to be written that a consumer will see: the high watermark. Tag 1.
    Latest,
    /// The first record appended at or after this time, in ns since the Unix epoch by the broker's clock;
    /// the high watermark if there is none yet. Tag 2.
    AtOrAfter(u64),
    /// So many offsets before the high watermark, or the log start if that is later. Tag 3.
    Last(u64),
}

/// Asks about one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOffsetsRequest {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// Which offset.
    pub query: OffsetQuery,
}

impl Message for ListOffsetsRequest {
    const OPERATION: Operation = Operation::ListOffsets;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u128(self.topic.0);
        body.u32(self.partition.0);
        let (tag, value) = match self.query {
            OffsetQuery::Earliest => (0, 0),
            OffsetQuery::Latest => (1, 0),
            OffsetQuery::AtOrAfter(time) => (2, time),
            OffsetQuery::Last(count) => (3, count),
        };
        body.u8(tag);
        body.u64(value);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let topic = TopicId(body.u128("topic")?);
        let partition = PartitionId(body.u32("partition")?);
        let tag = body.u8("query")?;
        let value = body.u64("value")?;
        let query = match tag {
            0 => OffsetQuery::Earliest,
            1 => OffsetQuery::Latest,
            2 => OffsetQuery::AtOrAfter(value),
            3 => OffsetQuery::Last(value),
            other => return Err(BodyError::BadValue { field: "query", value: other.into(), allowed: "0, 1, 2 or 3" }),
        };
        Ok(Self { topic, partition, query })
    }
}

impl Request for ListOffsetsRequest {
    type Response = ListOffsetsResponse;
}

/// The partition's offsets at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListOffsetsResponse {
    /// The offset asked for.
    pub offset: Offset,
    /// The leader epoch that offset was written under, or will be.
    pub leader_epoch: LeaderEpoch,
    /// Oldest offset (inclusive).
    pub log_start: Offset,
    /// End of what consumers see (exclusive).
    pub high_watermark: Offset,
    /// End of what was appended (exclusive).
    pub log_end: Offset,
}

impl Message for ListOffsetsResponse {
    const OPERATION: Operation = Operation::ListOffsets;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u64(self.offset.0);
        body.u32(self.leader_epoch.0);
        body.u64(self.log_start.0);
        body.u64(self.high_watermark.0);
        body.u64(self.log_end.0);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            offset: Offset(body.u64("offset")?),
            leader_epoch: LeaderEpoch(body.u32("leader_epoch")?),
            log_start: Offset(body.u64("log_start")?),
            high_watermark: Offset(body.u64("high_watermark")?),
            log_end: Offset(body.u64("log_end")?),
        })
    }
}

impl Response for ListOffsetsResponse {}
