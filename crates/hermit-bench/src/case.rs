//! Cases: what is loaded how, what came of it, and what should. Each one checks that the work was really done.

pub mod consume;
pub mod durable;
pub mod http;
pub mod idle;
pub mod lag;
pub mod memory;
pub mod produce;
pub mod sdk;
pub mod start;
pub mod table;

use anyhow::Result;
use hermit_proto::session::Durability;
use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Series, Target};
use crate::lab::Lab;

/// What is done in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Producers, as fast as the broker takes it.
    Produce(produce::Plan),
    /// Consumers of a log that is in the page cache.
    Consume(consume::Plan),
    /// So many frames under way to a `sync` topic, beside the same to an `os` topic.
    SyncFlow(durable::Flow),
    /// One frame at a time to a `sync` topic, perhaps beside others that send as fast as they can.
    SyncLatency(durable::OneAtATime),
    /// The same load on few and on many partitions.
    Partitions(durable::Spread),
    /// From producer to consumer, by schedule.
    EndToEnd(lag::Plan),
    /// The same at the end of a log, while another is read from the disk.
    CatchUp(lag::CatchUp),
    /// Stops, and starts again.
    Start(start::Plan),
    /// Starts again after a kill, with little and with much in the log.
    StartBySize(start::BySize),
    /// Memory while much is written and read.
    Memory(memory::Plan),
    /// Consumers that have read all there is.
    Idle(idle::Plan),
    /// The SDK's producer or consumer.
    Sdk(sdk::Plan),
    /// Batches over HTTP.
    Http(http::Plan),
}

impl Load {
    /// The small form of what is large.
    fn scaled(&self, by: u32) -> Self {
        match self {
            Self::Start(plan) => Self::Start(start::Plan { partitions: plan.partitions.div_ceil(by) }),
            Self::StartBySize(plan) => Self::StartBySize(start::BySize { large_bytes: plan.large_bytes / u64::from(by), ..*plan }),
            other => other.clone(),
        }
    }
}

/// When an answered frame is safe, as topics have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Safety {
    /// On disk.
    Sync,
    /// With the operating system.
    Os,
}

impl Safety {
    /// As topics have it.
    #[must_use]
    pub const fn durability(self) -> Durability {
        match self {
            Self::Sync => Durability::Sync,
            Self::Os => Durability::Os,
        }
    }

    /// As names of cases have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Os => "os",
        }
    }
}

/// A named case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Its name on the command line.
    pub name: String,
    /// What is done.
    pub load: Load,
    /// What its figures should reach, each under the suffix of its series.
    pub targets: Vec<(String, Target)>,
    /// Whether it belongs to the short selection.
    pub quick: bool,
}

/// How long, and how often.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Seconds of a repetition.
    pub seconds: f64,
    /// Repetitions.
    pub repeat: usize,
    /// Bytes of a log that is read.
    pub log_bytes: u64,
    /// By what the largest numbers of partitions and bytes are divided.
    pub scale: u32,
}

/// Is told each figure as soon as it is there.
pub type Tell<'a> = &'a mut dyn FnMut(&str);

impl Case {
    /// A case without targets, only in the full selection.
    #[must_use]
    pub fn new(name: impl Into<String>, load: Load) -> Self {
        Self { name: name.into(), load, targets: Vec::new(), quick: false }
    }

    /// With a target for its series of that suffix; such a case is in the short selection too.
    #[must_use]
    pub fn reaching(mut self, suffix: &str, target: Target) -> Self {
        self.targets.push((suffix.to_owned(), target));
        self.quick = true;
        self
    }

    /// Whether any server that speaks version 1 can be measured by it.
    #[must_use]
    pub fn is_for_any_server(&self) -> bool {
        match &self.load {
            Load::Produce(plan) => plan.is_for_any_server(),
            Load::Consume(plan) => plan.is_for_any_server(),
            _ => false,
        }
    }

    /// Runs it on a broker of its own.
    ///
    /// # Errors
    ///
    /// When something does not run, or the work was not done as it should.
    pub fn run(&self, lab: &Lab, effort: &Effort, tell: Tell<'_>) -> Result<Vec<Finding>> {
        let load = self.load.scaled(effort.scale);
        let series = match &load {
            Load::Produce(plan) => vec![produce::run(plan, lab, effort, tell)?],
            Load::Consume(plan) => vec![consume::run(plan, lab, effort, tell)?],
            Load::SyncFlow(plan) => durable::flow(plan, lab, effort, tell)?,
            Load::SyncLatency(plan) => durable::one_at_a_time(plan, lab, effort, tell)?,
            Load::Partitions(plan) => vec![durable::spread(plan, lab, effort, tell)?],
            Load::EndToEnd(plan) => lag::run(plan, lab, effort, tell)?,
            Load::CatchUp(plan) => lag::catch_up(plan, lab, effort, tell)?,
            Load::Start(plan) => start::run(plan, lab, effort, tell)?,
            Load::StartBySize(plan) => vec![start::by_size(plan, lab, effort, tell)?],
            Load::Memory(plan) => memory::run(plan, lab, effort, tell)?,
            Load::Idle(plan) => idle::run(plan, lab, tell)?,
            Load::Sdk(plan) => vec![sdk::run(plan, lab, effort, tell)?],
            Load::Http(plan) => vec![http::run(plan, lab, effort, tell)?],
        };
        Ok(series.into_iter().map(|series| self.finding(&load, series)).collect())
    }

    fn finding(&self, load: &Load, series: Series) -> Finding {
        let target = self.targets.iter().find(|(suffix, _)| *suffix == series.suffix).map(|(_, target)| target.clone());
        Finding::new(&self.name, load, series, target)
    }
}
