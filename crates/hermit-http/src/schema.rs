//! What goes over the wire as JSON, but for records.

use hermit_broker::proto::session::{Durability, TopicConfig};
use hermit_broker::{NEVER, Topic, TopicSettings};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// What an answered message survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DurabilityName {
    /// A power cut.
    Sync,
    /// A crash of the broker, not of the machine.
    Os,
}

/// Settings of a topic. What is left out is the broker's default, or stays as it is.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// What an answered message survives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) durability: Option<DurabilityName>,
    /// Whether only the newest record of each key is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compaction: Option<bool>,
    /// Milliseconds after which records are deleted; 18446744073709551615, or not told: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retention_age_ms: Option<u64>,
    /// Bytes of a partition beyond which its oldest segments are deleted; 18446744073709551615, or not told: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retention_bytes: Option<u64>,
    /// Bytes at which a segment is rolled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) segment_bytes: Option<u64>,
}

impl Settings {
    pub(crate) fn to_config(&self) -> TopicConfig {
        TopicConfig {
            durability: self.durability.map(|name| match name {
                DurabilityName::Sync => Durability::Sync,
                DurabilityName::Os => Durability::Os,
            }),
            compaction: self.compaction,
            retention_age_ms: self.retention_age_ms,
            retention_bytes: self.retention_bytes,
            segment_bytes: self.segment_bytes,
        }
    }

    fn of(settings: TopicSettings) -> Self {
        let unless_never = |value: u64| (value != NEVER).then_some(value);
        Self {
            durability: Some(match settings.durability {
                Durability::Sync => DurabilityName::Sync,
                Durability::Os => DurabilityName::Os,
            }),
            compaction: Some(settings.compaction),
            retention_age_ms: unless_never(settings.retention_age_ms),
            retention_bytes: unless_never(settings.retention_bytes),
            segment_bytes: Some(settings.segment_bytes),
        }
    }
}

/// A topic to be created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewTopic {
    /// Its name.
    pub(crate) name: String,
    /// How many partitions; left out: the broker's default.
    #[serde(default)]
    pub(crate) partitions: u32,
    /// Its settings.
    #[serde(default)]
    pub(crate) settings: Settings,
}

/// What is to change of a topic.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopicChange {
    /// How many partitions it shall have in all, at least as many as now. Keys move to other partitions.
    #[serde(default)]
    pub(crate) partitions: Option<u32>,
    /// Settings that change.
    #[serde(default)]
    pub(crate) settings: Settings,
}

/// A topic.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TopicInfo {
    /// Its name.
    name: String,
    /// Its id: 32 hexadecimal digits, never used again.
    id: String,
    /// How many partitions it has.
    partition_count: u32,
    /// Nanoseconds since the Unix epoch.
    created_at_ns: u64,
    /// Its settings.
    settings: Settings,
    /// Its partitions; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    partitions: Option<Vec<PartitionInfo>>,
}

impl TopicInfo {
    pub(crate) fn of(topic: &Topic) -> Self {
        let meta = &topic.meta;
        Self {
            name: meta.name.to_string(),
            id: meta.id.to_string(),
            partition_count: meta.partitions,
            created_at_ns: meta.created_at,
            settings: Settings::of(meta.settings),
            partitions: None,
        }
    }

    pub(crate) fn with_partitions(topic: &Topic) -> Self {
        let partitions = topic.partitions().iter().map(|partition| PartitionInfo::of(partition));
        Self { partitions: Some(partitions.collect()), ..Self::of(topic) }
    }
}

/// A partition.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PartitionInfo {
    /// Its number.
    partition: u32,
    /// The oldest offset, inclusive.
    log_start: u64,
    /// The end of what consumers see, exclusive.
    high_watermark: u64,
    /// The end of the log, exclusive: what is behind the high watermark is on its way to the disk.
    log_end: u64,
    /// Bytes of its files.
    log_bytes: u64,
    /// What keeps it from being written, or read, if anything does.
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

impl PartitionInfo {
    pub(crate) fn of(partition: &hermit_broker::Partition) -> Self {
        let log = partition.log().ok();
        let bounds = log.map(hermit_broker::log::Log::bounds).unwrap_or_default();
        Self {
            partition: partition.id().0,
            log_start: bounds.log_start.0,
            high_watermark: bounds.high_watermark.0,
            log_end: bounds.log_end.0,
            log_bytes: log.map_or(0, hermit_broker::log::Log::size_bytes),
            trouble: partition.trouble().map(|error| error.wire().message),
        }
    }
}

/// A page of topics.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TopicPage {
    /// In the order of their names.
    pub(crate) topics: Vec<TopicInfo>,
    /// Whether there are more behind the last one.
    pub(crate) more: bool,
}

/// Which part of a list is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Begin behind this name.
    #[serde(default)]
    pub(crate) after: String,
    /// At most so many, and at most 1,000.
    pub(crate) limit: Option<usize>,
}

/// Most entries of one page.
pub(crate) const MOST_ON_PAGE: usize = 1000;

impl Page {
    pub(crate) fn most(&self) -> usize {
        self.limit.unwrap_or(MOST_ON_PAGE).clamp(1, MOST_ON_PAGE)
    }
}

/// Up to where a partition is to be trimmed.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trim {
    /// Records before this offset go; left out: all that can be read.
    pub(crate) before: Option<u64>,
}

/// Where a partition begins now.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Trimmed {
    /// The oldest offset.
    pub(crate) log_start: u64,
}

/// What was stored in one partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct StoredPart {
    /// The partition.
    pub(crate) partition: u32,
    /// The offset of the first of the records there; the others follow it, in the order of the request.
    pub(crate) base_offset: u64,
    /// Behind the last one.
    pub(crate) next_offset: u64,
}

/// What was stored. It is as durable as the topic promises.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Stored {
    /// By partition.
    pub(crate) partitions: Vec<StoredPart>,
}
