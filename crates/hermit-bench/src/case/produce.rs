//! Producing: each repetition writes to a topic of its own, and reads it back.

use anyhow::{Context, Result};
use hermit_proto::TopicId;
use serde::{Deserialize, Serialize};

use super::{Effort, Safety, Tell};
use crate::drive::v1_consume::{Check, Consume};
use crate::drive::{Job, Until, v1_produce, v2_consume, v2_produce};
use crate::finding::{Sample, Series, Unit};
use crate::lab::Lab;
use crate::limits::rate;
use crate::material::{Material, Protocol, Shape};
use crate::site::Site;
use crate::tally::Tally;
use crate::worker::Outcome;

/// Requests under way where a case does not say.
const REQUESTS: u64 = 16;

/// What is produced, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The frames.
    pub shape: Shape,
    /// Frames of a request of version 2.
    pub frames: u64,
    /// Producers.
    pub connections: u32,
    /// Partitions of the topic.
    pub partitions: u32,
    /// Frames of version 1, requests of version 2, that a connection has under way; as many as it takes if not given.
    pub window: Option<u64>,
    /// Of the topic.
    pub safety: Safety,
}

impl Plan {
    pub(super) fn is_for_any_server(&self) -> bool {
        self.shape.protocol == Protocol::V1 && self.partitions == 1 && self.safety == Safety::Os
    }

    /// The load on a topic that is there.
    #[must_use]
    pub fn job(&self, site: &Site, name: &str, topic: TopicId, until: Until) -> Job {
        let Self { shape, frames, connections, partitions, window, .. } = *self;
        let address = site.address();
        match shape.protocol {
            Protocol::V1 => Job::V1Produce(v1_produce::Produce {
                address,
                topic: name.into(),
                partitions,
                shape,
                connections,
                window,
                until,
                shared: false,
            }),
            Protocol::V2 => {
                let window = window.unwrap_or(REQUESTS);
                Job::V2Produce(v2_produce::Produce {
                    address,
                    topic: topic.to_string(),
                    partitions,
                    shape,
                    frames,
                    connections,
                    window,
                    until,
                })
            }
        }
    }

    /// Whether each partition has one writer, so that the order of its frames is known.
    fn is_ordered(&self) -> bool {
        self.connections <= self.partitions
    }
}

/// Runs the repetitions.
pub(super) fn run(plan: &Plan, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Series> {
    let site = lab.site("produce")?;
    // What is large is told by its bytes.
    let by_bytes = plan.shape.payload_bytes >= 16 << 10;
    let mut series = Series::new("", if by_bytes { Unit::BytesPerSecond } else { Unit::RecordsPerSecond }, "");
    for _ in 0..effort.repeat {
        let mut sample = once(plan, lab, &site, effort.seconds)?;
        if let Some(outcome) = sample.outcome.as_ref().filter(|_outcome| by_bytes) {
            sample.value = rate(outcome.bytes, outcome.seconds);
        }
        series.push(sample, tell);
    }
    site.stop()?;
    Ok(series)
}

/// Writes to a topic of its own for so many seconds, and reads it back.
pub(super) fn once(plan: &Plan, lab: &Lab, site: &Site, seconds: f64) -> Result<Sample> {
    let (name, topic) = site.topic(plan.partitions, plan.safety)?;
    let sample = site.measure(lab, &plan.job(site, &name, topic, Until::Seconds(seconds)))?;
    let outcome = sample.outcome.as_ref().context("nothing was counted")?;
    verify(plan, lab, site, &name, topic, outcome).context("what was written is not there")?;
    site.remove(&name)?;
    Ok(sample)
}

/// Every partition ends where its answers say, and holds what was sent.
fn verify(plan: &Plan, lab: &Lab, site: &Site, name: &str, topic: TopicId, outcome: &Outcome) -> Result<()> {
    let records = plan.shape.records;
    let ends: Vec<_> = outcome.written.iter().map(|frames| frames * u64::from(records)).collect();
    site.check_ends(topic, &ends)?;
    let material = Material::new(plan.shape, false)?;
    let reader = plan.shape.protocol;
    let extents = outcome.written.iter().map(|frames| material.extent(reader, *frames)).collect();
    let (address, until, check) = (site.address(), Until::Count(1), Check::All);
    let tally = match reader {
        Protocol::V1 => {
            let (topic, group) = (name.to_owned(), "check".to_owned());
            // The ends of payloads are what `expected` knows.
            let job = Consume { address, topic, group, partitions: extents, records, check: Check::Heads, until };
            lab.run(&Job::V1Consume(job))?.tally
        }
        Protocol::V2 => {
            let job = v2_consume::Consume { address, topic: topic.to_string(), partitions: extents, records, check, until };
            lab.run(&Job::V2Consume(job))?.tally
        }
    };
    tally.check(&expected(plan, &material, outcome), plan.is_ordered())
}

/// What each connection wrote, wherever it lies.
fn expected(plan: &Plan, material: &Material, outcome: &Outcome) -> Tally {
    let mut all = Tally::default();
    for frames in &outcome.of_writers {
        all.merge(&material.expected(plan.shape.protocol, *frames));
    }
    all
}
