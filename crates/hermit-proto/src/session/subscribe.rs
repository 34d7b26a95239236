//! Subscribe, credit, unsubscribe. A subscription's id is the correlation id of its subscribe request.

use bytes::BytesMut;

use super::body::{BodyError, BodyReader, BodyWriter, EncodeError};
use super::message::{Message, Request, Response, empty_message, encode_unit};
use super::operation::Operation;
use crate::header::magic;
use crate::ids::{CorrelationId, LeaderEpoch, Offset, PartitionId, TopicId};

/// Opens a stream of deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscribeRequest {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// The first offset to deliver. One below the log's start reads as its start.
    pub offset: Offset,
    /// The leader epoch of the record before `offset`; [`LeaderEpoch::UNKNOWN`] where there is none.
    pub leader_epoch: LeaderEpoch,
    /// Bytes the broker may send before it has to be given more.
    pub credit_bytes: u64,
}

impl Message for SubscribeRequest {
    const OPERATION: Operation = Operation::Subscribe;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u128(self.topic.0);
        body.u32(self.partition.0);
        body.u64(self.offset.0);
        body.u32(self.leader_epoch.0);
        body.u64(self.credit_bytes);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            topic: TopicId(body.u128("topic")?),
            partition: PartitionId(body.u32("partition")?),
            offset: Offset(body.u64("offset")?),
            leader_epoch: LeaderEpoch(body.u32("leader_epoch")?),
            credit_bytes: body.u64("credit_bytes")?,
        })
    }
}

impl Request for SubscribeRequest {
    type Response = SubscribeResponse;
}

/// The subscription stands; deliveries follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubscribeResponse {
    /// Where it really begins.
    pub start_offset: Offset,
    /// Oldest offset (inclusive).
    pub log_start: Offset,
    /// End of what consumers see (exclusive).
    pub high_watermark: Offset,
}

impl Message for SubscribeResponse {
    const OPERATION: Operation = Operation::Subscribe;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u64(self.start_offset.0);
        body.u64(self.log_start.0);
        body.u64(self.high_watermark.0);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            start_offset: Offset(body.u64("start_offset")?),
            log_start: Offset(body.u64("log_start")?),
            high_watermark: Offset(body.u64("high_watermark")?),
        })
    }
}

impl Response for SubscribeResponse {}

/// Grants a subscription more bytes. The correlation id names the subscription; there is no answer, and credit for
/// one that has ended is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreditRequest {
    /// Bytes to add.
    pub bytes: u64,
}

impl CreditRequest {
    /// Appends the whole unit.
    ///
    /// # Errors
    /// None in this release.
    pub fn encode(&self, subscription: CorrelationId, out: &mut BytesMut) -> Result<(), EncodeError> {
        encode_unit(out, magic::REQUEST, subscription, Self::OPERATION.number(), |body| self.write(body))
    }
}

impl Message for CreditRequest {
    const OPERATION: Operation = Operation::Credit;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u64(self.bytes);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { bytes: body.u64("bytes")? })
    }
}

/// Ends a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnsubscribeRequest {
    /// Which.
    pub subscription: CorrelationId,
}

impl Message for UnsubscribeRequest {
    const OPERATION: Operation = Operation::Unsubscribe;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u64(self.subscription.0);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { subscription: CorrelationId(body.u64("subscription")?) })
    }
}

impl Request for UnsubscribeRequest {
    type Response = UnsubscribeResponse;
}

empty_message! {
    /// No delivery of that subscription follows.
    UnsubscribeResponse, Unsubscribe
}
impl Response for UnsubscribeResponse {}
