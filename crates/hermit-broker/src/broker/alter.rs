//! Changing topics that are in use: their settings, their partitions, where they begin.

use std::sync::Arc;

use hermit_proto::session::TopicConfig;
use hermit_proto::{Offset, PartitionId, TopicId, TopicName};

use super::topics::refuse_internal;
use super::{Broker, Phase, topics};
use crate::directories;
use crate::error::{BrokerError, Counted};
use crate::events::Event;
use crate::manifest::{Growth, Manifest, Record};
use crate::partition::Partition;
use crate::server::Line;
use crate::start::open_more;
use crate::topic::{Limit, Topic, TopicMeta, TopicSettings};

impl Broker {
    /// Changes those of a topic's settings that `config` names, for good and at once. Blocks while the disk syncs: also until everything is
    /// flushed that readers were shown, where an answer is going to mean disk.
    ///
    /// # Errors
    /// [`BrokerError::UnknownTopic`], [`BrokerError::InternalTopic`], [`BrokerError::InvalidConfig`]; the disk refuses. Where a partition is read-only the
    /// settings hold all the same, and the error says so.
    pub fn alter_topic(&self, name: &TopicName, config: &TopicConfig) -> Result<Arc<Topic>, BrokerError> {
        refuse_internal(name)?;
        let mut manifest = self.manifest()?;
        let topic = self.topic(name)?;
        let settings = topic.meta.settings.with(config)?.resolved(&self.live().topic_defaults);
        if settings == topic.meta.settings {
            return Ok(topic);
        }
        let meta = topic.meta.altered(settings);
        // From the reserve if need be: a shorter retention is what a full disk may need.
        self.inner.reserve.with(|| manifest.append(&[Record::Alter { id: meta.id, settings }]))?;
        let log_config = settings.log_config(&self.config().log, self.limits().frame_limits());
        let mut failed = None;
        for partition in &topic.partitions {
            partition.set_compacted(settings.compaction);
            if let Some(log) = partition.any_log()
                && let Err(error) = log.set_config(log_config.clone())
            {
                tracing::error!(topic = %name, partition = %partition.id(), error = %crate::error::line(&error), "what readers were shown cannot be flushed");
                failed.get_or_insert(BrokerError::Log(error));
            }
        }
        self.renew_copies(&meta, &topic.partitions);
        let altered = Arc::new(Topic { meta, partitions: topic.partitions.clone() });
        self.inner.registry.insert(&altered);
        drop(manifest);
        if let Line::Write { left_out } = self.lines().altered.line() {
            let TopicSettings { durability, compaction, retention_age_ms, retention_bytes, segment_bytes, .. } = settings;
            let (retention_age_ms, retention_bytes) = (Limit(retention_age_ms), Limit(retention_bytes));
            tracing::info!(topic = %name, ?durability, compaction, %retention_age_ms, %retention_bytes, segment_bytes, left_out, "altered a topic");
        }
        self.tell(|| Event::TopicAltered { topic: altered.meta.clone(), before: topic.meta.settings });
        failed.map_or(Ok(altered), Err)
    }

    /// Gives a topic `partitions` partitions in all. When this returns, they are there, also after a power cut. Keys move to other partitions.
    /// Blocks while the disk syncs.
    ///
    /// # Errors
    /// [`BrokerError::UnknownTopic`], [`BrokerError::InternalTopic`]; [`BrokerError::FewerPartitions`]: they are never removed; [`BrokerError::TooMany`];
    /// the disk refuses.
    pub fn add_partitions(&self, name: &TopicName, partitions: u32) -> Result<Arc<Topic>, BrokerError> {
        refuse_internal(name)?;
        let mut manifest = self.manifest()?;
        let topic = self.topic(name)?;
        let before = topic.meta.partitions;
        self.check_growth(&manifest, &topic.meta, partitions)?;
        if partitions == before {
            return Ok(topic);
        }
        // What an earlier attempt has left, if it could not take that back.
        self.undo_growth(&mut manifest, &topic.meta)?;
        let id = topic.meta.id;
        manifest.append(&[Record::GrowIntent { id, partitions }])?;
        let meta = topic.meta.grown(partitions);
        let added = match self.open_added(&meta, before, manifest.state().epoch) {
            Ok(added) => added,
            Err(error) => return Err(self.give_up_growth(&mut manifest, &topic.meta, error)),
        };
        if let Err(error) = manifest.append(&[Record::GrowDone(id)]) {
            topics::close(&added);
            return Err(self.give_up_growth(&mut manifest, &topic.meta, error));
        }
        self.renew_copies(&meta, &topic.partitions);
        let all = topic.partitions.iter().cloned().chain(added).collect();
        let grown = Arc::new(Topic { meta, partitions: all });
        self.inner.registry.insert(&grown);
        drop(manifest);
        if let Line::Write { left_out } = self.lines().grown.line() {
            tracing::warn!(topic = %name, before, partitions, left_out, "added partitions to a topic: keys move to other partitions from here on");
        }
        self.tell(|| Event::TopicGrown { topic: grown.meta.clone(), before });
        Ok(grown)
    }

