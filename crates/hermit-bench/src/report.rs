//! A run on paper: a table for people, all raw figures for programs.

use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::case::{Effort, Load};
use crate::finding::{Finding, Spread, Unit};
use crate::limits::Limits;
use crate::machine::Machine;

/// All of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// Where.
    pub machine: Machine,
    /// How long and how often.
    pub effort: Effort,
    /// The server, if it was not our own.
    pub against: Option<String>,
    /// The machine's own limits: before the cases, and after them.
    pub limits: Vec<Limits>,
    /// What came of the cases.
    pub findings: Vec<Finding>,
    /// Cases that did not come to a figure, and why.
    pub failures: Vec<(String, String)>,
}

impl Report {
    /// Writes `report.md` and `report.json`.
    ///
    /// # Errors
    ///
    /// When they cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        let write =
            |name: &str, text: String| std::fs::write(dir.join(name), text).with_context(|| format!("{name} cannot be written"));
        write("report.md", self.markdown())?;
        write("report.json", serde_json::to_string_pretty(self)?)
    }

    /// Findings that have a target and miss it.
    pub fn missed(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.met == Some(false))
    }

    /// The page.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut page = String::from("# Benchmark\n\n");
        self.setting(&mut page);
        self.limits(&mut page);
        let (with, without): (Vec<_>, Vec<_>) = self.findings.iter().partition(|finding| finding.target.is_some());
        page += "\n## Targets\n\n| case | settings | median | min–max | ratio | min–max | target | met? |\n";
        page += "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
        for finding in with {
            let target = finding.target.as_ref().map_or("", |target| &target.words);
            let met = match finding.met {
                Some(true) => "yes",
                Some(false) => "**no**",
                None => "not measured",
            };
            line(&mut page, &[cells(finding), vec![target.to_owned(), met.to_owned()]].concat());
        }
        page += "\n## Other cases\n\n| case | settings | median | min–max | ratio | min–max | p50 / p99 | broker, ns/record |\n";
        page += "| --- | --- | --- | --- | --- | --- | --- | --- |\n";
        for finding in without {
            line(&mut page, &[cells(finding), vec![times(finding), cpu(finding)]].concat());
        }
        if !self.failures.is_empty() {
            page += "\n## Failed\n\n";
            for (case, error) in &self.failures {
                page += &format!("- {case}: {error}\n");
            }
        }
        page
    }

    fn setting(&self, page: &mut String) {
        let Machine { processor, cores, memory_bytes, kernel, file_system, commit } = &self.machine;
        let Effort { seconds, repeat, log_bytes, scale } = self.effort;
        let server = self.against.as_deref().unwrap_or("hermitd, release, default settings but for the durability that is named");
        let small =
            if scale > 1 { format!("; partitions and sizes of the `start` cases divided by {scale}") } else { String::new() };
        let rows = [
            ("machine", format!("{processor}, {cores} cores, {} MiB", memory_bytes >> 20)),
            ("system", format!("{kernel}; data on {file_system}")),
            ("server", format!("{server}; its clients on the same cores, each in a process of its own, over 127.0.0.1")),
            ("commit", commit.clone()),
            ("effort", format!("{repeat} × {seconds} s each; logs of {} MiB; incompressible payloads{small}", log_bytes >> 20)),
        ];
        *page += "| | |\n| --- | --- |\n";
        for (what, value) in rows {
            line(page, &[what.to_owned(), value]);
        }
        *page += "\nEach case checked that the work was done: counts, order, checksums. A ratio is that of figure and limit of the same repetition.\n";
    }

    fn limits(&self, page: &mut String) {
        *page += "\n## What the machine does\n\n| limit | before the cases | after them |\n| --- | --- | --- |\n";
        let mut row = |what: &str, value: &dyn Fn(&Limits) -> String| {
            let mut cells = vec![what.to_owned()];
            cells.extend(self.limits.iter().map(value));
            cells.resize(3, String::new());
            line(page, &cells);
        };
        let bytes = |value| Unit::BytesPerSecond.show(value);
        for call in crate::limits::CALLS {
            let of = |limits: &Limits| limits.sendfile.iter().find(|(size, _)| *size == call).map_or(0.0, |(_, rate)| *rate);
            row(&format!("sendfile, calls of {} KiB", call >> 10), &|limits| bytes(of(limits)));
        }
        row("loopback stream", &|limits| bytes(limits.stream));
        row("round trip of 100 B, p50 / p99", &|limits| format!("{:.0} / {:.0} µs", limits.ping.p50, limits.ping.p99));
        row("the same, all cores half busy", &|limits| format!("{:.0} / {:.0} µs", limits.ping_busy.p50, limits.ping_busy.p99));
        row("one sync, p50 / p99", &|limits| format!("{:.0} / {:.0} µs", limits.sync.p50, limits.sync.p99));
        row("sequential write", &|limits| bytes(limits.sequential_write));
        row("CRC-32C, in cache", &|limits| bytes(limits.crc));
        row("memcpy, out of cache", &|limits| bytes(limits.memcpy));
    }
}

