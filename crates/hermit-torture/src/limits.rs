//! What the broker's memory is with clients that cost nothing if it is built right: idle ones, one far behind, and ones that announce
//! much and send little.

pub mod sent;
mod tcp_queue;

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_proto::session::{Durability, TopicConfig};
use hermit_proto::{Offset, PartitionId, ProducedFrame, TopicId};
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::time::{Instant, sleep};

use crate::memory::{Memory, mib};
use crate::server::{Hermitd, Setup};
use crate::wire::{Session, V1Consumer, V1Producer, fill};

/// What `hermitd` promises to stay under.
pub const PROMISE_BYTES: u64 = 64 << 20;
/// Just under the default limit on a frame, 50 MiB.
const ANNOUNCED_BYTES: u32 = (50 << 20) - 4096;
/// Payload of the messages that a lagging consumer reads.
const MESSAGE_BYTES: usize = 4096;
/// More credit than any run needs.
const CREDIT_BYTES: u64 = 1 << 40;
/// How long a client that reads nothing reads nothing.
const STALL: Duration = Duration::from_secs(3);
/// The broker reads what it was sent within this time.
const READ_WITHIN: Duration = Duration::from_secs(30);
const TOPIC: &str = "limits";

/// Which of the two native protocols a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Version 1.
    V1,
    /// Version 2.
    V2,
}

/// A load on a broker of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// So many consumers of one topic that have read all there is.
    Idle(Protocol, usize),
    /// A consumer so many bytes behind that stalls, and then reads all of them.
    Behind(Protocol, u64),
    /// So many producers that announce frames just under the limit, send so many bytes of each, and stall.
    Announced(Protocol, usize, usize),
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle(protocol, count) => write!(f, "{count} idle consumers, {protocol}"),
            Self::Behind(protocol, bytes) => write!(f, "a consumer {} behind, {protocol}", mib(*bytes)),
            Self::Announced(protocol, count, sent) => {
                let (announced, sent) = (mib(ANNOUNCED_BYTES.into()), mib(*sent as u64));
                write!(f, "{count} frames of {announced} announced, {sent} of each sent, {protocol}")
            }
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V1 => "version 1",
            Self::V2 => "version 2",
        })
    }
}

/// The broker's memory under a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Resident bytes once the broker was ready.
    pub at_start_bytes: u64,
    /// Resident bytes under the load.
    pub loaded_bytes: u64,
    /// The most there ever were.
    pub peak_bytes: u64,
}

impl Measured {
    /// Whether the broker stayed under what it promises, always.
    #[must_use]
    pub fn is_within_promise(&self) -> bool {
        self.peak_bytes < PROMISE_BYTES
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [start, loaded, peak] = [self.at_start_bytes, self.loaded_bytes, self.peak_bytes].map(mib);
        write!(f, "at start {start}, loaded {loaded}, peak {peak}")
    }
}

/// Starts a broker, puts the load on it, measures, and checks that the load was really served.
///
/// # Errors
///
/// When something does not run. Too much memory is no error here.
pub async fn measure(setup: Setup, load: Load) -> Result<Measured> {
    raise_descriptor_limit()?;
    let broker = Hermitd::start(setup).await?;
    let at_start_bytes = Memory::of(broker.pid()?)?.now_bytes;
    let mut session = Session::open(broker.address()).await?;
    let config = TopicConfig { durability: Some(Durability::Os), ..TopicConfig::default() };
    let topic = session.create_topic(TOPIC, 1, config).await?;
    let loaded_bytes = match load {
        Load::Idle(protocol, count) => idle(&broker, &mut session, topic, protocol, count).await,
        Load::Behind(protocol, bytes) => behind(&broker, &mut session, topic, protocol, bytes).await,
        Load::Announced(protocol, count, sent) => announced(&broker, topic, protocol, count, sent).await,
    }
    .with_context(|| load.to_string())?;
    drop(session);
    let peak_bytes = Memory::of(broker.pid()?)?.peak_bytes;
    broker.stop().await?;
    Ok(Measured { at_start_bytes, loaded_bytes, peak_bytes })
}

/// A consumer of either protocol, at the start of the topic.
enum Consumer {
    V1(V1Consumer),
    V2(Session, crate::wire::Reading),
}

impl Consumer {
    async fn open(broker: &Hermitd, topic: TopicId, protocol: Protocol) -> Result<Self> {
        Ok(match protocol {
            Protocol::V1 => Self::V1(V1Consumer::open(broker.address(), TOPIC, TOPIC).await?),
            Protocol::V2 => {
                let mut session = Session::open(broker.address()).await?;
                let reading = session.subscribe(topic, PartitionId(0), CREDIT_BYTES).await?;
                Self::V2(session, reading)
            }
        })
    }

