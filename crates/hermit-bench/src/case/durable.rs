//! What waiting for the disk costs, beside what the disk itself takes in the same seconds.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Effort, Safety, Tell, produce};
use crate::drive::{Job, Until};
use crate::finding::{Sample, Series, Unit};
use crate::lab::Lab;
use crate::limits::{self, rate};
use crate::material::{Material, Protocol, Shape};
use crate::site::Site;

/// Bytes that are written to see how fast the disk takes them.
const SEQUENTIAL_BYTES: u64 = 128 << 20;
/// Seconds in which one sync is measured; it is a median of hundreds.
const SYNC_SECONDS: f64 = 0.3;
/// Records of the frames that go to many partitions, and requests under way.
const BATCH: u32 = 100;
const REQUESTS: u64 = 1000;

/// Frames under way to a `sync` topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// Who produces.
    pub protocol: Protocol,
    /// Bytes of a payload.
    pub payload_bytes: usize,
    /// Frames under way at most, over all connections.
    pub in_flight: u64,
    /// Connections to one partition.
    pub connections: u32,
}

/// The series of what is compared with syncs of as many bytes as are flushed at a time, where the others are of 4 KiB.
const BY_SIZE: &str = "by size";

/// `sync` beside the least of: the same with `os`, n frames in 1.5 syncs, what the disk takes. And beside n frames in one sync of n frames.
pub(super) fn flow(plan: &Flow, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Vec<Series>> {
    let site = lab.site("flow")?;
    let mut series = Series::new("", Unit::FramesPerSecond, "min(os, n / 1.5 syncs, disk)");
    let mut by_size = Series::new(BY_SIZE, Unit::FramesPerSecond, "min(os, n / a sync of n)");
    let shape = Shape { protocol: plan.protocol, ..Shape::v1(plan.payload_bytes, 1) };
    let window = Some((plan.in_flight / u64::from(plan.connections)).max(1));
    let load = |safety| produce::Plan { shape, frames: 1, connections: plan.connections, partitions: 1, window, safety };
    let log_bytes = log_bytes(shape)?;
    let disk = limits::sequential_write(lab.dir(), SEQUENTIAL_BYTES)? / rate(log_bytes, 1.0);
    for _ in 0..effort.repeat {
        let before = limits::sync(lab.dir(), SYNC_SECONDS)?.p50;
        let mut sample = produce::once(&load(Safety::Sync), lab, &site, effort.seconds)?;
        let after = limits::sync(lab.dir(), SYNC_SECONDS)?.p50;
        let os = produce::once(&load(Safety::Os), lab, &site, effort.seconds)?.value;
        let in_syncs = rate(plan.in_flight, 1.5e-6 * f64::midpoint(before, after));
        sample.limit = Some(os.min(in_syncs).min(disk));
        let large = limits::sync_of(lab.dir(), usize::try_from(plan.in_flight * log_bytes)?, SYNC_SECONDS)?.p50;
        by_size.push(Sample { limit: Some(os.min(rate(plan.in_flight, large / 1e6))), ..sample.clone() }, tell);
        series.push(sample, tell);
    }
    site.stop()?;
    Ok(vec![series, by_size])
}

/// Bytes of a frame in the log.
fn log_bytes(shape: Shape) -> Result<u64> {
    Ok(Material::new(shape, false)?.extent(Protocol::V2, 1).bytes)
}

/// One frame at a time to a `sync` topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OneAtATime {
    /// Who produces.
    pub protocol: Protocol,
    /// Frames that another connection has under way to the same partition, as fast as it can.
    pub beside: Option<u64>,
}

