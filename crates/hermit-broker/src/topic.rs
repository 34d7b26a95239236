//! What a topic is: identity, settings, and its partitions.

use std::sync::Arc;
use std::time::Duration;

use hermit_log::LogConfig;
use hermit_proto::session::{Durability, TopicConfig};
use hermit_proto::{FrameLimits, PartitionId, TopicId, TopicName};

use crate::error::BrokerError;
use crate::partition::Partition;

/// Stands for "never" in ages and for "no limit" in bytes.
pub const NEVER: u64 = u64::MAX;
/// Stands for "as the broker's default, also when that changes" in the retention that a client asks for, and in what is stored.
pub const AS_BROKER: u64 = u64::MAX - 1;
/// The smallest segment that makes sense: below it a partition is all roll and no log.
pub const MIN_SEGMENT_BYTES: u64 = 64 << 10;
/// Positions within a segment are 32-bit numbers in the index.
pub const MAX_SEGMENT_BYTES: u64 = 2 << 30;

/// All settings of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicSettings {
    /// What an answered message survives. Default: a power cut.
    pub durability: Durability,
    /// Whether only the newest record of each key is kept. Default: no.
    pub compaction: bool,
    /// Milliseconds after its append until a record is deleted; [`NEVER`] is the default.
    pub retention_age_ms: u64,
    /// Bytes of a partition beyond which its oldest segments are deleted; [`NEVER`] is the default.
    pub retention_bytes: u64,
    /// Bytes at which a segment is rolled. Default 256 MiB; between [`MIN_SEGMENT_BYTES`] and [`MAX_SEGMENT_BYTES`]. Retention frees
    /// space in steps of this size.
    pub segment_bytes: u64,
    /// Which of these the topic has not of its own. Default: none; of a new topic, those that its creator does not say.
    pub inherited: Inherited,
}

/// An age or a number of bytes for people: [`NEVER`] is a word there, not a number of twenty digits.
pub(crate) struct Limit(pub(crate) u64);

impl std::fmt::Display for Limit {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == NEVER { out.write_str("never") } else { self.0.fmt(out) }
    }
}

/// The settings of a topic that follow the broker's defaults, also when these change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inherited {
    /// [`TopicSettings::retention_age_ms`].
    pub retention_age: bool,
    /// [`TopicSettings::retention_bytes`].
    pub retention_bytes: bool,
}

impl Default for TopicSettings {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            compaction: false,
            retention_age_ms: NEVER,
            retention_bytes: NEVER,
            segment_bytes: 256 << 20,
            inherited: Inherited::default(),
        }
    }
}

impl TopicSettings {
    /// As settings of a topic whose creator says nothing.
    #[must_use]
    pub const fn for_new_topics(self) -> Self {
        Self { inherited: Inherited { retention_age: true, retention_bytes: true }, ..self }
    }

    /// With the defaults of the broker for what the topic has not of its own.
    #[must_use]
    pub const fn resolved(self, defaults: &Self) -> Self {
        let Inherited { retention_age, retention_bytes } = self.inherited;
        Self {
            retention_age_ms: if retention_age { defaults.retention_age_ms } else { self.retention_age_ms },
            retention_bytes: if retention_bytes { defaults.retention_bytes } else { self.retention_bytes },
            ..self
        }
    }

