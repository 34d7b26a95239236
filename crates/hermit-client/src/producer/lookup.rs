//! What the producer knows of topics: looked up at the first record, and again from time to time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, Weak};

use tokio::time::Instant;

use super::slot::GatherConfig;
use super::topic::TopicSlots;
use super::{Handle, Producer};
use crate::error::{Error, Result};

/// Topics by name. Most records are for the topic of the record before, which is found without its name's hash: a fifteenth of what a record costs.
#[derive(Debug, Default)]
pub(super) struct Topics {
    all: Vec<Arc<TopicSlots>>,
    by_name: HashMap<Arc<str>, usize>,
    /// Where the last one was found.
    last: AtomicUsize,
}

impl Topics {
    #[inline]
    fn get(&self, topic: &str) -> Option<&Arc<TopicSlots>> {
        match self.all.get(self.last.load(Ordering::Relaxed)) {
            Some(last) if *last.name == *topic => Some(last),
            _ => self.find(topic),
        }
    }

    fn find(&self, topic: &str) -> Option<&Arc<TopicSlots>> {
        let at = *self.by_name.get(topic)?;
        self.last.store(at, Ordering::Relaxed);
        self.all.get(at)
    }

    /// Adds a topic, or puts it in the place of what was known under its name.
    fn insert(&mut self, slots: Arc<TopicSlots>) {
        let at = *self.by_name.entry(slots.name.clone()).or_insert(self.all.len());
        match self.all.get_mut(at) {
            Some(place) => std::mem::replace(place, slots).mark_outdated(),
            None => self.all.push(slots),
        }
    }
}

impl Producer {
    /// Looks a topic up now, so that [`Producer::try_enqueue`] can take records for it. Creates it where records would.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::UnknownTopic`], [`Error::Refused`] and [`Error::Timeout`] where it cannot be looked up or created.
    pub async fn prepare(&self, topic: &str) -> Result<()> {
        self.slots(topic).await.map(drop)
    }

    pub(super) async fn slots(&self, topic: &str) -> Result<Arc<TopicSlots>> {
        match self.known(topic) {
            Some(slots) => Ok(slots),
            None => self.look_up(topic).await,
        }
    }

    /// What is known of a topic. Where that may be out of date, it is asked for again in the background.
    pub(super) fn known(&self, topic: &str) -> Option<Arc<TopicSlots>> {
        let handle = &self.handle;
        let slots = {
            let topics = handle.topics.read().unwrap_or_else(PoisonError::into_inner);
            topics.get(topic).filter(|slots| !slots.is_gone()).cloned()?
        };
        self.refresh_if_hinted(&slots);
        Some(slots)
    }

    /// Asks for a topic again in the background, where something hints at a change.
    #[inline]
    pub(super) fn refresh_if_hinted(&self, slots: &Arc<TopicSlots>) {
        if slots.wants_refresh(self.handle.shared.sessions.load(Ordering::Relaxed)) {
            self.refresh_in_background(slots);
        }
    }

    /// Asks for a topic again where what is known of it is old. Looked at when a batch is begun, rather than for each record.
    pub(super) fn refresh_if_old(&self, slots: &Arc<TopicSlots>, now: Instant) {
        if slots.is_old(now, self.handle.settings.metadata_max_age) {
            self.refresh_in_background(slots);
        }
    }

    #[cold]
    fn refresh_in_background(&self, slots: &Arc<TopicSlots>) {
        // What was dropped with the producer is not looked up for it.
        let (admin, handle, slots) = (self.handle.admin.clone(), Arc::downgrade(&self.handle), slots.clone());
        let sessions = self.handle.shared.sessions.load(Ordering::Relaxed);
        let task = async move {
            let found = admin.metadata(&slots.name, false).await;
            if let Some(handle) = Weak::upgrade(&handle) {
                handle.renew(&slots, found, sessions);
            }
            slots.refreshed();
        };
        drop(self.handle.runtime.spawn(task));
    }

    /// Asks for a topic again, now: a record is for a partition that is not known.
    pub(super) async fn refresh(&self, slots: &Arc<TopicSlots>) -> Result<Arc<TopicSlots>> {
        let handle = &*self.handle;
        let _one_at_a_time = handle.lookup.lock().await;
        let sessions = handle.shared.sessions.load(Ordering::Relaxed);
        let found = handle.admin.metadata(&slots.name, false).await?;
        handle.renew(slots, Ok(found), sessions);
        let topics = handle.topics.read().unwrap_or_else(PoisonError::into_inner);
        topics.get(&slots.name).cloned().ok_or_else(|| Error::UnknownTopic { topic: slots.name.clone() })
    }

    pub(super) async fn look_up(&self, topic: &str) -> Result<Arc<TopicSlots>> {
        let handle = &*self.handle;
        let _one_at_a_time = handle.lookup.lock().await;
        if let Some(slots) = self.known(topic) {
            return Ok(slots);
        }
        let settings = &handle.settings;
        let sessions = handle.shared.sessions.load(Ordering::Relaxed);
        let found = handle.admin.metadata(topic, settings.create_topics).await?;
        let limits = settings.link.session(settings.link.deadline()).await?.limits();
        let config = GatherConfig {
            codec: settings.codec,
            zstd_level: settings.zstd_level,
            // A set that is full must fit a frame, whatever the setting says.
            batch_bytes: settings
                .full_batch_bytes()
                .min(limits.max_frame_bytes as usize)
                .min(limits.max_request_bytes as usize / 2),
            linger: settings.linger,
            delivery_timeout: settings.delivery_timeout,
            keyless: settings.keyless,
            limits,
        };
        let slots = Arc::new(TopicSlots::new(topic.into(), &found, None, &handle.shared, config, sessions));
        let mut topics = handle.topics.write().unwrap_or_else(PoisonError::into_inner);
        topics.insert(slots.clone());
        Ok(slots)
    }
}

impl Handle {
    /// Puts what was found in the place of what was known, unless somebody else has done so.
    fn renew(&self, before: &Arc<TopicSlots>, found: Result<hermit_proto::session::TopicMetadata>, sessions: usize) {
        let now_known = match found {
            Ok(found) if found.topic == before.topic => {
                if found.partitions.len() > before.slots.len() {
                    tracing::info!(topic = %before.name, partitions = found.partitions.len(), "the topic has more partitions: keys move");
                }
                TopicSlots::new(before.name.clone(), &found, Some(before), &self.shared, before.config(), sessions)
            }
            // Deleted, and perhaps created again: the next record looks it up.
            Ok(_) | Err(Error::UnknownTopic { .. }) => return before.mark_gone(),
            Err(error) => {
                tracing::debug!(%error, topic = %before.name, "what is known of the topic stays as it is");
                before.checked_now(sessions)
            }
        };
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        if topics.get(&before.name).is_some_and(|known| Arc::ptr_eq(known, before)) {
            topics.insert(Arc::new(now_known));
        }
    }
}
