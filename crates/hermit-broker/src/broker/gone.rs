//! What topics that were deleted had counted, so that sums since the start never fall.

use std::sync::Arc;

use super::Broker;
use crate::metrics::PartitionMetrics;
use crate::topic::Topic;

/// Sums of topics that are no more.
#[derive(Debug, Default)]
pub(super) struct Gone {
    sums: Sums,
    /// Those whose logs are being closed, which count on until then.
    closing: Vec<Arc<Topic>>,
}

/// What was stored, and what consumers were given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) appended_records: u64,
    pub(super) appended_bytes: u64,
    pub(super) delivered_records: u64,
    pub(super) delivered_bytes: u64,
}

impl Sums {
    pub(super) fn add(&mut self, partition: &PartitionMetrics) {
        self.appended_records = self.appended_records.saturating_add(partition.log.appended_records);
        self.appended_bytes = self.appended_bytes.saturating_add(partition.log.appended_bytes);
        self.delivered_records = self.delivered_records.saturating_add(partition.delivered_records);
        self.delivered_bytes = self.delivered_bytes.saturating_add(partition.delivered_bytes);
    }

    fn add_topic(&mut self, topic: &Topic) {
        topic.partitions().iter().for_each(|partition| self.add(&partition.metrics()));
    }
}

impl Broker {
    /// Takes a topic out of the registry; its figures stay.
    pub(super) fn unregister(&self, topic: &Arc<Topic>) {
        let mut gone = self.inner.gone.lock();
        self.inner.registry.remove(topic);
        gone.closing.push(Arc::clone(topic));
    }

    /// Its logs are closed, and count nothing more.
    pub(super) fn settle(&self, topic: &Arc<Topic>) {
        let mut gone = self.inner.gone.lock();
        gone.closing.retain(|closing| !Arc::ptr_eq(closing, topic));
        gone.sums.add_topic(topic);
    }

    /// The topics, and what all others had counted: none is in both, nor in neither.
    pub(super) fn topics_and_gone(&self) -> (Vec<Arc<Topic>>, Sums) {
        let gone = self.inner.gone.lock();
        let mut sums = gone.sums;
        gone.closing.iter().for_each(|topic| sums.add_topic(topic));
        (self.topics(), sums)
    }
}
