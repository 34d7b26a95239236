//! How long a broker takes from its start to the line that says that it is ready.

use anyhow::{Context, Result};
use hermit_proto::TopicId;
use serde::{Deserialize, Serialize};

use super::memory::mib;
use super::{Effort, Safety, Tell, produce};
use crate::broker::Broker;
use crate::clock::now;
use crate::drive::{Job, Until, v2_produce};
use crate::finding::{Sample, Series, Unit};
use crate::lab::Lab;
use crate::material::Shape;
use crate::site::Site;

/// How much the start of any process varies, in ms.
const NOISE_MS: f64 = 25.0;
/// Partitions of a topic at most.
const OF_TOPIC: u32 = 1000;

/// Partitions, each with something in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// How many.
    pub partitions: u32,
}

/// After a kill and after a graceful stop, and the memory it has.
pub(super) fn run(plan: &Plan, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Vec<Series>> {
    let mut broker = lab.broker("start", &[])?;
    let mut topics = Vec::new();
    let mut left = plan.partitions;
    while left > 0 {
        let partitions = left.min(OF_TOPIC);
        let topic = broker.create_topic(&format!("start-{left}"), partitions, Safety::Os.durability())?;
        topics.push((topic, partitions));
        left -= partitions;
    }
    let mut unclean = Series::new("unclean", Unit::Millis, "");
    let mut clean = Series::new("clean", Unit::Millis, "");
    let mut memory = Series::new("memory", Unit::Mebibytes, "");
    for turn in 1..=effort.repeat as u64 {
        write_all(lab, &broker, &topics)?;
        memory.push(Sample::new(mib(broker.memory()?.now_bytes), None), tell);
        broker.kill()?;
        let (ready, again) = timed(lab)?;
        unclean.push(Sample::new(ready, None), tell);
        check(&again, &topics, turn)?;
        again.stop()?;
        let (ready, again) = timed(lab)?;
        clean.push(Sample::new(ready, None), tell);
        check(&again, &topics, turn)?;
        broker = again;
    }
    broker.stop()?;
    Ok(vec![unclean, clean, memory])
}

/// One frame to every partition.
fn write_all(lab: &Lab, broker: &Broker, topics: &[(TopicId, u32)]) -> Result<()> {
    for (topic, partitions) in topics {
        let partitions = *partitions;
        let until = Until::Count(partitions.into());
        let (address, topic, shape) = (broker.address(), topic.to_string(), Shape::v2(100, 1));
        let job = v2_produce::Produce { address, topic, partitions, shape, frames: 1, connections: 1, window: 100, until };
        lab.run(&Job::V2Produce(job))?;
    }
    Ok(())
}

/// Nothing was lost: not even a kill takes what the operating system has.
fn check(broker: &Broker, topics: &[(TopicId, u32)], each: u64) -> Result<()> {
    for (topic, partitions) in topics {
        broker.check_ends(*topic, &vec![each; *partitions as usize]).context("after the start")?;
    }
    Ok(())
}

/// Starts the broker on its old data, in ms.
fn timed(lab: &Lab) -> Result<(f64, Broker)> {
    let begun = now();
    let broker = lab.broker("start", &[])?;
    Ok((begun.elapsed().as_secs_f64() * 1000.0, broker))
}

/// After a kill, with so many bytes flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BySize {
    /// Little.
    pub small_bytes: u64,
    /// Much.
    pub large_bytes: u64,
}

/// The start with much in the log, beside that with little.
pub(super) fn by_size(plan: &BySize, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Series> {
    let mut series = Series::new("", Unit::Millis, "little in the log + 25 ms");
    let small = after_kill(plan.small_bytes, lab, effort)?;
    let large = after_kill(plan.large_bytes, lab, effort)?;
    for (small, large) in small.into_iter().zip(large) {
        series.push(Sample::new(large, Some(small + NOISE_MS)), tell);
    }
    Ok(series)
}

fn after_kill(bytes: u64, lab: &Lab, effort: &Effort) -> Result<Vec<f64>> {
    let mut broker = lab.broker("start", &[])?;
    let topic = broker.create_topic(&format!("size-{bytes}"), 1, Safety::Sync.durability())?;
    let site = Site::Own(broker.into());
    let shape = Shape::v2(64 << 10, 1);
    let plan = produce::Plan { shape, frames: 4, connections: 1, partitions: 1, window: Some(16), safety: Safety::Sync };
    let count = (bytes >> 18).max(1);
    let written = lab.run(&plan.job(&site, "", topic, Until::Count(count)))?.frames;
    let Site::Own(own) = site else { anyhow::bail!("not our own") };
    broker = *own;
    let mut times = Vec::new();
    for _ in 0..effort.repeat {
        broker.kill()?;
        let (ready, again) = timed(lab)?;
        again.check_ends(topic, &[written])?;
        times.push(ready);
        broker = again;
    }
    broker.stop()?;
    Ok(times)
}
