//! What an import would do: read first, decided then, nothing written.

use std::path::{Path, PathBuf};

use hermit_log::disk::Disk;
use hermit_proto::{FrameLimits, Header, Offset, PartitionId, TopicName};

use super::ImportError;
use super::findings::{Finding, Problem};
use super::old_dir::{self, OldDir, OldPartition};
use super::positions::{Ends, OldPosition, Positions};
use super::walk::{Visitor, Walked, Which, walk};
use crate::config::BrokerConfig;
use crate::offsets::OFFSETS_TOPIC;

/// What a stored frame has more than an old one.
const EXTENSION_BYTES: u64 = (hermit_proto::PREFIX_SIZE - hermit_proto::HEADER_SIZE) as u64;
/// A frame of a committed position, with room for the longest group.
const POSITION_BYTES: u64 = 512;
/// State files and their blocks.
const PARTITION_BYTES: u64 = 64 << 10;

/// What is in an old data directory, and what an import would make of it.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The old data directory.
    pub old_dir: PathBuf,
    /// The data directory to be.
    pub data_dir: PathBuf,
    /// The topics, in the order of their names.
    pub topics: Vec<TopicPlan>,
    /// Committed positions that are taken over.
    pub positions: u64,
    /// Things to be told; they do not keep the import from being done.
    pub findings: Vec<Finding>,
    /// Things to be put right first.
    pub problems: Vec<Problem>,
    /// Bytes that the imported data will take.
    pub need_bytes: u64,
    /// Bytes that must be free besides, so that the broker can work.
    pub margin_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
}

/// One topic of a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPlan {
    /// Its name.
    pub name: TopicName,
    /// Its partitions, in the order of their numbers.
    pub partitions: Vec<PartitionPlan>,
}

/// One partition of a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionPlan {
    /// Its number.
    pub partition: PartitionId,
    /// Its old directory.
    pub dir: PathBuf,
    /// Old segments.
    pub segments: u64,
    /// The first offset, which is that of the old log.
    pub first: Offset,
    /// The offset that comes next.
    pub end: Offset,
    /// Frames to be imported.
    pub frames: u64,
    /// Bytes of their keys and payloads.
    pub body_bytes: u64,
}

impl Plan {
    /// Frames in all partitions.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.partitions().map(|partition| partition.frames).sum()
    }

    /// Bytes of keys and payloads in all partitions.
    #[must_use]
    pub fn body_bytes(&self) -> u64 {
        self.partitions().map(|partition| partition.body_bytes).sum()
    }

    fn partitions(&self) -> impl Iterator<Item = &PartitionPlan> {
        self.topics.iter().flat_map(|topic| &topic.partitions)
    }

    /// Whether an import would be done.
    ///
    /// # Errors
    /// [`ImportError::Problems`], [`ImportError::NoSpace`].
    pub fn check(&self) -> Result<(), ImportError> {
        if !self.problems.is_empty() {
            return Err(ImportError::Problems { problems: self.problems.clone() });
        }
        let Self { need_bytes, margin_bytes, free_bytes, .. } = *self;
        if need_bytes.saturating_add(margin_bytes) > free_bytes {
            return Err(ImportError::NoSpace { path: self.data_dir.clone(), need_bytes, margin_bytes, free_bytes });
        }
        Ok(())
    }
}

/// A plan with what it takes to carry it out.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) old: OldDir,
    pub(super) positions: Vec<OldPosition>,
}

/// Only looks.
struct Count;

impl Visitor for Count {
    const BODIES: bool = false;

    fn skip_to(&mut self, _to: Offset) -> Result<(), ImportError> {
        Ok(())
    }

    fn frame(&mut self, _header: &Header, _body: &[u8]) -> Result<(), ImportError> {
        Ok(())
    }
}

