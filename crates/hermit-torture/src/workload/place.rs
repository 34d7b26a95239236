//! Where a client reads or writes, and how fast.

use std::time::Duration;

use hermit_proto::{PartitionId, TopicName};

use crate::check::history::Part;

/// A topic.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Its number in the history.
    pub(super) topic: u16,
    pub(super) name: TopicName,
    /// Partitions that it was created with.
    pub(super) partitions: u32,
    /// Keys of each producer, where records have keys.
    pub(super) keys: Option<u32>,
    /// Whether records go by retention.
    pub(super) bounded: bool,
}

impl Place {
    pub(super) fn part(&self, partition: PartitionId) -> Part {
        Part { topic: self.topic, partition: u16::try_from(partition.0).unwrap_or(u16::MAX) }
    }

    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (0..self.partitions).map(PartitionId)
    }
}

/// How fast, and how large.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Messages a second of one producer.
    pub rate: f64,
    /// Most bytes of a message.
    pub max_bytes: usize,
}

impl Pace {
    /// How long a producer rests behind so many messages, on the average as long as its rate says.
    pub(super) fn rest(&self, random: &mut fastrand::Rng, messages: usize) -> Duration {
        Duration::from_secs_f64(messages as f64 / self.rate.max(0.1) * 2.0 * random.f64())
    }
}
