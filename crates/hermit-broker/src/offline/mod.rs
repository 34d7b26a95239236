//! A data directory without a broker: which topics and partitions it holds, and what is in their logs.
//!
//! The directory is locked meanwhile, which is the only thing that is written for looking: a broker that runs is told by its process id, and
//! none can start. Topics come from the manifest, and where that is damaged or missing, from the copies in the partitions' directories, as at a
//! start of the broker.
//!
//! ```no_run
//! use hermit_broker::offline::{Check, OfflineDir, Selection};
//!
//! let dir = OfflineDir::open("./hermit-data".as_ref())?;
//! for partition in dir.partitions(&Selection::default())? {
//!     // One partition that cannot be read keeps none of the others from being looked at.
//!     match dir.inspect(&partition, Check::Everything) {
//!         Ok(found) => println!("{} {}: {} damaged ranges", partition.topic, partition.partition, found.damages.len()),
//!         Err(error) => println!("{} {}: {error}", partition.topic, partition.partition),
//!     }
//! }
//! # Ok::<(), hermit_broker::BrokerError>(())
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hermit_log::disk::{DirLock, Disk, RealDisk};
use hermit_log::{LogError, LogIdentity};
use hermit_proto::{LeaderEpoch, Offset, PartitionId, TopicId, TopicName};

pub use hermit_log::inspect::{Check, Frames, Inspected};
pub use hermit_log::repair::{RepairOptions, Repaired};

use crate::error::BrokerError;
use crate::layout;
use crate::manifest::{Damage, Stage};
use crate::start::{self, Looked};
use crate::topic::TopicMeta;

/// A data directory that is open without a broker.
#[derive(Debug)]
pub struct OfflineDir {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    topics: Vec<OfflineTopic>,
    clean: bool,
    damage: Option<Damage>,
    unknown: Vec<String>,
    _lock: Box<dyn DirLock>,
}

/// One topic of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfflineTopic {
    /// What is stored about it.
    pub meta: TopicMeta,
    /// How far its creation or deletion has come.
    pub stage: TopicStage,
    /// Whether the manifest has lost it, and only the copies in its directories know of it.
    pub from_copy: bool,
}

/// How far a topic's creation or deletion has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicStage {
    /// The next start completes its creation.
    Creating,
    /// It is there.
    Live,
    /// The next start completes its deletion.
    Deleting,
}

/// Which partitions are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Those of one topic. Default: of all.
    pub topic: Option<TopicName>,
    /// Those with one number. Default: all.
    pub partition: Option<PartitionId>,
}

/// One partition of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfflinePartition {
    /// The topic's name.
    pub topic: TopicName,
    /// The topic's id.
    pub topic_id: TopicId,
    /// Its number.
    pub partition: PartitionId,
    /// Its directory.
    pub dir: PathBuf,
    /// Whether only the newest record of each key is kept.
    pub compacted: bool,
}

impl OfflinePartition {
    /// What its frames' checksums are tied to.
    #[must_use]
    pub const fn identity(&self) -> LogIdentity {
        LogIdentity { topic: self.topic_id, partition: self.partition }
    }
}

impl OfflineDir {
    /// Opens and locks a data directory.
    ///
    /// # Errors
    /// [`BrokerError::Locked`] names the process that has it, [`BrokerError::NoDataDirectory`], [`BrokerError::NotImported`] for one of an older
    /// HermitMQ, [`BrokerError::NewerFormat`], and [`BrokerError::Io`] where it cannot be read.
    pub fn open(dir: &Path) -> Result<Self, BrokerError> {
        Self::open_on(Arc::new(RealDisk), dir)
    }