    /// These settings, but for those that `asked` names. [`AS_BROKER`] for a retention makes it follow the broker's default; its value is then that of
    /// these settings until it is [`resolved`](Self::resolved).
    ///
    /// # Errors
    /// [`BrokerError::InvalidConfig`] names the setting whose value is not allowed.
    pub fn with(self, asked: &TopicConfig) -> Result<Self, BrokerError> {
        let settings = Self {
            durability: asked.durability.unwrap_or(self.durability),
            compaction: asked.compaction.unwrap_or(self.compaction),
            retention_age_ms: asked.retention_age_ms.filter(|age| *age != AS_BROKER).unwrap_or(self.retention_age_ms),
            retention_bytes: asked.retention_bytes.filter(|bytes| *bytes != AS_BROKER).unwrap_or(self.retention_bytes),
            segment_bytes: asked.segment_bytes.unwrap_or(self.segment_bytes),
            inherited: Inherited {
                retention_age: asked.retention_age_ms.map_or(self.inherited.retention_age, |age| age == AS_BROKER),
                retention_bytes: asked.retention_bytes.map_or(self.inherited.retention_bytes, |bytes| bytes == AS_BROKER),
            },
        };
        settings.check()?;
        Ok(settings)
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`BrokerError::InvalidConfig`] names the setting whose value is not allowed.
    pub fn check(&self) -> Result<(), BrokerError> {
        let refuse = |field, rule: String| Err(BrokerError::InvalidConfig { field, rule });
        if !(MIN_SEGMENT_BYTES..=MAX_SEGMENT_BYTES).contains(&self.segment_bytes) {
            return refuse(
                "segment_bytes",
                format!("{} is outside {MIN_SEGMENT_BYTES} to {MAX_SEGMENT_BYTES}", self.segment_bytes),
            );
        }
        if self.retention_age_ms == 0 {
            return refuse("retention_age_ms", "0 would delete all at once; leave it out to keep records for ever".into());
        }
        if self.retention_bytes == 0 {
            return refuse("retention_bytes", "0 would delete all at once; leave it out to keep all bytes".into());
        }
        Ok(())
    }

    /// As they travel in answers.
    #[must_use]
    pub const fn to_wire(self) -> TopicConfig {
        TopicConfig {
            durability: Some(self.durability),
            compaction: Some(self.compaction),
            retention_age_ms: Some(self.retention_age_ms),
            retention_bytes: Some(self.retention_bytes),
            segment_bytes: Some(self.segment_bytes),
        }
    }

    /// As the log takes them, over the broker's own settings for all logs.
    pub(crate) fn log_config(&self, base: &LogConfig, frame_limits: FrameLimits) -> LogConfig {
        LogConfig {
            durability: match self.durability {
                Durability::Sync => hermit_log::Durability::Sync,
                Durability::Os => hermit_log::Durability::Os,
            },
            segment_bytes: self.segment_bytes,
            retention_age: (self.retention_age_ms != NEVER).then(|| Duration::from_millis(self.retention_age_ms)),
            retention_bytes: (self.retention_bytes != NEVER).then_some(self.retention_bytes),
            compaction: self.compaction.then(|| base.compaction.unwrap_or_default()),
            frame_limits,
            ..base.clone()
        }
    }
}

/// What is stored about a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicMeta {
    /// Its id: random, for ever.
    pub id: TopicId,
    /// Its name.
    pub name: TopicName,
    /// How many partitions it has.
    pub partitions: u32,
    /// When it was created, in ns since the Unix epoch by the broker's clock.
    pub created_at: u64,
    /// Its settings.
    pub settings: TopicSettings,
    /// How often it was altered or grown: of two copies of its metadata, the one with the higher number is the newer.
    pub revision: u64,
}

impl TopicMeta {
    /// With the broker's defaults for what the topic has not of its own.
    pub(crate) fn resolved(&self, defaults: &TopicSettings) -> Self {
        Self { settings: self.settings.resolved(defaults), ..self.clone() }
    }

    /// With other settings.
    pub(crate) fn altered(&self, settings: TopicSettings) -> Self {
        Self { settings, revision: self.revision.saturating_add(1), ..self.clone() }
    }

    /// With more partitions.
    pub(crate) fn grown(&self, partitions: u32) -> Self {
        Self { partitions, revision: self.revision.saturating_add(1), ..self.clone() }
    }
}

/// A topic that is being served.
#[derive(Debug)]
pub struct Topic {
    /// What is stored about it.
    pub meta: TopicMeta,
    pub(crate) partitions: Vec<Arc<Partition>>,
}

impl Topic {
    /// A partition.
    ///
    /// # Errors
    /// [`BrokerError::UnknownPartition`] tells how many there are.
    pub fn partition(&self, partition: PartitionId) -> Result<&Arc<Partition>, BrokerError> {
        let index = usize::try_from(partition.0).ok();
        index.and_then(|index| self.partitions.get(index)).ok_or_else(|| BrokerError::UnknownPartition {
            topic: self.meta.name.to_string(),
            partition,
            partitions: self.meta.partitions,
        })
    }

    /// All partitions, in the order of their numbers.
    #[must_use]
    pub fn partitions(&self) -> &[Arc<Partition>] {
        &self.partitions
    }
}
