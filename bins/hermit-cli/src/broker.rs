//! `hermit-cli broker …`

use std::io::{self, Write};

use anyhow::{Context, Result};
use hermit_client::{BrokerFigures, Client, DescribeBrokerResponse, ScrubFigures};
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
    let mut rows: Vec<_> = facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    if let Some(figures) = &broker.figures {
        rows.extend(figures_rows(figures).into_iter().map(|(name, value)| vec![name.to_owned(), value]));
    }
    table(out, &rows)?;
    if broker.settings.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let mut rows = headings(["setting", "value"]);
    rows.extend(broker.settings.iter().map(|setting| vec![setting.name.clone(), setting.value.clone()]));
    table(out, &rows)
}

fn figures_rows(figures: &BrokerFigures) -> [(&'static str, String); 9] {
    let scrub = &figures.scrub;
    let ill = (figures.read_only_partitions, figures.down_partitions, figures.damaged_partitions);
    [
        ("size of the disk", if figures.disk_bytes == 0 { "unknown".to_owned() } else { approximate_bytes(figures.disk_bytes) }),
        ("partitions not in order", format!("{} read-only, {} down, {} with damaged ranges", ill.0, ill.1, ill.2)),
        ("stored since the start", format!("{} records, {}", figures.appended_records, approximate_bytes(figures.appended_bytes))),
        (
            "delivered since the start",
            format!("{} records, {}", figures.delivered_records, approximate_bytes(figures.delivered_bytes)),
        ),
        ("scrub, passes", scrub.passes.to_string()),
        ("scrub, last pass", format!("{} to {}", show_moment(scrub.pass_began_at), show_moment(scrub.pass_ended_at))),
        ("scrub, verified", format!("{} segments, {}", scrub.segments, approximate_bytes(scrub.bytes))),
        ("scrub, found damaged", format!("{} ranges", scrub.damaged_ranges)),
        ("scrub, could not read", format!("{} times; {} indexes made again", scrub.read_errors, scrub.rebuilt_indexes)),
    ]
}

/// The figures, for programs.
pub(crate) fn figures_json(figures: &BrokerFigures) -> Value {
    // 0 stands for never, for no limit, and for what could not be found out.
    let told = |ns: u64| (ns > 0).then_some(ns);
    let ScrubFigures { segments, bytes, damaged_ranges, rebuilt_indexes, read_errors, passes, pass_began_at, pass_ended_at } =
        figures.scrub;
    json!({
        "taken_at_ns": figures.taken_at,
        "disk_bytes": told(figures.disk_bytes),
        "disk_low_bytes": told(figures.disk_low_bytes),
        "disk_is_low": figures.disk_is_low,
        "read_only_partitions": figures.read_only_partitions,
        "down_partitions": figures.down_partitions,
        "damaged_partitions": figures.damaged_partitions,
        "appended_records": figures.appended_records,
        "appended_bytes": figures.appended_bytes,
        "delivered_records": figures.delivered_records,
        "delivered_bytes": figures.delivered_bytes,
        "scrub": {
            "segments": segments,
            "bytes": bytes,
            "damaged_ranges": damaged_ranges,
            "rebuilt_indexes": rebuilt_indexes,
            "read_errors": read_errors,
            "passes": passes,
            "pass_began_at_ns": told(pass_began_at),
            "pass_ended_at_ns": told(pass_ended_at),
        },
    })
}

fn description(broker: &DescribeBrokerResponse) -> Value {
    let settings: Map<_, _> = broker.settings.iter().map(|setting| (setting.name.clone(), setting.value.as_str().into())).collect();
    json!({
        "broker": broker.broker,
        "broker_id": format!("{:032x}", broker.broker_id),
        "instance": format!("{:016x}", broker.instance),
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
        "figures": broker.figures.as_ref().map(figures_json),
        "settings": settings,
    })
}
