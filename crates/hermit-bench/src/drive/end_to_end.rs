//! From a producer of version 1 to a consumer, by an open schedule: a frame's time begins when it was to be sent, however late it was. Each
//! carries that moment as its timestamp, which the broker hands on.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermit_proto::v1::{ANSWER_SIZE, Handshake};
use hermit_proto::{GroupName, HEADER_SIZE, Header, PartitionId, TopicName, magic};
use serde::{Deserialize, Serialize};

use super::{READ_BYTES, connect, read_some};
use crate::clock::now;
use crate::latency::Latency;
use crate::material::{Material, Shape};
use crate::worker::{Outcome, Ready, Run};

/// Frames that are due together are written together, up to so many.
const MAX_BURST: u64 = 500;
/// With a rate, frames that become due within so long after a write are written together: one by one, the producer alone would fill a core at a million a
/// second, and take it from the broker and the consumer. What a frame waits for others counts as its time.
const LINGER: Duration = Duration::from_micros(50);
/// Without a rate, so many are on their way at most.
const WINDOW: u64 = 20_000;

/// The consumer's group.
pub(super) const GROUP: &str = "bench";

/// The load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EndToEnd {
    /// The broker.
    pub address: SocketAddr,
    /// The topic; it is empty, and its first partition is used.
    pub topic: String,
    /// Bytes of a payload.
    pub payload_bytes: usize,
    /// Frames a second; as fast as the consumer gets them if not given.
    pub rate: Option<f64>,
    /// How long frames are sent.
    pub seconds: f64,
}

impl EndToEnd {
    pub(super) fn prepare(self) -> Result<(Ready, Run)> {
        let material = Material::new(Shape::v1(self.payload_bytes, 1), false)?;
        let (topic, partition) = (TopicName::new(&self.topic)?, PartitionId(0));
        let group = GroupName::new(GROUP)?;
        let consumer = open(self.address, &Handshake::Consumer { group, topic: topic.clone(), partition })?;
        let producer = open(self.address, &Handshake::Producer { topic, partition })?;
        Ok((Ready::default(), Box::new(move || self.run(&material, producer, consumer))))
    }

