//! InitProducerId: makes a producer idempotent.

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response};
use super::operation::Operation;
use crate::ids::{ProducerEpoch, ProducerId};

/// Asks for a producer id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitProducerIdRequest {
    /// The id the producer has, to be kept under the next epoch; [`ProducerId::NONE`] for a new one.
    pub producer_id: ProducerId,
    /// The epoch it has; −1 with no id.
    pub producer_epoch: ProducerEpoch,
}

impl Default for InitProducerIdRequest {
    fn default() -> Self {
        Self { producer_id: ProducerId::NONE, producer_epoch: ProducerEpoch(-1) }
    }
}

impl Message for InitProducerIdRequest {
    const OPERATION: Operation = Operation::InitProducerId;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.i64(self.producer_id.0);
        body.i16(self.producer_epoch.0);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { producer_id: ProducerId(body.i64("producer_id")?), producer_epoch: ProducerEpoch(body.i16("producer_epoch")?) })
    }
}

impl Request for InitProducerIdRequest {
    type Response = InitProducerIdResponse;
}

/// The id and epoch to put into every frame; sequences begin at 0 in each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitProducerIdResponse {
    /// The id.
    pub producer_id: ProducerId,
    /// The epoch.
    pub producer_epoch: ProducerEpoch,
}

impl Message for InitProducerIdResponse {
    const OPERATION: Operation = Operation::InitProducerId;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.i64(self.producer_id.0);
        body.i16(self.producer_epoch.0);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { producer_id: ProducerId(body.i64("producer_id")?), producer_epoch: ProducerEpoch(body.i16("producer_epoch")?) })
    }
}

impl Response for InitProducerIdResponse {}
