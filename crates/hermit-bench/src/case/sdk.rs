//! What the SDK reaches, with its broker.

use anyhow::{Context, Result, ensure};
use hermit_load::{Check, Compression, ConsumeLoad, ProduceLoad, Results, Target};
use serde::{Deserialize, Serialize};

use super::{Effort, Safety, Tell};
use crate::drive::Job;
use crate::finding::{Series, Unit};
use crate::lab::Lab;
use crate::site::Site;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Who does it.
    pub side: Side,
    /// Of the records.
    pub compression: Compression,
    /// Of the topic.
    pub safety: Safety,
    /// Clients.
    pub connections: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Over TLS.
    pub tls: bool,
}

/// Producer or consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Produces, with results for these.
    Produce(Results),
    /// Consumes what the SDK has written.
    Consume(Check),
}

/// Runs the repetitions.
pub(super) fn run(plan: &Plan, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Series> {
    let site = if plan.tls { lab.secured_site("sdk")? } else { lab.site("sdk")? };
    let mut series = Series::new("", Unit::RecordsPerSecond, "");
    match plan.side {
        Side::Produce(results) => {
            for _ in 0..effort.repeat {
                let (topic, _id) = site.topic(1, plan.safety)?;
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some seconds in ms")]
                let duration_ms = Some((effort.seconds * 1000.0) as u64);
                let load = ProduceLoad { duration_ms, results, ..produce(plan, lab, &site, &topic) };
                let sample = site.measure(lab, &Job::SdkProduce(load))?;
                let written = sample.outcome.as_ref().map_or(0, |outcome| outcome.records);
                let found = lab.run(&consume(plan, lab, &site, &topic, Check::Contents))?.records;
                ensure!(found == written, "{found} records were read where {written} had been written");
                site.remove(&topic)?;
                series.push(sample, tell);
            }
        }
        Side::Consume(check) => {
            let (topic, _id) = site.topic(1, plan.safety)?;
            let records = effort.log_bytes / plan.value_bytes as u64;
            let load = ProduceLoad { records: Some(records), ..produce(plan, lab, &site, &topic) };
            let written = lab.run(&Job::SdkProduce(load)).context("the log cannot be written")?.records;
            for check in std::iter::once(Check::Contents).chain(std::iter::repeat_n(check, effort.repeat)) {
                let sample = site.measure(lab, &consume(plan, lab, &site, &topic, check))?;
                let found = sample.outcome.as_ref().map_or(0, |outcome| outcome.records);
                ensure!(found == written, "{found} records were read where {written} had been written");
                series.push(sample, tell);
            }
            // The first one looked at every byte, and warmed the cache.
            series.samples.remove(0);
        }
    }
    site.stop()?;
    Ok(series)
}

fn target(plan: &Plan, lab: &Lab, site: &Site, topic: &str) -> Target {
    let tls_ca = plan.tls.then(|| lab.certificate());
    Target { connections: plan.connections, tls_ca, ..Target::new(site.address().to_string(), topic) }
}

fn produce(plan: &Plan, lab: &Lab, site: &Site, topic: &str) -> ProduceLoad {
    let target = target(plan, lab, site, topic);
    ProduceLoad { size_bytes: plan.value_bytes, compression: plan.compression, ..ProduceLoad::new(target) }
}

fn consume(plan: &Plan, lab: &Lab, site: &Site, topic: &str, check: Check) -> Job {
    // A partition has one reader.
    let target = Target { connections: 1, ..target(plan, lab, site, topic) };
    Job::SdkConsume(ConsumeLoad { until_end: true, check, ..ConsumeLoad::new(target) })
}
