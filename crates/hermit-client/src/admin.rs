//! Topics, offsets and committed positions.

use std::sync::Arc;

use hermit_proto::session::{
    CreateTopicRequest, CreateTopicResponse, DeleteTopicRequest, FetchCommittedRequest, ListOffsetsRequest, ListOffsetsResponse,
    ListTopicsRequest, ListedTopic, MetadataRequest, OffsetQuery, Operation, Status, TopicConfig, TopicMetadata, TopicSelection,
    WireError,
};
use hermit_proto::{GroupName, LeaderEpoch, Offset, PartitionId, TopicId, TopicName};

use crate::conn::{Link, Retry};
use crate::error::{Error, ProtocolFault, Result};

/// Topics, offsets and committed positions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    link: Link,
}

/// What a group has committed for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The next offset to read.
    pub offset: Offset,
    /// The leader epoch of the record before it; [`LeaderEpoch::UNKNOWN`] where none is known.
    pub leader_epoch: LeaderEpoch,
}

impl Admin {
    pub(crate) const fn new(link: Link) -> Self {
        Self { link }
    }

    /// Creates a topic; `partitions` 0 and settings of `None` stand for the broker's defaults.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::Refused`] with [`Status::TopicExists`] or [`Status::InvalidConfig`]; connection errors, after
    /// which the topic may exist.
    pub async fn create_topic(&self, topic: &str, partitions: u32, config: TopicConfig) -> Result<CreateTopicResponse> {
        let name = TopicName::new_public(topic)?.as_str().to_owned();
        self.link.call(&CreateTopicRequest { name, partitions, config }, Retry::Unsent).await
    }

    /// Deletes a topic and its data.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::UnknownTopic`]; connection errors, after which the topic may be gone.
    pub async fn delete_topic(&self, topic: &str) -> Result<()> {
        let name = TopicName::new_public(topic)?.as_str().to_owned();
        match self.link.call(&DeleteTopicRequest { name }, Retry::Unsent).await {
            Ok(_deleted) => Ok(()),
            Err(error) if error.status() == Some(Status::UnknownTopic) => Err(Error::UnknownTopic { topic: topic.into() }),
            Err(error) => Err(error),
        }
    }

    /// All topics, in the order of their names' bytes.
    ///
    /// # Errors
    /// Connection errors; [`Error::Refused`].
    pub async fn list_topics(&self) -> Result<Vec<ListedTopic>> {
        let mut topics: Vec<ListedTopic> = Vec::new();
        loop {
            let after = topics.last().map(|last| last.name.clone()).unwrap_or_default();
            let page = self.link.call(&ListTopicsRequest { after: after.clone(), limit: 0 }, Retry::Always).await?;
            // A page that does not lead on would be asked for again without end.
            if page.more && page.topics.last().is_none_or(|last| last.name <= after) {
                return Err(self.nonsense(Operation::ListTopics, "its pages do not lead on").await);
            }
            topics.extend(page.topics);
            if !page.more {
                return Ok(topics);
            }
        }
    }

    /// What the broker knows of a topic. Never creates it.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::UnknownTopic`]; connection errors.
    pub async fn describe_topic(&self, topic: &str) -> Result<TopicMetadata> {
        self.metadata(topic, false).await
    }

    pub(crate) async fn metadata(&self, topic: &str, create_missing: bool) -> Result<TopicMetadata> {
        let name = TopicName::new(topic)?.as_str().to_owned();
        let request = MetadataRequest { topics: TopicSelection::Names(vec![name]), create_missing };
        let mut answer = self.link.call(&request, Retry::Always).await?;
        match (answer.topics.pop(), answer.missing.pop()) {
            (Some(found), None) if found.name == topic => Ok(found),
            (None, Some(missing)) if missing.status == Status::UnknownTopic => Err(Error::UnknownTopic { topic: topic.into() }),
            (None, Some(missing)) => Err(Error::refused(
                Operation::Metadata,
                WireError::new(missing.status, format!("topic `{topic}` cannot be described")),
            )),
            _ => Err(self.nonsense(Operation::Metadata, "it is not about the topic asked for").await),
        }
    }

    async fn nonsense(&self, operation: Operation, problem: &'static str) -> Error {
        let server = match self.link.session(self.link.deadline()).await {
            Ok(session) => session.server().clone(),
            Err(_unreachable) => Arc::from("the broker"),
        };
        Error::Protocol { server, source: ProtocolFault::Answer { operation, problem } }
    }

    /// A partition's offsets, and the one that `query` asks for.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::UnknownTopic`]; [`Error::UnknownPartition`]; connection errors.
    pub async fn list_offsets(
        &self,
        topic: &str,
        partition: impl Into<PartitionId>,
        query: OffsetQuery,
    ) -> Result<ListOffsetsResponse> {
        let found = self.partition(topic, partition.into()).await?;
        self.list_offsets_by_id(found.topic, found.partition, query).await
    }

    pub(crate) async fn list_offsets_by_id(
        &self,
        topic: TopicId,
        partition: PartitionId,
        query: OffsetQuery,
    ) -> Result<ListOffsetsResponse> {
        self.link.call(&ListOffsetsRequest { topic, partition, query }, Retry::Always).await
    }

    pub(crate) async fn partition(&self, topic: &str, partition: PartitionId) -> Result<PartitionOf> {
        let found = self.metadata(topic, false).await?;
        let count = u32::try_from(found.partitions.len()).unwrap_or(u32::MAX);
        if partition.0 >= count {
            return Err(Error::UnknownPartition { topic: topic.into(), partition, count });
        }
        Ok(PartitionOf { topic: found.topic, partition })
    }

    /// What a group has committed for a partition; `None` if it never did.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::UnknownTopic`]; [`Error::UnknownPartition`]; [`Error::Refused`]; connection errors.
    pub async fn committed(&self, group: &str, topic: &str, partition: impl Into<PartitionId>) -> Result<Option<Committed>> {
        let found = self.partition(topic, partition.into()).await?;
        self.committed_by_id(group, found.topic, found.partition).await
    }

    pub(crate) async fn committed_by_id(&self, group: &str, topic: TopicId, partition: PartitionId) -> Result<Option<Committed>> {
        let group = GroupName::new_public(group)?.as_str().to_owned();
        let request = FetchCommittedRequest { group, partitions: vec![(topic, partition)] };
        let answer = self.link.call(&request, Retry::Always).await?;
        match answer.positions.as_slice() {
            [one] if one.topic == topic && one.partition == partition => {
                if !one.status.is_ok() {
                    let refusal = WireError::new(one.status, "the committed position cannot be told");
                    return Err(Error::refused(Operation::FetchCommitted, refusal));
                }
                Ok(one.offset.map(|offset| Committed { offset, leader_epoch: one.leader_epoch }))
            }
            _ => Err(self.nonsense(Operation::FetchCommitted, "it is not about the partition asked for").await),
        }
    }
}

/// A partition that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionOf {
    pub(crate) topic: TopicId,
    pub(crate) partition: PartitionId,
}
