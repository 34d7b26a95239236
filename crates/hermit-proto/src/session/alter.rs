//! AlterTopic, AddPartitions, Trim: changing a topic that is in use.

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response};
use super::operation::Operation;
use super::topic_config::{TopicConfig, UnknownTags};
use crate::ids::{Offset, PartitionId, TopicId};

/// Changes a topic's settings. What is left out stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTopicRequest {
    /// The topic's name.
    pub name: String,
    /// The settings to change.
    pub config: TopicConfig,
}

impl Message for AlterTopicRequest {
    const OPERATION: Operation = Operation::AlterTopic;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("topic", &self.name);
        self.config.write(body);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { name: body.string("topic")?.to_owned(), config: TopicConfig::read(body, UnknownTags::Refuse)? })
    }
}

impl Request for AlterTopicRequest {
    type Response = AlterTopicResponse;
}

/// The settings hold from now on, also after a power cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterTopicResponse {
    /// All settings of the topic.
    pub config: TopicConfig,
}

impl Message for AlterTopicResponse {
    const OPERATION: Operation = Operation::AlterTopic;

    fn write(&self, body: &mut BodyWriter<'_>) {
        self.config.write(body);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { config: TopicConfig::read(body, UnknownTags::PassOver)? })
    }
}

impl Response for AlterTopicResponse {}

/// Adds partitions to a topic. They are never removed; keys move to other partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddPartitionsRequest {
    /// The topic's name.
    pub name: String,
    /// How many it is to have in all. As many as it has already: nothing is done.
    pub partitions: u32,
}

impl Message for AddPartitionsRequest {
    const OPERATION: Operation = Operation::AddPartitions;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("topic", &self.name);
        body.u32(self.partitions);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { name: body.string("topic")?.to_owned(), partitions: body.u32("partitions")? })
    }
}

impl Request for AddPartitionsRequest {
    type Response = AddPartitionsResponse;
}

/// The partitions are there, and will be after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddPartitionsResponse {
    /// How many the topic has.
    pub partitions: u32,
}

impl Message for AddPartitionsResponse {
    const OPERATION: Operation = Operation::AddPartitions;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u32(self.partitions);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { partitions: body.u32("partitions")? })
    }
}

impl Response for AddPartitionsResponse {}

/// Deletes the oldest records of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimRequest {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// The first offset to keep; 2⁶⁴−1: none of what is there.
    pub offset: Offset,
}

impl Message for TrimRequest {
    const OPERATION: Operation = Operation::Trim;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u128(self.topic.0);
        body.u32(self.partition.0);
        body.u64(self.offset.0);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            topic: TopicId(body.u128("topic")?),
            partition: PartitionId(body.u32("partition")?),
            offset: Offset(body.u64("offset")?),
        })
    }
}

impl Request for TrimRequest {
    type Response = TrimResponse;
}

/// The records are gone, and will be after a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimResponse {
    /// Oldest offset (inclusive).
    pub log_start: Offset,
}

impl Message for TrimResponse {
    const OPERATION: Operation = Operation::Trim;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u64(self.log_start.0);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { log_start: Offset(body.u64("log_start")?) })
    }
}

impl Response for TrimResponse {}
