//! `hermit-cli topic …`

use std::io::{self, Write};

use anyhow::{Context, Result};
use hermit_client::{Client, Durability, Error, TopicConfig, TopicMetadata};
use serde_json::{Value, json};

use crate::args::{CreateArgs, Output, TopicCommand};
use crate::quantity::{show_age_ms, show_bytes};
use crate::text::table;

/// Runs one of the topic commands.
pub(crate) async fn run(client: &Client, command: TopicCommand, output: Output) -> Result<()> {
    let admin = client.admin();
    let mut out = Vec::new();
    match command {
        TopicCommand::Create(args) => {
            let created = admin.create_topic(&args.topic, args.partitions.unwrap_or(0), config(&args)).await?;
            match output {
                Output::Text => {
                    let plural = if created.partitions == 1 { "" } else { "s" };
                    writeln!(out, "created {} with {} partition{plural}", args.topic, created.partitions)?;
                }
                Output::Json => {
                    let settings = config_json(&created.config);
                    let answer = json!({ "topic": args.topic, "id": created.topic.to_string(), "partitions": created.partitions, "config": settings });
                    writeln!(out, "{answer}")?;
                }
            }
        }
        TopicCommand::List => {
            let topics = admin.list_topics().await?;
            match output {
                Output::Text => {
                    for topic in &topics {
                        writeln!(out, "{}\t{}", topic.name, topic.partitions)?;
                    }
                }
                Output::Json => {
                    for topic in &topics {
                        let line = json!({ "topic": topic.name, "id": topic.topic.to_string(), "partitions": topic.partitions });
                        writeln!(out, "{line}")?;
                    }
                }
            }
        }
        TopicCommand::Describe { topic } => {
            let found = admin.describe_topic(&topic).await.map_err(or_list)?;
            match output {
                Output::Text => describe(&found, &mut out)?,
                Output::Json => writeln!(out, "{}", description(&found))?,
            }
        }
        TopicCommand::Delete { topic } => {
            admin.delete_topic(&topic).await.map_err(or_list)?;
            match output {
                Output::Text => writeln!(out, "deleted {topic}")?,
                Output::Json => writeln!(out, "{}", json!({ "topic": topic, "deleted": true }))?,
            }
        }
    }
    io::stdout().write_all(&out).context("standard output")
}

/// Whoever describes or deletes a topic does not want to create it.
pub(crate) fn or_list(error: Error) -> anyhow::Error {
    match error {
        Error::UnknownTopic { topic } => anyhow::anyhow!("there is no topic `{topic}`; see `hermit-cli topic list`"),
        other => other.into(),
    }
}

fn config(args: &CreateArgs) -> TopicConfig {
    TopicConfig {
        durability: args.settings.durability,
        compaction: args.compaction.then_some(true),
        retention_age_ms: args.settings.retention_age.map(|limit| limit.0),
        retention_bytes: args.settings.retention_bytes.map(|limit| limit.0),
        segment_bytes: args.settings.segment_bytes.map(|limit| limit.0),
    }
}

const fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Os => "os",
    }
}

fn describe(topic: &TopicMetadata, out: &mut impl Write) -> io::Result<()> {
    let config = &topic.config;
    let settings = [
        ("topic", Some(topic.name.clone())),
        ("id", Some(topic.topic.to_string())),
        ("durability", config.durability.map(|value| durability(value).to_owned())),
        ("compaction", config.compaction.map(|on| if on { "yes" } else { "no" }.to_owned())),
        ("retention age", config.retention_age_ms.map(show_age_ms)),
        ("retention bytes", config.retention_bytes.map(show_bytes)),
        ("segment bytes", config.segment_bytes.map(show_bytes)),
    ];
    let rows: Vec<_> = settings.into_iter().filter_map(|(name, value)| value.map(|value| vec![name.to_owned(), value])).collect();
    table(out, &rows)?;
    writeln!(out)?;
    let head = ["partition", "log start", "high watermark", "leader epoch", "status"].map(str::to_owned).to_vec();
    let mut rows = vec![head];
    rows.extend(topic.partitions.iter().map(|partition| {
        vec![
            partition.partition.to_string(),
            partition.log_start.to_string(),
            partition.high_watermark.to_string(),
            partition.leader_epoch.to_string(),
            partition.status.to_string(),
        ]
    }));
    table(out, &rows)
}

fn description(topic: &TopicMetadata) -> Value {
    let partitions: Vec<_> = topic
        .partitions
        .iter()
        .map(|partition| {
            json!({
                "partition": partition.partition.0,
                "log_start": partition.log_start.0,
                "high_watermark": partition.high_watermark.0,
                "leader_epoch": partition.leader_epoch.0,
                "status": partition.status.to_string(),
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
