//! A whole directory, opened.

use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use hermit_proto::{FrameView, LeaderEpoch, Offset, PartitionId, ProducedFrame, TopicId};

use super::build::Builder;
use super::read::{Seen, read_all};
use super::steps::Steps;
use crate::batch::Batch;
use crate::clock::{Clock, ManualClock};
use crate::config::{CompactionConfig, LogConfig};
use crate::disk::sim::SimDisk;
use crate::error::LogError;
use crate::flusher::Flusher;
use crate::inspect::{Check, frames, inspect};
use crate::log::{Log, LogEnv, LogIdentity, LogListener, Start};
use crate::recovery::RecoveryReport;
use crate::repair::{RepairOptions, repair};
use crate::view::Bounds;

const IDENTITY: LogIdentity = LogIdentity { topic: TopicId(7), partition: PartitionId(3) };

#[derive(Debug)]
struct Deaf;

impl LogListener for Deaf {
    fn advanced(&self, _bounds: Bounds) {}
    fn failed(&self, _reason: &LogError) {}
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::new(2 << 60))
}

fn dir() -> &'static Path {
    Path::new("/data/p")
}

fn open(disk: &SimDisk, start: Start, compaction: bool, flusher: &Flusher) -> Result<(Log, RecoveryReport), LogError> {
    let env = LogEnv::new(Arc::new(disk.clone()), clock(), flusher.clone(), 16);
    let config = LogConfig {
        segment_bytes: 4096,
        index_interval_bytes: 64,
        compaction: compaction.then(CompactionConfig::default),
        ..LogConfig::default()
    };
    Log::open_in(&env, dir(), IDENTITY, config, start, Arc::new(Deaf))
}

/// A directory of any content opens as a served log, or is refused with a named error. What can be read are frames whose checksums hold, in order; the
/// log takes an append behind them, and gives the same frames after a clean stop. Looking at it and repairing it before the start end, too,
/// and a repair takes no frame that could be read.
///
/// # Panics
/// Where that does not hold.
pub fn recovery(data: &[u8]) {
    let mut steps = Steps(data);
    let flags = steps.u8();
    let leader_epoch = if flags & 2 == 0 { LeaderEpoch::UNKNOWN } else { LeaderEpoch(1 << 20) };
    let start = Start { clean: flags & 1 != 0, leader_epoch };
    let compaction = flags & 4 != 0;
    let disk = Builder::new(steps, dir(), IDENTITY).run();
    let repaired = disk.fork();

    let served = serve(&disk, start, compaction);

    let _looked = inspect(&repaired, dir(), IDENTITY, Check::Headers);
    let readable = intact(&repaired);
    let done = repair(&repaired, dir(), IDENTITY, &RepairOptions { drop_damage: flags & 8 != 0, ..RepairOptions::default() });
    if let (Some(before), Ok(_done)) = (readable, done) {
        let after = intact(&repaired).expect("what was repaired can be looked at");
        assert!(before.iter().all(|frame| after.contains(frame)), "a repair lost frames: {before:?} became {after:?}");
    }
    let opened = serve(&repaired, start, compaction);
    assert!(served.is_none() || opened.is_some(), "a repair made a log that opens one that does not");
}

/// The frames that are there without a start.
fn intact(disk: &SimDisk) -> Option<Vec<(Offset, u32)>> {
    let found = frames(Arc::new(disk.clone()), dir(), IDENTITY, Offset::ZERO).ok()?;
    let mut seen = Vec::new();
    for frame in found.take(100_000) {
        if let Ok(frame) = frame.ok()? {
            assert!(frame.view().is_some_and(|view: FrameView<'_>| view.verify_body().is_ok()));
            seen.push((frame.prefix.offset(), frame.prefix.extension.body_crc));
        }
    }
    Some(seen)
}

/// Opens the log, reads, appends, stops and reads again. `None` where it does not open.
fn serve(disk: &SimDisk, start: Start, compaction: bool) -> Option<Vec<Seen>> {
    let flusher = Flusher::manual(clock());
    let (log, _report) = open(disk, start, compaction, &flusher).ok()?;
    let mut seen = read_all(&log, IDENTITY).expect("the disk has no faults");
    let bounds = log.bounds();
    assert!(bounds.log_start <= bounds.high_watermark && bounds.high_watermark <= bounds.log_end, "{bounds:?}");
    assert!(seen.last().is_none_or(|last| last.next <= bounds.log_end), "{seen:?} in {bounds:?}");

    let frame = ProducedFrame::message(9, Some(b"key"), b"appended behind").to_vec().expect("it is small");
    let mut batch = Batch::parse(BytesMut::from(&frame[..]), &log.config().frame_limits).expect("it is sound");
    match log.append(&mut batch) {
        Ok(appended) => {
            log.flush().expect("the disk has no faults");
            let again = read_all(&log, IDENTITY).expect("the disk has no faults");
            let last = again.last().expect("something was appended");
            assert_eq!((last.offset, last.next), (bounds.log_end, appended.next_offset));
            assert_eq!(again.get(..again.len() - 1), Some(&*seen), "an append changed what was there");
            seen = again;
        }
        Err(LogError::OffsetsExhausted) => {}
        Err(error) => panic!("the log opened, and takes nothing: {error}"),
    }
    log.close().expect("the disk has no faults");
    // Its queue keeps the log, and the log keeps the queue.
    flusher.run_until_idle();
    drop(log);
    let clean = Start { clean: true, leader_epoch: LeaderEpoch::UNKNOWN };
    let (log, _report) = open(disk, clean, compaction, &flusher).expect("a log that was closed opens");
    assert_eq!(read_all(&log, IDENTITY).expect("the disk has no faults"), seen, "a clean restart changed what was there");
    Some(seen)
}
