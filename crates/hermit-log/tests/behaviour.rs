//! What a log does on an ordinary disk: append, read, roll, trim, retain, compact, restart.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hermit_log::disk::sim::SimDisk;
use hermit_log::{
    Batch, CompactionConfig, Durability, Flusher, Log, LogConfig, LogEnv, LogError, LogIdentity, LogListener, ManualClock,
    ProducerError, Ready, Start,
};
use hermit_proto::{
    FrameLimits, FrameView, LeaderEpoch, Offset, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence,
};

#[derive(Debug)]
struct Silent;
impl LogListener for Silent {
    fn advanced(&self, _bounds: hermit_log::Bounds) {}
    fn failed(&self, _reason: &LogError) {}
}

struct Bench {
    env: LogEnv,
    clock: Arc<ManualClock>,
}

impl Bench {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(1_000_000_000_000));
        let flusher = Flusher::manual(clock.clone());
        let env = LogEnv::new(Arc::new(SimDisk::new(1)), clock.clone(), flusher, 64);
        env.disk.create_dir_all(Path::new("/data")).unwrap();
        Self { env, clock }
    }

    fn open(&self, config: LogConfig, clean: bool, epoch: u32) -> Log {
        let start = Start { clean, leader_epoch: LeaderEpoch(epoch) };
        let (log, report) =
            Log::open_in(&self.env, Path::new("/data/p"), LogIdentity::default(), config, start, Arc::new(Silent)).unwrap();
        assert_eq!(report.cut, None);
        assert_eq!(report.fenced, vec![]);
        log
    }
}

fn small_segments() -> LogConfig {
    LogConfig { segment_bytes: 1000, index_interval_bytes: 200, ..LogConfig::default() }
}

