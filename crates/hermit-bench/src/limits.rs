//! What the machine itself can do, measured in the same run as the broker: every figure is also a ratio to one of these.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hermit_proto::crc32c;
use serde::{Deserialize, Serialize};

use crate::clock::now;
use crate::drive::Job;
use crate::drive::echo::{Burn, Echo, Ping};
use crate::drive::raw::{Drain, SendFile, Stream};
use crate::lab::Lab;
use crate::latency::Latency;

/// Sizes of a `sendfile` call that are measured.
pub const CALLS: [usize; 5] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// A file of this size stays in the page cache, and is larger than any processor's.
const FILE_BYTES: u64 = 256 << 20;
/// The append of "one sync".
const SYNC_BYTES: usize = 4096;
/// A message of the ping-pong.
const PING_BYTES: usize = 100;

/// What was measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Bytes a second by `sendfile` in calls of so many bytes, to a reader that copies.
    pub sendfile: Vec<(usize, f64)>,
    /// Bytes a second written in calls of 256 KiB to a reader that copies.
    pub stream: f64,
    /// A round trip of 100 bytes.
    pub ping: Latency,
    /// The same while all processors are busy half of the time.
    pub ping_busy: Latency,
    /// An append of 4 KiB to a growing file, and `fdatasync`.
    pub sync: Latency,
    /// Bytes a second written to a file, the sync at its end included.
    pub sequential_write: f64,
    /// Bytes a second of CRC-32C over what lies in the processor's cache.
    pub crc: f64,
    /// Bytes a second copied, from memory to memory.
    pub memcpy: f64,
}

/// Measures all of them, each for about so many seconds.
///
/// # Errors
///
/// When one cannot be measured.
pub fn measure(lab: &Lab, seconds: f64) -> Result<Limits> {
    let file = cached_file(lab)?;
    let sendfile = CALLS.iter().map(|call| Ok((*call, sendfile(lab, &file, *call, seconds)?))).collect::<Result<_>>()?;
    Ok(Limits {
        sendfile,
        stream: stream(lab, 256 << 10, seconds)?,
        ping: ping(lab, seconds, None)?,
        ping_busy: ping(lab, seconds, Some(0.5))?,
        sync: sync(lab.dir(), seconds)?,
        sequential_write: sequential_write(lab.dir(), FILE_BYTES)?,
        crc: crc(seconds),
        memcpy: memcpy(seconds),
    })
}

/// A file whose pages are all in the cache, and on the disk.
///
/// # Errors
///
/// When it cannot be written.
pub fn cached_file(lab: &Lab) -> Result<PathBuf> {
    let path = lab.dir().join("cached");
    if !path.exists() {
        write_file(&path, FILE_BYTES)?;
    }
    Ok(path)
}

fn write_file(path: &Path, bytes: u64) -> Result<()> {
    let mut file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
    let mut block = vec![0; 1 << 20];
    fastrand::Rng::with_seed(1).fill(&mut block);
    for _ in 0..bytes / block.len() as u64 {
        file.write_all(&block)?;
    }
    Ok(file.sync_data()?)
}

/// Bytes a second by `sendfile` in calls of one size, from a cached file to a reader in another process: the better of a sender that waits within
/// the call and one that waits before it. Which one that is changes with the hour.
///
/// # Errors
///
/// When a worker fails.
pub fn sendfile(lab: &Lab, file: &Path, call_bytes: usize, seconds: f64) -> Result<f64> {
    let with = |polls| served(lab, &Job::SendFile(SendFile { file: file.to_owned(), call_bytes, polls }), seconds / 2.0);
    Ok(with(false)?.max(with(true)?))
}

/// Bytes a second written in calls of one size, to a reader in another process.
///
/// # Errors
///
/// When a worker fails.
pub fn stream(lab: &Lab, call_bytes: usize, seconds: f64) -> Result<f64> {
    served(lab, &Job::Stream(Stream { call_bytes }), seconds)
}