/// Reads the old directory through once.
pub(super) fn make(disk: &dyn Disk, old_dir: &Path, config: &BrokerConfig) -> Result<Planned, ImportError> {
    let listed = old_dir::list(disk, old_dir);
    let mut old = listed.map_err(|(path, error)| ImportError::io("list", path, error))?;
    let limits = config.limits.frame_limits();
    let (mut problems, mut findings) = (std::mem::take(&mut old.problems), std::mem::take(&mut old.findings));
    if old.topics.is_empty() && old.positions.is_none() && problems.is_empty() {
        return Err(ImportError::NothingThere { path: old_dir.to_owned() });
    }
    let mut topics = Vec::new();
    for (name, partitions) in &old.topics {
        let mut planned = Vec::new();
        for (partition, files) in partitions {
            let walked = walk(disk, Which { topic: name, partition: *partition }, files, limits, &mut Count)?;
            planned.push(partition_plan(*partition, files, &walked));
            findings.extend(walked.findings);
            problems.extend(walked.problem);
        }
        topics.push(TopicPlan { name: name.clone(), partitions: planned });
    }
    problems.extend(too_many(&topics, config));
    let read = read_positions(disk, &old, limits, config, &mut findings, &mut problems)?;
    let (positions, of_positions) = read.resolve(&ends(&topics));
    findings.extend(of_positions);
    let mut plan = Plan {
        old_dir: old_dir.to_owned(),
        data_dir: config.data_dir.clone(),
        topics,
        positions: positions.len() as u64,
        findings,
        problems,
        need_bytes: 0,
        margin_bytes: config.limits.disk_high_bytes.saturating_add(config.reserve_bytes),
        free_bytes: free_bytes(disk, &config.data_dir)?,
    };
    plan.need_bytes = need_bytes(&plan);
    Ok(Planned { plan, old, positions })
}

fn partition_plan(partition: PartitionId, files: &OldPartition, walked: &Walked) -> PartitionPlan {
    PartitionPlan {
        partition,
        dir: files.dir.clone(),
        segments: files.segments.len() as u64,
        first: walked.first,
        end: walked.end,
        frames: walked.frames,
        body_bytes: walked.body_bytes,
    }
}

fn too_many(topics: &[TopicPlan], config: &BrokerConfig) -> Vec<Problem> {
    let limits = &config.limits;
    let partitions = |topic: &TopicPlan| topic.partitions.len() as u64;
    let over = topics.iter().filter(|topic| partitions(topic) > limits.max_partitions.into());
    let mut problems: Vec<_> =
        over.map(|topic| Problem::TooManyPartitions { topic: topic.name.clone(), partitions: partitions(topic) }).collect();
    // One more is that of the committed positions.
    let (count, limit) = (topics.iter().map(partitions).sum::<u64>() + 1, limits.max_total_partitions as u64);
    if count > limit {
        problems.push(Problem::TooMany { what: "partitions", count, limit });
    }
    problems
}

fn read_positions(
    disk: &dyn Disk,
    old: &OldDir,
    limits: FrameLimits,
    config: &BrokerConfig,
    findings: &mut Vec<Finding>,
    problems: &mut Vec<Problem>,
) -> Result<Positions, ImportError> {
    let mut positions = Positions::new(config.limits.max_committed_positions);
    if let Some(files) = &old.positions {
        let topic = TopicName::new(OFFSETS_TOPIC).map_err(crate::BrokerError::from)?;
        let walked = walk(disk, Which { topic: &topic, partition: PartitionId(0) }, files, limits, &mut positions)?;
        findings.extend(walked.findings);
        problems.extend(walked.problem);
    }
    problems.extend(positions.problem());
    Ok(positions)
}

/// Where each partition ends.
fn ends(topics: &[TopicPlan]) -> Ends {
    let ends = |topic: &TopicPlan| topic.partitions.iter().map(|partition| partition.end).collect();
    topics.iter().map(|topic| (topic.name.clone(), ends(topic))).collect()
}

/// Frames with their extensions, indexes at 16 bytes for 4 KiB and as much again for what is rounded up, and state files.
fn need_bytes(plan: &Plan) -> u64 {
    let frame_bytes = hermit_proto::HEADER_SIZE as u64 + EXTENSION_BYTES;
    let of = |partition: &PartitionPlan| {
        let log = partition.body_bytes.saturating_add(partition.frames.saturating_mul(frame_bytes));
        log.saturating_add(log / 128).saturating_add(PARTITION_BYTES)
    };
    let topics = plan.partitions().map(of).fold(PARTITION_BYTES, u64::saturating_add);
    topics.saturating_add(plan.positions.saturating_mul(POSITION_BYTES))
}

/// What is free where the data directory is or will be.
fn free_bytes(disk: &dyn Disk, data_dir: &Path) -> Result<u64, ImportError> {
    let mut dir = data_dir;
    loop {
        let there = disk.exists(dir).map_err(|error| ImportError::io("look for", dir, error))?;
        match dir.parent().filter(|_above| !there) {
            Some(above) if above.as_os_str().is_empty() => dir = Path::new("."),
            Some(above) => dir = above,
            None => return disk.free_bytes(dir).map_err(|error| ImportError::io("tell the free space of", dir, error)),
        }
    }
}
