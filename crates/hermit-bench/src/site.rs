//! The server that a case runs against: a broker of its own, or any other one that speaks version 1.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use hermit_proto::TopicId;

use crate::broker::Broker;
use crate::case::Safety;
use crate::drive::Job;
use crate::finding::Sample;
use crate::lab::Lab;
use crate::limits::rate;

/// A server.
#[derive(Debug)]
pub enum Site {
    /// Started for the case.
    Own(Box<Broker>),
    /// Somebody else's, of which nothing is known but where it is.
    Other(SocketAddr),
}

impl Site {
    /// Where clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Own(broker) => broker.address(),
            Self::Other(address) => *address,
        }
    }

    /// A topic with a name of its own. Another server makes it when it is produced to, as it likes.
    ///
    /// # Errors
    ///
    /// When the broker refuses.
    pub fn topic(&self, partitions: u32, safety: Safety) -> Result<(String, TopicId)> {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let name = format!("bench-{}-{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        let id = match self {
            Self::Own(broker) => broker.create_topic(&name, partitions, safety.durability())?,
            Self::Other(_) => TopicId::default(),
        };
        Ok((name, id))
    }

    /// Takes a topic away, where that can be done.
    ///
    /// # Errors
    ///
    /// When the broker refuses.
    pub fn remove(&self, name: &str) -> Result<()> {
        match self {
            Self::Own(broker) => broker.delete_topic(name),
            Self::Other(_) => Ok(()),
        }
    }

    /// Fails unless each partition holds so many records, where that can be asked.
    ///
    /// # Errors
    ///
    /// When one does not.
    pub fn check_ends(&self, topic: TopicId, ends: &[u64]) -> Result<()> {
        match self {
            Self::Own(broker) => broker.check_ends(topic, ends),
            Self::Other(_) => Ok(()),
        }
    }

    /// Processor time so far, where it can be seen.
    ///
    /// # Errors
    ///
    /// When the broker has ended.
    pub fn cpu(&self) -> Result<Option<Duration>> {
        match self {
            Self::Own(broker) => broker.cpu().map(Some),
            Self::Other(_) => Ok(None),
        }
    }

    /// Runs a job, and takes what it costs the broker. The figure is records a second.
    ///
    /// # Errors
    ///
    /// What goes wrong in the job.
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    pub fn measure(&self, lab: &Lab, job: &Job) -> Result<Sample> {
        let worker = lab.worker(job)?;
        let before = self.cpu()?;
        let outcome = worker.run()?;
        ensure!(outcome.frames > 0, "nothing was done in {:.3} s", outcome.seconds);
        let cpu = self.cpu()?.zip(before).map(|(after, before)| (after - before).as_secs_f64());
        Ok(Sample {
            value: rate(outcome.records, outcome.seconds),
            limit: None,
            cpu_ns: cpu.map(|seconds| seconds * 1e9 / outcome.records.max(1) as f64),
            latency: outcome.latency,
            outcome: Some(outcome),
        })
    }

    /// Ends it, if it is our own.
    ///
    /// # Errors
    ///
    /// When it does not end well.
    pub fn stop(self) -> Result<()> {
        match self {
            Self::Own(broker) => broker.stop(),
            Self::Other(_) => Ok(()),
        }
    }
}
