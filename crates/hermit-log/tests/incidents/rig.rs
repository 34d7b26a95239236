//! A log on a simulated disk, and a consumer that notes what it sees.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::BytesMut;
use hermit_log::disk::Disk;
use hermit_log::disk::sim::SimDisk;
use hermit_log::{
    Batch, Bounds, Flusher, Log, LogConfig, LogEnv, LogError, LogIdentity, LogListener, LogTimes, ManualClock, RecoveryReport,
    Start,
};
use hermit_proto::{
    FrameLimits, FrameView, LeaderEpoch, Offset, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence,
};

use crate::hooked::{Hooked, Hooks};

pub(crate) const SECOND: u64 = 1_000_000_000;
/// Header and extension.
pub(crate) const PREFIX_BYTES: u64 = 69;
/// Frames of [`append`] have this size.
pub(crate) const FRAME_BYTES: u64 = PREFIX_BYTES + 31;

#[derive(Debug)]
pub(crate) struct Deaf;

impl LogListener for Deaf {
    fn advanced(&self, _bounds: Bounds) {}
    fn failed(&self, _reason: &LogError) {}
}

pub(crate) struct Bench {
    pub(crate) disk: SimDisk,
    pub(crate) clock: Arc<ManualClock>,
}

pub(crate) fn dir() -> &'static Path {
    Path::new("/data/p")
}

pub(crate) fn wal(base: u64) -> PathBuf {
    dir().join(format!("{base:020}.wal"))
}

pub(crate) fn idx(base: u64) -> PathBuf {
    dir().join(format!("{base:020}.idx"))
}

impl Bench {
    pub(crate) fn new() -> Self {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/data")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        Self { disk, clock: Arc::new(ManualClock::new(1_000_000 * SECOND)) }
    }

    pub(crate) fn open(&self, config: &LogConfig, clean: bool, epoch: u32) -> (Log, RecoveryReport) {
        let clock = Arc::clone(&self.clock);
        let env = LogEnv::new(Arc::new(self.disk.clone()), Arc::clone(&clock) as _, Flusher::manual(clock), 64);
        let start = Start { clean, leader_epoch: LeaderEpoch(epoch) };
        Log::open_in(&env, dir(), LogIdentity::default(), config.clone(), start, Arc::new(Deaf)).unwrap()
    }

    /// On a disk on which something may happen in between.
    pub(crate) fn open_hooked(&self, config: &LogConfig, clean: bool, epoch: u32) -> (Log, Hooks) {
        let (log, hooks, _times) = self.open_hooked_with_times(config, clean, epoch);
        (log, hooks)
    }

    /// With what is told of how long its disk takes.
    pub(crate) fn open_hooked_with_times(&self, config: &LogConfig, clean: bool, epoch: u32) -> (Log, Hooks, Arc<LogTimes>) {
        let clock = Arc::clone(&self.clock);
        let hooks = Hooks::default();
        let disk = Hooked { disk: self.disk.clone(), hooks: hooks.clone() };
        // One open file, so that each is opened when it is used.
        let env = LogEnv::new(Arc::new(disk), Arc::clone(&clock) as _, Flusher::manual(clock), 1);
        let start = Start { clean, leader_epoch: LeaderEpoch(epoch) };
        let (log, _) = Log::open_in(&env, dir(), LogIdentity::default(), config.clone(), start, Arc::new(Deaf)).unwrap();
        (log, hooks, env.times)
    }

    /// Damages the prefix of the frame at `position`, so that its size cannot be believed.
    pub(crate) fn rot(&self, base: u64, position: u64) {
        assert!(self.disk.overwrite(&wal(base), position + 17, b"damaged!"));
    }
}

pub(crate) fn batch(frames: &[ProducedFrame<'_>]) -> Batch {
    let mut bytes = BytesMut::new();
    for frame in frames {
        bytes.extend_from_slice(&frame.to_vec().unwrap());
    }
    Batch::parse(bytes, &FrameLimits::default()).unwrap()
}

pub(crate) fn payload(i: u64) -> String {
    format!("{i:031}")
}

/// A frame of [`FRAME_BYTES`].
pub(crate) fn append(log: &Log) -> u64 {
    let end = log.bounds().log_end.0;
    log.append(&mut batch(&[ProducedFrame::message(7, None, payload(end).as_bytes())])).unwrap().base_offset.0
}

pub(crate) fn append_many(log: &Log, count: u64) {
    for _ in 0..count {
        append(log);
    }
}

pub(crate) fn keyed(log: &Log, key: &str, payload: &str) -> u64 {
    log.append(&mut batch(&[ProducedFrame::message(7, Some(key.as_bytes()), payload.as_bytes())])).unwrap().base_offset.0
}

pub(crate) fn stamped(log: &Log, sequence: i32) -> Result<hermit_log::Appended, LogError> {
    let producer = ProducerStamp { id: ProducerId(9), epoch: ProducerEpoch(0), first_sequence: Sequence(sequence) };
    let text = payload(log.bounds().log_end.0);
    log.append(&mut batch(&[ProducedFrame { producer: Some(producer), ..ProducedFrame::message(0, None, text.as_bytes()) }]))
}

/// What a consumer gets, and what it is told is damaged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) frames: Vec<u64>,
    pub(crate) corrupt: Vec<(u64, u64)>,
    pub(crate) keys: Vec<String>,
}

/// Reads like a consumer that goes on behind damage. It must come to the high watermark.
pub(crate) fn consume(log: &Log, from: u64, step_bytes: u64) -> Seen {
    let mut seen = Seen::default();
    let mut at = from.max(log.bounds().log_start.0);
    let high_watermark = log.bounds().high_watermark.0;
    'damage: while at < high_watermark {
        let mut cursor = match log.cursor(Offset(at)) {
            Ok(cursor) => cursor,
            Err(LogError::Corrupt { from, next }) => {
                assert!(next.0 > at, "reading goes on at {next}, which is not behind {at}");
                seen.corrupt.push((from.0, next.0));
                at = next.0;
                continue;
            }
            Err(error) => panic!("{error:?}"),
        };
        loop {
            match cursor.next(step_bytes) {
                Ok(Some(range)) => {
                    let mut bytes = Vec::new();
                    range.read_into(&mut bytes).unwrap();
                    let mut rest = &bytes[..];
                    let mut good = true;
                    while let Ok((view, behind)) = FrameView::split(rest, &FrameLimits::default()) {
                        if view.verify_body().is_err() {
                            good = false;
                            break;
                        }
                        seen.frames.push(view.prefix.offset().0);
                        if let Some(key) = view.key() {
                            seen.keys.push(String::from_utf8_lossy(key).into_owned());
                        }
                        at = view.prefix.next_offset().0;
                        rest = behind;
                    }
                    if !good || !rest.is_empty() {
                        assert!(range.verify().is_err());
                        continue 'damage;
                    }
                    at = range.next_offset().0;
                }
                Ok(None) => {
                    assert_eq!(cursor.next_offset().0, high_watermark, "the consumer waits before the high watermark");
                    return seen;
                }
                Err(LogError::Corrupt { from, next }) => {
                    assert!(next.0 > at || next.0 == high_watermark, "reading goes on at {next}, which is not behind {at}");
                    seen.corrupt.push((from.0, next.0));
                    at = next.0;
                    continue 'damage;
                }
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    seen
}

pub(crate) fn numbers(ranges: &[std::ops::Range<u64>]) -> Vec<u64> {
    ranges.iter().cloned().flatten().collect()
}
