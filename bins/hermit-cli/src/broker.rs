//! `hermit-cli broker …`

use std::io::{self, Write};

use anyhow::{Context, Result};
use hermit_client::{Client, DescribeBrokerResponse};
use serde_json::{Map, Value, json};

use crate::args::{BrokerCommand, Output};
use crate::quantity::approximate_bytes;
use crate::text::{headings, table};
use crate::time::show_moment;

/// Runs one of the broker commands.
pub(crate) async fn run(client: &Client, command: BrokerCommand, output: Output) -> Result<()> {
    let BrokerCommand::Describe = command;
    let broker = client.admin().describe_broker().await?;
    let mut out = Vec::new();
    match output {
        Output::Text => describe(&broker, &mut out)?,
        Output::Json => writeln!(out, "{}", description(&broker))?,
    }
    io::stdout().write_all(&out).context("standard output")
}

fn describe(broker: &DescribeBrokerResponse, out: &mut impl Write) -> io::Result<()> {
    let facts = [
        ("broker", broker.broker.clone()),
        ("id", format!("{:032x}", broker.broker_id)),
        ("started", show_moment(broker.started_at)),
        ("leader epoch", broker.leader_epoch.to_string()),
        ("topics", broker.topics.to_string()),
        ("partitions", broker.partitions.to_string()),
        ("groups", broker.groups.to_string()),
        ("connections", format!("{} of {}", broker.connections, broker.max_connections)),
        ("in flight", format!("{} of {}", approximate_bytes(broker.inflight_bytes), approximate_bytes(broker.max_inflight_bytes))),
        ("logs", approximate_bytes(broker.log_bytes)),
        ("free on disk", approximate_bytes(broker.free_bytes)),
        ("deleted, held by readers", approximate_bytes(broker.held_bytes)),
    ];
    let rows: Vec<_> = facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    table(out, &rows)?;
    if broker.settings.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut rows = headings(["setting", "value"]);
    rows.extend(broker.settings.iter().map(|setting| vec![setting.name.clone(), setting.value.clone()]));
    table(out, &rows)
}

fn description(broker: &DescribeBrokerResponse) -> Value {
    let settings: Map<_, _> = broker.settings.iter().map(|setting| (setting.name.clone(), setting.value.as_str().into())).collect();
    json!({
        "broker": broker.broker,
        "broker_id": format!("{:032x}", broker.broker_id),
        "instance": broker.instance,
        "leader_epoch": broker.leader_epoch.0,
        "started_at_ns": broker.started_at,
        "topics": broker.topics,
        "partitions": broker.partitions,
        "groups": broker.groups,
        "connections": broker.connections,
        "max_connections": broker.max_connections,
        "inflight_bytes": broker.inflight_bytes,
        "max_inflight_bytes": broker.max_inflight_bytes,
        "log_bytes": broker.log_bytes,
        "free_bytes": broker.free_bytes,
        "held_bytes": broker.held_bytes,
        "settings": settings,
    })
}
