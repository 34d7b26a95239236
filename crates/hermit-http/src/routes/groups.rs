//! Consumer groups.

use std::collections::HashMap;

use axum::http::StatusCode;
use hermit_broker::Position;
use hermit_broker::proto::session::{AccessOperations, DescribeGroupResponse, GroupPartition, Status};
use hermit_broker::proto::{GroupName, LeaderEpoch, MemberId, Offset, PartitionId, TopicName};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::partitions::at_time;
use crate::answer::Answer;
use crate::auth::Client;
use crate::blocking::{blocking, searching};
use crate::body::Unread;
use crate::params::{Path, Query};
use crate::problem::Problem;
use crate::schema::Page;

/// A group in a list.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GroupLine {
    /// Its name.
    name: String,
    /// `empty`, `stable` or `rebalancing`.
    state: String,
    /// How many members it has.
    members: u32,
    /// How many partitions it has a position of, or a member on.
    partitions: u32,
}

/// A page of groups.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GroupPage {
    /// In the order of their names.
    groups: Vec<GroupLine>,
    /// Whether there are more behind the last one.
    more: bool,
}

/// A member of a group.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct MemberInfo {
    /// Its id.
    member: String,
    /// The name of its client.
    client: String,
    /// Where its connection comes from.
    address: String,
    /// How long it may be silent.
    session_timeout_ms: u32,
    /// How long it may take to give up what it is asked to.
    processing_timeout_ms: u32,
    /// Topics that it asks for by name.
    topics: Vec<String>,
    /// Topics that it asks for by pattern.
    patterns: Vec<String>,
    /// How many partitions it holds.
    partitions: u32,
}

/// A partition of a group.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GroupPartitionInfo {
    /// The topic; empty where it is not there any more.
    topic: String,
    /// The partition.
    partition: u32,
    /// The member that holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    /// The next offset to read, as committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    committed: Option<u64>,
    /// When that was committed, in ns since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    committed_at_ns: Option<u64>,
    /// The oldest offset.
    log_start: u64,
    /// The end of what can be read, exclusive.
    high_watermark: u64,
    /// Messages that are still to be read.
    lag: u64,
    /// How long the first of them has been there.
    lag_ms: u64,
    /// What keeps the partition from being looked at, if anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

/// A group.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GroupInfo {
    /// Its name.
    name: String,
    /// `empty`, `stable` or `rebalancing`.
    state: String,
    /// Its generation.
    generation: u64,
    /// Messages that are still to be read, in all partitions.
    lag: u64,
    /// The longest that a message has waited to be read.
    lag_ms: u64,
    /// Its members.
    members: Vec<MemberInfo>,
    /// Its partitions.
    partitions: Vec<GroupPartitionInfo>,
}

impl GroupInfo {
    fn of(name: String, described: DescribeGroupResponse) -> Self {
        let members = described.members.into_iter().map(|member| MemberInfo {
            member: member.member.to_string(),
            client: member.client,
            address: member.address,
            session_timeout_ms: member.session_timeout_ms,
            processing_timeout_ms: member.processing_timeout_ms,
            topics: member.topics,
            patterns: member.patterns,
            partitions: member.partitions,
        });
        let partitions: Vec<_> = described.partitions.into_iter().map(GroupPartitionInfo::of).collect();
        Self {
            name,
            state: described.state.to_string(),
            generation: described.generation.0,
            lag: partitions.iter().map(|partition| partition.lag).fold(0, u64::saturating_add),
            lag_ms: partitions.iter().map(|partition| partition.lag_ms).max().unwrap_or(0),
            members: members.collect(),
            partitions,
        }
    }
}

impl GroupPartitionInfo {
    fn of(partition: GroupPartition) -> Self {
        Self {
            topic: partition.name,
            partition: partition.partition.0,
            owner: (partition.owner != MemberId::NONE).then(|| partition.owner.to_string()),
            committed: partition.committed.map(|offset| offset.0),
            committed_at_ns: (partition.committed_at > 0).then_some(partition.committed_at),
            log_start: partition.log_start.0,
            high_watermark: partition.high_watermark.0,
            lag: partition.lag,
            lag_ms: partition.lag_ms,
            trouble: (partition.status != Status::Ok).then(|| partition.status.name().to_owned()),
        }
    }
}

/// Lists groups that the client has some right on.
#[utoipa::path(get, path = "/api/v1/groups", tag = "groups", params(Page), responses((status = 200, body = GroupPage), (status = "default", body = Problem)))]
pub(super) async fn list(client: Client, Query(page): Query<Page>) -> Result<Answer<GroupPage>, Problem> {
    let caller = client.caller.clone();
    blocking(move || {
        let listed = caller.list_groups(&page.after, page.most())?;
        let line = |group: hermit_broker::proto::session::ListedGroup| GroupLine {
            name: group.name,
            state: group.state.to_string(),
            members: group.members,
            partitions: group.partitions,
        };
        Ok(Answer(GroupPage { groups: listed.groups.into_iter().map(line).collect(), more: listed.more }))
    })
    .await
}

