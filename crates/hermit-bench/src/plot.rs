//! Pictures of a run. Each shows what the findings have; one that would be empty is not made.

mod chart;

use std::path::Path;

use anyhow::Result;

use self::chart::{Axis, Chart, Line};
use crate::case::{Load, durable, produce};
use crate::drive::v1_consume::Check;
use crate::finding::{Finding, Spread};
use crate::latency::Latency;
use crate::limits::rate;
use crate::material::{Compression, Protocol};
use crate::report::Report;

/// Draws all of them as SVG files.
///
/// # Errors
///
/// When one cannot be written.
pub fn draw(report: &Report, dir: &Path) -> Result<()> {
    let charts = [
        by_size(report),
        by_batch(report),
        percentiles(report),
        by_partitions(report),
        idle(report),
        start(report),
        start_by_size(report),
    ];
    for chart in charts {
        chart.draw(dir)?;
    }
    Ok(())
}

fn median(finding: &Finding) -> f64 {
    finding.figure.map_or(0.0, |figure| figure.median)
}

/// Of all repetitions, what the clients counted.
fn outcome_rate(finding: &Finding, count: fn(&crate::worker::Outcome) -> u64) -> f64 {
    let rates =
        finding.samples.iter().filter_map(|sample| sample.outcome.as_ref()).map(|outcome| rate(count(outcome), outcome.seconds));
    Spread::of(rates).map_or(0.0, |spread| spread.median)
}

