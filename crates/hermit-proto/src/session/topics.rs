//! Creating, deleting and listing topics.

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response, empty_message};
use super::operation::Operation;
use super::topic_config::{TopicConfig, UnknownTags};
use crate::ids::TopicId;

/// Creates a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopicRequest {
    /// Its name; the broker checks it by the rule of [`TopicName`](crate::TopicName).
    pub name: String,
    /// How many partitions; 0: the broker's default.
    pub partitions: u32,
    /// Its settings.
    pub config: TopicConfig,
}

impl Message for CreateTopicRequest {
    const OPERATION: Operation = Operation::CreateTopic;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("topic", &self.name);
        body.u32(self.partitions);
        self.config.write(body);
    }

    // "A setting that the broker does not know is refused with InvalidConfig."
    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            name: body.string("topic")?.to_owned(),
            partitions: body.u32("partitions")?,
            config: TopicConfig::read(body, UnknownTags::Refuse)?,
        })
    }
}

impl Request for CreateTopicRequest {
    type Response = CreateTopicResponse;
}

/// The topic is there, and will be after a power cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateTopicResponse {
    /// The new topic's id.
    pub topic: TopicId,
    /// How many partitions it has.
    pub partitions: u32,
    /// All its settings.
    pub config: TopicConfig,
}

impl Message for CreateTopicResponse {
    const OPERATION: Operation = Operation::CreateTopic;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u128(self.topic.0);
        body.u32(self.partitions);
        self.config.write(body);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            topic: TopicId(body.u128("topic")?),
            partitions: body.u32("partitions")?,
            config: TopicConfig::read(body, UnknownTags::PassOver)?,
        })
    }
}

impl Response for CreateTopicResponse {}

/// Deletes a topic and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteTopicRequest {
    /// Its name.
    pub name: String,
}

impl Message for DeleteTopicRequest {
    const OPERATION: Operation = Operation::DeleteTopic;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("topic", &self.name);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { name: body.string("topic")?.to_owned() })
    }
}

impl Request for DeleteTopicRequest {
    type Response = DeleteTopicResponse;
}

empty_message! {
    /// The topic is gone, and will be after a power cut.
    DeleteTopicResponse, DeleteTopic
}
impl Response for DeleteTopicResponse {}

/// Asks for the names of topics, in the order of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListTopicsRequest {
    /// Begin behind this name; empty: at the first.
    pub after: String,
    /// At most so many; 0: as many as the broker likes.
    pub limit: u32,
}

impl Message for ListTopicsRequest {
    const OPERATION: Operation = Operation::ListTopics;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("after", &self.after);
        body.u32(self.limit);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { after: body.string("after")?.to_owned(), limit: body.u32("limit")? })
    }
}

impl Request for ListTopicsRequest {
    type Response = ListTopicsResponse;
}

/// One line of the list of topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTopic {
    /// Its name.
    pub name: String,
    /// Its id.
    pub topic: TopicId,
    /// How many partitions it has.
    pub partitions: u32,
}

/// A page of the list of topics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListTopicsResponse {
    /// The page.
    pub topics: Vec<ListedTopic>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

impl Message for ListTopicsResponse {
    const OPERATION: Operation = Operation::ListTopics;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.list("topics", &self.topics, |body, listed| {
            body.string("name", &listed.name);
            body.u128(listed.topic.0);
            body.u32(listed.partitions);
        });
        body.flag(self.more);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let topics = body.list("topics", |item| {
            Ok(ListedTopic {
                name: item.string("name")?.to_owned(),
                topic: TopicId(item.u128("topic")?),
                partitions: item.u32("partitions")?,
            })
        })?;
        Ok(Self { topics, more: body.flag("more")? })
    }
}

impl Response for ListTopicsResponse {}
