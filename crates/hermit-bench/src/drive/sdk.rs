//! The loads of `hermit-load`: what the SDK reaches, as its users would.

use anyhow::{Context, Result, ensure};
use hermit_load::{ConsumeLoad, LatencySummary, Meter, ProduceLoad};
use tokio::runtime::Builder;

use crate::latency::Latency;
use crate::worker::{Outcome, Ready, Run};

/// A runtime of one thread: for one connection, and beside a broker on the same cores, the cheapest.
fn runtime() -> Result<tokio::runtime::Runtime> {
    Builder::new_current_thread().enable_all().build().context("no runtime")
}

/// Connects, and then produces.
pub(super) fn produce(load: ProduceLoad) -> Result<(Ready, Run)> {
    let runtime = runtime()?;
    let ready = runtime.block_on(load.prepare())?;
    let run = move || {
        let report = runtime.block_on(ready.run(&Meter::default()))?;
        ensure!(report.failed == 0, "{} records failed: {}", report.failed, report.first_error.unwrap_or_default());
        let latency = Some(times(&report.latency));
        Ok(outcome(report.records, report.bytes, report.elapsed_us, latency))
    };
    Ok((Ready::default(), Box::new(run)))
}

/// Connects, and then consumes.
pub(super) fn consume(load: ConsumeLoad) -> Result<(Ready, Run)> {
    let runtime = runtime()?;
    let checks = load.check != hermit_load::Check::Nothing;
    let ready = runtime.block_on(load.prepare())?;
    let run = move || {
        let report = runtime.block_on(ready.run(&Meter::default()))?;
        ensure!(report.failed == 0, "consuming failed: {}", report.first_error.unwrap_or_default());
        let counts = &report.counts;
        ensure!(!checks || counts.is_sound() && counts.good == report.records, "not what was sent: {counts:?}");
        Ok(outcome(report.records, report.bytes, report.elapsed_us, None))
    };
    Ok((Ready::default(), Box::new(run)))
}

#[expect(clippy::cast_precision_loss, reason = "some seconds in µs")]
fn outcome(records: u64, bytes: u64, elapsed_us: u64, latency: Option<Latency>) -> Outcome {
    Outcome { seconds: elapsed_us as f64 / 1e6, frames: records, records, bytes, latency, ..Outcome::default() }
}

fn times(of: &LatencySummary) -> Latency {
    Latency { count: of.count, p50: of.p50_us, p90: of.p90_us, p99: of.p99_us, p999: of.p999_us, max: of.max_us }
}
