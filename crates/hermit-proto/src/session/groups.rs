//! DescribeGroup, ListGroups, DeleteGroup: looking after consumer groups.

use std::fmt;

use super::body::{BodyError, BodyReader, BodyWriter};
use super::membership::AssignmentStrategy;
use super::message::{Message, Request, Response, empty_message};
use super::operation::Operation;
use super::status::Status;
use crate::ids::{Generation, MemberId, Offset, PartitionId, TopicId};

/// Where a group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupState {
    /// Nobody is in it; it has committed positions only. Tag 0.
    Empty,
    /// Every partition is where it is meant to be. Tag 1.
    Stable,
    /// Partitions are on their way from one member to another. Tag 2.
    Rebalancing,
}

impl GroupState {
    fn write(self, body: &mut BodyWriter<'_>) {
        body.u8(match self {
            Self::Empty => 0,
            Self::Stable => 1,
            Self::Rebalancing => 2,
        });
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        match body.u8("state")? {
            0 => Ok(Self::Empty),
            1 => Ok(Self::Stable),
            2 => Ok(Self::Rebalancing),
            other => Err(BodyError::BadValue { field: "state", value: other.into(), allowed: "0, 1 or 2" }),
        }
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty",
            Self::Stable => "stable",
            Self::Rebalancing => "rebalancing",
        })
    }
}

/// Asks for the names of groups, in the order of their bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListGroupsRequest {
    /// Begin behind this name; empty: at the first.
    pub after: String,
    /// At most so many; 0: as many as the broker likes.
    pub limit: u32,
}

impl Message for ListGroupsRequest {
    const OPERATION: Operation = Operation::ListGroups;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("after", &self.after);
        body.u32(self.limit);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { after: body.string("after")?.to_owned(), limit: body.u32("limit")? })
    }
}

impl Request for ListGroupsRequest {
    type Response = ListGroupsResponse;
}

/// One line of the list of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: GroupState,
    /// Its members.
    pub members: u32,
    /// Partitions that it has a position of, or a member on.
    pub partitions: u32,
}

/// A page of the list of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListGroupsResponse {
    /// The page.
    pub groups: Vec<ListedGroup>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

impl Message for ListGroupsResponse {
    const OPERATION: Operation = Operation::ListGroups;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.list("groups", &self.groups, |body, listed| {
            body.string("name", &listed.name);
            listed.state.write(body);
            body.u32(listed.members);
            body.u32(listed.partitions);
        });
        body.flag(self.more);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let groups = body.list("groups", |item| {
            Ok(ListedGroup {
                name: item.string("name")?.to_owned(),
                state: GroupState::read(item)?,
                members: item.u32("members")?,
                partitions: item.u32("partitions")?,
            })
        })?;
        Ok(Self { groups, more: body.flag("more")? })
    }
}

impl Response for ListGroupsResponse {}

/// Asks for a group's members, positions and lag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeGroupRequest {
    /// The group.
    pub group: String,
}

impl Message for DescribeGroupRequest {
    const OPERATION: Operation = Operation::DescribeGroup;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("group", &self.group);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { group: body.string("group")?.to_owned() })
    }
}

impl Request for DescribeGroupRequest {
    type Response = DescribeGroupResponse;
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id.
    pub member: MemberId,
    /// The name of its client.
    pub client: String,
    /// Where its connection comes from.
    pub address: String,
    /// Its session timeout.
    pub session_timeout_ms: u32,
    /// Its processing timeout.
    pub processing_timeout_ms: u32,
    /// The topics that it asks for by name.
    pub topics: Vec<String>,
    /// The topics that it asks for by pattern.
    pub patterns: Vec<String>,
    /// How many partitions it holds.
    pub partitions: u32,
}