fn batch(frames: &[ProducedFrame<'_>]) -> Batch {
    let mut bytes = BytesMut::new();
    for frame in frames {
        bytes.extend_from_slice(&frame.to_vec().unwrap());
    }
    Batch::parse(bytes, &FrameLimits::default()).unwrap()
}

fn append(log: &Log, payload: &str) -> Offset {
    log.append(&mut batch(&[ProducedFrame::message(7, None, payload.as_bytes())])).unwrap().base_offset
}

fn keyed(log: &Log, key: &str, payload: &str) {
    log.append(&mut batch(&[ProducedFrame::message(7, Some(key.as_bytes()), payload.as_bytes())])).unwrap();
}

fn read_all(log: &Log, from: Offset) -> Vec<(Offset, Vec<u8>)> {
    let mut found = Vec::new();
    let mut cursor = log.cursor(from).unwrap();
    while let Some(range) = cursor.next(300).unwrap() {
        range.verify().unwrap();
        let mut bytes = Vec::new();
        range.read_into(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, range.len_bytes());
        let mut rest = &bytes[..];
        let mut expected = range.first_offset();
        while !rest.is_empty() {
            let (view, behind) = FrameView::split(rest, &FrameLimits::default()).unwrap();
            assert!(view.prefix.offset() >= expected);
            expected = view.prefix.next_offset();
            found.push((view.prefix.offset(), view.payload().to_vec()));
            rest = behind;
        }
        assert!(range.next_offset() >= expected);
    }
    found
}

fn payload(i: u64) -> String {
    format!("payload {i} {}", "x".repeat((i * 37 % 200) as usize))
}

#[test]
fn what_is_flushed_is_read_and_found_again_after_any_stop() {
    let bench = Bench::new();
    let mut log = bench.open(small_segments(), false, 0);
    for round in 0..6u32 {
        for i in 0..40 {
            let i = u64::from(round) * 40 + i;
            assert_eq!(append(&log, &payload(i)), Offset(i));
        }
        log.flush().unwrap();
        assert_eq!(log.bounds().high_watermark, Offset(u64::from(round + 1) * 40));
        let all = read_all(&log, Offset::ZERO);
        assert_eq!(all, (0..u64::from(round + 1) * 40).map(|i| (Offset(i), payload(i).into_bytes())).collect::<Vec<_>>());
        for from in 0..u64::from(round + 1) * 40 {
            assert_eq!(read_all(&log, Offset(from))[0].0, Offset(from));
        }
        let clean = round % 2 == 0;
        if clean {
            log.close().unwrap();
            assert!(matches!(log.append(&mut batch(&[ProducedFrame::message(0, None, b"")])), Err(LogError::Closed)));
        }
        drop(log);
        log = bench.open(small_segments(), clean, round.div_ceil(2));
    }
    assert!(log.segment_count() > 10);
}

#[test]
fn nothing_is_visible_before_the_flush_in_a_sync_log_and_all_is_in_an_os_log() {
    let bench = Bench::new();
    let log = bench.open(small_segments(), false, 0);
    append(&log, "a");
    assert_eq!(log.bounds().high_watermark, Offset(0));
    assert!(log.cursor(Offset(0)).unwrap().next(100).unwrap().is_none());
    assert!(matches!(log.cursor(Offset(1)), Err(LogError::OutOfRange { .. })));
    bench.env.flusher.run_until_idle();
    assert_eq!(read_all(&log, Offset(0)).len(), 1);
    drop(log);
    let log = bench.open(LogConfig { durability: Durability::Os, ..small_segments() }, false, 1);
    append(&log, "b");
    assert_eq!(read_all(&log, Offset(0)).len(), 2);
    assert_eq!(log.bounds().flushed_end, Offset(1));
    bench.env.flusher.run_until_idle();
    assert_eq!(log.bounds().flushed_end, Offset(1));
    bench.clock.advance(Duration::from_secs(2));
    bench.env.flusher.run_until_idle();
    assert_eq!(log.bounds().flushed_end, Offset(2));
}

#[test]
fn an_os_log_is_flushed_once_so_many_bytes_are_there_however_soon() {
    let bench = Bench::new();
    let config = LogConfig { durability: Durability::Os, os_flush_bytes: 500, ..LogConfig::default() };
    let log = bench.open(config, false, 0);
    append(&log, &"a".repeat(400));
    bench.env.flusher.run_until_idle();
    assert_eq!(log.bounds().flushed_end, Offset(0));
    append(&log, &"b".repeat(400));
    bench.env.flusher.run_until_idle();
    assert_eq!(log.bounds().flushed_end, Offset(2));
}

#[test]
fn an_os_log_that_was_written_to_fast_is_flushed_once_in_an_interval_when_it_is_slow() {
    let bench = Bench::new();
    let config = LogConfig { durability: Durability::Os, os_flush_bytes: 500, ..LogConfig::default() };
    let log = bench.open(config, false, 0);
    let is_flushed = || log.bounds().flushed_end == log.bounds().log_end;
    for _ in 0..10 {
        append(&log, &"a".repeat(600));
        bench.env.flusher.run_until_idle();
        assert!(is_flushed());
        append(&log, "b");
        bench.env.flusher.run_until_idle();
        assert!(!is_flushed());
        bench.clock.advance(Duration::from_millis(10));
    }
    let mut flushes = 0;
    for _ in 0..50 {
        append(&log, "c");
        bench.clock.advance(Duration::from_millis(100));
        bench.env.flusher.run_until_idle();
        flushes += u32::from(is_flushed());
    }
    // One for what is left of the fast time, and one a second.
    assert!((4..=6).contains(&flushes), "{flushes} flushes in five seconds");
}

#[test]
fn trimming_and_retention_remove_a_prefix_and_keep_the_next_offset() {
    let bench = Bench::new();
    let log = bench.open(small_segments(), false, 0);
    for i in 0..100 {
        append(&log, &payload(i));
    }
    log.flush().unwrap();
    assert!(matches!(log.trim(Offset(101)), Err(LogError::OutOfRange { .. })));
    log.trim(Offset(33)).unwrap();
    assert_eq!(log.bounds().log_start, Offset(33));
    assert!(matches!(log.cursor(Offset(32)), Err(LogError::OutOfRange { .. })));
    assert_eq!(read_all(&log, Offset(33)).len(), 67);
    drop(log);
    let log = bench.open(LogConfig { retention_bytes: Some(2000), ..small_segments() }, false, 1);
    assert_eq!(log.bounds().log_start, Offset(33));
    log.apply_retention().unwrap();
    assert!(log.size_bytes() < 4000 && log.size_bytes() >= 2000, "{}", log.size_bytes());
    let mut slow = log.cursor(log.bounds().log_start).unwrap();
    slow.next(1).unwrap().unwrap();
    log.set_config(LogConfig { retention_age: Some(Duration::from_secs(60)), ..small_segments() }).unwrap();
    log.apply_retention().unwrap();
    assert!(log.bounds().log_start < Offset(100));
    bench.clock.advance(Duration::from_secs(120));
    log.apply_retention().unwrap();
    assert_eq!(log.bounds().log_start, Offset(100));
    assert!(matches!(slow.next(1), Err(LogError::OutOfRange { .. }) | Ok(Some(_))));
    assert_eq!(append(&log, "next"), Offset(100));
    log.flush().unwrap();
    drop(log);
    let log = bench.open(small_segments(), false, 2);
    assert_eq!(read_all(&log, log.bounds().log_start), vec![(Offset(100), b"next".to_vec())]);
}

#[test]
fn compaction_keeps_the_newest_of_each_key_and_tombstones_for_a_time() {
    let bench = Bench::new();
    let config = LogConfig {
        compaction: Some(CompactionConfig { tombstone_age: Duration::from_secs(60), ..CompactionConfig::default() }),
        ..small_segments()
    };
    let log = bench.open(config.clone(), false, 0);
    let refused = log.append(&mut batch(&[ProducedFrame::message(0, None, b"no key")]));
    assert!(matches!(refused, Err(LogError::KeyRequired { index: 0 })));
    for i in 0..200 {
        keyed(&log, &format!("key {}", i % 7), &payload(i));
    }
    log.append(&mut batch(&[ProducedFrame::tombstone(7, b"key 3")])).unwrap();
    log.flush().unwrap();
    // So that all of the above is sealed.
    for i in 0..20 {
        keyed(&log, "last", &payload(i));
    }
    log.flush().unwrap();
    let mut slow = log.cursor(Offset(0)).unwrap();
    slow.next(1).unwrap().unwrap();
    let done = log.compact().unwrap();
    assert!(done.frames > 150, "{done:?}");
    let live: Vec<_> = read_all(&log, Offset(0)).into_iter().map(|(offset, _)| offset.0).filter(|offset| *offset <= 200).collect();
    assert_eq!(live, [193, 194, 195, 196, 197, 198, 200]);
    // A reader from before goes on, in the old file or in the new one.
    let mut last = Offset(0);
    while let Some(range) = slow.next(500).unwrap() {
        range.verify().unwrap();
        assert!(range.first_offset() > last);
        last = range.first_offset();
    }
    assert_eq!(slow.next_offset(), Offset(221));
    bench.clock.advance(Duration::from_secs(61));
    log.compact().unwrap();
    assert!(!read_all(&log, Offset(0)).iter().any(|(offset, _)| *offset == Offset(200)));
    drop(log);
    let log = bench.open(config, false, 1);
    assert_eq!(read_all(&log, Offset(0))[0].0, Offset(193));
}

#[test]
fn a_batch_sent_twice_is_in_the_log_once_also_after_restarts_and_retention() {
    let bench = Bench::new();
    let stamped = |sequence: i32| {
        let producer = ProducerStamp { id: ProducerId(9), epoch: ProducerEpoch(0), first_sequence: Sequence(sequence) };
        batch(&[ProducedFrame { producer: Some(producer), ..ProducedFrame::message(0, None, &[b'x'; 300]) }])
    };
    let mut log = bench.open(small_segments(), false, 0);
    for round in 0..6 {
        for i in 0..5 {
            let sequence = round * 5 + i;
            let first = log.append(&mut stamped(sequence)).unwrap();
            assert_eq!((first.base_offset, first.duplicates), (Offset(sequence.unsigned_abs().into()), 0));
        }
        log.flush().unwrap();
        match round % 3 {
            0 => log.close().unwrap(),
            1 => drop(log.trim(log.bounds().high_watermark).unwrap()),
            _ => {}
        }
        let dir = log.dir().to_owned();
        assert_eq!(dir, Path::new("/data/p"));
        drop(log);
        log = bench.open(small_segments(), round % 3 == 0, u32::try_from(round).unwrap() + 1);
        for i in 0..5 {
            let sequence = round * 5 + i;
            let again = log.append(&mut stamped(sequence)).unwrap();
            assert_eq!((again.base_offset, again.duplicates), (Offset(sequence.unsigned_abs().into()), 1));
        }
        let gap = log.append(&mut stamped(round * 5 + 6));
        assert!(matches!(gap, Err(LogError::Producer(ProducerError::OutOfSequence { .. }))));
    }
    assert_eq!(log.bounds().log_end, Offset(30));
}

#[test]
fn times_and_epochs_are_found() {
    let bench = Bench::new();
    let log = bench.open(small_segments(), false, 3);
    for i in 0..50 {
        append(&log, &payload(i));
        bench.clock.advance(Duration::from_secs(1));
    }
    log.flush().unwrap();
    drop(log);
    let log = bench.open(small_segments(), false, 5);
    for i in 50..80 {
        append(&log, &payload(i));
        bench.clock.advance(Duration::from_secs(1));
    }
    log.flush().unwrap();
    let start = 1_000_000_000_000;
    for i in 0..80u64 {
        assert_eq!(log.find_time(start + i * 1_000_000_000).unwrap(), Offset(i));
        assert_eq!(log.find_time(start + i * 1_000_000_000 - 1).unwrap(), Offset(i));
    }
    assert_eq!(log.find_time(u64::MAX).unwrap(), Offset(80));
    assert_eq!(log.epoch_end(LeaderEpoch(2)).unwrap(), Some(Offset(0)));
    assert_eq!(log.epoch_end(LeaderEpoch(3)).unwrap(), Some(Offset(50)));
    assert_eq!(log.epoch_end(LeaderEpoch(4)).unwrap(), Some(Offset(50)));
    assert_eq!(log.epoch_end(LeaderEpoch(5)).unwrap(), None);
}

#[test]
fn a_clock_that_falls_does_not_take_append_times_with_it() {
    let bench = Bench::new();
    let log = bench.open(small_segments(), false, 0);
    let first = log.append(&mut batch(&[ProducedFrame::message(0, None, b"")])).unwrap();
    bench.clock.set(5);
    let second = log.append(&mut batch(&[ProducedFrame::message(0, None, b"")])).unwrap();
    assert_eq!(second.append_time, first.append_time);
}

#[test]
fn a_clock_that_jumps_ahead_neither_moves_append_times_nor_removes_data() {
    let bench = Bench::new();
    let log = bench.open(LogConfig { retention_age: Some(Duration::from_secs(24 * 3600)), ..small_segments() }, false, 0);
    append(&log, "kept");
    log.flush().unwrap();
    let year_ns = 365 * 24 * 3600 * 1_000_000_000;
    bench.clock.set(1_000_000_000_000 + year_ns);
    log.apply_retention().unwrap();
    assert_eq!(log.bounds().log_start, Offset(0));
    let appended = log.append(&mut batch(&[ProducedFrame::message(0, None, b"")])).unwrap();
    assert!(appended.append_time < 1_000_000_000_000 + 2 * 3600 * 1_000_000_000);
    bench.clock.advance(Duration::from_secs(26 * 3600));
    log.flush().unwrap();
    log.apply_retention().unwrap();
    assert_eq!(log.bounds().log_start, Offset(2));
}

#[test]
fn a_log_by_itself_opens_on_a_real_directory_and_keeps_others_out() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(dir.path(), LogConfig::default()).unwrap();
    assert!(matches!(Log::open(dir.path(), LogConfig::default()), Err(LogError::Io { operation: "lock", .. })));
    for i in 0..100 {
        append(&log, &payload(i));
    }
    log.wait_flushed(Offset(100)).unwrap();
    log.close().unwrap();
    drop(log);
    let (log, report) = Log::open(dir.path(), LogConfig::default()).unwrap();
    assert_eq!(report.scanned_frames, 0);
    assert_eq!(read_all(&log, Offset(0)).len(), 100);
    assert_eq!(log.leader_epoch(), LeaderEpoch(0));
    append(&log, "more");
    log.wait_flushed(Offset(101)).unwrap();
    drop(log);
    // The flush thread may still be about to let go of the log, and of its lock.
    let log = loop {
        match Log::open(dir.path(), LogConfig::default()) {
            Ok((log, _)) => break log,
            Err(LogError::Io { operation: "lock", .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(read_all(&log, Offset(0)).len(), 101);
    assert_eq!(log.leader_epoch(), LeaderEpoch(1));
}

#[test]
fn who_follows_the_log_gets_short_ranges_read_and_the_same_ones_as_a_cursor_gives() {
    let bench = Bench::new();
    let log = bench.open(LogConfig { durability: Durability::Os, ..small_segments() }, true, 1);
    let mut follower = log.cursor_at_end();
    let mut buffer = BytesMut::new();
    // Over several segments.
    for number in 0..30 {
        assert!(matches!(follower.next_ready(1 << 20, 500, &mut buffer), Ready::AtEnd));
        assert_eq!(append(&log, &"x".repeat(number)), Offset(number as u64));
        let expected = log.cursor(Offset(number as u64)).unwrap().next(1 << 20).unwrap().unwrap();
        let mut bytes = b"head".to_vec();
        expected.read_into(&mut bytes).unwrap();
        let mut not_short = follower.clone();
        buffer.clear();
        let Ready::Range(range) = not_short.next_ready(1 << 20, expected.len_bytes() - 1, &mut buffer) else { panic!("{number}") };
        assert_eq!((range.position(), range.len_bytes(), buffer.len()), (expected.position(), expected.len_bytes(), 0));
        buffer.extend_from_slice(b"head");
        let Ready::Read(range) = follower.next_ready(1 << 20, expected.len_bytes(), &mut buffer) else { panic!("{number}") };
        assert_eq!((range.position(), range.len_bytes()), (expected.position(), expected.len_bytes()));
        assert_eq!((range.first_offset(), range.next_offset()), (expected.first_offset(), expected.next_offset()));
        assert_eq!(buffer, bytes);
        assert_eq!(log.cursor_at_end().next_offset(), range.next_offset());
    }
}