/// The median time to an answer, beside so many syncs and 100 µs; under load also where these are syncs of all that is under way.
pub(super) fn one_at_a_time(plan: &OneAtATime, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Vec<Series>> {
    let site = lab.site("one")?;
    let (syncs, words) = if plan.beside.is_some() { (2.2, "2.2 syncs + 100 µs") } else { (1.2, "1.2 syncs + 100 µs") };
    let mut series = Series::new("", Unit::Micros, words);
    let mut by_size = Series::new(BY_SIZE, Unit::Micros, words);
    let shape = Shape { protocol: plan.protocol, ..Shape::v1(100, 1) };
    let one = produce::Plan { shape, frames: 1, connections: 1, partitions: 1, window: Some(1), safety: Safety::Sync };
    let beside = produce::Plan { shape: Shape::v1(100, 1), window: plan.beside, ..one };
    for _ in 0..effort.repeat {
        let before = limits::sync(lab.dir(), SYNC_SECONDS)?.p50;
        let (name, topic) = site.topic(1, Safety::Sync)?;
        let job = |plan: &produce::Plan, seconds| {
            let mut job = plan.job(&site, &name, topic, Until::Seconds(seconds));
            if let Job::V1Produce(job) = &mut job {
                job.shared = true;
            }
            job
        };
        let load = plan.beside.is_some().then(|| lab.worker(&job(&beside, effort.seconds + 0.4))).transpose()?;
        let load = load.map(|mut worker| worker.go().map(|()| worker)).transpose()?;
        let mut sample = site.measure(lab, &job(&one, effort.seconds))?;
        let mut frames = sample.outcome.as_ref().map_or(0, |outcome| outcome.frames);
        if let Some(load) = load {
            frames += load.finish()?.frames;
        }
        site.check_ends(topic, &[frames])?;
        site.remove(&name)?;
        let after = limits::sync(lab.dir(), SYNC_SECONDS)?.p50;
        sample.value = sample.latency.context("no frame was answered")?.p50;
        sample.limit = Some(syncs * f64::midpoint(before, after) + 100.0);
        if let Some(beside) = plan.beside {
            let large = limits::sync_of(lab.dir(), usize::try_from(beside * log_bytes(shape)?)?, SYNC_SECONDS)?.p50;
            by_size.push(Sample { limit: Some(syncs * large + 100.0), ..sample.clone() }, tell);
        }
        series.push(sample, tell);
    }
    site.stop()?;
    Ok(if plan.beside.is_some() { vec![series, by_size] } else { vec![series] })
}

/// The same load on few and on many partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Few.
    pub few: u32,
    /// Many.
    pub many: u32,
    /// Of both topics.
    pub safety: Safety,
}

/// Records a second on many partitions, all written, beside those on few.
pub(super) fn spread(plan: &Spread, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Series> {
    let site = lab.site("spread")?;
    let mut series = Series::new("", Unit::RecordsPerSecond, &format!("{} partitions", plan.few));
    for _ in 0..effort.repeat {
        let few = on_partitions(plan.few, plan.safety, lab, &site, effort)?;
        let mut many = on_partitions(plan.many, plan.safety, lab, &site, effort)?;
        many.limit = Some(few.value);
        series.push(many, tell);
    }
    site.stop()?;
    Ok(series)
}

/// Every partition is written once before the clock starts: that makes its segment, whose cost is the file system's, and none of a flow.
fn on_partitions(partitions: u32, safety: Safety, lab: &Lab, site: &Site, effort: &Effort) -> Result<Sample> {
    let shape = Shape::v2(100, BATCH);
    let plan = produce::Plan { shape, frames: 1, connections: 1, partitions, window: Some(REQUESTS), safety };
    let (name, topic) = site.topic(partitions, safety)?;
    let first = lab.run(&plan.job(site, &name, topic, Until::Count(partitions.into())))?;
    anyhow::ensure!(first.written.iter().all(|frames| *frames > 0), "not all partitions were written at first");
    let sample = site.measure(lab, &plan.job(site, &name, topic, Until::Seconds(effort.seconds)))?;
    let written = sample.outcome.as_ref().map(|outcome| &outcome.written).context("nothing was counted")?;
    anyhow::ensure!(written.iter().all(|frames| *frames > 0), "not all partitions were written");
    let ends: Vec<_> = first.written.iter().zip(written).map(|(first, more)| (first + more) * u64::from(BATCH)).collect();
    site.check_ends(topic, &ends)?;
    site.remove(&name)?;
    Ok(sample)
}
