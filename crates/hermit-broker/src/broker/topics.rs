//! Creating and deleting topics.

use std::sync::Arc;

use hermit_proto::session::TopicConfig;
use hermit_proto::{TopicId, TopicName};

use super::{Broker, Phase};
use crate::error::{BrokerError, Counted};
use crate::events::Event;
use crate::manifest::{Manifest, Record};
use crate::partition::Partition;
use crate::server::Line;
use crate::start::open_topic;
use crate::topic::{Topic, TopicMeta, TopicSettings};

impl Broker {
    /// Creates a topic; 0 partitions stands for the broker's default. When this returns, the topic survives a power cut. Blocks
    /// while the disk syncs.
    ///
    /// # Errors
    /// The name breaks the rule, exists, or is reserved; a setting or the number of partitions is not allowed; the disk refuses.
    pub fn create_topic(&self, name: &str, partitions: u32, config: &TopicConfig) -> Result<Arc<Topic>, BrokerError> {
        let name = TopicName::new_public(name)?;
        let settings = self.live().topic_defaults.for_new_topics().with(config)?;
        let partitions = if partitions == 0 { self.live().default_partitions } else { partitions };
        self.create(name, partitions, settings)
    }

    /// The topic of a name; created with one partition where it is missing and the settings allow. For producers only.
    ///
    /// # Errors
    /// [`BrokerError::UnknownTopic`] where the settings do not allow it, [`BrokerError::ShuttingDown`] where it would have to be created while the broker
    /// stops, and those of [`Broker::create_topic`].
    pub fn topic_for_producer(&self, name: &TopicName, partitions: u32) -> Result<Arc<Topic>, BrokerError> {
        refuse_internal(name)?;
        match self.topic(name) {
            Err(BrokerError::UnknownTopic { .. }) if self.live().create_topics => {}
            found => return found,
        }
        // One request may name many: the stop does not wait for all of them.
        if *self.inner.phase.borrow() >= Phase::Draining {
            return Err(BrokerError::ShuttingDown);
        }
        match self.create(name.clone(), partitions, self.live().topic_defaults.for_new_topics()) {
            // Somebody else was faster.
            Err(BrokerError::TopicExists { .. }) => self.topic(name),
            created => created,
        }
    }

    pub(super) fn create(&self, name: TopicName, partitions: u32, settings: TopicSettings) -> Result<Arc<Topic>, BrokerError> {
        let limits = self.limits_in_force();
        if partitions > limits.max_partitions {
            return Err(BrokerError::TooMany { what: Counted::Partitions, limit: limits.max_partitions.into() });
        }
        let mut manifest = self.manifest()?;
        // Under the lock: the defaults may have been changed since they were looked at.
        let settings = settings.resolved(&self.live().topic_defaults);
        let state = manifest.state();
        if state.by_name(&name).is_some() {
            return Err(BrokerError::TopicExists { topic: name.to_string() });
        }
        let limit = limits.max_total_partitions as u64;
        if state.total_partitions().saturating_add(partitions.into()) > limit {
            return Err(BrokerError::TooMany { what: Counted::TotalPartitions, limit });
        }
        let (id, epoch) = (TopicId(self.inner.ids.next()?), state.epoch);
        let meta = TopicMeta { id, name, partitions, created_at: self.inner.env.clock.now(), settings, revision: 0 };
        manifest.append(&[Record::CreateIntent(meta.clone())])?;
        let disk = &*self.inner.env.disk;
        let topic = match crate::directories::create(disk, &self.config().data_dir, &meta) {
            Ok(()) => open_topic(self.config(), &self.inner.env, self.events(), &meta, epoch),
            Err(error) => return Err(self.undo_create(&mut manifest, &meta, error)),
        };
        if let Some(error) = topic.partitions.iter().find_map(|partition| partition.log().err()) {
            close(&topic.partitions);
            return Err(self.undo_create(&mut manifest, &meta, error));
        }
        if let Err(error) = manifest.append(&[Record::CreateDone(id)]) {
            close(&topic.partitions);
            return Err(self.undo_create(&mut manifest, &meta, error));
        }
        self.inner.registry.insert(&topic);
        drop(manifest);
        if let Line::Write { left_out } = self.lines().created.line() {
            tracing::info!(topic = %topic.meta.name, %id, partitions, left_out, "created a topic");
        }
        // Positions are created within calls of their own, which hold locks.
        if !topic.meta.name.is_internal() {
            self.tell(|| Event::TopicCreated { topic: topic.meta.clone() });
        }
        Ok(topic)
    }