    fn run(&self, material: &Material, producer: TcpStream, mut consumer: TcpStream) -> Result<Outcome> {
        let begun = now();
        let (sent_all, got) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        let (mut writer, mut answers) = (producer.try_clone()?, producer);
        let times_ns = std::thread::scope(|scope| {
            let sending = scope.spawn(|| self.send(&mut writer, material, begun, &sent_all, &got));
            let answering = scope.spawn(|| drain_answers(&mut answers, &sent_all));
            let times_ns = receive(&mut consumer, self.payload_bytes, begun, &sent_all, &got)?;
            let panicked = |_panic| anyhow::anyhow!("a thread panicked");
            sending.join().map_err(panicked)??;
            answering.join().map_err(panicked)??;
            Ok::<_, anyhow::Error>(times_ns)
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let frames = times_ns.len() as u64;
        let bytes = frames * (HEADER_SIZE + self.payload_bytes) as u64;
        Ok(Outcome { seconds, frames, records: frames, bytes, latency: Some(Latency::of(times_ns)), ..Outcome::default() })
    }

    fn send(&self, stream: &mut TcpStream, material: &Material, begun: Instant, all: &AtomicU64, got: &AtomicU64) -> Result<()> {
        // Sleep as exactly as the kernel can.
        rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        let mut burst = Vec::new();
        let (mut sent, mut over) = (0, false);
        let mut may_write_at = Duration::ZERO;
        while !over {
            let elapsed = begun.elapsed();
            let mut due = self.due(elapsed, sent, got);
            over = match self.total() {
                // All that was to be sent is, however late.
                Some(total) => sent + due >= total,
                None => elapsed.as_secs_f64() >= self.seconds,
            };
            if over {
                due = due.max(1);
                // Told before the last are written, so that whoever gets them knows that they are the last.
                all.store(sent + due, Ordering::Release);
            } else if due == 0 || (due < MAX_BURST && elapsed < may_write_at) {
                self.wait(begun, sent, may_write_at);
                continue;
            }
            if self.rate.is_some() {
                may_write_at = elapsed + LINGER;
            }
            burst.clear();
            for number in sent..sent + due {
                let at = burst.len();
                burst.extend_from_slice(material.frame(number));
                burst[at + 1..at + 9].copy_from_slice(&self.moment(number, elapsed).to_be_bytes());
            }
            sent += due;
            stream.write_all(&burst).context("the broker takes nothing")?;
        }
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of frames within some seconds")]
    fn total(&self) -> Option<u64> {
        self.rate.map(|rate| ((rate * self.seconds) as u64).max(1))
    }

    /// Frames that are due and were not sent.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of frames within some seconds")]
    fn due(&self, elapsed: Duration, sent: u64, got: &AtomicU64) -> u64 {
        let due = match self.rate {
            Some(rate) => ((elapsed.as_secs_f64() * rate) as u64 + 1).min(self.total().unwrap_or(u64::MAX)),
            None => got.load(Ordering::Relaxed) + WINDOW,
        };
        due.saturating_sub(sent).min(MAX_BURST)
    }

    /// When a frame was to be sent, in ns since the beginning.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "some seconds in ns")]
    fn moment(&self, number: u64, elapsed: Duration) -> u64 {
        self.rate.map_or_else(|| nanos(elapsed), |rate| (number as f64 / rate * 1e9) as u64)
    }

    /// Sleeps until the next frame is due and may be written; without a rate, until the consumer may have got some.
    fn wait(&self, begun: Instant, sent: u64, may_write_at: Duration) {
        let due_at = self.rate.map(|_rate| Duration::from_nanos(self.moment(sent, Duration::ZERO)));
        match due_at.and_then(|due_at| due_at.max(may_write_at).checked_sub(begun.elapsed())) {
            Some(rest) => std::thread::sleep(rest),
            None => std::thread::sleep(Duration::from_micros(20)),
        }
    }
}

fn open(address: SocketAddr, handshake: &Handshake) -> Result<TcpStream> {
    let mut stream = connect(address)?;
    let mut bytes = Vec::new();
    handshake.encode(&mut bytes);
    stream.write_all(&bytes)?;
    Ok(stream)
}

fn drain_answers(stream: &mut TcpStream, all: &AtomicU64) -> Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut bytes = 0;
    while bytes / (ANSWER_SIZE as u64) < all.load(Ordering::Acquire) {
        bytes += read_some(stream, &mut buffer)? as u64;
    }
    Ok(())
}

/// Takes the time of every frame; they come in order, and all of them.
fn receive(stream: &mut TcpStream, payload_bytes: usize, begun: Instant, all: &AtomicU64, got: &AtomicU64) -> Result<Vec<u64>> {
    let mut buffer = vec![0; READ_BYTES.max(4 * payload_bytes)];
    let size = HEADER_SIZE + payload_bytes;
    let (mut held, mut times_ns) = (0, Vec::new());
    while (times_ns.len() as u64) < all.load(Ordering::Acquire) {
        held += read_some(stream, &mut buffer[held..])?;
        let arrived = nanos(begun.elapsed());
        let whole = held / size * size;
        for frame in buffer[..whole].chunks_exact(size) {
            let header = Header::peek(frame).context("no header")?;
            let fits = header.magic == magic::DATA_V1
                && header.offset == times_ns.len() as u64
                && header.body_bytes() == payload_bytes as u64;
            ensure!(fits, "not the frame at offset {}: {header:?}", times_ns.len());
            times_ns.push(arrived.saturating_sub(header.timestamp));
        }
        buffer.copy_within(whole..held, 0);
        held -= whole;
        got.store(times_ns.len() as u64, Ordering::Relaxed);
    }
    Ok(times_ns)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
