//! JoinGroup, GroupHeartbeat, LeaveGroup: how a member comes to its partitions, keeps them, and gives them up.
//!
//! The broker decides who owns what. Each answer tells the member the whole set of partitions that it may hold; what it holds besides it must
//! give up — finish, commit, then say so in its next heartbeat. A partition is given to its next owner only when the one before has given
//! it up, or was fenced.

use std::fmt;

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response, empty_message};
use super::operation::Operation;
use super::partitions;
use crate::ids::{Generation, MemberId, PartitionId, TopicId};

/// How partitions are divided among the members of a group. All members ask for the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AssignmentStrategy {
    /// Equal shares over all topics, moving as few partitions as possible. Tag 0.
    #[default]
    Balanced,
    /// Topic by topic, neighbouring partitions to the same member, moving as few as that allows: partitions of the same number of several topics
    /// come to the same member. Tag 1.
    Range,
}

impl AssignmentStrategy {
    pub(super) fn write(self, body: &mut BodyWriter<'_>) {
        body.u8(match self {
            Self::Balanced => 0,
            Self::Range => 1,
        });
    }

    pub(super) fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        match body.u8("strategy")? {
            0 => Ok(Self::Balanced),
            1 => Ok(Self::Range),
            other => Err(BodyError::BadValue { field: "strategy", value: other.into(), allowed: "0 or 1" }),
        }
    }
}

impl fmt::Display for AssignmentStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Balanced => "balanced",
            Self::Range => "range",
        })
    }
}

/// Becomes a member of a group, or changes what a member subscribes to. The same request again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinGroupRequest {
    /// The group.
    pub group: String,
    /// Chosen by the member, at random, above 0. After it was fenced or has left it takes another one.
    pub member: MemberId,
    /// Without a heartbeat for so long the member is fenced; 0: the broker's default.
    pub session_timeout_ms: u32,
    /// What the member was asked to give up and has not after so long, it loses: it is fenced. 0: the broker's default.
    pub processing_timeout_ms: u32,
    /// How partitions are divided.
    pub strategy: AssignmentStrategy,
    /// Names of topics. One that is not there is waited for; it is not created.
    pub topics: Vec<String>,
    /// Regular expressions for whole names of topics, those to come included. Internal topics are not matched.
    pub patterns: Vec<String>,
    /// Partitions that it held as another member, before it was fenced or the broker restarted: it gets them rather than others, if nobody has them.
    pub claims: Vec<(TopicId, PartitionId)>,
}

impl Message for JoinGroupRequest {
    const OPERATION: Operation = Operation::JoinGroup;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("group", &self.group);
        body.u128(self.member.0);
        body.u32(self.session_timeout_ms);
        body.u32(self.processing_timeout_ms);
        self.strategy.write(body);
        body.strings("topics", &self.topics);
        body.strings("patterns", &self.patterns);
        partitions::write(body, "claims", &self.claims);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            group: body.string("group")?.to_owned(),
            member: read_member(body)?,
            session_timeout_ms: body.u32("session_timeout_ms")?,
            processing_timeout_ms: body.u32("processing_timeout_ms")?,
            strategy: AssignmentStrategy::read(body)?,
            topics: body.strings("topics")?,
            patterns: body.strings("patterns")?,
            claims: partitions::read(body, "claims")?,
        })
    }
}

impl Request for JoinGroupRequest {
    type Response = JoinGroupResponse;
}

/// A partition that a member may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AssignedPartition {
    /// The partition.
    pub partition: PartitionId,
    /// The generation since which it is the member's. Commits carry it.
    pub generation: Generation,
}

/// A topic of which a member may hold partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignedTopic {
    /// The topic.
    pub topic: TopicId,
    /// Its name.
    pub name: String,
    /// The partitions, in the order of their numbers.
    pub partitions: Vec<AssignedPartition>,
}

/// All that a member may hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Counts this member's assignments: heartbeats tell which one the member has taken up.
    pub version: u64,
    /// The group's generation when this was told.
    pub generation: Generation,
    /// The partitions, by topic.
    pub topics: Vec<AssignedTopic>,
}

