//! Doing it: one commit point, which is the manifest.

use std::path::Path;
use std::sync::Arc;

use hermit_log::LogEnv;
use hermit_log::disk::{DirLock, Disk};
use hermit_proto::{PartitionId, TopicId, TopicName};

use super::copy::{self, Copy};
use super::marker::{self, Marker};
use super::plan::{self, Plan, Planned, TopicPlan};
use super::walk::{Which, walk};
use super::{ImportError, Progress};
use crate::broker::offsets_settings;
use crate::config::BrokerConfig;
use crate::error::BrokerError;
use crate::ids::Ids;
use crate::layout;
use crate::manifest::{self, Manifest, Record, State};
use crate::offsets::OFFSETS_TOPIC;
use crate::start;
use crate::topic::TopicMeta;

/// Imports into a data directory that holds no broker yet. Gives the plan that was carried out.
pub(super) fn run(
    old_dir: &Path,
    config: &BrokerConfig,
    env: &LogEnv,
    tell: &mut dyn FnMut(&Progress<'_>),
) -> Result<Plan, ImportError> {
    let disk = &*env.disk;
    let _lock = take(disk, &config.data_dir)?;
    check_vacant(env, config, old_dir)?;
    let planned = plan::make(disk, old_dir, config)?;
    planned.plan.check()?;
    let ids = Ids::new(config.id_seed.map(|seed| !seed));
    let import = Import { config, env, ids, planned: &planned };
    let topics = import.metas()?;
    let begun = Marker::new(old_dir, &config.data_dir, topics.iter().map(|meta| meta.id).collect());
    marker::write(disk, &config.data_dir, &begun)?;
    match import.fill(&topics, tell) {
        Ok(()) => Ok(planned.plan),
        Err(error) => {
            // Where this fails too, the next start does it.
            if !has_manifest(disk, &config.data_dir)?
                && let Err(left) = marker::take_back(disk, &config.data_dir, &begun)
            {
                tracing::warn!(error = %left, "what the failed import has written cannot be removed now");
            }
            Err(error)
        }
    }
}

/// Creates and locks the data directory.
fn take(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DirLock>, ImportError> {
    Ok(start::create_and_lock(disk, dir)?)
}

fn has_manifest(disk: &dyn Disk, data_dir: &Path) -> Result<bool, ImportError> {
    let path = data_dir.join(layout::MANIFEST);
    disk.exists(&path).map_err(|error| ImportError::io("look for", path, error))
}

/// No broker has ever been there. What an interrupted import has left is removed.
fn check_vacant(env: &LogEnv, config: &BrokerConfig, old_dir: &Path) -> Result<(), ImportError> {
    let (disk, data_dir) = (&*env.disk, config.data_dir.as_path());
    let occupied = || ImportError::Occupied { path: data_dir.to_owned() };
    if has_manifest(disk, data_dir)? {
        return Err(occupied());
    }
    if let Some(begun) = marker::read(disk, data_dir)? {
        if !begun.is_from(old_dir, data_dir) {
            return Err(ImportError::OtherBegun { path: data_dir.to_owned(), from: begun.from(data_dir) });
        }
        tracing::warn!(dir = %data_dir.display(), "an earlier import did not come to its end; it begins anew");
        marker::take_back(disk, data_dir, &begun)?;
    }
    let clean = data_dir.join(layout::CLEAN);
    let stopped = disk.exists(&clean).map_err(|error| ImportError::io("look for", clean, error))?;
    // A manifest that was lost: its broker makes it good.
    if stopped || copy::holds_partitions(env, data_dir)? { Err(occupied()) } else { Ok(()) }
}

struct Import<'a> {
    config: &'a BrokerConfig,
    env: &'a LogEnv,
    ids: Ids,
    planned: &'a Planned,
}

impl Import<'_> {
    /// The topics to be, the committed positions last.
    fn metas(&self) -> Result<Vec<TopicMeta>, ImportError> {
        let created_at = self.env.clock.now();
        let meta = |name, partitions, settings| -> Result<TopicMeta, BrokerError> {
            Ok(TopicMeta { id: TopicId(self.ids.next()?), name, partitions, created_at, settings, revision: 0 })
        };
        let partitions = |topic: &TopicPlan| u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
        let topics = self.planned.plan.topics.iter();
        let mut metas = topics
            .map(|topic| meta(topic.name.clone(), partitions(topic), self.config.topic_defaults.for_new_topics()))
            .collect::<Result<Vec<_>, _>>()?;
        let positions = TopicName::new(OFFSETS_TOPIC).map_err(BrokerError::from)?;
        metas.push(meta(positions, 1, offsets_settings())?);
        Ok(metas)
    }

    /// Writes everything; the manifest, which makes it count, comes last.
    fn fill(&self, metas: &[TopicMeta], tell: &mut dyn FnMut(&Progress<'_>)) -> Result<(), ImportError> {
        let (disk, data_dir) = (&*self.env.disk, self.config.data_dir.as_path());
        let partitions = layout::partitions_dir(data_dir);
        disk.create_dir_all(&partitions).map_err(|error| ImportError::io("create", &partitions, error))?;
        disk.sync_dir(data_dir).map_err(|error| ImportError::io("sync", data_dir, error))?;
        let mut done_bytes = 0;
        for (topic, meta) in self.planned.plan.topics.iter().zip(metas) {
            crate::directories::create(disk, data_dir, meta)?;
            self.topic(topic, meta, &mut done_bytes, tell)?;
        }
        if let Some(meta) = metas.last() {
            crate::directories::create(disk, data_dir, meta)?;
            let log = copy::open(self.config, self.env, meta, PartitionId(0))?;
            let id_of = |name: &TopicName| metas.iter().find(|meta| meta.name == *name).map(|meta| meta.id);
            let now = self.env.clock.now();
            copy::write_positions(&log, &self.planned.positions, |position| id_of(&position.topic), now)?;
        }
        self.conclude(metas)
    }

    fn topic(
        &self,
        topic: &TopicPlan,
        meta: &TopicMeta,
        done_bytes: &mut u64,
        tell: &mut dyn FnMut(&Progress<'_>),
    ) -> Result<(), ImportError> {
        let Some(old) = self.planned.old.topics.get(&topic.name) else { return Ok(()) };
        let total_bytes = self.planned.plan.body_bytes();
        for (planned, files) in topic.partitions.iter().zip(old.values()) {
            let partition = planned.partition;
            let log = copy::open(self.config, self.env, meta, partition)?;
            let told = Progress { topic: &topic.name, partition, done_bytes: *done_bytes, total_bytes };
            tell(&told);
            let mut copy = Copy::new(&log, told, tell);
            let which = Which { topic: &topic.name, partition };
            let limits = self.config.limits.frame_limits();
            let walked = walk(&*self.env.disk, which, files, limits, &mut copy)?;
            *done_bytes = copy.finish()?;
            let same = (walked.end, walked.frames, walked.body_bytes) == (planned.end, planned.frames, planned.body_bytes);
            let arrived = log.bounds().log_end == planned.end;
            if !same || !arrived || self.has_grown(files)? {
                return Err(ImportError::Changed { topic: topic.name.clone(), partition });
            }
        }
        Ok(())
    }

    /// Whether somebody has written to the old partition since it was listed.
    fn has_grown(&self, files: &super::old_dir::OldPartition) -> Result<bool, ImportError> {
        for segment in &files.segments {
            let path = files.wal(segment);
            let len = self.env.disk.file_len(&path).map_err(|error| ImportError::io("tell the size of", &path, error))?;
            if len != segment.len_bytes {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The commit point, and what follows from it.
    fn conclude(&self, metas: &[TopicMeta]) -> Result<(), ImportError> {
        let (disk, data_dir) = (&*self.env.disk, self.config.data_dir.as_path());
        let mut state = State::begin(self.ids.next()?, copy::EPOCH);
        for meta in metas {
            for record in [Record::CreateIntent(meta.clone()), Record::CreateDone(meta.id)] {
                state.apply(record).map_err(BrokerError::ManifestRecord)?;
            }
        }
        let path = data_dir.join(layout::MANIFEST);
        let created = Manifest::create(Arc::clone(&self.env.disk), data_dir, state);
        created.map_err(|error| ImportError::io("write", &path, error))?;
        let marker = data_dir.join(layout::IMPORTING);
        marker::remove(disk, data_dir).map_err(|error| ImportError::io("remove", marker, error))?;
        // Everything was flushed and closed: as after a clean stop.
        let bytes = manifest::load(disk, data_dir).map_err(|error| ImportError::io("read", &path, error))?;
        let clean = data_dir.join(layout::CLEAN);
        start::clean::write(disk, data_dir, &bytes.unwrap_or_default()).map_err(|error| ImportError::io("write", clean, error))
    }
}
