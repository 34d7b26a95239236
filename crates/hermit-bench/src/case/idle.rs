//! Many consumers that have read all there is: what each costs the broker, and that each is woken.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::memory::mib;
use super::{Safety, Tell, produce};
use crate::drive::{Job, Until, idle};
use crate::finding::{Sample, Series, Unit};
use crate::lab::Lab;
use crate::material::{Protocol, Shape};
use crate::site::Site;

/// How many wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Which protocol they speak.
    pub protocol: Protocol,
    /// Consumers.
    pub count: u32,
}

/// The broker's memory with all of them, and how long it takes to wake them all.
pub(super) fn run(plan: &Plan, lab: &Lab, tell: Tell<'_>) -> Result<Vec<Series>> {
    // Some more than the consumers: the run's own connections.
    let most = (plan.count + 100).to_string();
    let broker = lab.broker("idle", &["--max-connections", &most])?;
    let alone = mib(broker.memory()?.now_bytes);
    let site = Site::Own(broker.into());
    let (name, topic) = site.topic(1, Safety::Os)?;
    let one =
        produce::Plan { shape: Shape::v1(100, 1), frames: 1, connections: 1, partitions: 1, window: Some(1), safety: Safety::Os };
    lab.run(&one.job(&site, &name, topic, Until::Count(1)))?;
    let job = idle::Idle {
        address: site.address(),
        topic: (name.clone(), topic.to_string()),
        next: 1,
        protocol: plan.protocol,
        count: plan.count,
    };
    let mut worker = lab.worker(&Job::Idle(job))?;

    let Site::Own(broker) = &site else { anyhow::bail!("not our own") };
    let mut memory = Series::new("memory", Unit::Mebibytes, "without");
    memory.push(Sample::new(mib(broker.memory()?.now_bytes), Some(alone)), tell);
    let mut waking = Series::new("all woken", Unit::Millis, "");
    worker.go()?;
    lab.run(&one.job(&site, &name, topic, Until::Count(1)))?;
    waking.push(Sample::new(worker.finish()?.seconds * 1000.0, None), tell);
    site.stop()?;
    Ok(vec![memory, waking])
}
