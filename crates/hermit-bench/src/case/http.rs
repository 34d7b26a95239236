//! Producing over HTTP.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{Effort, Safety, Tell};
use crate::drive::{Job, http_produce};
use crate::finding::{Series, Unit};
use crate::lab::Lab;

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Connections, each with one request under way.
    pub connections: u32,
    /// Records of a request.
    pub records: u32,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Of the topic.
    pub safety: Safety,
}

/// Runs the repetitions, each into a topic of its own.
pub(super) fn run(plan: &Plan, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Series> {
    let (site, address) = lab.http_site("http")?;
    let mut series = Series::new("", Unit::RecordsPerSecond, "");
    for _ in 0..effort.repeat {
        let (name, topic) = site.topic(1, plan.safety)?;
        let Plan { connections, records, value_bytes, .. } = *plan;
        let load =
            http_produce::Produce { address, topic: name.clone(), connections, records, value_bytes, seconds: effort.seconds };
        let sample = site.measure(lab, &Job::HttpProduce(load))?;
        site.check_ends(topic, &[sample.outcome.as_ref().map_or(0, |outcome| outcome.records)])?;
        site.remove(&name)?;
        series.push(sample, tell);
    }
    site.stop()?;
    Ok(series)
}
