//! `hermit-cli status`: what matters, on one screen.

mod verdict;

use std::io::{self, Write};

use anyhow::{Context, Result};
use hermit_client::Client;
use serde_json::{Value, json};

use self::verdict::{Finding, Verdict, judge};
use crate::args::{Output, StatusArgs};
use crate::failure::{Interrupted, Unhealthy};
use crate::observe::{Sample, lag, sample, state, status_word};
use crate::quantity::approximate_bytes;
use crate::signals::Signals;
use crate::text::{clean, counted, headings, table};
use crate::time::{show_moment, show_seconds, show_span};

/// Groups that are shown: those that are furthest behind.
const SHOWN_GROUPS: usize = 10;

/// Tells how the broker fares. An error where something needs acting on.
pub(crate) async fn run(client: &Client, args: &StatusArgs, output: Output) -> Result<()> {
    let (admin, mut signals) = (client.admin(), Signals::new()?);
    let sample = tokio::select! {
        sample = sample(&admin) => sample?,
        signal = signals.recv() => return Err(Interrupted { signal }.into()),
    };
    let verdict = judge(&sample, args.max_lag);
    let mut out = Vec::new();
    match output {
        Output::Text => text(&sample, &verdict, &mut out)?,
        Output::Json => writeln!(out, "{}", json(&sample, &verdict))?,
    }
    io::stdout().write_all(&out).context("standard output")?;
    match verdict.problems.len() {
        0 => Ok(()),
        problems => Err(Unhealthy { problems }.into()),
    }
}

fn text(sample: &Sample, verdict: &Verdict, out: &mut impl Write) -> io::Result<()> {
    let (broker, figures) = (&sample.broker, sample.figures());
    let of = |used: u64, all: u64| format!("{} of {} ({})", approximate_bytes(used), approximate_bytes(all), percent(used, all));
    let disk = match figures.disk_bytes {
        0 => format!("{} free", approximate_bytes(broker.free_bytes)),
        all => format!("{} free of {}", approximate_bytes(broker.free_bytes), approximate_bytes(all)),
    };
    let low = format!(", produce requests are refused below {}", approximate_bytes(figures.disk_low_bytes));
    let internal = if broker.held_bytes == 0 {
        String::new()
    } else {
        format!(", {} of deleted files held by readers", approximate_bytes(broker.held_bytes))
    };
    let scrub = &figures.scrub;
    let passes = match (scrub.passes, scrub.pass_began_at) {
        (0, 0) => "no pass yet".to_owned(),
        (0, began) => format!("the first pass since the start began {}", show_moment(began)),
        (1, _) => format!("1 pass, ended {}", show_moment(scrub.pass_ended_at)),
        (passes, _) => format!("{passes} passes, the last ended {}", show_moment(scrub.pass_ended_at)),
    };
    let facts = [
        ("broker", Some(broker.broker.clone())),
        ("up", sample.uptime().map(show_span)),
        ("listen", sample.setting("listen").map(str::to_owned)),
        ("http", sample.setting("http").map(str::to_owned)),
        ("topics", Some(format!("{} with {}", broker.topics, counted(broker.partitions.into(), "partition")))),
        ("logs", Some(approximate_bytes(broker.log_bytes))),
        ("connections", Some(format!("{} of {}", broker.connections, broker.max_connections))),
        ("memory budget", Some(of(broker.inflight_bytes, broker.max_inflight_bytes))),
        ("disk", Some(format!("{disk}{}{internal}", if figures.disk_low_bytes == 0 { "" } else { &low }))),
        ("scrub", broker.figures.map(|_told| format!("{passes}, {} damaged", counted(scrub.damaged_ranges, "range")))),
    ];
    let rows: Vec<_> = facts.into_iter().filter_map(|(name, fact)| fact.map(|fact| vec![name.to_owned(), fact])).collect();
    table(out, &rows)?;
    groups(sample, out)?;
    writeln!(out)?;
    for Finding { message, .. } in &verdict.problems {
        writeln!(out, "PROBLEM: {}", clean(message))?;
    }
    for Finding { message, .. } in &verdict.warnings {
        writeln!(out, "warning: {}", clean(message))?;
    }
    if verdict.problems.is_empty() {
        writeln!(out, "nothing needs acting on")?;
    }
    Ok(())
}

