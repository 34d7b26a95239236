//! Topics: creating, deleting, listing, describing and changing them.

use hermit_proto::TopicName;
use hermit_proto::session::{
    AddPartitionsRequest, AlterTopicRequest, CreateTopicRequest, CreateTopicResponse, DeleteTopicRequest, ListTopicsRequest,
    ListedTopic, Operation, Status, TopicConfig, TopicMetadata,
};

use super::Admin;
use crate::conn::Retry;
use crate::error::{Error, Result};

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
