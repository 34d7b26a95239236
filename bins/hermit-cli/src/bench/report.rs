//! What a load came to, for people and for programs.

use std::io;

use anyhow::Result;
use hermit_load::{ConsumeReport, Counts, EndToEndReport, LatencySummary, MaxRate, ProduceReport};
use serde_json::{Value, json};

use crate::text::{counted, headings, table};

/// What a load came to.
#[derive(Debug)]
pub(super) enum Report {
    Produce(ProduceReport),
    Consume(ConsumeReport),
    EndToEnd { rate: f64, report: EndToEndReport },
    MaxRate(MaxRate),
}

impl Report {
    pub(super) fn table(&self, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Produce(report) => {
                let mut rows = throughput(report.records, report.bytes, report.elapsed_us);
                rows.extend((report.failed > 0).then(|| row("failed", report.failed)));
                table(out, &rows)?;
                latencies(out, &[("latency", &report.latency), ("late by", &report.lateness)])
            }
            Self::Consume(report) => {
                let mut rows = throughput(report.records, report.bytes, report.elapsed_us);
                rows.push(row("first after", milliseconds(report.first_us)));
                rows.extend(findings(&report.counts));
                table(out, &rows)
            }
            Self::EndToEnd { rate, report } => {
                let mut rows = vec![
                    row("rate", format!("{rate:.0} records/s")),
                    row("sent", report.sent),
                    row("received", report.received),
                    row("of them in time", report.received_in_time),
                ];
                rows.extend(findings(&report.counts));
                table(out, &rows)?;
                latencies(out, &[("latency", &report.latency), ("late by", &report.lateness)])
            }
            Self::MaxRate(found) => {
                let mut rows = headings(["records/s", "kept up", "p50 µs", "p99 µs", "max µs"]);
                let unpaced = ["", "", ""].map(str::to_owned);
                rows.push([vec![format!("{:.0}", found.unpaced), "not paced".to_owned()], unpaced.to_vec()].concat());
                rows.extend(found.probes.iter().map(|probe| {
                    let latency = &probe.report.latency;
                    let kept_up = if probe.kept_up { "yes" } else { "no" };
                    let [p50, p99, max] = [latency.p50_us, latency.p99_us, latency.max_us].map(|us| format!("{us:.0}"));
                    vec![format!("{:.0}", probe.rate), kept_up.to_owned(), p50, p99, max]
                }));
                table(out, &rows)
            }
        }
    }

    pub(super) fn json(&self, topic: &str) -> Result<Value> {
        let (mut told, rates) = match self {
            Self::Produce(report) => {
                (serde_json::to_value(report)?, Some((report.records_per_second(), report.bytes_per_second())))
            }
            Self::Consume(report) => {
                (serde_json::to_value(report)?, Some((report.records_per_second(), report.bytes_per_second())))
            }
            Self::EndToEnd { rate, report } => {
                let mut told = serde_json::to_value(report)?;
                told["rate"] = json!(rate);
                (told, None)
            }
            Self::MaxRate(found) => (serde_json::to_value(found)?, None),
        };
        told["topic"] = topic.into();
        if let Some((records, bytes)) = rates {
            told["records_per_second"] = json!(records);
            told["bytes_per_second"] = json!(bytes);
        }
        Ok(told)
    }

    /// Whether everything that was sent was stored, or came as it was sent.
    pub(super) fn verdict(&self) -> Result<()> {
        let (failed, first_error, counts) = match self {
            Self::Produce(report) => (report.failed, &report.first_error, None),
            Self::Consume(report) => (report.failed, &report.first_error, Some(&report.counts)),
            Self::EndToEnd { report, .. } => (report.failed, &report.first_error, Some(&report.counts)),
            Self::MaxRate(found) => {
                anyhow::ensure!(found.rate > 0.0, "no rate was kept up with");
                return Ok(());
            }
        };
        if let Some(error) = first_error {
            let what = if counts.is_some() { "error" } else { "record" };
            anyhow::bail!("{} failed: {error}", counted(failed, what));
        }
        let Some(counts) = counts.filter(|counts| !counts.is_sound()) else { return Ok(()) };
        let wrong = wrong(counts).filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}"));
        anyhow::bail!("of the records of this and other loads: {}", wrong.collect::<Vec<_>>().join(", "))
    }
}

fn row(name: &str, value: impl ToString) -> Vec<String> {
    vec![name.to_owned(), value.to_string()]
}

fn throughput(records: u64, bytes: u64, elapsed_us: u64) -> Vec<Vec<String>> {
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let (records_f, megabytes, seconds) = (records as f64, bytes as f64 / 1e6, (elapsed_us as f64 / 1e6).max(1e-6));
    vec![
        row("records", records),
        row("seconds", format!("{seconds:.3}")),
        row("records/s", format!("{:.0}", records_f / seconds)),
        row("MB/s", format!("{:.1}", megabytes / seconds)),
    ]
}

fn milliseconds(us: u64) -> String {
    format!("{}.{}ms", us / 1000, us % 1000 / 100)
}

fn wrong(counts: &Counts) -> impl Iterator<Item = (&'static str, u64)> {
    let Counts { lost, doubled, reordered, corrupted, .. } = *counts;
    [("lost", lost), ("doubled", doubled), ("out of order", reordered), ("changed", corrupted)].into_iter()
}

fn findings(counts: &Counts) -> Vec<Vec<String>> {
    let mut rows: Vec<_> = wrong(counts).map(|(what, count)| row(what, count)).collect();
    rows.extend((counts.foreign > 0).then(|| row("others' records", counts.foreign)));
    rows
}

fn latencies(out: &mut Vec<u8>, summaries: &[(&str, &LatencySummary)]) -> io::Result<()> {
    let mut rows = headings(["µs", "p50", "p90", "p99", "p99.9", "max"]);
    for (name, summary) in summaries.iter().filter(|(_, summary)| summary.count > 0) {
        let values = [summary.p50_us, summary.p90_us, summary.p99_us, summary.p999_us, summary.max_us];
        rows.push([vec![(*name).to_owned()], values.map(|us| format!("{us:.0}")).to_vec()].concat());
    }
    if rows.len() > 1 {
        out.push(b'\n');
        table(out, &rows)?;
    }
    Ok(())
}