    fn renew_copies(&self, meta: &TopicMeta, partitions: &[Arc<Partition>]) {
        let disk = &*self.inner.env.disk;
        let partitions =
            partitions.iter().map(|partition| (partition.id(), partition.any_log().map_or(disk, hermit_log::Log::disk)));
        directories::renew_copies(&self.config().data_dir, meta, partitions);
    }

    fn check_growth(&self, manifest: &Manifest, meta: &TopicMeta, partitions: u32) -> Result<(), BrokerError> {
        if partitions < meta.partitions {
            let (topic, has) = (meta.name.to_string(), meta.partitions);
            return Err(BrokerError::FewerPartitions { topic, partitions, has });
        }
        let limits = self.limits_in_force();
        if partitions > limits.max_partitions && partitions > meta.partitions {
            return Err(BrokerError::TooMany { what: Counted::Partitions, limit: limits.max_partitions.into() });
        }
        let (more, limit) = (u64::from(partitions - meta.partitions), limits.max_total_partitions as u64);
        if more > 0 && manifest.state().total_partitions().saturating_add(more) > limit {
            return Err(BrokerError::TooMany { what: Counted::TotalPartitions, limit });
        }
        Ok(())
    }

    /// Makes and opens the partitions of `meta` from number `from` on.
    fn open_added(
        &self,
        meta: &TopicMeta,
        from: u32,
        epoch: hermit_proto::LeaderEpoch,
    ) -> Result<Vec<Arc<Partition>>, BrokerError> {
        directories::grow(&*self.inner.env.disk, &self.config().data_dir, meta, from..meta.partitions)?;
        let added = open_more(self.config(), &self.inner.env, self.events(), meta, from, epoch);
        match added.iter().find_map(|partition| partition.log().err()) {
            None => Ok(added),
            Some(error) => {
                topics::close(&added);
                Err(error)
            }
        }
    }

    /// Takes a growth back that failed half-way. What cannot be taken back now is dealt with at the next start.
    fn give_up_growth(&self, manifest: &mut Manifest, meta: &TopicMeta, error: BrokerError) -> BrokerError {
        if let Err(undo) = self.undo_growth(manifest, meta) {
            tracing::error!(topic = %meta.name, error = %crate::error::line(&error), undo = %crate::error::line(&undo), "partitions could not be added, nor their beginnings removed");
        }
        error
    }

    fn undo_growth(&self, manifest: &mut Manifest, meta: &TopicMeta) -> Result<(), BrokerError> {
        let (id, reserve) = (meta.id, &self.inner.reserve);
        let growth = |manifest: &Manifest| manifest.state().topics.get(&id).and_then(|entry| entry.growth);
        if let Some(Growth::Growing(_)) = growth(manifest) {
            reserve.with(|| manifest.append(&[Record::GrowUndo(id)]))?;
        }
        let Some(Growth::Undoing(partitions)) = growth(manifest) else { return Ok(()) };
        directories::remove(&*self.inner.env.disk, &self.config().data_dir, id, meta.partitions..partitions)?;
        reserve.with(|| manifest.append(&[Record::GrowUndone(id)]))
    }

    /// Deletes the records of a partition before `offset`; 2⁶⁴−1 stands for the high watermark. Gives the oldest offset afterwards. When this returns,
    /// the records are gone, also after a power cut; space comes free in whole segments, once nobody reads them. Blocks while the disk syncs.
    ///
    /// # Errors
    /// [`BrokerError::UnknownTopic`], [`BrokerError::UnknownPartition`], [`BrokerError::InternalTopic`]; [`BrokerError::Log`] with
    /// [`OutOfRange`](hermit_log::LogError::OutOfRange) beyond the high watermark; the disk refuses.
    pub fn trim(&self, topic: TopicId, partition: PartitionId, offset: Offset) -> Result<Offset, BrokerError> {
        if *self.inner.phase.borrow() >= Phase::Closed {
            return Err(BrokerError::ShuttingDown);
        }
        let partition = self.writable(topic, partition)?;
        let log = partition.log()?;
        let to = if offset.0 == u64::MAX { log.bounds().high_watermark } else { offset };
        let removed = self.inner.reserve.with(|| log.trim(to).map_err(BrokerError::Log))?;
        self.counters().trimmed(removed);
        let log_start = log.bounds().log_start;
        if let Line::Write { left_out } = self.lines().trimmed.line() {
            tracing::info!(%topic, partition = %partition.id(), %log_start, segments = removed.segments, bytes = removed.bytes, left_out, "trimmed a partition");
        }
        Ok(log_start)
    }
}
