//! The broker under measurement, and what it costs the machine.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_proto::session::{Durability, ListOffsetsRequest, OffsetQuery, TopicConfig};
use hermit_proto::{PartitionId, TopicId};
use hermit_torture::memory::Memory;
use hermit_torture::server::{Hermitd, Setup};
use hermit_torture::wire::Session;
use tokio::runtime::{Builder, Runtime};

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    hermitd: Hermitd,
    runtime: Runtime,
}

impl Broker {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn start(setup: Setup) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().context("no runtime")?;
        let hermitd = runtime.block_on(Hermitd::start(setup))?;
        Ok(Self { hermitd, runtime })
    }

    /// Where clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.hermitd.address()
    }

    /// Where it answers over HTTP.
    ///
    /// # Errors
    ///
    /// When it was started without.
    pub fn http(&self) -> Result<SocketAddr> {
        self.hermitd.http().context("the broker answers nothing over HTTP")
    }

    /// Its process id.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn pid(&self) -> Result<u32> {
        self.hermitd.pid()
    }

    /// Kills it.
    ///
    /// # Errors
    ///
    /// When it had ended before.
    pub fn kill(&mut self) -> Result<()> {
        self.runtime.block_on(self.hermitd.kill())
    }

    /// Stops it gracefully.
    ///
    /// # Errors
    ///
    /// When it does not end well.
    pub fn stop(self) -> Result<()> {
        self.runtime.block_on(self.hermitd.stop())
    }

    /// Creates a topic.
    ///
    /// # Errors
    ///
    /// When the broker refuses.
    pub fn create_topic(&self, name: &str, partitions: u32, durability: Durability) -> Result<TopicId> {
        self.runtime.block_on(async {
            let mut session = Session::open(self.address()).await?;
            let config = TopicConfig { durability: Some(durability), ..TopicConfig::default() };
            session.create_topic(name, partitions, config).await
        })
    }

    /// Deletes a topic, with its data.
    ///
    /// # Errors
    ///
    /// When the broker refuses.
    pub fn delete_topic(&self, name: &str) -> Result<()> {
        self.runtime.block_on(async {
            let mut session = Session::open(self.address()).await?;
            session.ask(&hermit_proto::session::DeleteTopicRequest { name: name.to_owned() }).await?;
            Ok(())
        })
    }

    /// Fails unless each partition holds so many records.
    ///
    /// # Errors
    ///
    /// When one does not.
    pub fn check_ends(&self, topic: TopicId, ends: &[u64]) -> Result<()> {
        self.runtime.block_on(async {
            let mut session = Session::open(self.address()).await?;
            for (end, partition) in ends.iter().zip(0..) {
                let request = ListOffsetsRequest { topic, partition: PartitionId(partition), query: OffsetQuery::Latest };
                let found = session.ask(&request).await?.high_watermark.0;
                ensure!(found == *end, "partition {partition} holds {found} records where {end} were answered");
            }
            Ok(())
        })
    }

    /// Processor time so far, of all its threads.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn cpu(&self) -> Result<Duration> {
        cpu_of(self.pid()?)
    }

    /// Its memory.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn memory(&self) -> Result<Memory> {
        Memory::of(self.pid()?)
    }
}

/// Processor time of a process, in steps of the kernel's tick.
///
/// # Errors
///
/// When it has ended.
pub fn cpu_of(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))?;
    let ticks = parse_ticks(&stat).with_context(|| format!("{path} is not understood"))?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_nanos(ticks * 1_000_000_000 / per_second))
}

/// Fields 14 and 15, counted behind the name, which may hold anything.
fn parse_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "42 (a ) b) S 1 2 3 4 5 6 7 8 9 10 300 50 0 0 20 0 1";
        assert_eq!(parse_ticks(stat), Some(350));
        assert!(cpu_of(std::process::id()).is_ok());
    }
}
