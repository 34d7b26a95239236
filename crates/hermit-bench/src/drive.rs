//! The loads: blocking code over bare sockets, so cheap that the broker is what is measured.

pub mod echo;
pub mod end_to_end;
pub mod http_produce;
pub mod idle;
pub mod raw;
pub mod relay;
mod sdk;
mod session;
pub mod v1_consume;
pub mod v1_produce;
pub mod v2_consume;
pub mod v2_produce;

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermit_proto::PartitionId;
use serde::{Deserialize, Serialize};

use crate::clock::now;
use crate::tally::Tally;
use crate::worker::{Outcome, Ready, Run};
use v1_consume::Extent;

/// Read at a time: large enough that calls do not count, small enough to stay in the cache of a core.
pub const READ_BYTES: usize = 256 << 10;
/// Longer than anything takes: what is not there by then does not come.
const SILENCE: Duration = Duration::from_secs(60);

/// What a worker is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Produces with version 1.
    V1Produce(v1_produce::Produce),
    /// Consumes with version 1.
    V1Consume(v1_consume::Consume),
    /// Produces with version 2.
    V2Produce(v2_produce::Produce),
    /// Consumes with version 2.
    V2Consume(v2_consume::Consume),
    /// Reads a socket that a `SendFile` serves, and copies what comes.
    Drain(raw::Drain),
    /// Sends a file to whoever connects, by `sendfile`.
    SendFile(raw::SendFile),
    /// Writes to whoever connects.
    Stream(raw::Stream),
    /// Sends back what comes.
    Echo(echo::Echo),
    /// Sends, waits for what comes back, and takes the time.
    Ping(echo::Ping),
    /// Hands frames on from a producer to a consumer.
    Relay(relay::Relay),
    /// Keeps a processor busy.
    Burn(echo::Burn),
    /// From a producer to a consumer, by schedule.
    EndToEnd(end_to_end::EndToEnd),
    /// Consumers that wait.
    Idle(idle::Idle),
    /// The SDK's producer.
    SdkProduce(hermit_load::ProduceLoad),
    /// The SDK's consumer.
    SdkConsume(hermit_load::ConsumeLoad),
    /// Batches over HTTP.
    HttpProduce(http_produce::Produce),
}

impl Job {
    /// Its name in messages.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::V1Produce(_) => "the version-1 producer",
            Self::V1Consume(_) => "the version-1 consumer",
            Self::V2Produce(_) => "the version-2 producer",
            Self::V2Consume(_) => "the version-2 consumer",
            Self::Drain(_) => "the reader of a socket",
            Self::SendFile(_) => "the sender of a file",
            Self::Stream(_) => "the writer to a socket",
            Self::Echo(_) => "the echo",
            Self::Ping(_) => "the pinger",
            Self::Relay(_) => "the relay",
            Self::Burn(_) => "the burner",
            Self::EndToEnd(_) => "the end-to-end load",
            Self::Idle(_) => "the idle consumers",
            Self::SdkProduce(_) => "the SDK's producer",
            Self::SdkConsume(_) => "the SDK's consumer",
            Self::HttpProduce(_) => "the producer over HTTP",
        }
    }
}

/// Does all of a job that its time shall not hold.
///
/// # Errors
///
/// When the broker is not there, or refuses.
pub fn prepare(job: Job) -> Result<(Ready, Run)> {
    match job {
        Job::V1Produce(job) => job.prepare(),
        Job::V1Consume(job) => Ok((Ready::default(), Box::new(move || job.run()))),
        Job::V2Produce(job) => job.prepare(),
        Job::V2Consume(job) => Ok((Ready::default(), Box::new(move || job.run()))),
        Job::Drain(job) => Ok((Ready::default(), Box::new(move || job.run()))),
        Job::SendFile(job) => job.prepare(),
        Job::Stream(job) => job.prepare(),
        Job::Echo(job) => job.prepare(),
        Job::Ping(job) => Ok((Ready::default(), Box::new(move || job.run()))),
        Job::Relay(job) => job.prepare(),
        Job::EndToEnd(job) => job.prepare(),
        Job::Idle(job) => job.prepare(),
        Job::SdkProduce(load) => sdk::produce(load),
        Job::SdkConsume(load) => sdk::consume(load),
        Job::HttpProduce(load) => load.prepare(),
        Job::Burn(job) => Ok((Ready::default(), Box::new(move || Ok(job.run())))),
    }
}

/// When a load ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// After so many seconds.
    Seconds(f64),
    /// After so many frames of each connection, or passes over what there is.
    Count(u64),
}

impl Until {
    /// Whether a load that began then, and did so many, has ended.
    fn is_over(self, begun: Instant, done: u64) -> bool {
        match self {
            Self::Seconds(seconds) => begun.elapsed().as_secs_f64() >= seconds,
            Self::Count(count) => done >= count,
        }
    }
}

/// A connection that sends at once, and whose calls end.
fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE))?;
    stream.set_write_timeout(Some(SILENCE))?;
    Ok(stream)
}

/// Reads some bytes; an end of the stream is an error.
fn read_some(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<usize> {
    let read = stream.read(buffer).context("nothing comes")?;
    ensure!(read > 0, "the connection was closed");
    Ok(read)
}

/// Reads partitions from 0 on at once, each over and over as `pass` does, and counts what was read. All passes over a partition give the same.
fn passes(
    partitions: &[Extent],
    records: u32,
    until: Until,
    buffer_bytes: usize,
    pass: impl Fn(PartitionId, Extent, &mut [u8]) -> Result<Tally> + Sync,
) -> Result<Outcome> {
    let begun = now();
    let numbered = partitions.iter().copied().zip((0..).map(PartitionId)).collect();
    let done = on_threads(numbered, |(extent, partition)| {
        let mut buffer = vec![0; buffer_bytes];
        let tally = pass(partition, extent, &mut buffer)?;
        let mut passes = 1;
        while !until.is_over(begun, passes) {
            let found = pass(partition, extent, &mut buffer)?;
            ensure!(tally == found, "two passes over the same frames differ");
            passes += 1;
        }
        Ok((extent, passes, tally))
    })?;
    let mut outcome = Outcome { seconds: begun.elapsed().as_secs_f64(), ..Outcome::default() };
    for (extent, passes, tally) in done {
        outcome.frames += extent.frames * passes;
        outcome.bytes += extent.bytes * passes;
        outcome.tally.merge(&tally);
    }
    outcome.records = outcome.frames * u64::from(records);
    Ok(outcome)
}

/// Runs the same on threads, one for each item, at once, and gathers what comes of them.
fn on_threads<T: Send, R: Send>(items: Vec<T>, run: impl Fn(T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let run = &run;
    std::thread::scope(|scope| {
        let threads: Vec<_> = items.into_iter().map(|item| scope.spawn(move || run(item))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_panic| anyhow::anyhow!("a thread panicked"))?).collect()
    })
}
