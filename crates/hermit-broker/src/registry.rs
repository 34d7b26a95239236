//! Which topics are being served: striped maps by name and by id, and a bell that rings when a topic appears.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use hermit_proto::{TopicId, TopicName};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::topic::Topic;

/// More than the threads that look something up at a time.
const STRIPES: usize = 16;

#[derive(Debug)]
struct Striped<K> {
    hasher: RandomState,
    stripes: [RwLock<HashMap<K, Arc<Topic>>>; STRIPES],
}

impl<K: Eq + Hash> Striped<K> {
    fn new() -> Self {
        Self { hasher: RandomState::new(), stripes: std::array::from_fn(|_| RwLock::default()) }
    }

    fn stripe(&self, key: &K) -> &RwLock<HashMap<K, Arc<Topic>>> {
        const { assert!(STRIPES == 16) };
        let [.., low_byte] = self.hasher.hash_one(key).to_be_bytes();
        let [first, ..] = &self.stripes;
        self.stripes.get(usize::from(low_byte & 15)).unwrap_or(first)
    }

    fn get(&self, key: &K) -> Option<Arc<Topic>> {
        self.stripe(key).read().get(key).cloned()
    }
}

/// Who is told when a topic appears, changes or vanishes.
pub(crate) trait TopicListener: fmt::Debug + Send + Sync {
    /// Called after the registry has changed, with the manifest locked: the registry says what is there now.
    fn topic_changed(&self, topic: &Topic);
}

/// The topics that are being served.
#[derive(Debug)]
pub(crate) struct Registry {
    by_name: Striped<TopicName>,
    by_id: Striped<TopicId>,
    /// Counts the topics that have appeared.
    appeared: watch::Sender<u64>,
    /// Counts all changes, each before the listener is told.
    changes: AtomicU64,
    listener: OnceLock<Weak<dyn TopicListener>>,
}

impl Registry {
    pub(crate) fn new() -> Self {
        Self {
            by_name: Striped::new(),
            by_id: Striped::new(),
            appeared: watch::Sender::new(0),
            changes: AtomicU64::new(0),
            listener: OnceLock::new(),
        }
    }

    pub(crate) fn by_name(&self, name: &TopicName) -> Option<Arc<Topic>> {
        self.by_name.get(name)
    }

    pub(crate) fn by_id(&self, id: TopicId) -> Option<Arc<Topic>> {
        self.by_id.get(&id)
    }

    pub(crate) fn insert(&self, topic: &Arc<Topic>) {
        self.by_id.stripe(&topic.meta.id).write().insert(topic.meta.id, Arc::clone(topic));
        let name = topic.meta.name.clone();
        self.by_name.stripe(&name).write().insert(name, Arc::clone(topic));
        self.appeared.send_modify(|count| *count = count.wrapping_add(1));
        self.tell(topic);
    }

    pub(crate) fn remove(&self, topic: &Topic) {
        self.by_name.stripe(&topic.meta.name).write().remove(&topic.meta.name);
        self.by_id.stripe(&topic.meta.id).write().remove(&topic.meta.id);
        self.tell(topic);
    }

    /// Whom to tell of changes from now on. There is one.
    pub(crate) fn set_listener(&self, listener: Weak<dyn TopicListener>) {
        if self.listener.set(listener).is_err() {
            tracing::error!("the registry has a listener already");
        }
    }

    /// How often a topic has appeared, changed or vanished. Take it before looking: as long as it stays the same, what was seen holds, or the listener will be told.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn tell(&self, topic: &Topic) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        if let Some(listener) = self.listener.get().and_then(Weak::upgrade) {
            listener.topic_changed(topic);
        }
    }

    /// Changes whenever a topic appears. Subscribe before looking for the topic.
    pub(crate) fn appearances(&self) -> watch::Receiver<u64> {
        self.appeared.subscribe()
    }

    /// All topics, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Arc<Topic>> {
        let mut topics: Vec<_> =
            self.by_id.stripes.iter().flat_map(|stripe| stripe.read().values().cloned().collect::<Vec<_>>()).collect();
        topics.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
        topics
    }
}