/// A partition that a group has a position of, or a member on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPartition {
    /// The topic.
    pub topic: TopicId,
    /// Its name.
    pub name: String,
    /// The partition.
    pub partition: PartitionId,
    /// [`Status::Ok`], or what the partition suffers from; the fields below are then 0.
    pub status: Status,
    /// Who holds it; [`MemberId::NONE`]: nobody.
    pub owner: MemberId,
    /// Since which generation; 0 where nobody does.
    pub generation: Generation,
    /// The next offset to read; `None` if the group never committed here.
    pub committed: Option<Offset>,
    /// When that was committed, in ns since the Unix epoch by the broker's clock; 0 if never.
    pub committed_at: u64,
    /// Oldest offset (inclusive).
    pub log_start: Offset,
    /// End of what consumers see (exclusive).
    pub high_watermark: Offset,
    /// Offsets between the position, or the log start where there is none, and the high watermark.
    pub lag: u64,
    /// How long ago the first record at or behind that position was appended; 0 without a lag.
    pub lag_ms: u64,
}

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribeGroupResponse {
    /// Where it stands.
    pub state: GroupState,
    /// Its generation; 0 if nobody is in it.
    pub generation: Generation,
    /// How partitions are divided.
    pub strategy: AssignmentStrategy,
    /// Its members, in the order of their ids.
    pub members: Vec<GroupMember>,
    /// Its partitions, by topic name and number.
    pub partitions: Vec<GroupPartition>,
}

impl Message for DescribeGroupResponse {
    const OPERATION: Operation = Operation::DescribeGroup;

    fn write(&self, body: &mut BodyWriter<'_>) {
        self.state.write(body);
        body.u64(self.generation.0);
        self.strategy.write(body);
        body.list("members", &self.members, |body, member| {
            body.u128(member.member.0);
            body.string("client", &member.client);
            body.string("address", &member.address);
            body.u32(member.session_timeout_ms);
            body.u32(member.processing_timeout_ms);
            body.strings("topics", &member.topics);
            body.strings("patterns", &member.patterns);
            body.u32(member.partitions);
        });
        body.list("partitions", &self.partitions, |body, partition| {
            body.u128(partition.topic.0);
            body.string("name", &partition.name);
            body.u32(partition.partition.0);
            body.u32(partition.status.code());
            body.u128(partition.owner.0);
            body.u64(partition.generation.0);
            body.optional_u64(partition.committed.map(|offset| offset.0));
            body.u64(partition.committed_at);
            body.u64(partition.log_start.0);
            body.u64(partition.high_watermark.0);
            body.u64(partition.lag);
            body.u64(partition.lag_ms);
        });
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            state: GroupState::read(body)?,
            generation: Generation(body.u64("generation")?),
            strategy: AssignmentStrategy::read(body)?,
            members: body.list("members", read_member)?,
            partitions: body.list("partitions", read_partition)?,
        })
    }
}

fn read_member(item: &mut BodyReader<'_>) -> Result<GroupMember, BodyError> {
    Ok(GroupMember {
        member: MemberId(item.u128("member")?),
        client: item.string("client")?.to_owned(),
        address: item.string("address")?.to_owned(),
        session_timeout_ms: item.u32("session_timeout_ms")?,
        processing_timeout_ms: item.u32("processing_timeout_ms")?,
        topics: item.strings("topics")?,
        patterns: item.strings("patterns")?,
        partitions: item.u32("partitions")?,
    })
}

fn read_partition(item: &mut BodyReader<'_>) -> Result<GroupPartition, BodyError> {
    Ok(GroupPartition {
        topic: TopicId(item.u128("topic")?),
        name: item.string("name")?.to_owned(),
        partition: PartitionId(item.u32("partition")?),
        status: Status::from_code(item.u32("status")?),
        owner: MemberId(item.u128("owner")?),
        generation: Generation(item.u64("generation")?),
        committed: item.optional_u64("committed")?.map(Offset),
        committed_at: item.u64("committed_at")?,
        log_start: Offset(item.u64("log_start")?),
        high_watermark: Offset(item.u64("high_watermark")?),
        lag: item.u64("lag")?,
        lag_ms: item.u64("lag_ms")?,
    })
}

impl Response for DescribeGroupResponse {}

/// Deletes all positions of a group that nobody is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteGroupRequest {
    /// The group.
    pub group: String,
}

impl Message for DeleteGroupRequest {
    const OPERATION: Operation = Operation::DeleteGroup;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("group", &self.group);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { group: body.string("group")?.to_owned() })
    }
}

impl Request for DeleteGroupRequest {
    type Response = DeleteGroupResponse;
}

empty_message! {
    /// The positions are gone, and will be after a power cut.
    DeleteGroupResponse, DeleteGroup
}
impl Response for DeleteGroupResponse {}
