//! Topics, offsets, consumer groups, users, rules, and the broker itself.

mod access;
mod groups;
mod topics;

use std::sync::Arc;

use hermit_proto::session::{
    DescribeBrokerRequest, DescribeBrokerResponse, FetchCommittedRequest, ListOffsetsRequest, ListOffsetsResponse, MetadataRequest,
    OffsetQuery, Operation, Status, TopicMetadata, TopicSelection, TrimRequest, WireError,
};
use hermit_proto::{GroupName, LeaderEpoch, Offset, PartitionId, TopicId, TopicName};

use crate::conn::{Link, Retry};
use crate::error::{Error, ProtocolFault, Result};

/// Topics, offsets, consumer groups, users, rules, and the broker itself. Cheap to clone.
///
/// ```no_run
/// use hermit_client::{Client, TopicConfig};
///
/// # async fn example() -> hermit_client::Result<()> {
/// let admin = Client::connect("127.0.0.1:9092").await?.admin();
/// admin.create_topic("flights", 8, TopicConfig { retention_age_ms: Some(86_400_000), ..TopicConfig::default() }).await?;
/// for group in admin.list_groups().await? {
///     let lag: u64 = admin.describe_group(&group.name).await?.partitions.iter().map(|partition| partition.lag).sum();
///     println!("{} is {lag} records behind", group.name);
/// }
/// # Ok(())
/// # }
/// ```
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

    /// What the broker is, how it fares, and the settings that hold.
    ///
    /// # Errors
    /// [`Error::Refused`]; connection errors.
    pub async fn describe_broker(&self) -> Result<DescribeBrokerResponse> {
        self.link.call(&DescribeBrokerRequest, Retry::Always).await
    }

    pub(crate) async fn metadata(&self, topic: &str, create_missing: bool) -> Result<TopicMetadata> {
        let name = TopicName::new(topic)?.as_str().to_owned();
        let request = MetadataRequest { topics: TopicSelection::Names(vec![name]), create_missing };
        let mut answer = self.link.call(&request, Retry::Always).await?;
        match (answer.topics.pop(), answer.missing.pop()) {
            (Some(found), None) if found.name == topic => Ok(found),
            (None, Some(missing)) => Err(cannot_describe(topic, missing.status)),
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

    /// Deletes the records of a partition below `offset`, the first to keep; with [`Offset`] 2⁶⁴ − 1 all that are there. Gives the
    /// oldest offset then, which may be higher than what was asked for, never lower than it was.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::UnknownTopic`]; [`Error::UnknownPartition`]; [`Error::OutOfRange`] beyond the high watermark;
    /// connection errors, after which the records may be gone.
    pub async fn trim(&self, topic: &str, partition: impl Into<PartitionId>, offset: Offset) -> Result<Offset> {
        let name = TopicName::new_public(topic)?;
        let found = self.partition(name.as_str(), partition.into()).await?;
        let request = TrimRequest { topic: found.topic, partition: found.partition, offset };
        match self.link.call(&request, Retry::Always).await {
            Ok(trimmed) => Ok(trimmed.log_start),
            Err(error) => Err(out_of_range(topic, found.partition, offset, error)),
        }
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

/// Why the broker has not described a topic.
fn cannot_describe(topic: &str, status: Status) -> Error {
    match status {
        Status::UnknownTopic => Error::UnknownTopic { topic: topic.into() },
        // Whether it is there or not.
        Status::NotAuthorized => {
            Error::refused(Operation::Metadata, WireError::new(status, format!("no rule allows you anything on topic `{topic}`")))
        }
        _ => Error::refused(Operation::Metadata, WireError::new(status, format!("topic `{topic}` cannot be described"))),
    }
}

/// Details of the status: log start, high watermark.
fn out_of_range(topic: &str, partition: PartitionId, position: Offset, error: Error) -> Error {
    match &error {
        Error::Refused { source, .. } if source.status == Status::OffsetOutOfRange => match source.details.as_slice() {
            [log_start, high_watermark, ..] => {
                let (log_start, high_watermark) = (Offset(*log_start), Offset(*high_watermark));
                Error::OutOfRange { topic: topic.into(), partition, position, log_start, high_watermark }
            }
            _ => error,
        },
        _ => error,
    }
}

/// A partition that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionOf {
    pub(crate) topic: TopicId,
    pub(crate) partition: PartitionId,
}