/// Describes a group: its members, which partitions they hold, and how far behind it is.
#[utoipa::path(get, path = "/api/v1/groups/{group}", tag = "groups", params(("group" = String, Path, description = "Its name")), responses((status = 200, body = GroupInfo), (status = "default", body = Problem)))]
pub(super) async fn describe(client: Client, Path(group): Path<String>) -> Result<Answer<GroupInfo>, Problem> {
    client.caller.check_group(&group, AccessOperations::ADMINISTER)?;
    let (name, caller, broker) = (GroupName::new(&group)?, client.caller.clone(), client.broker.clone());
    blocking(move || {
        let mut described = broker.describe_group(&name)?;
        // Of topics without a right, nothing is told.
        described.partitions.retain(|partition| partition.name.is_empty() || !caller.on_topic(&partition.name).is_empty());
        Ok(Answer(GroupInfo::of(group, described)))
    })
    .await
}

/// Deletes the positions of a group without members.
#[utoipa::path(delete, path = "/api/v1/groups/{group}", tag = "groups", params(("group" = String, Path, description = "Its name")), responses((status = 204), (status = "default", body = Problem)))]
pub(super) async fn delete(client: Client, Path(group): Path<String>) -> Result<StatusCode, Problem> {
    client.caller.check_group(&group, AccessOperations::ADMINISTER)?;
    let (name, broker) = (GroupName::new(&group)?, client.broker.clone());
    let ticket = blocking(move || Ok(broker.delete_group(&name)?)).await?;
    ticket.committed().await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Where a group is to go on.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    /// At the oldest record.
    Earliest,
    /// Behind the newest one.
    Latest,
}

/// Where a group is to go on reading a topic. Of `offset`, `time_ms` and `place` one is to be given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Seek {
    /// The topic.
    topic: String,
    /// The partition; left out: all of them.
    #[serde(default)]
    partition: Option<u32>,
    /// At this offset.
    #[serde(default)]
    offset: Option<u64>,
    /// At the first record that was appended at this time or later, in ms since the Unix epoch.
    #[serde(default)]
    time_ms: Option<u64>,
    /// At either end.
    #[serde(default)]
    place: Option<Place>,
}

/// The positions of a group in a topic, by partition.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Sought {
    /// The next offset to read, by partition.
    positions: HashMap<u32, u64>,
}

/// Moves the positions of a group without members. All of them are moved, or none.
#[utoipa::path(post, path = "/api/v1/groups/{group}/seek", tag = "groups", params(("group" = String, Path, description = "Its name")), request_body = Seek, responses((status = 200, body = Sought), (status = "default", body = Problem)))]
pub(super) async fn seek(mut client: Client, Path(group): Path<String>, body: Unread) -> Result<Answer<Sought>, Problem> {
    client.caller.check_group(&group, AccessOperations::CONSUME)?;
    let seek: Seek = body.json(&client.broker).await?;
    client.check_group_now(&group, AccessOperations::CONSUME)?;
    client.check_topic_now(&seek.topic, AccessOperations::CONSUME)?;
    if [seek.offset.is_some(), seek.time_ms.is_some(), seek.place.is_some()].iter().filter(|given| **given).count() != 1 {
        return Err(Problem::bad("offset", "give one of offset, time_ms and place"));
    }
    let (name, broker) = (GroupName::new_public(&group)?, client.broker.clone());
    // Times are searched for in the log of each partition.
    let (ticket, positions) = searching(&client.broker, move || {
        let topic = broker.topic(&TopicName::new(&seek.topic)?)?;
        let partitions = match seek.partition {
            Some(partition) => std::slice::from_ref(topic.partition(PartitionId(partition))?),
            None => topic.partitions(),
        };
        let mut positions = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let bounds = partition.bounds()?;
            let offset = match (seek.offset, seek.time_ms, seek.place) {
                (Some(offset), ..) => Offset(offset),
                (_, Some(time_ms), _) => Offset(at_time(partition, time_ms)?),
                (.., Some(Place::Latest)) => bounds.high_watermark,
                _ => bounds.log_start,
            };
            let (topic, partition) = (partition.topic(), partition.id());
            positions.push(Position { topic, partition, offset, leader_epoch: LeaderEpoch::UNKNOWN });
        }
        Ok((broker.commit(&name, &positions)?, positions))
    })
    .await?;
    ticket.committed().await?;
    Ok(Answer(Sought { positions: positions.iter().map(|position| (position.partition.0, position.offset.0)).collect() }))
}