impl Assignment {
    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u64(self.version);
        body.u64(self.generation.0);
        body.list("topics", &self.topics, |body, topic| {
            body.u128(topic.topic.0);
            body.string("name", &topic.name);
            body.list("partitions", &topic.partitions, |body, assigned| {
                body.u32(assigned.partition.0);
                body.u64(assigned.generation.0);
            });
        });
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            version: body.u64("version")?,
            generation: Generation(body.u64("generation")?),
            topics: body.list("topics", |item| {
                Ok(AssignedTopic {
                    topic: TopicId(item.u128("topic")?),
                    name: item.string("name")?.to_owned(),
                    partitions: item.list("partitions", |item| {
                        Ok(AssignedPartition {
                            partition: PartitionId(item.u32("partition")?),
                            generation: Generation(item.u64("generation")?),
                        })
                    })?,
                })
            })?,
        })
    }
}

/// The member is in the group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinGroupResponse {
    /// The session timeout that holds.
    pub session_timeout_ms: u32,
    /// The processing timeout that holds.
    pub processing_timeout_ms: u32,
    /// How often to send heartbeats; also the longest wait that one may ask for.
    pub heartbeat_interval_ms: u32,
    /// What it may hold now.
    pub assignment: Assignment,
}

impl Message for JoinGroupResponse {
    const OPERATION: Operation = Operation::JoinGroup;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u32(self.session_timeout_ms);
        body.u32(self.processing_timeout_ms);
        body.u32(self.heartbeat_interval_ms);
        self.assignment.write(body);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            session_timeout_ms: body.u32("session_timeout_ms")?,
            processing_timeout_ms: body.u32("processing_timeout_ms")?,
            heartbeat_interval_ms: body.u32("heartbeat_interval_ms")?,
            assignment: Assignment::read(body)?,
        })
    }
}

impl Response for JoinGroupResponse {}

/// Says that the member lives and what it holds, and asks what it may hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupHeartbeatRequest {
    /// The group.
    pub group: String,
    /// The member.
    pub member: MemberId,
    /// The version of the assignment that it has taken up: it holds nothing that this did not name.
    pub version: u64,
    /// What it holds: what `version` named, and what it was asked to give up and has not.
    pub owned: Vec<(TopicId, PartitionId)>,
    /// How long the answer may wait for an assignment that is newer than `version`; 0: not at all. A newer heartbeat of the member ends the wait.
    pub wait_ms: u32,
}

impl Message for GroupHeartbeatRequest {
    const OPERATION: Operation = Operation::GroupHeartbeat;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("group", &self.group);
        body.u128(self.member.0);
        body.u64(self.version);
        partitions::write(body, "owned", &self.owned);
        body.u32(self.wait_ms);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            group: body.string("group")?.to_owned(),
            member: read_member(body)?,
            version: body.u64("version")?,
            owned: partitions::read(body, "owned")?,
            wait_ms: body.u32("wait_ms")?,
        })
    }
}

impl Request for GroupHeartbeatRequest {
    type Response = GroupHeartbeatResponse;
}

/// What the member may hold now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupHeartbeatResponse {
    /// All of it.
    pub assignment: Assignment,
}

impl Message for GroupHeartbeatResponse {
    const OPERATION: Operation = Operation::GroupHeartbeat;

    fn write(&self, body: &mut BodyWriter<'_>) {
        self.assignment.write(body);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { assignment: Assignment::read(body)? })
    }
}

impl Response for GroupHeartbeatResponse {}

/// Leaves the group at once; what the member held is free. Commit before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveGroupRequest {
    /// The group.
    pub group: String,
    /// The member.
    pub member: MemberId,
}

impl Message for LeaveGroupRequest {
    const OPERATION: Operation = Operation::LeaveGroup;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("group", &self.group);
        body.u128(self.member.0);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { group: body.string("group")?.to_owned(), member: read_member(body)? })
    }
}

impl Request for LeaveGroupRequest {
    type Response = LeaveGroupResponse;
}

empty_message! {
    /// The member is not in the group any more.
    LeaveGroupResponse, LeaveGroup
}
impl Response for LeaveGroupResponse {}

/// A member of a group: 0 is nobody.
fn read_member(body: &mut BodyReader<'_>) -> Result<MemberId, BodyError> {
    let member = MemberId(body.u128("member")?);
    if member.is_some() { Ok(member) } else { Err(BodyError::BadValue { field: "member", value: 0, allowed: "above 0" }) }
}
