//! Consumer groups: their members, positions and lag.

use std::collections::HashMap;

use hermit_proto::session::{
    CommitEntry, CommitRequest, CommitResult, DeleteGroupRequest, DescribeGroupRequest, DescribeGroupResponse, ListGroupsRequest,
    ListedGroup, MetadataRequest, Operation, Status, TopicMetadata, TopicSelection, WireError,
};
use hermit_proto::{Generation, GroupName, LeaderEpoch, MemberId, Offset, PartitionId, TopicName};

use super::{Admin, cannot_describe};
use crate::conn::Retry;
use crate::error::{Error, Result};

/// Entries of one commit request: 8192 of 48 bytes stay well below the 1 MiB that a request may have.
const MAX_ENTRIES: usize = 8192;

impl Admin {
    /// All consumer groups with members or positions, in the order of their names' bytes.
    ///
    /// # Errors
    /// [`Error::Refused`]; connection errors.
    pub async fn list_groups(&self) -> Result<Vec<ListedGroup>> {
        let mut groups: Vec<ListedGroup> = Vec::new();
        loop {
            let after = groups.last().map(|last| last.name.clone()).unwrap_or_default();
            let page = self.link.call(&ListGroupsRequest { after: after.clone(), limit: 0 }, Retry::Always).await?;
            // A page that does not lead on would be asked for again without end.
            if page.more && page.groups.last().is_none_or(|last| last.name <= after) {
                return Err(self.nonsense(Operation::ListGroups, "its pages do not lead on").await);
            }
            groups.extend(page.groups);
            if !page.more {
                return Ok(groups);
            }
        }
    }

    /// A group's members, and its position and lag in each partition.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::UnknownGroup`]; [`Error::Refused`]; connection errors.
    pub async fn describe_group(&self, group: &str) -> Result<DescribeGroupResponse> {
        let name = GroupName::new_public(group)?.as_str().to_owned();
        let answer = self.link.call(&DescribeGroupRequest { group: name }, Retry::Always).await;
        answer.map_err(|error| about_group(group, error))
    }

    /// Deletes all positions of a group that nobody is in.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::UnknownGroup`]; [`Error::GroupActive`] while it has members; connection errors, after which the
    /// positions may be gone.
    pub async fn delete_group(&self, group: &str) -> Result<()> {
        let name = GroupName::new_public(group)?.as_str().to_owned();
        match self.link.call(&DeleteGroupRequest { group: name }, Retry::Unsent).await {
            Ok(_deleted) => Ok(()),
            Err(error) => Err(about_group(group, error)),
        }
    }

    /// Sets positions of a group that nobody is in: for each partition the next offset to read. When it returns they are on disk.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::GroupActive`] while the group has members; [`Error::UnknownTopic`]; [`Error::UnknownPartition`];
    /// [`Error::Refused`] with [`Status::CommitBeyondEnd`] and others — the first refusal, where the other positions may have been
    /// stored; connection errors.
    pub async fn commit_group(&self, group: &str, positions: &[(impl AsRef<str> + Sync, PartitionId, Offset)]) -> Result<()> {
        let name = GroupName::new_public(group)?.as_str().to_owned();
        let topics = self.describe_named(positions.iter().map(|(topic, ..)| topic.as_ref())).await?;
        let mut entries = Vec::with_capacity(positions.len());
        for (topic, partition, offset) in positions {
            entries.push(entry(&topics, topic.as_ref(), *partition, *offset)?);
        }
        for (entries, positions) in entries.chunks(MAX_ENTRIES).zip(positions.chunks(MAX_ENTRIES)) {
            let request = CommitRequest { group: name.clone(), entries: entries.to_vec(), member: MemberId::NONE };
            let answer = self.link.call(&request, Retry::Always).await.map_err(|error| about_group(group, error))?;
            let same =
                |(result, entry): (&CommitResult, &CommitEntry)| result.topic == entry.topic && result.partition == entry.partition;
            if answer.results.len() != entries.len() || !answer.results.iter().zip(entries).all(same) {
                return Err(self.nonsense(Operation::Commit, "it is not about the partitions committed").await);
            }
            let refused = answer.results.iter().zip(positions).find(|(result, _)| !result.status.is_ok());
            if let Some((result, (topic, partition, offset))) = refused {
                let message = format!("offset {offset} of topic `{}`, partition {partition} was not committed", topic.as_ref());
                return Err(about_group(group, Error::refused(Operation::Commit, WireError::new(result.status, message))));
            }
        }
        Ok(())
    }

    /// What the broker knows of topics, by name.
    async fn describe_named<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<HashMap<String, TopicMetadata>> {
        let mut wanted = names.map(|name| Ok(TopicName::new(name)?.as_str().to_owned())).collect::<Result<Vec<_>>>()?;
        wanted.sort_unstable();
        wanted.dedup();
        let mut found = HashMap::with_capacity(wanted.len());
        // 1024 names of at most 255 bytes are far below the limit of a request.
        for names in wanted.chunks(1024) {
            let request = MetadataRequest { topics: TopicSelection::Names(names.to_vec()), create_missing: false };
            let answer = self.link.call(&request, Retry::Always).await?;
            match answer.missing.first() {
                Some(missing) => return Err(cannot_describe(&missing.name, missing.status)),
                None => found.extend(answer.topics.into_iter().map(|topic| (topic.name.clone(), topic))),
            }
        }
        Ok(found)
    }
}

/// The epoch is the one that new records get: where the log loses its tail up to before `offset`, it is known to have ended there.
fn entry(topics: &HashMap<String, TopicMetadata>, topic: &str, partition: PartitionId, offset: Offset) -> Result<CommitEntry> {
    let found = topics.get(topic).ok_or_else(|| Error::UnknownTopic { topic: topic.into() })?;
    let count = u32::try_from(found.partitions.len()).unwrap_or(u32::MAX);
    let metadata = found.partitions.get(partition.0 as usize);
    let metadata = metadata.ok_or_else(|| Error::UnknownPartition { topic: topic.into(), partition, count })?;
    let leader_epoch = if metadata.status.is_ok() { metadata.leader_epoch } else { LeaderEpoch::UNKNOWN };
    Ok(CommitEntry { topic: found.topic, partition, offset, leader_epoch, generation: Generation(0) })
}

fn about_group(group: &str, error: Error) -> Error {
    match error.status() {
        Some(Status::UnknownGroup) => Error::UnknownGroup { group: group.into() },
        Some(Status::GroupActive) => Error::GroupActive { group: group.into() },
        _ => error,
    }
}
