//! What a file says of its topic.

use hermit_client::{Durability, TopicConfig, TopicId};
use serde_json::{Value, json};

/// What a file says of its topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) topic: String,
    pub(crate) id: TopicId,
    pub(crate) partitions: u32,
    pub(crate) config: TopicConfig,
}

impl Head {
    pub(super) fn to_json(&self) -> Value {
        let config = crate::topic::config_json(&self.config);
        json!({ "topic": self.topic, "id": self.id.to_string(), "partitions": self.partitions, "config": config })
    }

    /// `None` for what is no head. Fields that are not known are for later versions to add.
    pub(super) fn from_json(json: &[u8]) -> Option<Self> {
        let head: Value = serde_json::from_slice(json).ok()?;
        let config = &head["config"];
        // `null` is without limit.
        let limit = |name: &str| Some(config[name].as_u64().unwrap_or(u64::MAX));
        Some(Self {
            topic: head["topic"].as_str()?.to_owned(),
            id: head["id"].as_str()?.parse().ok()?,
            partitions: u32::try_from(head["partitions"].as_u64()?).ok()?,
            config: TopicConfig {
                durability: match config["durability"].as_str() {
                    Some("sync") => Some(Durability::Sync),
                    Some("os") => Some(Durability::Os),
                    _ => None,
                },
                compaction: config["compaction"].as_bool(),
                retention_age_ms: limit("retention_age_ms"),
                retention_bytes: limit("retention_bytes"),
                segment_bytes: config["segment_bytes"].as_u64(),
            },
        })
    }
}
