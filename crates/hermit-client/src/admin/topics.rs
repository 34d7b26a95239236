//! Topics: creating, deleting, listing, describing and changing them.

use hermit_proto::session::{
    AddPartitionsRequest, AlterTopicRequest, CreateTopicRequest, CreateTopicResponse, DeleteTopicRequest, ListTopicsRequest,
    ListedTopic, MetadataRequest, Operation, Status, TopicConfig, TopicMetadata, TopicSelection,
};
use hermit_proto::{TopicId, TopicName};

use super::Admin;
use crate::conn::Retry;
use crate::error::{Error, Result};

/// Topics that are described together, and their partitions: 16 bytes each in a request of at most 1 MiB, 40 each in an answer.
const MAX_TOPICS: usize = 1024;
const MAX_PARTITIONS: u64 = 16_384;

impl Admin {
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
            Err(error) => Err(about_topic(topic, error)),
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

    /// What the broker knows of all topics, in the order of their names' bytes. Those that are deleted meanwhile are left out. The topics are asked for in pieces:
    /// they are not all of one moment.
    ///
    /// # Errors
    /// Connection errors; [`Error::Refused`].
    pub async fn describe_topics(&self) -> Result<Vec<TopicMetadata>> {
        let mut listed = self.list_topics().await?.into_iter().peekable();
        let mut described = Vec::with_capacity(listed.len());
        while listed.peek().is_some() {
            let (mut ids, mut partitions) = (Vec::new(), 0_u64);
            let fits =
                |ids: &Vec<TopicId>, partitions: u64| ids.is_empty() || (ids.len() < MAX_TOPICS && partitions <= MAX_PARTITIONS);
            while let Some(topic) = listed.next_if(|next| fits(&ids, partitions + u64::from(next.partitions))) {
                partitions += u64::from(topic.partitions);
                ids.push(topic.topic);
            }
            let request = MetadataRequest { topics: TopicSelection::Ids(ids), create_missing: false };
            described.extend(self.link.call(&request, Retry::Always).await?.topics);
        }
        Ok(described)
    }

    /// Changes settings of a topic, also while it is in use; those of `None` stay. Gives all its settings.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::UnknownTopic`]; [`Error::Refused`] with [`Status::InvalidConfig`]; connection errors, after which the
    /// settings may be changed.
    pub async fn alter_topic(&self, topic: &str, config: TopicConfig) -> Result<TopicConfig> {
        let name = TopicName::new_public(topic)?.as_str().to_owned();
        // The same settings again change nothing.
        match self.link.call(&AlterTopicRequest { name, config }, Retry::Always).await {
            Ok(altered) => Ok(altered.config),
            Err(error) => Err(about_topic(topic, error)),
        }
    }

    /// Gives a topic more partitions, `partitions` in all; gives how many it has then. They are never removed.
    ///
    /// **Keys move**: a record goes to another partition than earlier ones of its key, so that the order of a key holds only
    /// before and after. Running producers take up the new partitions within minutes.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::UnknownTopic`]; [`Error::Refused`] with [`Status::InvalidConfig`] if it has more already; connection
    /// errors, after which the partitions may be there.
    pub async fn add_partitions(&self, topic: &str, partitions: u32) -> Result<u32> {
        let name = TopicName::new_public(topic)?.as_str().to_owned();
        // As many as it has already: nothing is done.
        match self.link.call(&AddPartitionsRequest { name, partitions }, Retry::Always).await {
            Ok(added) => Ok(added.partitions),
            Err(error) => Err(about_topic(topic, error)),
        }
    }
}

fn about_topic(topic: &str, error: Error) -> Error {
    match error.status() {
        Some(Status::UnknownTopic) => Error::UnknownTopic { topic: topic.into() },
        _ => error,
    }
}
