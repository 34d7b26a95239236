//! Producing: each repetition writes to a topic of its own, and reads it back.

use anyhow::{Context, Result};
use hermit_proto::TopicId;
use serde::{Deserialize, Serialize};

use super::{Effort, Safety, Sample};
use crate::broker::Broker;
use crate::drive::v1_consume::{Check, Consume};
use crate::drive::{Job, Until, v1_produce, v2_consume, v2_produce};
use crate::lab::Lab;
use crate::material::{Material, Protocol, Shape};
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
    /// The load on a topic that is there.
    pub(super) fn job(&self, broker: &Broker, name: &str, topic: TopicId, until: Until) -> Job {
        let Self { shape, frames, connections, partitions, window, .. } = *self;
        let address = broker.address();
        match shape.protocol {
            Protocol::V1 => {
                Job::V1Produce(v1_produce::Produce { address, topic: name.into(), partitions, shape, connections, window, until })
            }
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
pub(super) fn run(plan: &Plan, lab: &Lab, effort: &Effort, tell: &mut dyn FnMut(&Sample)) -> Result<Vec<Sample>> {
    let broker = lab.broker("produce", &[])?;
    let mut samples = Vec::new();
    for number in 0..effort.repeat {
        let name = format!("produce-{number}");
        let topic = broker.create_topic(&name, plan.partitions, plan.safety.durability())?;
        let sample = measure(&broker, lab, &plan.job(&broker, &name, topic, Until::Seconds(effort.seconds)))?;
        verify(plan, lab, &broker, &name, topic, &sample.outcome).context("what was written is not there")?;
        broker.delete_topic(&name)?;
        tell(&sample);
        samples.push(sample);
    }
    broker.stop()?;
    Ok(samples)
}

/// Runs a job, and takes what it costs the broker.
pub(super) fn measure(broker: &Broker, lab: &Lab, job: &Job) -> Result<Sample> {
    let worker = lab.worker(job)?;
    let before = broker.cpu()?;
    let outcome = worker.run()?;
    let broker_cpu = (broker.cpu()? - before).as_secs_f64();
    Ok(Sample { outcome, broker_cpu, limit: None })
}

/// Every partition ends where its answers say, and holds what was sent.
fn verify(plan: &Plan, lab: &Lab, broker: &Broker, name: &str, topic: TopicId, outcome: &Outcome) -> Result<()> {
    let records = plan.shape.records;
    let ends: Vec<_> = outcome.written.iter().map(|frames| frames * u64::from(records)).collect();
    broker.check_ends(topic, &ends)?;
    let material = Material::new(plan.shape, false)?;
    let reader = if plan.is_ordered() { plan.shape.protocol } else { Protocol::V2 };
    let extents = outcome.written.iter().map(|frames| material.extent(reader, *frames)).collect();
    let (address, until, check) = (broker.address(), Until::Count(1), Check::All);
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
    expected(plan, &material, reader, &outcome.written).map_or(Ok(()), |expected| tally.check(&expected, true))
}

/// Where several write to a partition, what each of them wrote is known, and not what lies where.
fn expected(plan: &Plan, material: &Material, reader: Protocol, written: &[u64]) -> Option<Tally> {
    plan.is_ordered().then(|| {
        let mut all = Tally::default();
        for frames in written {
            all.merge(&material.expected(reader, *frames));
        }
        all
    })
}
