//! Many clients that really send large frames, and what others notice of that.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_proto::session::{Durability, TopicConfig, TrimRequest};
use hermit_proto::{Offset, PartitionId, ProducedFrame, TopicId};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::{ANNOUNCED_BYTES, Protocol, TOPIC, raise_descriptor_limit};
use crate::memory::{Memory, mib};
use crate::server::{Hermitd, Setup};
use crate::wire::{Session, V1Producer};

/// What `hermitd` allows for bytes that are received and not handed on, unless told otherwise.
pub const BUDGET_BYTES: u64 = 256 << 20;
/// Everything else has to fit into this.
pub const BESIDES_BYTES: u64 = 64 << 20;
/// What a slow client sends at a time, and how long it rests then: some MiB a second.
const PIECE_BYTES: usize = 128 << 10;
const REST: Duration = Duration::from_millis(40);
/// How often the log is cut, so that the disk does not fill.
const TRIM_EVERY: Duration = Duration::from_millis(500);
/// How often a client that was turned away tries again.
const TRIES: usize = 50;
/// The longest that a small frame may take on a busy machine.
const SMALL_WITHIN: Duration = Duration::from_secs(5);
/// The longest that a large frame of somebody who sends it fast may take, whoever else is there.
const LARGE_WITHIN: Duration = Duration::from_secs(60);

/// What was measured.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// Clients that sent slowly.
    pub slow: usize,
    /// The most memory that the broker ever had.
    pub peak_bytes: u64,
    /// How long small frames took meanwhile, of both protocol versions.
    pub small: Vec<Duration>,
    /// How long large frames took meanwhile, of both protocol versions.
    pub large: Vec<Duration>,
    /// Large frames that were answered when all clients sent as fast as they could.
    pub whole: usize,
    /// How long that took.
    pub whole_took: Duration,
}

impl Sent {
    /// What was promised and not kept.
    #[must_use]
    pub fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        if self.peak_bytes > BUDGET_BYTES + BESIDES_BYTES {
            broken.push(format!("{} of memory, over {}", mib(self.peak_bytes), mib(BUDGET_BYTES + BESIDES_BYTES)));
        }
        for (times, most, what) in [(&self.small, SMALL_WITHIN, "small"), (&self.large, LARGE_WITHIN, "large")] {
            if times.is_empty() || times.iter().any(|time| *time > most) {
                broken.push(format!("a {what} frame took {:?}", times.iter().max()));
            }
        }
        broken
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (slow, peak, announced) = (self.slow, mib(self.peak_bytes), mib(ANNOUNCED_BYTES.into()));
        write!(
            f,
            "{slow} frames of {announced} sent slowly, then {} at full speed in {:.1?}: peak {peak}",
            self.whole, self.whole_took
        )?;
        for (times, what) in [(&self.small, "small"), (&self.large, "large")] {
            let mut times = times.clone();
            times.sort_unstable();
            let (median, most) = (times.get(times.len() / 2), times.last());
            write!(
                f,
                "; {} {what} frames of others: median {:.1?}, longest {:.1?}",
                times.len(),
                median.unwrap_or(&Duration::ZERO),
                most.unwrap_or(&Duration::ZERO)
            )?;
        }
        Ok(())
    }
}

/// Has `count` clients, of both protocol versions, send large frames slowly for `over`, while others send small ones and now and then a large one; then has
/// `whole` send one each at full speed, and waits for all answers.
///
/// # Errors
/// When something does not run, or is refused that should not be. What was not kept of a promise is no error here.
pub async fn measure(setup: Setup, count: usize, over: Duration, whole: usize) -> Result<Sent> {
    raise_descriptor_limit()?;
    let broker = Hermitd::start(setup).await?;
    let mut session = Session::open(broker.address()).await?;
    let config = TopicConfig { durability: Some(Durability::Os), segment_bytes: Some(256 << 20), ..TopicConfig::default() };
    let topic = session.create_topic(TOPIC, 1, config).await?;
    let mut sent = Sent { slow: count, ..Sent::default() };

    let mut slow = JoinSet::new();
    for number in 0..count {
        let protocol = if number % 2 == 0 { Protocol::V1 } else { Protocol::V2 };
        let address = broker.address();
        slow.spawn(async move {
            loop {
                // Whoever is closed comes again.
                let _ended = trickle(address, topic, protocol).await;
                sleep(REST).await;
            }
        });
    }
    let large = Arc::new(Large::new()?);
    watch(&broker, topic, over, &large, &mut sent).await.context("others were not served")?;
    slow.shutdown().await;

    // The first one said nothing meanwhile, and may have been closed for that.
    let mut session = Session::open(broker.address()).await?;
    let began = Instant::now();
    let mut fast = JoinSet::new();
    for number in 0..whole {
        let protocol = if number % 2 == 0 { Protocol::V1 } else { Protocol::V2 };
        fast.spawn(send_whole(broker.address(), topic, protocol, Arc::clone(&large)));
    }
    while !fast.is_empty() {
        tokio::select! {
            Some(done) = fast.join_next() => {
                done??;
                sent.whole += 1;
            }
            () = sleep(TRIM_EVERY) => trim(&mut session, topic).await?,
        }
    }
    sent.whole_took = began.elapsed();
    ensure!(sent.whole == whole, "{} of {whole} large frames were answered", sent.whole);
    sent.peak_bytes = Memory::of(broker.pid()?)?.peak_bytes;
    trim(&mut session, topic).await?;
    drop(session);
    broker.stop().await?;
    Ok(sent)
}

