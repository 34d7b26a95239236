//! The broker's resident memory, idle and while much is written and read.

use anyhow::Result;
use hermit_torture::memory::reset_peak;
use serde::{Deserialize, Serialize};

use super::{Effort, Safety, Tell, consume, produce};
use crate::drive::Until;
use crate::drive::v1_consume::Check;
use crate::finding::{Sample, Series, Unit};
use crate::lab::Lab;
use crate::material::{Protocol, Shape};
use crate::site::Site;

/// Topics of an idle broker.
const TOPICS: u32 = 4;

/// What is written and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// By whom.
    pub protocol: Protocol,
    /// Bytes of a payload.
    pub payload_bytes: usize,
}

/// After the start with a few topics; and the peak of the last of three equal parts of the work beside that of the first.
pub(super) fn run(plan: &Plan, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Vec<Series>> {
    let mut idle = Series::new("idle", Unit::Mebibytes, "");
    let mut peak = Series::new("peak", Unit::Mebibytes, "first part");
    for number in 0..effort.repeat {
        let broker = lab.broker(&format!("memory-{number}"), &[])?;
        for topic in 0..TOPICS {
            broker.create_topic(&format!("idle-{topic}"), 1, Safety::Os.durability())?;
        }
        idle.push(Sample::new(mib(broker.memory()?.now_bytes), None), tell);
        let site = Site::Own(broker.into());
        let mut peaks = Vec::new();
        for _ in 0..3 {
            peaks.push(part(plan, lab, &site, effort)?);
        }
        peak.push(Sample::new(peaks[2], Some(peaks[0])), tell);
        site.stop()?;
    }
    Ok(vec![idle, peak])
}

/// Writes for a while, reads it back, reads a log several times; gives the peak.
fn part(plan: &Plan, lab: &Lab, site: &Site, effort: &Effort) -> Result<f64> {
    let Site::Own(broker) = site else { anyhow::bail!("the memory of another server is out of reach") };
    reset_peak(broker.pid()?)?;
    let shape = Shape { protocol: plan.protocol, ..Shape::v1(plan.payload_bytes, 1) };
    let writing = produce::Plan { shape, frames: 1, connections: 2, partitions: 2, window: None, safety: Safety::Os };
    produce::once(&writing, lab, site, effort.seconds)?;
    let reading = consume::Plan { shape, reader: plan.protocol, check: Check::Heads, partitions: 2 };
    let filled = consume::fill(&reading, lab, site, effort.log_bytes / 4)?;
    lab.run(&consume::job(&reading, site, &filled, Check::Heads, Until::Seconds(effort.seconds)))?;
    Ok(mib(broker.memory()?.peak_bytes))
}

#[expect(clippy::cast_precision_loss, reason = "bytes far below 2^53")]
pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
