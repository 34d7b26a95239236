//! Commit and FetchCommitted: a consumer group's positions.

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response};
use super::operation::Operation;
use super::partitions;
use super::status::Status;
use crate::ids::{Generation, LeaderEpoch, MemberId, Offset, PartitionId, TopicId};

/// A position to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitEntry {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// The next offset to read.
    pub offset: Offset,
    /// The leader epoch of the last record read; [`LeaderEpoch::UNKNOWN`] where there is none.
    pub leader_epoch: LeaderEpoch,
    /// Since when the partition is the member's, as its assignment said; 0 without a member.
    pub generation: Generation,
}

/// Stores positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRequest {
    /// The group.
    pub group: String,
    /// The positions; each is stored or refused by itself.
    pub entries: Vec<CommitEntry>,
    /// Who commits; [`MemberId::NONE`] where nobody is in the group.
    pub member: MemberId,
}

impl Message for CommitRequest {
    const OPERATION: Operation = Operation::Commit;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("group", &self.group);
        body.list("entries", &self.entries, |body, entry| {
            body.u128(entry.topic.0);
            body.u32(entry.partition.0);
            body.u64(entry.offset.0);
            body.u32(entry.leader_epoch.0);
            body.u64(entry.generation.0);
        });
        body.u128(self.member.0);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let group = body.string("group")?.to_owned();
        let entries = body.list("entries", |item| {
            Ok(CommitEntry {
                topic: TopicId(item.u128("topic")?),
                partition: PartitionId(item.u32("partition")?),
                offset: Offset(item.u64("offset")?),
                leader_epoch: LeaderEpoch(item.u32("leader_epoch")?),
                generation: item.appended(Generation(0), |item| item.u64("generation").map(Generation))?,
            })
        })?;
        let member = body.appended(MemberId::NONE, |body| body.u128("member").map(MemberId))?;
        Ok(Self { group, entries, member })
    }
}

impl Request for CommitRequest {
    type Response = CommitResponse;
}

/// How one position fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitResult {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// [`Status::Ok`]: stored, on disk.
    pub status: Status,
}

/// How the positions fared, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitResponse {
    /// One for each entry.
    pub results: Vec<CommitResult>,
}

impl Message for CommitResponse {
    const OPERATION: Operation = Operation::Commit;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.list("results", &self.results, |body, result| {
            body.u128(result.topic.0);
            body.u32(result.partition.0);
            body.u32(result.status.code());
        });
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let results = body.list("results", |item| {
            Ok(CommitResult {
                topic: TopicId(item.u128("topic")?),
                partition: PartitionId(item.u32("partition")?),
                status: Status::from_code(item.u32("status")?),
            })
        })?;
        Ok(Self { results })
    }
}

impl Response for CommitResponse {}

/// Asks for stored positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchCommittedRequest {
    /// The group.
    pub group: String,
    /// Which partitions.
    pub partitions: Vec<(TopicId, PartitionId)>,
}

impl Message for FetchCommittedRequest {
    const OPERATION: Operation = Operation::FetchCommitted;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.string("group", &self.group);
        partitions::write(body, "partitions", &self.partitions);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self { group: body.string("group")?.to_owned(), partitions: partitions::read(body, "partitions")? })
    }
}

impl Request for FetchCommittedRequest {
    type Response = FetchCommittedResponse;
}

/// A stored position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The topic.
    pub topic: TopicId,
    /// The partition.
    pub partition: PartitionId,
    /// [`Status::Ok`], or why there can be none.
    pub status: Status,
    /// The next offset to read; `None` if the group never committed here.
    pub offset: Option<Offset>,
    /// The leader epoch it was committed under; [`LeaderEpoch::UNKNOWN`] where none is known.
    pub leader_epoch: LeaderEpoch,
}

/// The stored positions, in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchCommittedResponse {
    /// One for each partition asked for.
    pub positions: Vec<CommittedOffset>,
}

impl Message for FetchCommittedResponse {
    const OPERATION: Operation = Operation::FetchCommitted;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.list("positions", &self.positions, |body, position| {
            body.u128(position.topic.0);
            body.u32(position.partition.0);
            body.u32(position.status.code());
            body.optional_u64(position.offset.map(|offset| offset.0));
            body.u32(position.leader_epoch.0);
        });
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        let positions = body.list("positions", |item| {
            Ok(CommittedOffset {
                topic: TopicId(item.u128("topic")?),
                partition: PartitionId(item.u32("partition")?),
                status: Status::from_code(item.u32("status")?),
                offset: item.optional_u64("offset")?.map(Offset),
                leader_epoch: LeaderEpoch(item.u32("leader_epoch")?),
            })
        })?;
        Ok(Self { positions })
    }
}

impl Response for FetchCommittedResponse {}
