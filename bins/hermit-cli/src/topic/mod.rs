//! `hermit-cli topic …`

mod describe;
mod trim;

use std::io::{self, Write};

use anyhow::{Context, Result};
use hermit_client::{Admin, Client, Error, TopicConfig};
use serde_json::json;

use crate::args::{AddPartitionsArgs, AlterArgs, CreateArgs, Output, Settings, TopicCommand};
use crate::failure::NoTopic;
use crate::text::{counted, table};

pub(crate) use self::describe::config_json;

/// Runs one of the topic commands.
pub(crate) async fn run(client: &Client, command: TopicCommand, output: Output) -> Result<()> {
    let admin = client.admin();
    let mut out = Vec::new();
    match command {
        TopicCommand::Create(args) => create(&admin, &args, output, &mut out).await?,
        TopicCommand::List => list(&admin, output, &mut out).await?,
        TopicCommand::Describe { topic } => {
            let found = admin.describe_topic(&topic).await.map_err(or_list)?;
            match output {
                Output::Text => describe::text(&found, &mut out)?,
                Output::Json => writeln!(out, "{}", describe::json(&found))?,
            }
        }
        TopicCommand::Alter(args) => alter(&admin, &args, output, &mut out).await?,
        TopicCommand::Trim(args) => trim::run(&admin, &args, output, &mut out).await?,
        TopicCommand::AddPartitions(args) => add_partitions(&admin, &args, output, &mut out).await?,
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

/// Whoever looks after a topic does not want to create it.
pub(crate) fn or_list(error: Error) -> anyhow::Error {
    match error {
        Error::UnknownTopic { topic } => NoTopic { topic }.into(),
        other => other.into(),
    }
}

/// As [`or_list`], with the option by its name in `add-partitions`: the protocol's field is `partitions` there too.
fn about_to(error: Error) -> anyhow::Error {
    match &error {
        Error::Refused { source, .. } if &*source.field == "partitions" && !source.message.is_empty() => {
            anyhow::anyhow!("--to: {}", source.message.strip_prefix("`partitions`: ").unwrap_or(&source.message))
        }
        _ => or_list(error),
    }
}

fn config(settings: &Settings, compaction: Option<bool>) -> TopicConfig {
    TopicConfig {
        durability: settings.durability,
        compaction,
        retention_age_ms: settings.retention_age.map(|limit| limit.0),
        retention_bytes: settings.retention_bytes.map(|limit| limit.0),
        segment_bytes: settings.segment_bytes.map(|limit| limit.0),
    }
}

async fn create(admin: &Admin, args: &CreateArgs, output: Output, out: &mut impl Write) -> Result<()> {
    let config = config(&args.settings, args.compaction.then_some(true));
    let created = admin.create_topic(&args.topic, args.partitions.unwrap_or(0), config).await?;
    match output {
        Output::Text => writeln!(out, "created {} with {}", args.topic, counted(created.partitions.into(), "partition"))?,
        Output::Json => {
            let (id, settings) = (created.topic.to_string(), config_json(&created.config));
            let answer = json!({ "topic": args.topic, "id": id, "partitions": created.partitions, "config": settings });
            writeln!(out, "{answer}")?;
        }
    }
    Ok(())
}

async fn list(admin: &Admin, output: Output, out: &mut impl Write) -> Result<()> {
    for topic in admin.list_topics().await? {
        match output {
            Output::Text => writeln!(out, "{}\t{}", crate::text::clean(&topic.name), topic.partitions)?,
            Output::Json => {
                let line = json!({ "topic": topic.name, "id": topic.topic.to_string(), "partitions": topic.partitions });
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

async fn alter(admin: &Admin, args: &AlterArgs, output: Output, out: &mut impl Write) -> Result<()> {
    let altered = admin.alter_topic(&args.topic, config(&args.settings, args.compaction)).await.map_err(or_list)?;
    match output {
        Output::Text => table(out, &describe::settings(&altered))?,
        Output::Json => writeln!(out, "{}", json!({ "topic": args.topic, "config": config_json(&altered) }))?,
    }
    Ok(())
}

async fn add_partitions(admin: &Admin, args: &AddPartitionsArgs, output: Output, out: &mut impl Write) -> Result<()> {
    let before = admin.describe_topic(&args.topic).await.map_err(or_list)?.partitions.len();
    let partitions = admin.add_partitions(&args.topic, args.to).await.map_err(about_to)?;
    match output {
        Output::Text => writeln!(out, "{} has {}", args.topic, counted(partitions.into(), "partition"))?,
        Output::Json => writeln!(out, "{}", json!({ "topic": args.topic, "partitions": partitions }))?,
    }
    if partitions as usize > before {
        let warning =
            "warning: keys move: from now on many keys go to another partition than before, and their order holds only within each";
        writeln!(io::stderr(), "{warning}").context("standard error")?;
    }
    Ok(())
}