    /// [`OfflineDir::open`], on a disk of the caller's.
    ///
    /// # Errors
    /// As [`OfflineDir::open`].
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path) -> Result<Self, BrokerError> {
        let there = disk.exists(dir).map_err(|error| BrokerError::io("look for", dir, error))?;
        // Before the lock: that makes a file.
        if !there || !looks_right(&*disk, dir)? {
            return Err(BrokerError::NoDataDirectory { path: dir.to_owned() });
        }
        let lock = start::lock(&*disk, dir)?;
        let Looked { topics, adopted, clean, damage, unknown, is_fresh } = start::look(&*disk, dir)?;
        crate::import::refuse_old(&*disk, dir, is_fresh)?;
        let mut topics: Vec<_> = topics
            .into_values()
            .map(|entry| OfflineTopic {
                from_copy: adopted.contains(&entry.meta.id),
                stage: match entry.stage {
                    Stage::Creating => TopicStage::Creating,
                    Stage::Live => TopicStage::Live,
                    Stage::Deleting => TopicStage::Deleting,
                },
                meta: entry.meta,
            })
            .collect();
        topics.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
        Ok(Self { disk, dir: dir.to_owned(), topics, clean, damage, unknown, _lock: lock })
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The disk that it is on.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// All topics, the broker's own among them, in the order of their names.
    #[must_use]
    pub fn topics(&self) -> &[OfflineTopic] {
        &self.topics
    }

    /// Whether the last broker stopped cleanly.
    #[must_use]
    pub const fn clean(&self) -> bool {
        self.clean
    }

    /// What is wrong with the manifest.
    #[must_use]
    pub const fn manifest_damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Names of partitions' directories that no topic claims.
    #[must_use]
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// The partitions that a selection means, in the order of names and numbers; those of topics that are being deleted are not among them.
    ///
    /// # Errors
    /// [`BrokerError::UnknownTopic`], [`BrokerError::UnknownPartition`] for what is named and not there.
    pub fn partitions(&self, selection: &Selection) -> Result<Vec<OfflinePartition>, BrokerError> {
        let live = self.topics.iter().filter(|topic| topic.stage != TopicStage::Deleting).map(|topic| &topic.meta);
        let meant: Vec<_> = live.filter(|meta| selection.topic.as_ref().is_none_or(|topic| *topic == meta.name)).collect();
        if let Some(topic) = selection.topic.as_ref().filter(|_topic| meant.is_empty()) {
            return Err(BrokerError::unknown_topic(topic));
        }
        let mut partitions = Vec::new();
        for meta in meant {
            let numbers = match selection.partition {
                Some(partition) if partition.0 < meta.partitions => partition.0..partition.0.saturating_add(1),
                Some(partition) if selection.topic.is_some() => {
                    let (topic, partitions) = (meta.name.to_string(), meta.partitions);
                    return Err(BrokerError::UnknownPartition { topic, partition, partitions });
                }
                Some(_other) => 0..0,
                None => 0..meta.partitions,
            };
            partitions.extend(numbers.map(|number| self.partition(meta, PartitionId(number))));
        }
        Ok(partitions)
    }

    fn partition(&self, meta: &TopicMeta, partition: PartitionId) -> OfflinePartition {
        OfflinePartition {
            topic: meta.name.clone(),
            topic_id: meta.id,
            partition,
            dir: layout::partition_dir(&self.dir, meta.id, partition),
            compacted: meta.settings.compaction,
        }
    }

    /// Looks at a partition's log and all that belongs to it; with [`Check::Everything`] every checksum is verified. Changes nothing.
    ///
    /// # Errors
    /// [`LogError::Io`] where the directory or a file cannot be read. Damage is no error.
    pub fn inspect(&self, partition: &OfflinePartition, check: Check) -> Result<Inspected, LogError> {
        hermit_log::inspect::inspect(&*self.disk, &partition.dir, partition.identity(), check)
    }

    /// The frames of a partition from `from` on, with damaged ranges in their places. Changes nothing.
    ///
    /// # Errors
    /// As [`OfflineDir::inspect`].
    pub fn frames(&self, partition: &OfflinePartition, from: Offset) -> Result<Frames, LogError> {
        hermit_log::inspect::frames(Arc::clone(&self.disk), &partition.dir, partition.identity(), from)
    }

    /// To be called once a backup was put back, before the broker starts on it. What the broker has given out since the backup is in none of its files: the next start would give the same
    /// offsets to other records under the same leader epoch, so that who knows them would read on without a word, and the same producer ids to other producers, whose records could
    /// pass for repetitions. This moves both past whatever can have been given out before `now`, the time since the Unix epoch by the clock of the broker's machine. Gives the leader epoch that the
    /// next start goes beyond. Doing it again does no harm.
    ///
    /// # Errors
    /// [`BrokerError::Io`] where the manifest cannot be read or written, [`BrokerError::NewerFormat`]; [`BrokerError::ClockBehind`] where `now` is before something that the directory
    /// holds: a machine whose clock was not set yet would have all be given out again.
    pub fn move_on(&self, now: Duration) -> Result<LeaderEpoch, BrokerError> {
        let newest = self.newest_time();
        if now < newest {
            return Err(BrokerError::ClockBehind { behind: newest.saturating_sub(now) });
        }
        start::move_on(&self.disk, &self.dir, now)
    }

    /// A time since the Unix epoch at which the broker has run, as late as can be told without reading everything. What cannot be read tells nothing.
    fn newest_time(&self) -> Duration {
        let partitions = self.partitions(&Selection::default()).unwrap_or_default();
        let appended = partitions.iter().filter_map(|partition| {
            hermit_log::inspect::last_segment_time(Arc::clone(&self.disk), &partition.dir, partition.identity()).ok().flatten()
        });
        let created = self.topics.iter().map(|topic| topic.meta.created_at);
        Duration::from_nanos(appended.chain(created).max().unwrap_or_default())
    }

    /// Repairs what is derived, and drops damage where `options` ask for it. What is replaced is kept beside it.
    ///
    /// # Errors
    /// [`LogError::Io`] and [`LogError::DiskFull`]; what is done by then stays done, and the repair can be done again.
    pub fn repair(&self, partition: &OfflinePartition, options: &RepairOptions) -> Result<Repaired, LogError> {
        hermit_log::repair::repair(&*self.disk, &partition.dir, partition.identity(), options)
    }
}

/// Whether there is anything that HermitMQ has made.
fn looks_right(disk: &dyn Disk, dir: &Path) -> Result<bool, BrokerError> {
    for name in [layout::MANIFEST, layout::PARTITIONS, layout::CLEAN, layout::IMPORTING] {
        if disk.exists(&dir.join(name)).map_err(|error| BrokerError::io("look for", dir.join(name), error))? {
            return Ok(true);
        }
    }
    crate::import::is_old(disk, dir)
}
