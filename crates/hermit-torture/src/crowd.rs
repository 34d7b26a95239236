//! A crowd: half of the connections are good clients of both protocol versions, which check what they get and measure how long it takes; the others
//! are slow, hostile or idle. The good ones must not notice, and the broker must not grow.

mod bad;
mod good;
mod vitals;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_proto::TopicId;
use hermit_proto::session::{Durability, TopicConfig};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

pub use bad::Behaviour;
use good::Tally;
use vitals::Vitals;

use crate::limits::sent::{BESIDES_BYTES, BUDGET_BYTES};
use crate::memory::{Memory, mib};
use crate::server::{Hermitd, Setup};
use crate::wire::Session;

/// Good clients that share a topic: half of them produce, and half of them read all of it.
const CLIENTS_OF_TOPIC: usize = 20;
/// Connections that begin in one step: all at once would wait in the listener's queue.
const AT_ONCE: usize = 50;
const BETWEEN: Duration = Duration::from_millis(50);
/// The longest that a record may take from producer to consumer, on a busy machine.
const LATENCY: Duration = Duration::from_secs(5);
/// Memory and descriptors may differ by so much between the middle of the run and its end: allocators keep some, and connections come and go.
const GROWTH_BYTES: u64 = 32 << 20;
/// In a shorter run, what slow clients have sent of large frames still gathers, within its limit.
const MEMORY_SETTLES_IN: Duration = Duration::from_secs(120);
const GROWTH_DESCRIPTORS: u64 = 200;
/// Descriptors that may be left when all are gone: logs that were opened meanwhile.
const LEFT_WITHIN: Duration = Duration::from_secs(60);

/// What happened.
#[derive(Debug)]
pub struct Report {
    /// Good clients.
    pub good: usize,
    /// The others.
    pub bad: usize,
    /// Records that were answered to their producers.
    pub produced: u64,
    /// Records that consumers got, and checked.
    pub consumed: u64,
    /// From producer to consumer, sorted.
    pub latencies: Vec<Duration>,
    /// What went wrong with good clients.
    pub errors: Vec<String>,
    /// How often bad clients were closed, and came again.
    pub closed: u64,
    /// How long it lasted.
    pub over: Duration,
    /// The most memory that the broker ever had.
    pub peak_bytes: u64,
    /// What the broker had before anybody came, in the middle of the run, at its end, and when all had gone.
    vitals: [Vitals; 4],
}

impl Report {
    /// What was promised and not kept.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let mut broken = self.errors.clone();
        let [before, early, late, after] = self.vitals;
        if self.peak_bytes > BUDGET_BYTES + BESIDES_BYTES {
            broken.push(format!("{} of memory, over {}", mib(self.peak_bytes), mib(BUDGET_BYTES + BESIDES_BYTES)));
        }
        if self.over >= MEMORY_SETTLES_IN && late.memory_bytes > early.memory_bytes + GROWTH_BYTES {
            broken.push(format!("memory grew from {} to {}", mib(early.memory_bytes), mib(late.memory_bytes)));
        }
        if late.descriptors > early.descriptors + GROWTH_DESCRIPTORS {
            broken.push(format!("descriptors grew from {} to {}", early.descriptors, late.descriptors));
        }
        let logs = 2 * (self.good / CLIENTS_OF_TOPIC + 1) as u64;
        if after.descriptors > before.descriptors + 2 * logs + 20 {
            broken.push(format!("{} descriptors were left, {} at the beginning", after.descriptors, before.descriptors));
        }
        if self.consumed == 0 || self.latencies.last().is_some_and(|most| *most > LATENCY) {
            broken.push(format!("{} records came, the slowest in {:?}", self.consumed, self.latencies.last()));
        }
        broken
    }

    fn part(&self, of_thousand: usize) -> Duration {
        self.latencies.get(self.latencies.len() * of_thousand / 1000).or(self.latencies.last()).copied().unwrap_or_default()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} good clients: {} records produced, {} consumed and checked, {} errors",
            self.good,
            self.produced,
            self.consumed,
            self.errors.len()
        )?;
        let [median, tail, rare] = [500, 990, 999].map(|part| self.part(part));
        writeln!(
            f,
            "from producer to consumer: median {median:.1?}, 99 % {tail:.1?}, 99.9 % {rare:.1?}, longest {:.1?}",
            self.part(1000)
        )?;
        writeln!(f, "{} others were closed {} times, and came again", self.bad, self.closed)?;
        for (vitals, when) in self.vitals.iter().zip(["before", "in the middle", "at the end", "after"]) {
            writeln!(f, "{when}: {} resident, {} descriptors", mib(vitals.memory_bytes), vitals.descriptors)?;
        }
        Ok(())
    }
}