fn line(page: &mut String, cells: &[String]) {
    for cell in cells {
        page.push_str("| ");
        page.push_str(&cell.replace('|', "\\|"));
        page.push(' ');
    }
    *page += "|\n";
}

fn cells(finding: &Finding) -> Vec<String> {
    let figure = |spread: Spread| finding.unit.show(spread.median);
    let around = |spread: Spread| format!("{} – {}", finding.unit.show(spread.min), finding.unit.show(spread.max));
    let of = |words: &str| if words.is_empty() { String::new() } else { format!(" of {words}") };
    vec![
        finding.name.clone(),
        settings(&finding.settings),
        finding.figure.map_or_else(String::new, figure),
        finding.figure.map_or_else(String::new, around),
        finding.ratio.map_or_else(String::new, |ratio| format!("{:.2}{}", ratio.median, of(&finding.limit_name))),
        finding.ratio.map_or_else(String::new, |ratio| format!("{:.2} – {:.2}", ratio.min, ratio.max)),
    ]
}

fn times(finding: &Finding) -> String {
    let of = |pick: fn(&crate::latency::Latency) -> f64| {
        Spread::of(finding.samples.iter().filter_map(|sample| sample.latency.as_ref().map(pick)))
    };
    match (of(|latency| latency.p50), of(|latency| latency.p99)) {
        (Some(p50), Some(p99)) => format!("{:.0} / {:.0} µs", p50.median, p99.median),
        _ => String::new(),
    }
}

fn cpu(finding: &Finding) -> String {
    finding.cpu_ns.map_or_else(String::new, |cpu| format!("{:.0}", cpu.median))
}

/// What a load is, in few words.
fn settings(load: &Load) -> String {
    match load {
        Load::Produce(plan) => {
            let window = plan.window.map_or_else(|| "no window".to_owned(), |window| format!("{window} under way"));
            let set = if plan.shape.compression == crate::material::Compression::None {
                String::new()
            } else {
                format!(", {:?}", plan.shape.compression).to_lowercase()
            };
            let (connections, partitions, safety) = (plan.connections, plan.partitions, plan.safety.name());
            format!("{connections} conn., {partitions} part., {window}, {} rec./frame{set}, `{safety}`", plan.shape.records)
        }
        Load::Consume(plan) => {
            format!("{} part., {} rec./frame, checks {:?}", plan.partitions, plan.shape.records, plan.check).to_lowercase()
        }
        Load::SyncFlow(plan) => format!("{} in flight, {} conn., `sync`", plan.in_flight, plan.connections),
        Load::SyncLatency(plan) => {
            let beside = plan.beside.map_or_else(|| "alone".to_owned(), |frames| format!("beside {frames} in flight"));
            format!("1 in flight, {beside}, `sync`")
        }
        Load::Partitions(plan) => format!("100 B × 100, `{}`", plan.safety.name()),
        Load::EndToEnd(plan) => format!("open loop, 100 B, `{}`", plan.safety.name()),
        Load::CatchUp(_) => "tail: 2,000 × 100 B/s; cold: 1 KiB".to_owned(),
        Load::Start(plan) => format!("{} partitions, all written", plan.partitions),
        Load::StartBySize(plan) => format!("killed; {} MiB against {} MiB", plan.large_bytes >> 20, plan.small_bytes >> 20),
        Load::Memory(plan) => format!("{} B payloads, three parts of writing and reading", plan.payload_bytes),
        Load::Idle(plan) => format!("{} consumers", plan.count),
        Load::Sdk(plan) => format!("SDK, {} conn., {:?}, `{}`", plan.connections, plan.side, plan.safety.name()),
        Load::Http(plan) => {
            format!(
                "HTTP, {} conn., {} × {} B a request, `{}`",
                plan.connections,
                plan.records,
                plan.value_bytes,
                plan.safety.name()
            )
        }
    }
}