    /// Takes a creation back that failed half-way. What cannot be taken back now is completed at the next start.
    fn undo_create(&self, manifest: &mut Manifest, meta: &TopicMeta, error: BrokerError) -> BrokerError {
        if let Err(undo) = self.remove_recorded(manifest, meta) {
            tracing::error!(topic = %meta.name, error = %crate::error::line(&error), undo = %crate::error::line(&undo), "a topic could not be created, nor its beginnings removed");
        }
        error
    }

    fn remove_recorded(&self, manifest: &mut Manifest, meta: &TopicMeta) -> Result<(), BrokerError> {
        let reserve = &self.inner.reserve;
        reserve.with(|| manifest.append(&[Record::DeleteIntent(meta.id)]))?;
        self.remove_deleted(manifest, meta.id)
    }

    fn remove_deleted(&self, manifest: &mut Manifest, id: TopicId) -> Result<(), BrokerError> {
        // The manifest's own count: it may know of partitions that were being added.
        let partitions = manifest.state().topics.get(&id).map_or(0, |entry| entry.partitions());
        crate::directories::remove(&*self.inner.env.disk, &self.config().data_dir, id, 0..partitions)?;
        self.inner.reserve.with(|| manifest.append(&[Record::DeleteDone(id)]))
    }

    /// Deletes a topic and its data. When this returns, the topic is gone, also after a power cut. Blocks while the disk works.
    ///
    /// # Errors
    /// [`BrokerError::UnknownTopic`], [`BrokerError::InternalTopic`]; the intent cannot be recorded. Data that cannot be removed now are removed
    /// at the next start, which is no error.
    pub fn delete_topic(&self, name: &TopicName) -> Result<(), BrokerError> {
        refuse_internal(name)?;
        let mut manifest = self.manifest()?;
        let topic = self.topic(name)?;
        let id = topic.meta.id;
        self.inner.reserve.with(|| manifest.append(&[Record::DeleteIntent(id)]))?;
        self.unregister(&topic);
        close(&topic.partitions);
        self.settle(&topic);
        if let Err(error) = self.remove_deleted(&mut manifest, id) {
            tracing::error!(topic = %name, error = %crate::error::line(&error), "a deleted topic's data cannot be removed now; the next start will");
        }
        drop(manifest);
        if let Some(offsets) = self.offsets() {
            offsets.forget_topic(id, self.monotonic());
        }
        if let Line::Write { left_out } = self.lines().deleted.line() {
            tracing::info!(topic = %name, %id, left_out, "deleted a topic");
        }
        self.tell(|| Event::TopicDeleted { name: name.clone(), id });
        Ok(())
    }
}

/// Closes partitions whose directories are going to be removed.
pub(super) fn close(partitions: &[Arc<Partition>]) {
    for partition in partitions {
        partition.progress().delete();
        // A closed log writes nothing more, so that its directory stays empty once it has been emptied. That it could not be flushed does
        // not matter any more.
        if let Some(Err(error)) = partition.any_log().map(hermit_log::Log::close) {
            tracing::debug!(topic = %partition.topic(), partition = %partition.id(), error = %crate::error::line(&error), "the log of a deleted partition was not flushed");
        }
    }
}

/// Clients change nothing about the broker's own topics.
pub(crate) fn refuse_internal(name: &TopicName) -> Result<(), BrokerError> {
    if name.is_internal() { Err(BrokerError::InternalTopic { topic: name.to_string() }) } else { Ok(()) }
}
