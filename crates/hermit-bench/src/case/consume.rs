//! Consuming: a log is written once, read through once to check every byte, and then read again and again.

use anyhow::{Context, Result};
use hermit_proto::TopicId;
use serde::{Deserialize, Serialize};

use super::produce::{self, measure};
use super::{Effort, Safety, Sample};
use crate::broker::Broker;
use crate::drive::v1_consume::{Check, Consume};
use crate::drive::{Job, Until, v2_consume};
use crate::lab::Lab;
use crate::limits;
use crate::material::{Material, Protocol, Shape};
use crate::tally::Tally;

const TOPIC: &str = "consume";
/// Version 1 lets a producer have as many frames under way; version 2 as many requests of about a MiB.
const FRAMES: u64 = 4000;
const REQUESTS: u64 = 4;
const REQUEST_BYTES: usize = 1 << 20;
/// The call of raw `sendfile` that consuming is compared with.
const CALL_BYTES: usize = 1 << 20;

/// What is consumed, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The frames in the log, by who produced them.
    pub shape: Shape,
    /// Who reads.
    pub reader: Protocol,
    /// What the reader looks at.
    pub check: Check,
    /// Partitions, each read by a consumer of its own.
    pub partitions: u32,
}

/// A log, written and checked.
struct Filled {
    topic: TopicId,
    material: Material,
    /// Frames of each partition.
    frames: u64,
}

/// Runs the repetitions, each beside one of raw `sendfile`.
pub(super) fn run(plan: &Plan, lab: &Lab, effort: &Effort, tell: &mut dyn FnMut(&Sample)) -> Result<Vec<Sample>> {
    let broker = lab.broker("consume", &[])?;
    let filled = fill(plan, lab, &broker, effort.log_bytes)?;
    let file = limits::cached_file(lab)?;
    let mut samples = Vec::new();
    for _ in 0..effort.repeat {
        let limit = limits::sendfile(lab, &file, CALL_BYTES, effort.seconds.min(1.0))?;
        let mut sample = measure(&broker, lab, &job(plan, &broker, &filled, plan.check, Until::Seconds(effort.seconds)))?;
        check(plan, &filled, plan.check, &sample.outcome.tally)?;
        sample.limit = Some(limit);
        tell(&sample);
        samples.push(sample);
    }
    broker.stop()?;
    Ok(samples)
}

fn fill(plan: &Plan, lab: &Lab, broker: &Broker, log_bytes: u64) -> Result<Filled> {
    let topic = broker.create_topic(TOPIC, plan.partitions, Safety::Os.durability())?;
    let material = Material::new(plan.shape, false)?;
    let frame_bytes = material.bytes.len() / material.frames.len();
    let frames = (log_bytes / u64::from(plan.partitions) / frame_bytes as u64).max(1);
    let per_request = (REQUEST_BYTES / frame_bytes).clamp(1, material.frames.len()) as u64;
    let (window, frames_of_request) = match plan.shape.protocol {
        Protocol::V1 => (FRAMES.min(64 << 20 >> frame_bytes.ilog2()).max(1), 1),
        Protocol::V2 => (REQUESTS, per_request),
    };
    let writing = produce::Plan {
        shape: plan.shape,
        frames: frames_of_request,
        connections: plan.partitions,
        partitions: plan.partitions,
        window: Some(window),
        safety: Safety::Os,
    };
    let count = frames.div_ceil(frames_of_request);
    let outcome = lab.run(&writing.job(broker, TOPIC, topic, Until::Count(count))).context("the log cannot be written")?;
    let frames = *outcome.written.first().context("nothing was written")?;
    let filled = Filled { topic, material, frames };
    // Every byte once; from then on it is in the page cache, and the broker knows it to be sound.
    let tally = lab.run(&job(plan, broker, &filled, Check::All, Until::Count(1)))?.tally;
    check(plan, &filled, Check::All, &tally).context("the log is not what was written")?;
    Ok(filled)
}

fn job(plan: &Plan, broker: &Broker, filled: &Filled, check: Check, until: Until) -> Job {
    let address = broker.address();
    let extent = filled.material.extent(plan.reader, filled.frames);
    let partitions = vec![extent; plan.partitions as usize];
    let records = if filled.material.unfolds(plan.reader) { 1 } else { plan.shape.records };
    match plan.reader {
        Protocol::V1 => {
            Job::V1Consume(Consume { address, topic: TOPIC.into(), group: "bench".into(), partitions, records, check, until })
        }
        Protocol::V2 => {
            Job::V2Consume(v2_consume::Consume { address, topic: filled.topic.to_string(), partitions, records, check, until })
        }
    }
}

/// Whether all of it was read, as far as the reader looked.
fn check(plan: &Plan, filled: &Filled, check: Check, found: &Tally) -> Result<()> {
    // A reader of version 1 that checks all takes the checksums of whole payloads.
    let whole = check == Check::All && plan.reader == Protocol::V1;
    let material = Material::new(plan.shape, whole)?;
    let one = material.expected(plan.reader, filled.frames);
    let mut all = Tally::default();
    for _ in 0..plan.partitions {
        all.merge(&one);
    }
    match (plan.reader, check) {
        (Protocol::V1, Check::Nothing) => Ok(()),
        (Protocol::V2, Check::Nothing | Check::Heads) => {
            anyhow::ensure!(
                found.records == all.records,
                "{} records were read where {} had been written",
                found.records,
                all.records
            );
            Ok(())
        }
        _ => found.check(&all, true),
    }
}