/// Lets `connections` clients at a broker for `over`.
///
/// # Errors
/// When something does not run. What good clients meet is in the report.
pub async fn run(setup: Setup, connections: usize, over: Duration) -> Result<Report> {
    crate::limits::raise_descriptor_limit()?;
    let broker = Hermitd::start(setup).await?;
    let before = Vitals::of(broker.pid()?)?;
    let good = connections / 2;
    let topics = create_topics(&broker, good.div_ceil(CLIENTS_OF_TOPIC)).await?;
    let (tally, until) = (Arc::new(Tally::default()), Instant::now() + over);
    let (mut clients, mut others) = (JoinSet::new(), JoinSet::new());
    for number in 0..good.max(connections - good) {
        if number < good {
            let topic = &topics[number / CLIENTS_OF_TOPIC];
            let client = good::Client { number, address: broker.address(), name: topic.0.clone(), topic: topic.1, until };
            clients.spawn(client.run(Arc::clone(&tally)));
        }
        if number < connections - good {
            others.spawn(bad::run(broker.address(), Behaviour::of(number), topics[0].clone(), Arc::clone(&tally)));
        }
        if number % AT_ONCE == AT_ONCE - 1 {
            sleep(BETWEEN).await;
        }
    }
    tokio::time::sleep_until(until - over / 2).await;
    let early = Vitals::of(broker.pid()?)?;
    while Instant::now() + Duration::from_millis(500) < until && tally.errors().is_empty() {
        sleep(Duration::from_millis(100)).await;
    }
    let late = Vitals::of(broker.pid()?)?;
    while let Some(ended) = clients.join_next().await {
        ended.context("a client panicked")?;
    }
    others.shutdown().await;
    let after = settled(&broker, before).await?;
    let peak_bytes = Memory::of(broker.pid()?)?.peak_bytes;
    broker.stop().await?;
    let mut latencies = tally.latencies();
    latencies.sort_unstable();
    Ok(Report {
        good,
        bad: connections - good,
        produced: tally.produced(),
        consumed: tally.consumed(),
        latencies,
        errors: tally.errors(),
        closed: tally.closed(),
        over,
        peak_bytes,
        vitals: [before, early, late, after],
    })
}

/// Once all are gone, so are their descriptors.
async fn settled(broker: &Hermitd, before: Vitals) -> Result<Vitals> {
    let until = Instant::now() + LEFT_WITHIN;
    loop {
        let now = Vitals::of(broker.pid()?)?;
        if now.connections <= before.connections || Instant::now() >= until {
            return Ok(now);
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn create_topics(broker: &Hermitd, count: usize) -> Result<Vec<(String, TopicId)>> {
    let mut session = Session::open(broker.address()).await?;
    let mut topics = Vec::with_capacity(count);
    for number in 0..count.max(1) {
        let name = format!("crowd-{number}");
        let config = TopicConfig { durability: Some(Durability::Os), ..TopicConfig::default() };
        let id = session.create_topic(&name, 1, config).await?;
        topics.push((name, id));
    }
    Ok(topics)
}
