//! Metadata: what a client needs to know of topics before it produces or subscribes.

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response};
use super::operation::Operation;
use super::status::Status;
use super::topic_config::{TopicConfig, UnknownTags};
use crate::ids::{LeaderEpoch, Offset, PartitionId, TopicId};

/// Which topics are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicSelection {
    /// All that the session may see. Tag 0.
    All,
    /// Those of these names. Tag 1.
    Names(Vec<String>),
    /// Those of these ids. Tag 2.
    Ids(Vec<TopicId>),
}

/// Asks for topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataRequest {
    /// Which.
    pub topics: TopicSelection,
    /// Create what is named and not there, with the broker's defaults, if its settings allow: for producers only.
    pub create_missing: bool,
}

impl Message for MetadataRequest {
    const OPERATION: Operation = Operation::Metadata;

    fn write(&self, body: &mut BodyWriter<'_>) {
        match &self.topics {
            TopicSelection::All => body.u8(0),
            TopicSelection::Names(names) => {
                body.u8(1);
                body.strings("topics", names);
            }
            TopicSelection::Ids(ids) => {
                body.u8(2);
                body.list("topics", ids, |body, id| body.u128(id.0));
            }
        }
        body.flag(self.create_missing);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let topics = match body.u8("selection")? {
            0 => TopicSelection::All,
            1 => TopicSelection::Names(body.strings("topics")?),
            2 => TopicSelection::Ids(body.list("topics", |item| item.u128("topic").map(TopicId))?),
            other => return Err(BodyError::BadValue { field: "selection", value: other.into(), allowed: "0, 1 or 2" }),
        };
        Ok(Self { topics, create_missing: body.flag("create_missing")? })
    }
}

impl Request for MetadataRequest {
    type Response = MetadataResponse;
}

/// What is known of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Its number.
    pub partition: PartitionId,
    /// [`Status::Ok`], or what it suffers from: [`Status::ReadOnly`], [`Status::CorruptLog`], …
    pub status: Status,
    /// The leader epoch new frames get.
    pub leader_epoch: LeaderEpoch,
    /// Oldest offset (inclusive).
    pub log_start: Offset,
    /// End of what consumers see (exclusive).
    pub high_watermark: Offset,
    /// Bytes of its log.
    pub log_bytes: u64,
}

/// What is known of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMetadata {
    /// Its name.
    pub name: String,
    /// Its id.
    pub topic: TopicId,
    /// All its settings.
    pub config: TopicConfig,
    /// Its partitions, in the order of their numbers.
    pub partitions: Vec<PartitionMetadata>,
}

/// A topic that was asked for and cannot be told about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTopic {
    /// Its name, as it was asked for; empty if it was asked for by id.
    pub name: String,
    /// Its id, as it was asked for; 0 if it was asked for by name.
    pub topic: TopicId,
    /// Why.
    pub status: Status,
}

/// What was asked for, found or not; the two lists together have one item for each one asked for, however often it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataResponse {
    /// What was found.
    pub topics: Vec<TopicMetadata>,
    /// What was not.
    pub missing: Vec<MissingTopic>,
}

impl Message for MetadataResponse {
    const OPERATION: Operation = Operation::Metadata;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.list("topics", &self.topics, |body, topic| {
            body.string("name", &topic.name);
            body.u128(topic.topic.0);
            topic.config.write(body);
            body.list("partitions", &topic.partitions, |body, partition| {
                body.u32(partition.partition.0);
                body.u32(partition.status.code());
                body.u32(partition.leader_epoch.0);
                body.u64(partition.log_start.0);
                body.u64(partition.high_watermark.0);
                body.u64(partition.log_bytes);
            });
        });
        body.list("missing", &self.missing, |body, missing| {
            body.string("name", &missing.name);
            body.u128(missing.topic.0);
            body.u32(missing.status.code());
        });
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let topics = body.list("topics", |item| {
            Ok(TopicMetadata {
                name: item.string("name")?.to_owned(),
                topic: TopicId(item.u128("topic")?),
                config: TopicConfig::read(item, UnknownTags::PassOver)?,
                partitions: item.list("partitions", read_partition)?,
            })
        })?;
        let missing = body.list("missing", |item| {
            Ok(MissingTopic {
                name: item.string("name")?.to_owned(),
                topic: TopicId(item.u128("topic")?),
                status: Status::from_code(item.u32("status")?),
            })
        })?;
        Ok(Self { topics, missing })
    }
}

fn read_partition(item: &mut BodyReader<'_>) -> Result<PartitionMetadata, BodyError> {
    Ok(PartitionMetadata {
        partition: PartitionId(item.u32("partition")?),
        status: Status::from_code(item.u32("status")?),
        leader_epoch: LeaderEpoch(item.u32("leader_epoch")?),
        log_start: Offset(item.u64("log_start")?),
        high_watermark: Offset(item.u64("high_watermark")?),
        log_bytes: item.appended(0, |item| item.u64("log_bytes"))?,
    })
}

impl Response for MetadataResponse {}