    async fn read_to(&mut self, end: Offset) -> Result<()> {
        match self {
            Self::V1(consumer) => consumer.read_to(end).await,
            Self::V2(session, reading) => session.read_to(reading, end).await,
        }
    }
}

async fn idle(broker: &Hermitd, session: &mut Session, topic: TopicId, protocol: Protocol, count: usize) -> Result<u64> {
    let message = ProducedFrame::message(0, None, b"wake up").to_vec()?;
    let mut end = session.produce(topic, PartitionId(0), &message).await?.end_offset;
    let mut consumers = Vec::with_capacity(count);
    for _ in 0..count {
        consumers.push(Consumer::open(broker, topic, protocol).await?);
    }
    // What they have read they were served: all of them are there, and idle now.
    for consumer in &mut consumers {
        consumer.read_to(end).await?;
    }
    let loaded = Memory::of(broker.pid()?)?.now_bytes;
    end = session.produce(topic, PartitionId(0), &message).await?.end_offset;
    for consumer in &mut consumers {
        consumer.read_to(end).await.context("an idle consumer was not woken")?;
    }
    Ok(loaded)
}

async fn behind(broker: &Hermitd, session: &mut Session, topic: TopicId, protocol: Protocol, bytes: u64) -> Result<u64> {
    let filled = fill(session, topic, bytes, MESSAGE_BYTES).await?;
    let mut consumer = Consumer::open(broker, topic, protocol).await?;
    sleep(STALL).await;
    let loaded = Memory::of(broker.pid()?)?.now_bytes;
    consumer.read_to(filled.end).await?;
    Ok(loaded)
}

async fn announced(broker: &Hermitd, topic: TopicId, protocol: Protocol, count: usize, sent: usize) -> Result<u64> {
    enum Stalled {
        V1(#[expect(dead_code, reason = "held open")] V1Producer),
        V2(#[expect(dead_code, reason = "held open")] Session),
    }
    let payload = vec![0; sent];
    let mut stalled = Vec::with_capacity(count);
    for _ in 0..count {
        stalled.push(match protocol {
            Protocol::V1 => {
                let mut producer = V1Producer::open(broker.address(), TOPIC).await?;
                producer.begin_frame(ANNOUNCED_BYTES, &payload).await?;
                Stalled::V1(producer)
            }
            Protocol::V2 => {
                let mut session = Session::open(broker.address()).await?;
                session.begin_produce(topic, PartitionId(0), ANNOUNCED_BYTES as usize).await?;
                session.send(&payload).await?;
                Stalled::V2(session)
            }
        });
    }
    wait_until_read(broker).await?;
    let loaded = Memory::of(broker.pid()?)?.now_bytes;
    // It is still there for others.
    Session::open(broker.address()).await.context("the broker serves nobody else any more")?;
    drop(stalled);
    Ok(loaded)
}

/// Waits until the broker has read all that was sent to it.
async fn wait_until_read(broker: &Hermitd) -> Result<()> {
    let deadline = Instant::now() + READ_WITHIN;
    loop {
        let unread_bytes = tcp_queue::unread_bytes(broker.pid()?, broker.address())?;
        if unread_bytes == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the broker leaves {unread_bytes} bytes unread");
        sleep(Duration::from_millis(20)).await;
    }
}

/// This process holds the other ends of all connections.
pub(crate) fn raise_descriptor_limit() -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("the limit on open files cannot be raised")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promise_is_about_the_peak() {
        let measured = |peak_bytes| Measured { at_start_bytes: 1, loaded_bytes: 1, peak_bytes };
        assert!(measured(PROMISE_BYTES - 1).is_within_promise());
        assert!(!measured(PROMISE_BYTES).is_within_promise());
    }

    #[test]
    fn loads_say_what_they_are() {
        assert_eq!(Load::Idle(Protocol::V1, 1000).to_string(), "1000 idle consumers, version 1");
        assert_eq!(Load::Behind(Protocol::V2, 4 << 30).to_string(), "a consumer 4096.0 MiB behind, version 2");
        let announced = "200 frames of 50.0 MiB announced, 0.1 MiB of each sent, version 1";
        assert_eq!(Load::Announced(Protocol::V1, 200, 64 << 10).to_string(), announced);
    }
}