/// Takes away all that is there.
async fn trim(session: &mut Session, topic: TopicId) -> Result<()> {
    session.ask(&TrimRequest { topic, partition: PartitionId(0), offset: Offset(u64::MAX) }).await?;
    Ok(())
}

async fn trickle(address: SocketAddr, topic: TopicId, protocol: Protocol) -> Result<()> {
    let piece = vec![7; PIECE_BYTES];
    let pieces = ANNOUNCED_BYTES as usize / PIECE_BYTES;
    match protocol {
        Protocol::V1 => {
            let mut producer = V1Producer::open(address, TOPIC).await?;
            producer.begin_frame(ANNOUNCED_BYTES, &[]).await?;
            for _ in 0..pieces {
                producer.send(&piece).await?;
                sleep(REST).await;
            }
        }
        Protocol::V2 => {
            let mut session = Session::open(address).await?;
            session.begin_produce(topic, PartitionId(0), ANNOUNCED_BYTES as usize).await?;
            for _ in 0..pieces {
                session.send(&piece).await?;
                sleep(REST).await;
            }
        }
    }
    Ok(())
}

/// Sends small frames all the time, and a large one of each version now and then.
async fn watch(broker: &Hermitd, topic: TopicId, over: Duration, large: &Arc<Large>, sent: &mut Sent) -> Result<()> {
    let large = Arc::clone(large);
    let until = Instant::now() + over;
    let address = broker.address();
    let large = tokio::spawn(async move {
        let mut times = Vec::new();
        while Instant::now() < until {
            for protocol in [Protocol::V1, Protocol::V2] {
                let began = Instant::now();
                send_whole(address, topic, protocol, Arc::clone(&large)).await?;
                times.push(began.elapsed());
            }
            sleep(Duration::from_secs(1)).await;
        }
        anyhow::Ok(times)
    });
    let mut producer = V1Producer::open(address, TOPIC).await?;
    let mut session = Session::open(address).await?;
    let frame = ProducedFrame::message(0, None, &[1; 1000]).to_vec()?;
    while Instant::now() < until {
        let began = Instant::now();
        producer.produce(&[2; 1000]).await?;
        sent.small.push(began.elapsed());
        let began = Instant::now();
        session.produce(topic, PartitionId(0), &frame).await?;
        sent.small.push(began.elapsed());
        trim(&mut session, topic).await?;
        sleep(Duration::from_millis(20)).await;
    }
    sent.large = large.await??;
    Ok(())
}

/// A large frame, as each version has it; all clients send the same one.
#[derive(Debug)]
struct Large {
    payload: Vec<u8>,
    frame: Vec<u8>,
}

impl Large {
    fn new() -> Result<Self> {
        let payload = vec![9; ANNOUNCED_BYTES as usize - 4096];
        let frame = ProducedFrame::message(0, None, &payload).to_vec()?;
        Ok(Self { payload, frame })
    }
}

/// Sends a large frame at full speed, as often as it takes.
async fn send_whole(address: SocketAddr, topic: TopicId, protocol: Protocol, large: Arc<Large>) -> Result<()> {
    let mut tries = 0;
    loop {
        tries += 1;
        match try_whole(address, topic, protocol, &large).await {
            Ok(()) => return Ok(()),
            Err(error) if tries >= TRIES => return Err(error.context(format!("a large frame was refused {tries} times"))),
            Err(error) => tracing::warn!(error = format!("{error:#}"), "a large frame was refused"),
        }
        sleep(REST).await;
    }
}

async fn try_whole(address: SocketAddr, topic: TopicId, protocol: Protocol, large: &Large) -> Result<()> {
    match protocol {
        Protocol::V1 => V1Producer::open(address, TOPIC).await?.produce(&large.payload).await.map(drop),
        Protocol::V2 => Session::open(address).await?.produce(topic, PartitionId(0), &large.frame).await.map(drop),
    }
}