/// The points of those findings that have one, by x.
fn line(report: &Report, name: &str, point: impl Fn(&Finding) -> Option<(f64, f64)>) -> Line {
    let mut points: Vec<_> = report.findings.iter().filter_map(point).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    Line { name: name.to_owned(), points }
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^53")]
fn number(size: usize) -> f64 {
    size as f64
}

/// A plain producing load of one connection.
fn plain_produce(finding: &Finding, protocol: Protocol, window: Option<u64>) -> Option<produce::Plan> {
    let Load::Produce(plan) = finding.settings else { return None };
    let plain = plan.connections == 1 && plan.partitions == 1 && plan.shape.compression == Compression::None;
    (plain && plan.shape.protocol == protocol && plan.window == window).then_some(plan)
}

fn by_size(report: &Report) -> Chart {
    let produce = |name, protocol, window| {
        line(report, name, |finding| {
            let plan = plain_produce(finding, protocol, window).filter(|plan| plan.shape.records == 1)?;
            Some((number(plan.shape.payload_bytes), outcome_rate(finding, |outcome| outcome.bytes) / 1e6))
        })
    };
    let consume = |name, protocol: Protocol| {
        line(report, name, move |finding| {
            let Load::Consume(plan) = finding.settings else { return None };
            let plain = plan.partitions == 1 && plan.check == Check::Heads && plan.shape.records == 1;
            let plain = plain && plan.reader == protocol && plan.shape.protocol == protocol;
            plain.then(|| (number(plan.shape.payload_bytes), outcome_rate(finding, |outcome| outcome.bytes) / 1e6))
        })
    };
    Chart {
        file: "throughput-by-size.svg",
        title: "Throughput by payload size, single frames, one connection, os",
        x: Axis::log("payload, bytes"),
        y: Axis::log("MB/s on the wire"),
        lines: vec![
            produce("produce v1, pipelined", Protocol::V1, None),
            produce("produce v1, lockstep", Protocol::V1, Some(1)),
            produce("produce v2, 16 requests", Protocol::V2, Some(16)),
            consume("consume v1", Protocol::V1),
            consume("consume v2", Protocol::V2),
        ],
    }
}

fn by_batch(report: &Report) -> Chart {
    let records = |finding: &Finding| outcome_rate(finding, |outcome| outcome.records) / 1e6;
    let produce = |name, protocol, window| {
        line(report, name, move |finding| {
            let plan = plain_produce(finding, protocol, window).filter(|plan| plan.shape.payload_bytes == 100)?;
            Some((f64::from(plan.shape.records), records(finding)))
        })
    };
    let consume = line(report, "consume v2", |finding| {
        let Load::Consume(plan) = finding.settings else { return None };
        let plain = plan.partitions == 1 && plan.check == Check::Heads && plan.reader == Protocol::V2;
        (plain && plan.shape.payload_bytes == 100).then(|| (f64::from(plan.shape.records), records(finding)))
    });
    Chart {
        file: "throughput-by-batch.svg",
        title: "Records a second by records of a frame, 100 B each, os",
        x: Axis::log("records of a frame"),
        y: Axis::log("million records/s"),
        lines: vec![produce("produce v1", Protocol::V1, None), produce("produce v2", Protocol::V2, Some(16)), consume],
    }
}

/// Over how many events one is slower: the tail is as wide as the middle.
fn percentiles(report: &Report) -> Chart {
    let points = |latency: &Latency| vec![(2.0, latency.p50), (10.0, latency.p90), (100.0, latency.p99), (1000.0, latency.p999)];
    let middle = |finding: &Finding| {
        let mut times: Vec<_> = finding.samples.iter().filter_map(|sample| sample.latency).collect();
        times.sort_by(|one, other| one.p50.total_cmp(&other.p50));
        times.get(times.len() / 2).copied()
    };
    let mut lines = Vec::new();
    if let Some(limits) = report.limits.first() {
        lines.push(Line { name: "bare round trip".into(), points: points(&limits.ping) });
        lines.push(Line { name: "one sync".into(), points: points(&limits.sync) });
    }
    for finding in &report.findings {
        let name = match &finding.settings {
            // A case has each of its times in two findings.
            Load::EndToEnd(_) => finding.name.strip_suffix(" p50"),
            Load::SyncLatency(durable::OneAtATime { protocol: Protocol::V1, .. }) => Some(finding.name.as_str()),
            _ => None,
        };
        if let Some((name, latency)) = name.zip(middle(finding)) {
            lines.push(Line { name: name.to_owned(), points: points(&latency) });
        }
    }
    Chart {
        file: "latency.svg",
        title: "Latency: how slow is the slowest of so many",
        x: Axis::log("one of (2: median, 10: p90, 100: p99, 1,000: p99.9)"),
        y: Axis::log("µs"),
        lines,
    }
}

fn by_partitions(report: &Report) -> Chart {
    let cost = |finding: &Finding| finding.cpu_ns.map(|cpu| cpu.median);
    let produce = line(report, "produce v2, 100 × 100 B", |finding| {
        let Load::Produce(plan) = finding.settings else { return None };
        let same = plan.shape.protocol == Protocol::V2 && plan.shape.records == 100 && plan.connections == 1;
        same.then_some((f64::from(plan.partitions), cost(finding)?))
    });
    let consume = |name, protocol: Protocol, records| {
        line(report, name, move |finding| {
            let Load::Consume(plan) = finding.settings else { return None };
            let same = plan.shape.protocol == protocol && plan.shape.records == records && plan.shape.payload_bytes == 100;
            let same = same && plan.check == Check::Heads && plan.reader == protocol;
            same.then_some((f64::from(plan.partitions), cost(finding)?))
        })
    };
    Chart {
        file: "cost-by-partitions.svg",
        title: "Broker's processor time for a record, by partitions and their consumers",
        x: Axis::log("partitions, each with a consumer where it is read"),
        y: Axis::log("ns for a record"),
        lines: vec![produce, consume("consume v1, 100 B", Protocol::V1, 1), consume("consume v2, 100 × 100 B", Protocol::V2, 100)],
    }
}

fn idle(report: &Report) -> Chart {
    let memory = |name, protocol| {
        line(report, name, move |finding| {
            let Load::Idle(plan) = finding.settings else { return None };
            (plan.protocol == protocol && finding.name.ends_with("memory")).then(|| (f64::from(plan.count), median(finding)))
        })
    };
    Chart {
        file: "memory-by-consumers.svg",
        title: "Broker's resident memory, by idle consumers",
        x: Axis::log("idle consumers"),
        y: Axis::linear("MiB"),
        lines: vec![memory("v1", Protocol::V1), memory("v2", Protocol::V2)],
    }
}

fn start(report: &Report) -> Chart {
    let after = |name: &'static str| {
        line(report, name, move |finding| {
            let Load::Start(plan) = finding.settings else { return None };
            finding.name.ends_with(&format!(" {name}")).then(|| (f64::from(plan.partitions), median(finding)))
        })
    };
    Chart {
        file: "start-by-partitions.svg",
        title: "From start to ready, by partitions",
        x: Axis::log("partitions"),
        y: Axis::log("ms"),
        lines: vec![after("unclean"), after("clean")],
    }
}

fn start_by_size(report: &Report) -> Chart {
    let mut points = Vec::new();
    for finding in &report.findings {
        let Load::StartBySize(plan) = finding.settings else { continue };
        let small = Spread::of(finding.samples.iter().filter_map(|sample| sample.limit));
        let mib = |bytes: u64| f64::from(u32::try_from(bytes >> 20).unwrap_or(u32::MAX));
        points.push((mib(plan.small_bytes), small.map_or(0.0, |small| small.median)));
        points.push((mib(plan.large_bytes), median(finding)));
    }
    Chart {
        file: "start-by-size.svg",
        title: "From start to ready after a kill, by what is flushed",
        x: Axis::log("MiB in the log"),
        y: Axis::linear("ms"),
        lines: vec![Line { name: "after a kill".into(), points }],
    }
}