/// The groups, the one that is furthest behind first.
fn groups(sample: &Sample, out: &mut impl Write) -> io::Result<()> {
    if sample.groups.is_empty() {
        return Ok(());
    }
    let mut groups: Vec<_> = sample.groups.iter().map(|(name, group)| (lag(group), name, group)).collect();
    groups.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(other.1)));
    let mut rows = headings(["group", "state", "members", "lag", "lag s"]);
    rows.extend(groups.iter().take(SHOWN_GROUPS).map(|((messages, ms), name, group)| {
        let members = group.members.len().to_string();
        vec![(*name).clone(), state(group.state).to_owned(), members, messages.to_string(), show_seconds(*ms)]
    }));
    writeln!(out)?;
    table(out, &rows)?;
    match groups.len().saturating_sub(SHOWN_GROUPS) {
        0 => Ok(()),
        more => writeln!(out, "and {} that are less far behind", counted(more as u64, "group")),
    }
}

fn percent(used: u64, all: u64) -> String {
    format!("{} %", u128::from(used) * 100 / u128::from(all.max(1)))
}

fn json(sample: &Sample, verdict: &Verdict) -> Value {
    let broker = &sample.broker;
    let findings =
        |list: &[Finding]| list.iter().map(|found| json!({ "kind": found.kind, "message": found.message })).collect::<Vec<_>>();
    let groups = sample.groups.iter().map(|(name, group)| {
        let (messages, ms) = lag(group);
        let lag_seconds = crate::time::seconds(ms);
        json!({ "group": name, "state": state(group.state), "members": group.members.len(), "lag": messages, "lag_seconds": lag_seconds })
    });
    let unhealthy = sample.unhealthy().map(
        |(topic, partition)| json!({ "topic": topic, "partition": partition.partition.0, "status": status_word(partition.status) }),
    );
    json!({
        "healthy": verdict.problems.is_empty(),
        "problems": findings(&verdict.problems),
        "warnings": findings(&verdict.warnings),
        "broker": broker.broker,
        "listen": sample.setting("listen"),
        "started_at_ns": broker.started_at,
        "uptime_seconds": sample.uptime().map(|up| up.as_secs()),
        "topics": broker.topics,
        "partitions": broker.partitions,
        "log_bytes": broker.log_bytes,
        "connections": broker.connections,
        "max_connections": broker.max_connections,
        "inflight_bytes": broker.inflight_bytes,
        "max_inflight_bytes": broker.max_inflight_bytes,
        "free_bytes": broker.free_bytes,
        "held_bytes": broker.held_bytes,
        "figures": broker.figures.as_ref().map(crate::broker::figures_json),
        "groups": groups.collect::<Vec<_>>(),
        "unhealthy_partitions": unhealthy.collect::<Vec<_>>(),
        "damaged_partitions": broker.figures.map(|figures| figures.damaged_partitions),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_tells_no_figures_has_none() {
        let sample = Sample::default();
        let verdict = judge(&sample, None);
        let told = json(&sample, &verdict);
        assert_eq!((&told["damaged_partitions"], &told["figures"]), (&Value::Null, &Value::Null));
        let mut out = Vec::new();
        text(&sample, &verdict, &mut out).unwrap();
        let shown = String::from_utf8(out).unwrap();
        assert!(!shown.contains("scrub") && !shown.contains("damaged"), "{shown}");
        // And one that tells some, does not tell a size that it could not find out, nor a limit that is none.
        let figures = crate::broker::figures_json(&hermit_client::BrokerFigures::default());
        assert_eq!((&figures["disk_bytes"], &figures["disk_low_bytes"]), (&Value::Null, &Value::Null));
    }
}
