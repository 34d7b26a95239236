//! Cases: what is loaded how, and what came of it. Each one checks that the work was really done.

pub mod consume;
pub mod produce;
pub mod table;

use std::fmt;

use anyhow::Result;
use hermit_proto::session::Durability;
use serde::{Deserialize, Serialize};

use crate::lab::Lab;
use crate::latency::Latency;
use crate::worker::Outcome;

/// What is done in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// Producers, as fast as the broker takes it.
    Produce(produce::Plan),
    /// Consumers of a log that is in the page cache.
    Consume(consume::Plan),
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
}

/// A named case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Its name on the command line.
    pub name: String,
    /// What is done.
    pub load: Load,
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
}

/// One repetition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What the clients counted.
    pub outcome: Outcome,
    /// Processor seconds of the broker meanwhile.
    pub broker_cpu: f64,
    /// The machine's limit that it is compared with, measured beside it; in the same unit as `figure`.
    pub limit: Option<f64>,
}

impl Sample {
    /// Frames a second.
    #[must_use]
    pub fn frames(&self) -> f64 {
        crate::limits::rate(self.outcome.frames, self.outcome.seconds)
    }

    /// Records a second.
    #[must_use]
    pub fn records(&self) -> f64 {
        crate::limits::rate(self.outcome.records, self.outcome.seconds)
    }

    /// Bytes a second on the wire.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        crate::limits::rate(self.outcome.bytes, self.outcome.seconds)
    }
}

impl fmt::Display for Sample {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cpu_ns = self.broker_cpu * 1e9 / (self.outcome.frames.max(1) as f64);
        write!(f, "{:>11.0} frames/s {:>12.0} records/s {:>8.1} MB/s", self.frames(), self.records(), self.bytes() / 1e6)?;
        write!(f, "  broker {:.2} cpu, {cpu_ns:.0} ns/frame", self.broker_cpu / self.outcome.seconds)?;
        if let Some(limit) = self.limit {
            write!(f, "  limit {:.1} MB/s, ratio {:.3}", limit / 1e6, self.bytes() / limit)?;
        }
        if let Some(Latency { p50, p99, max, .. }) = self.outcome.latency {
            write!(f, "  p50 {p50:.1} p99 {p99:.1} max {max:.1} us")?;
        }
        Ok(())
    }
}

impl Case {
    /// Runs it on a broker of its own, and tells each repetition as soon as it is done.
    ///
    /// # Errors
    ///
    /// When something does not run, or the work was not done as it should.
    pub fn run(&self, lab: &Lab, effort: &Effort, tell: &mut dyn FnMut(&Sample)) -> Result<Vec<Sample>> {
        match &self.load {
            Load::Produce(plan) => produce::run(plan, lab, effort, tell),
            Load::Consume(plan) => consume::run(plan, lab, effort, tell),
        }
    }
}
