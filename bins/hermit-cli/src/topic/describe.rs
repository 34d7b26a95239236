//! What is told of a topic.

use std::io::{self, Write};

use hermit_client::{Durability, TopicConfig, TopicMetadata};
use serde_json::{Value, json};

use crate::quantity::{approximate_bytes, show_age_ms, show_bytes};
use crate::text::{headings, table};

const fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Os => "os",
    }
}

/// The settings as rows of a table.
pub(super) fn settings(config: &TopicConfig) -> Vec<Vec<String>> {
    let settings = [
        ("durability", config.durability.map(|value| durability(value).to_owned())),
        ("compaction", config.compaction.map(|on| if on { "on" } else { "off" }.to_owned())),
        ("retention age", config.retention_age_ms.map(show_age_ms)),
        ("retention bytes", config.retention_bytes.map(show_bytes)),
        ("segment bytes", config.segment_bytes.map(show_bytes)),
    ];
    settings.into_iter().filter_map(|(name, value)| value.map(|value| vec![name.to_owned(), value])).collect()
}

/// For people.
pub(super) fn text(topic: &TopicMetadata, out: &mut impl Write) -> io::Result<()> {
    let log_bytes = topic.partitions.iter().map(|partition| partition.log_bytes).fold(0, u64::saturating_add);
    let mut rows = vec![
        vec!["topic".to_owned(), topic.name.clone()],
        vec!["id".to_owned(), topic.topic.to_string()],
        vec!["bytes".to_owned(), approximate_bytes(log_bytes)],
    ];
    rows.extend(settings(&topic.config));
    table(out, &rows)?;
    writeln!(out)?;
    let head = ["partition", "log start", "high watermark", "bytes", "leader epoch", "status"];
    let mut rows = headings(head);
    rows.extend(topic.partitions.iter().map(|partition| {
        vec![
            partition.partition.to_string(),
            partition.log_start.to_string(),
            partition.high_watermark.to_string(),
            approximate_bytes(partition.log_bytes),
            partition.leader_epoch.to_string(),
            partition.status.to_string(),
        ]
    }));
    table(out, &rows)
}

/// For programs.
pub(super) fn json(topic: &TopicMetadata) -> Value {
    let partitions: Vec<_> = topic
        .partitions
        .iter()
        .map(|partition| {
            json!({
                "partition": partition.partition.0,
                "log_start": partition.log_start.0,
                "high_watermark": partition.high_watermark.0,
                "log_bytes": partition.log_bytes,
                "leader_epoch": partition.leader_epoch.0,
                "status": crate::observe::status_word(partition.status),
            })
        })
        .collect();
    json!({ "topic": topic.name, "id": topic.topic.to_string(), "config": config_json(&topic.config), "partitions": partitions })
}

/// `null` is without limit.
pub(crate) fn config_json(config: &TopicConfig) -> Value {
    let limit = |limit: Option<u64>| limit.filter(|limit| *limit != u64::MAX);
    json!({
        "durability": config.durability.map(durability),
        "compaction": config.compaction,
        "retention_age_ms": limit(config.retention_age_ms),
        "retention_bytes": limit(config.retention_bytes),
        "segment_bytes": limit(config.segment_bytes),
    })
}
