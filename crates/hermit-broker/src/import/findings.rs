//! What an import finds: things to be told, and things that keep it from being done.

use std::path::PathBuf;

use hermit_proto::{NameError, Offset, PartitionId, TopicName};

use super::segment::Broken;

/// Something that the operator should know. The import goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// The log's last segment ends in something that is no frame: as after a power cut.
    #[error(
        "{}: the last {lost_bytes} bytes are no whole frame ({why}); they are left out, and offset {end} comes next", path.display()
    )]
    TornTail {
        /// The segment's log.
        path: PathBuf,
        /// The first byte that is left out.
        position: u64,
        /// How many bytes are left out.
        lost_bytes: u64,
        /// The offset that comes next.
        end: Offset,
        /// What is wrong there.
        why: Broken,
    },
    /// A segment in the middle of the log is damaged.
    #[error(
        "{}: damaged from byte {position} on ({why}); the {lost_bytes} bytes from there, offsets {from} to {next} (exclusive), are lost",
        path.display()
    )]
    Damaged {
        /// The segment's log.
        path: PathBuf,
        /// The first byte that is left out.
        position: u64,
        /// How many bytes are left out.
        lost_bytes: u64,
        /// The first offset that is lost.
        from: Offset,
        /// The next one that is there.
        next: Offset,
        /// What is wrong there.
        why: Broken,
    },
    /// Between two segments that are sound by themselves offsets are missing.
    #[error("topic {topic}, partition {partition}: offsets {from} to {next} (exclusive) are in no segment")]
    OffsetsMissing {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
        /// The first offset that is missing.
        from: Offset,
        /// The next one that is there.
        next: Offset,
    },
    /// A file or directory that belongs to no partition.
    #[error("{} is no part of a partition; it is left where it is", path.display())]
    Stray {
        /// What it is.
        path: PathBuf,
    },
    /// Committed positions that are not readable.
    #[error("{count} records of the committed positions make no sense and are passed over; the first has offset {first}")]
    PositionsUnreadable {
        /// How many.
        count: u64,
        /// The offset of the first one.
        first: Offset,
    },
    /// A committed position of something that is not there.
    #[error("the committed position {offset} of `{key}` names no topic and partition that is there; it is left out")]
    PositionUnknown {
        /// `group:topic:partition`, as stored.
        key: String,
        /// The position.
        offset: Offset,
    },
    /// A committed position that can be read in several ways.
    #[error("the committed position {offset} of `{key}` can be that of {}; it is left out: commit it again for the right one", candidates.join(" or of "))]
    PositionAmbiguous {
        /// `group:topic:partition`, as stored.
        key: String,
        /// The position.
        offset: Offset,
        /// Each way to read it.
        candidates: Vec<String>,
    },
    /// A committed position of a group whose name is not allowed any more.
    #[error("the committed position {offset} of `{key}` is left out: {source}")]
    PositionGroup {
        /// `group:topic:partition`, as stored.
        key: String,
        /// The position.
        offset: Offset,
        /// What is wrong with the group's name.
        source: NameError,
    },
    /// A committed position beyond the end of its partition.
    #[error("the committed position {offset} of `{key}` lies beyond the end; it becomes {end}")]
    PositionBeyondEnd {
        /// `group:topic:partition`, as stored.
        key: String,
        /// The position.
        offset: Offset,
        /// The end of the partition.
        end: Offset,
    },
}

/// Something that has to be put right first. Nothing is imported before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The topic's name is not allowed any more.
    #[error("{}: {source}; rename the directory, or move it away", dir.display())]
    Name {
        /// The partition's directory.
        dir: PathBuf,
        /// The rule that is broken.
        source: NameError,
    },
    /// The number of a partition is not one that the older broker writes.
    #[error("{}: the partition's number is too large, or not written as the older broker does; rename the directory, or move it away", dir.display())]
    PartitionNumber {
        /// The partition's directory.
        dir: PathBuf,
    },
    /// A number is left out.
    #[error(
        "topic {topic} has a partition {highest} and no partition {missing}: put the directory {topic}_{missing} back (an empty one, if it never held anything)"
    )]
    PartitionMissing {
        /// The topic.
        topic: TopicName,
        /// The first number that is missing.
        missing: PartitionId,
        /// The highest one that is there.
        highest: PartitionId,
    },
    /// An index tells of frames whose log is not there.
    #[error("{} is an index without its log: put the .wal file back, or move the index away to go on without it", index.display())]
    LogMissing {
        /// The index.
        index: PathBuf,
    },
    /// Two segments claim the same offsets.
    #[error("{} begins at an offset that the segment before it has already passed, which ends at {end}: move away the one that is wrong", path.display())]
    Overlap {
        /// The later segment's log.
        path: PathBuf,
        /// The end of the earlier one.
        end: Offset,
    },
    /// A frame is larger than the settings allow.
    #[error(
        "topic {topic}, partition {partition}, offset {offset}: key and payload have {bytes} bytes; set `max_frame_bytes` to at least that"
    )]
    FrameTooLarge {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
        /// The frame.
        offset: Offset,
        /// Its key and payload.
        bytes: u64,
    },
    /// A frame takes more offsets than the settings allow.
    #[error(
        "topic {topic}, partition {partition}, offset {offset}: the frame has {count} records; set `max_record_count` to at least that"
    )]
    TooManyRecords {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
        /// The frame.
        offset: Offset,
        /// Its records.
        count: u32,
    },
    /// A topic has more partitions than the settings allow.
    #[error("topic {topic} has {partitions} partitions; set `max_partitions` to at least that")]
    TooManyPartitions {
        /// The topic.
        topic: TopicName,
        /// How many.
        partitions: u64,
    },
    /// A number has a limit that would be passed.
    #[error("there are {count} {what}, and this broker takes {limit} at most")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// The limit.
        limit: u64,
    },
}