/// First a little, so that it is known how much takes that time.
fn served(lab: &Lab, source: &Job, seconds: f64) -> Result<f64> {
    let run = |bytes| {
        let mut source = lab.worker(source)?;
        let address = source.address.context("it does not listen")?;
        source.go()?;
        let outcome = lab.run(&Job::Drain(Drain { address, bytes, rate: None }))?;
        source.finish()?;
        Ok::<_, anyhow::Error>(rate(outcome.bytes, outcome.seconds))
    };
    let probe = run(64 << 20)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of bytes that take some seconds")]
    run((probe * seconds) as u64 + 1)
}

/// Times of round trips, perhaps while all processors are busy with something else for a share of the time.
///
/// # Errors
///
/// When a worker fails.
pub fn ping(lab: &Lab, seconds: f64, busy: Option<f64>) -> Result<Latency> {
    let mut echo = lab.worker(&Job::Echo(Echo { bytes: PING_BYTES }))?;
    let address = echo.address.context("it does not listen")?;
    echo.go()?;
    let mut burners = Vec::new();
    if let Some(share) = busy {
        for _ in 0..std::thread::available_parallelism()?.get() {
            let mut burner = lab.worker(&Job::Burn(Burn { share, seconds: seconds + 0.5 }))?;
            burner.go()?;
            burners.push(burner);
        }
    }
    let outcome = lab.run(&Job::Ping(Ping { address, bytes: PING_BYTES, seconds, pause: 0.0 }))?;
    drop(burners);
    echo.finish()?;
    outcome.latency.context("no round trip")
}

/// Round trips while something else is done, for as long as that is meant to take: one each millisecond, which is next to no load.
///
/// # Errors
///
/// When a worker fails, or `meanwhile`.
pub fn ping_beside<T>(lab: &Lab, seconds: f64, meanwhile: impl FnOnce() -> Result<T>) -> Result<(T, Latency)> {
    let mut echo = lab.worker(&Job::Echo(Echo { bytes: PING_BYTES }))?;
    let address = echo.address.context("it does not listen")?;
    echo.go()?;
    let mut ping = lab.worker(&Job::Ping(Ping { address, bytes: PING_BYTES, seconds, pause: 0.001 }))?;
    ping.go()?;
    let done = meanwhile()?;
    let outcome = ping.finish()?;
    echo.finish()?;
    Ok((done, outcome.latency.context("no round trip")?))
}

/// "One sync": an append of 4 KiB to a growing file, and `fdatasync`.
///
/// # Errors
///
/// When the disk fails.
pub fn sync(dir: &Path, seconds: f64) -> Result<Latency> {
    sync_of(dir, SYNC_BYTES, seconds)
}

/// The same with appends of so many bytes.
///
/// # Errors
///
/// When the disk fails.
pub fn sync_of(dir: &Path, bytes: usize, seconds: f64) -> Result<Latency> {
    let path = dir.join("growing");
    let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
    let block = vec![7; bytes];
    let mut times_ns = Vec::new();
    let begun = now();
    while begun.elapsed().as_secs_f64() < seconds {
        let start = now();
        file.write_all(&block)?;
        file.sync_data()?;
        times_ns.push(u64::try_from(start.elapsed().as_nanos())?);
    }
    std::fs::remove_file(path)?;
    Ok(Latency::of(times_ns))
}

/// Bytes a second written to a new file, the sync at its end included.
///
/// # Errors
///
/// When the disk fails.
pub fn sequential_write(dir: &Path, bytes: u64) -> Result<f64> {
    let path = dir.join("sequential");
    let begun = now();
    write_file(&path, bytes)?;
    let seconds = begun.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(rate(bytes, seconds))
}

fn crc(seconds: f64) -> f64 {
    let block = vec![7; 64 << 10];
    repeated(seconds, block.len(), || {
        std::hint::black_box(crc32c(std::hint::black_box(&block)));
    })
}

fn memcpy(seconds: f64) -> f64 {
    let from = vec![7_u8; 64 << 20];
    let mut to = vec![0_u8; from.len()];
    repeated(seconds, from.len(), || {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
    })
}

fn repeated(seconds: f64, bytes: usize, mut once: impl FnMut()) -> f64 {
    let (begun, mut total) = (now(), 0);
    while begun.elapsed().as_secs_f64() < seconds {
        once();
        total += bytes as u64;
    }
    rate(total, begun.elapsed().as_secs_f64())
}

/// So many a second.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
pub fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
