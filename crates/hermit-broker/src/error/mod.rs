//! What can go wrong in the broker.

mod wire;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermit_log::LogError;
use hermit_proto::record_set::RecordSetError;
use hermit_proto::session::{AccessOperations, AssignmentStrategy};
use hermit_proto::{Generation, GroupName, LeaderEpoch, MemberId, NameError, Offset, PartitionId, ProducerId, TopicId, UserName};

pub(crate) use hermit_log::error_line as line;
pub(crate) use wire::{status_of, to_wire};

use crate::limits::LimitError;
use crate::manifest::RecordError;

/// An error of the broker.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// Another broker has the data directory.
    #[error(
        "{} is in use by {}: stop it, or choose another data directory", path.display(),
        pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The data directory.
        path: PathBuf,
        /// The process that has it, as far as it can be told.
        pid: Option<u32>,
    },
    /// The system refused a file operation outside the logs.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The data directory was written by a newer release.
    #[error("{} has format {found}, this release reads up to {supported}: start the newer release", path.display())]
    NewerFormat {
        /// The manifest.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest one that is read.
        supported: u32,
    },
    /// The directory is not a data directory.
    #[error("{} is no data directory of HermitMQ: it has neither a manifest nor partitions", path.display())]
    NoDataDirectory {
        /// What was given.
        path: PathBuf,
    },
    /// The directory holds the data of an older HermitMQ, and none of this release.
    #[error(
        "{} holds the data of an older HermitMQ, {}: start hermitd on it, which takes them over, or run `hermit-cli log import`", path.display(),
        if *begun { "whose import did not come to its end" } else { "which were not imported yet" }
    )]
    NotImported {
        /// The data directory.
        path: PathBuf,
        /// Whether an import was begun.
        begun: bool,
    },
    /// The clock cannot be right.
    #[error(
        "the clock of this machine is {} s behind the newest of what is in the directory: set it, and do this again; numbers would be given out twice otherwise",
        behind.as_secs().max(1)
    )]
    ClockBehind {
        /// By how much at least.
        behind: Duration,
    },
    /// Topics cannot be changed until the broker was restarted.
    #[error("the manifest is read-only until a restart: {reason}")]
    ManifestReadOnly {
        /// What went wrong earlier.
        reason: String,
    },
    /// A record that does not fit the manifest: a fault in the broker.
    #[error("the manifest would contradict itself")]
    ManifestRecord(#[source] RecordError),
    /// Limits that do not go together.
    #[error(transparent)]
    Limits(#[from] LimitError),
    /// No topic of that name or id.
    #[error("there is no topic {topic}")]
    UnknownTopic {
        /// Its name or id.
        topic: String,
    },
    /// The topic has no such partition.
    #[error("topic {topic} has {partitions} partitions, and no number {partition}")]
    UnknownPartition {
        /// The topic's name.
        topic: String,
        /// What was asked for.
        partition: PartitionId,
        /// How many there are.
        partitions: u32,
    },
    /// Partitions are never removed.
    #[error("topic {topic} has {has} partitions, and keeps them: ask for more than {has}, not for {partitions}")]
    FewerPartitions {
        /// The topic's name.
        topic: String,
        /// What was asked for.
        partitions: u32,
        /// How many there are.
        has: u32,
    },
    /// A topic of that name exists.
    #[error("topic {topic} exists")]
    TopicExists {
        /// Its name.
        topic: String,
    },
    /// The name breaks the rule for names.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A setting's value is not allowed.
    #[error("`{field}`: {rule}")]
    InvalidConfig {
        /// The setting.
        field: &'static str,
        /// What it has to be.
        rule: String,
    },
    /// The topic is the broker's own.
    #[error("topic {topic} belongs to the broker; clients do not write it")]
    InternalTopic {
        /// Its name.
        topic: String,
    },
    /// A partition could not be opened; the others are served.
    #[error("the partition could not be opened")]
    PartitionDown {
        /// Why.
        #[source]
        source: LogError,
    },
    /// The log refused.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An uncompressed record set that is not what its frame says.
    #[error("frame {index} of the batch: its record set is bad")]
    RecordSet {
        /// Which, from 0.
        index: usize,
        /// What is wrong with it.
        source: Arc<RecordSetError>,
    },
    /// A compacted topic keeps one record for each key, so it takes single records only.
    #[error("frame {index} of the batch: a compacted topic takes single records only")]
    RecordSetNotAllowed {
        /// Which, from 0.
        index: usize,
    },
    /// A hook of the embedder refused it.
    #[error("rejected: {message}")]
    Rejected {
        /// The hook's message.
        message: String,
    },
    /// Free space fell below the threshold.
    #[error("the disk has {free_bytes} free bytes, less than {low_bytes}; free some, and try again")]
    LowSpace {
        /// What is free.
        free_bytes: u64,
        /// What must be.
        low_bytes: u64,
    },
    /// A commit beyond what can be read.
    #[error("offset {offset} lies beyond the high watermark {high_watermark}")]
    CommitBeyondEnd {
        /// As asked for.
        offset: Offset,
        /// The end of what can be read, exclusive.
        high_watermark: Offset,
    },
    /// The position's history was lost: other records are at those offsets now.
    #[error("the position {offset} was made under leader epoch {leader_epoch}, which ended at {end}")]
    Diverged {
        /// The position.
        offset: Offset,
        /// What it was made under.
        leader_epoch: LeaderEpoch,
        /// Where that epoch ended, exclusive.
        end: Offset,
    },
    /// The producer id was never given out here.
    #[error("producer {id} was never given out by this broker")]
    UnknownProducer {
        /// The id.
        id: ProducerId,
    },
    /// The group has neither members nor positions.
    #[error("there is no group {group}")]
    UnknownGroup {
        /// Its name.
        group: GroupName,
    },
    /// The member is not in the group, or not any more.
    #[error("group {group} has no member {member}, or not any more: join again under another id")]
    UnknownMember {
        /// The group.
        group: GroupName,
        /// The member.
        member: MemberId,
    },
    /// A heartbeat tells a version of the assignment that the member was never told.
    #[error("the newest version of this member's assignment is {newest}: tell the one that was taken up")]
    UnknownVersion {
        /// The newest one.
        newest: u64,
    },
    /// The partition is not the member's, or not since that generation.
    #[error("partition {partition} of topic {topic} is not the member's since generation {generation}")]
    StaleGeneration {
        /// The topic.
        topic: TopicId,
        /// The partition.
        partition: PartitionId,
        /// As the member tells.
        generation: Generation,
    },
    /// The group has members.
    #[error("group {group} has members: only they commit, and its positions are not changed otherwise; stop them first")]
    GroupActive {
        /// The group.
        group: GroupName,
    },
    /// The members of a group divide partitions in another way.
    #[error("the members of group {group} ask for the strategy {strategy:?}: ask for the same")]
    InconsistentStrategy {
        /// The group.
        group: GroupName,
        /// The strategy of those that are in it.
        strategy: AssignmentStrategy,
    },
    /// A pattern for names of topics cannot be used.
    #[error("the pattern `{pattern}` cannot be used: {reason}")]
    InvalidPattern {
        /// The pattern; empty where it is too long to be told, or where it is all of them together.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A name in a subscription breaks the rule for names.
    #[error(transparent)]
    SubscribedName {
        /// What is wrong with it.
        source: NameError,
    },
    /// The answer would be larger than clients take.
    #[error("the answer would have {bytes} bytes or more, and {limit_bytes} are allowed")]
    AnswerTooLarge {
        /// At least so many.
        bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// A number that has a limit would pass it.
    #[error("the limit of {limit} {what} is reached")]
    TooMany {
        /// What is counted.
        what: Counted,
        /// The limit.
        limit: u64,
    },
    /// No rule allows it. The words are the same whether or not there is such a thing.
    #[error("no rule allows you `{operation}` on this {}", if *field == "topics" { "topic" } else { field })]
    NotAuthorized {
        /// What would have had to be allowed.
        operation: AccessOperations,
        /// The field that names the resource.
        field: &'static str,
    },
    /// There is no such user.
    #[error("there is no user {user}")]
    UnknownUser {
        /// Its name.
        user: UserName,
    },
    /// There is such a user.
    #[error("there is a user {user} already")]
    UserExists {
        /// Its name.
        user: UserName,
    },
    /// The user has no such token.
    #[error("user {user} has no token {label}")]
    UnknownToken {
        /// The user.
        user: UserName,
        /// The token's label.
        label: String,
    },
    /// The user has such a token.
    #[error("user {user} has a token {label} already: choose another label, or delete that one first")]
    TokenExists {
        /// The user.
        user: UserName,
        /// The token's label.
        label: String,
    },
    /// Nobody would be left who may administer the broker.
    #[error("nobody would be left who can log in and may administer the broker: make another one first")]
    LastAdministrator,
    /// Users and rules cannot be changed until a restart.
    #[error("users and rules are read-only until a restart: {reason}")]
    AccessReadOnly {
        /// What went wrong earlier.
        reason: String,
    },
    /// The broker is stopping.
    #[error("the broker is stopping")]
    ShuttingDown,
    /// The system's source of random numbers failed.
    #[error("no random numbers: {0}")]
    Random(String),
}

/// What has a limit in number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Client connections.
    Connections,
    /// Client connections from one address.
    ConnectionsOfAddress,
    /// Partitions of one topic.
    Partitions,
    /// Partitions of all topics.
    TotalPartitions,
    /// Subscriptions of a session.
    Subscriptions,
    /// Committed positions.
    Positions,
    /// Committed positions of one group.
    GroupPositions,
    /// Bytes that the members of all groups take.
    MembershipBytes,
    /// Ids of idempotent producers.
    Producers,
    /// Members of one group.
    GroupMembers,
    /// Groups with members.
    ActiveGroups,
    /// Topics and patterns that one member subscribes to.
    MemberSubscriptions,
    /// Bytes that the patterns of all members of groups take, compiled.
    PatternBytes,
    /// Users.
    Users,
    /// Tokens of one user.
    Tokens,
    /// Rules of access.
    Rules,
}

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connections => "connections",
            Self::ConnectionsOfAddress => "connections from one address",
            Self::Partitions => "partitions of one topic",
            Self::TotalPartitions => "partitions of all topics",
            Self::Subscriptions => "subscriptions of one session",
            Self::Positions => "committed positions",
            Self::GroupPositions => "committed positions of one group",
            Self::MembershipBytes => "bytes for the members of all groups",
            Self::Producers => "producer ids",
            Self::GroupMembers => "members of one group",
            Self::ActiveGroups => "groups with members",
            Self::MemberSubscriptions => "topics and patterns of one member",
            Self::PatternBytes => "bytes for the patterns of all members, or of all rules",
            Self::Users => "users",
            Self::Tokens => "tokens of one user",
            Self::Rules => "rules",
        })
    }
}

impl BrokerError {
    pub(crate) fn io(operation: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { operation, path: path.into(), source: Arc::new(source) }
    }

    pub(crate) fn unknown_topic(topic: impl ToString) -> Self {
        Self::UnknownTopic { topic: topic.to_string() }
    }

    /// Whether the disk has no space for it.
    pub(crate) fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded),
            Self::Log(LogError::DiskFull { .. }) | Self::LowSpace { .. } => true,
            _ => false,
        }
    }

    /// The error as clients of version 2 are told: its status, the field of the request at fault, and the numbers that belong to it.
    #[must_use]
    pub fn wire(&self) -> hermit_proto::session::WireError {
        to_wire(self)
    }

    /// Whether the same call may succeed later without anybody changing it.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        status_of(self).is_retryable()
    }
}
