//! Consuming: a log is written once, read through once to check every byte, and then read again and again.

use anyhow::{Context, Result};
use hermit_proto::TopicId;
use serde::{Deserialize, Serialize};

use super::{Effort, Safety, Tell, produce};
use crate::drive::v1_consume::{Check, Consume};
use crate::drive::{Job, Until, v2_consume};
use crate::finding::{Series, Unit};
use crate::lab::Lab;
use crate::limits::{self, rate};
use crate::material::{Material, Protocol, Shape};
use crate::site::Site;
use crate::tally::Tally;

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

impl Plan {
    pub(super) fn is_for_any_server(&self) -> bool {
        self.shape.protocol == Protocol::V1 && self.reader == Protocol::V1 && self.partitions == 1
    }
}

/// A log, written and checked.
pub(super) struct Filled {
    name: String,
    pub(super) topic: TopicId,
    material: Material,
    /// Frames of each partition.
    frames: u64,
}

/// Runs the repetitions, each between two of raw `sendfile`.
pub(super) fn run(plan: &Plan, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Series> {
    let site = lab.site("consume")?;
    let filled = fill(plan, lab, &site, effort.log_bytes)?;
    // The very pages that the broker sends, where it is our own.
    let file = match site {
        Site::Own(_) => lab.largest_log("consume")?,
        Site::Other(_) => limits::cached_file(lab)?,
    };
    // Each repetition alternates, so that an hour's quiet and noise meet both alike.
    let slice = effort.seconds / 2.0;
    let by_bytes = plan.shape.payload_bytes * plan.shape.records as usize >= 2048;
    let unit = if by_bytes { Unit::BytesPerSecond } else { Unit::FramesPerSecond };
    let mut series = Series::new("", unit, "raw sendfile");
    let mut before = limits::sendfile(lab, &file, CALL_BYTES, slice)?;
    for _ in 0..effort.repeat {
        let mut sample = site.measure(lab, &job(plan, &site, &filled, plan.check, Until::Seconds(effort.seconds)))?;
        let outcome = sample.outcome.as_ref().context("nothing was counted")?;
        check(plan, &filled, plan.check, &outcome.tally)?;
        let after = limits::sendfile(lab, &file, CALL_BYTES, slice)?;
        let limit = f64::midpoint(before, after);
        let (bytes, frames) = (rate(outcome.bytes, outcome.seconds), rate(outcome.frames, outcome.seconds));
        // In the unit of the figure: so many frames as so many bytes are.
        sample.limit = Some(if by_bytes { limit } else { limit * frames / bytes });
        sample.value = if by_bytes { bytes } else { frames };
        before = after;
        series.push(sample, tell);
    }
    site.stop()?;
    Ok(series)
}

pub(super) fn fill(plan: &Plan, lab: &Lab, site: &Site, log_bytes: u64) -> Result<Filled> {
    let (name, topic) = site.topic(plan.partitions, Safety::Os)?;
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
    let outcome = lab.run(&writing.job(site, &name, topic, Until::Count(count))).context("the log cannot be written")?;
    let frames = *outcome.written.first().context("nothing was written")?;
    let filled = Filled { name, topic, material, frames };
    // Every byte once; from then on it is in the page cache, and the broker knows it to be sound.
    let tally = lab.run(&job(plan, site, &filled, Check::All, Until::Count(1)))?.tally;
    check(plan, &filled, Check::All, &tally).context("the log is not what was written")?;
    Ok(filled)
}

pub(super) fn job(plan: &Plan, site: &Site, filled: &Filled, check: Check, until: Until) -> Job {
    let address = site.address();
    let extent = filled.material.extent(plan.reader, filled.frames);
    let partitions = vec![extent; plan.partitions as usize];
    let records = if filled.material.unfolds(plan.reader) { 1 } else { plan.shape.records };
    match plan.reader {
        Protocol::V1 => Job::V1Consume(Consume {
            address,
            topic: filled.name.clone(),
            group: "bench".into(),
            partitions,
            records,
            check,
            until,
        }),
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
