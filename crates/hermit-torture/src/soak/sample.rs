//! What a broker holds at a moment, as the machine counts it.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::slope::Measure;
use crate::memory::{Memory, mib};

/// Units of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// One look at a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Since its start.
    pub at: Duration,
    /// Resident memory.
    pub memory_bytes: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Threads.
    pub threads: u64,
    /// Bytes of the disk that its data take.
    pub disk_bytes: u64,
}

impl Sample {
    pub(super) fn take(pid: u32, data: &Path, at: Duration) -> Result<Self> {
        let count = |what: &str| {
            let path = format!("/proc/{pid}/{what}");
            std::fs::read_dir(&path).map(|entries| entries.count() as u64).with_context(|| format!("{path} cannot be read"))
        };
        let memory_bytes = Memory::of(pid)?.now_bytes;
        Ok(Self { at, memory_bytes, descriptors: count("fd")?, threads: count("task")?, disk_bytes: disk_bytes(data)? })
    }

    /// One of its numbers.
    #[must_use]
    pub fn get(&self, measure: Measure) -> u64 {
        match measure {
            Measure::Memory => self.memory_bytes,
            Measure::Descriptors => self.descriptors,
            Measure::Threads => self.threads,
            Measure::Disk => self.disk_bytes,
        }
    }
}

/// What the files of a folder take. What vanishes meanwhile takes nothing.
fn disk_bytes(folder: &Path) -> Result<u64> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error).with_context(|| format!("{} cannot be read", folder.display())),
    };
    let mut bytes = 0;
    for entry in entries {
        let Ok(entry) = entry else { continue };
        let Ok(found) = entry.metadata() else { continue };
        bytes += if found.is_dir() { disk_bytes(&entry.path())? } else { found.blocks() * BLOCK_BYTES };
    }
    Ok(bytes)
}

/// The samples from one start of the broker to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incarnation {
    /// How long it was watched.
    pub time: Duration,
    /// In order.
    pub samples: Vec<Sample>,
}

impl Incarnation {
    /// The samples behind the warm-up: the first third.
    pub(super) fn warm(&self) -> &[Sample] {
        self.samples.get(self.samples.len() / 3..).unwrap_or_default()
    }

    /// The middle one of the warm samples' numbers.
    #[must_use]
    pub fn median(&self, measure: Measure) -> u64 {
        let mut numbers: Vec<_> = self.warm().iter().map(|sample| sample.get(measure)).collect();
        numbers.sort_unstable();
        numbers.get(numbers.len() / 2).copied().unwrap_or(0)
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (memory, disk) = (mib(self.median(Measure::Memory)), mib(self.median(Measure::Disk)));
        let (descriptors, threads) = (self.median(Measure::Descriptors), self.median(Measure::Threads));
        write!(
            f,
            "{:>5.0} s: {memory} of memory, {disk} of disk, {descriptors} descriptors, {threads} threads",
            self.time.as_secs_f64()
        )
    }
}
