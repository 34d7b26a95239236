//! Which failing call may stop what. Whatever is not in these tables goes on: it is read, written, created and deleted as before.

use std::path::Path;

use hermit_log::disk::sim::{Op, Struck};

use crate::world::DIR;

/// What a path is to the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A segment.
    Segment,
    /// Derived, or found again: index, checkpoint, snapshot of producers, the topic's copy, and their forerunners.
    PartitionFile,
    PartitionDir,
    /// Above all partitions.
    Partitions,
    /// The manifest, and what it is rewritten through.
    Manifest,
    DataDir,
    /// The marker of a clean stop, the lock, the reserve.
    Other,
}

pub fn place(path: &Path) -> Place {
    let text = path.to_string_lossy();
    let Some(below) = text.strip_prefix(DIR) else { return Place::DataDir };
    if below.is_empty() {
        return Place::DataDir;
    }
    let Some(in_partitions) = below.strip_prefix("/partitions") else {
        return if below.starts_with("/manifest") { Place::Manifest } else { Place::Other };
    };
    match in_partitions.trim_start_matches('/').split_once('/') {
        _ if in_partitions.is_empty() => Place::Partitions,
        None => Place::PartitionDir,
        Some((_, name)) if name.ends_with(".wal") => Place::Segment,
        Some(_) => Place::PartitionFile,
    }
}

/// What a failure may stop until the next start, while the broker runs. The call that met it may be refused besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stops {
    /// Nothing: the next call of the same kind may succeed.
    Nothing,
    /// That partition takes no more writes; it is read, and all others are as before.
    Partition,
    /// All partitions that took part in a joint sync take no more writes.
    Partitions,
    /// Topics cannot be created, changed or deleted; all are read and written.
    Topics,
}

pub fn stops(struck: &Struck) -> Stops {
    match (struck.op, place(&struck.path)) {
        // A failed sync is final: nobody knows what of it is on the disk. That of a roll's directory decides whether a segment has its name.
        (Op::Sync, Place::Segment) | (Op::SyncDir, Place::PartitionDir) => Stops::Partition,
        (Op::SyncAll, _) => Stops::Partitions,
        (Op::Sync, Place::Manifest) => Stops::Topics,
        // A failed write that cannot be taken back.
        (Op::SetLen, Place::Segment) => Stops::Partition,
        (Op::SetLen, Place::Manifest) => Stops::Topics,
        // The swap of a compaction, half-way: which of two files has the name is not known.
        (Op::Rename | Op::RemoveFile, Place::Segment) => Stops::Partition,
        // The manifest is rewritten: likewise.
        (Op::Rename | Op::Open | Op::Create | Op::Write, Place::Manifest) | (Op::SyncDir, Place::DataDir) => Stops::Topics,
        _ => Stops::Nothing,
    }
}

/// What a failure during a start may stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartStops {
    /// The whole start: nothing is served from a directory that is not understood, and nothing in it is lost by that.
    All,
    /// That partition, and no other.
    Partition,
    Partitions,
}

pub fn start_stops(struck: &Struck) -> StartStops {
    match (struck.op, place(&struck.path)) {
        (Op::SyncAll, _) => StartStops::Partitions,
        (_, Place::Segment | Place::PartitionFile | Place::PartitionDir) => StartStops::Partition,
        (_, Place::Partitions | Place::Manifest | Place::DataDir | Place::Other) => StartStops::All,
    }
}

/// Whether the failure was met in the directory of a partition.
pub fn is_in(struck: &Struck, partition: &Path) -> bool {
    struck.path.starts_with(partition)
}
