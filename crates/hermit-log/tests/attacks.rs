//! Damage, crashes and races that a log must stand, one at a time.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the test's failure")]

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::BytesMut;
use hermit_log::disk::sim::{SimDisk, Survival};
use hermit_log::disk::{DirLock, Disk, DiskFile, Entry, Mapping, Open};
use hermit_log::{
    Batch, Bounds, CompactionConfig, Durability, Flusher, Log, LogConfig, LogEnv, LogError, LogIdentity, LogListener, ManualClock,
    RecoveryReport, Start,
};
use hermit_proto::{
    FrameLimits, FrameView, LeaderEpoch, Offset, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence,
};

const SECOND: u64 = 1_000_000_000;
/// Header and extension.
const PREFIX_BYTES: u64 = 69;
/// Frames of [`append`] have this size.
const FRAME_BYTES: u64 = PREFIX_BYTES + 31;

#[derive(Debug)]
struct Deaf;

impl LogListener for Deaf {
    fn advanced(&self, _bounds: Bounds) {}
    fn failed(&self, _reason: &LogError) {}
}

struct Bench {
    disk: SimDisk,
    clock: Arc<ManualClock>,
}

fn dir() -> &'static Path {
    Path::new("/data/p")
}

fn wal(base: u64) -> PathBuf {
    dir().join(format!("{base:020}.wal"))
}

fn idx(base: u64) -> PathBuf {
    dir().join(format!("{base:020}.idx"))
}

impl Bench {
    fn new() -> Self {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("/data")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        Self { disk, clock: Arc::new(ManualClock::new(1_000_000 * SECOND)) }
    }

    fn open(&self, config: &LogConfig, clean: bool, epoch: u32) -> (Log, RecoveryReport) {
        let clock = Arc::clone(&self.clock);
        let env = LogEnv::new(Arc::new(self.disk.clone()), Arc::clone(&clock) as _, Flusher::manual(clock), 64);
        let start = Start { clean, leader_epoch: LeaderEpoch(epoch) };
        Log::open_in(&env, dir(), LogIdentity::default(), config.clone(), start, Arc::new(Deaf)).unwrap()
    }

    /// Damages the prefix of the frame at `position`, so that its size cannot be believed.
    fn rot(&self, base: u64, position: u64) {
        assert!(self.disk.overwrite(&wal(base), position + 17, b"damaged!"));
    }
}

fn batch(frames: &[ProducedFrame<'_>]) -> Batch {
    let mut bytes = BytesMut::new();
    for frame in frames {
        bytes.extend_from_slice(&frame.to_vec().unwrap());
    }
    Batch::parse(bytes, &FrameLimits::default()).unwrap()
}

fn payload(i: u64) -> String {
    format!("{i:031}")
}

/// A frame of [`FRAME_BYTES`].
fn append(log: &Log) -> u64 {
    let end = log.bounds().log_end.0;
    log.append(&mut batch(&[ProducedFrame::message(7, None, payload(end).as_bytes())])).unwrap().base_offset.0
}

fn append_many(log: &Log, count: u64) {
    for _ in 0..count {
        append(log);
    }
}

fn keyed(log: &Log, key: &str, payload: &str) -> u64 {
    log.append(&mut batch(&[ProducedFrame::message(7, Some(key.as_bytes()), payload.as_bytes())])).unwrap().base_offset.0
}

fn stamped(log: &Log, sequence: i32) -> Result<hermit_log::Appended, LogError> {
    let producer = ProducerStamp { id: ProducerId(9), epoch: ProducerEpoch(0), first_sequence: Sequence(sequence) };
    let text = payload(log.bounds().log_end.0);
    log.append(&mut batch(&[ProducedFrame { producer: Some(producer), ..ProducedFrame::message(0, None, text.as_bytes()) }]))
}

/// What a consumer gets, and what it is told is damaged.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    frames: Vec<u64>,
    corrupt: Vec<(u64, u64)>,
    keys: Vec<String>,
}

/// Reads like a consumer that goes on behind damage. It must come to the high watermark.
fn consume(log: &Log, from: u64, step_bytes: u64) -> Seen {
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

fn numbers(ranges: &[std::ops::Range<u64>]) -> Vec<u64> {
    ranges.iter().cloned().flatten().collect()
}

#[test]
fn rot_below_the_checkpoint_costs_nothing_behind_it() {
    let bench = Bench::new();
    let (log, _) = bench.open(&LogConfig::default(), false, 0);
    append_many(&log, 10);
    log.flush().unwrap();
    append_many(&log, 10);
    log.flush().unwrap();
    drop(log);
    bench.disk.kill();
    bench.rot(0, 3 * FRAME_BYTES);
    let (log, report) = bench.open(&LogConfig::default(), false, 1);
    assert_eq!(report.cut, None);
    assert_eq!(log.bounds().log_end, Offset(20));
    let seen = consume(&log, 0, 500);
    assert_eq!(seen.frames, numbers(&[0..3, 10..20]));
    assert_eq!(seen.corrupt, vec![(3, 10)]);
}

#[test]
fn a_second_damage_before_a_known_one_hides_no_more_than_itself() {
    let bench = Bench::new();
    let config = LogConfig { index_interval_bytes: 800, ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 0);
    append_many(&log, 40);
    log.flush().unwrap();
    bench.rot(0, 20 * FRAME_BYTES);
    assert_eq!(consume(&log, 0, 500).corrupt, vec![(20, 24)]);
    bench.rot(0, 18 * FRAME_BYTES);
    let seen = consume(&log, 0, 500);
    assert_eq!(seen.frames, numbers(&[0..18, 24..40]));
    assert_eq!(seen.corrupt, vec![(18, 24)]);
}

#[test]
fn damage_that_is_verified_late_hides_nothing_appended_since() {
    let bench = Bench::new();
    let (log, _) = bench.open(&LogConfig::default(), false, 0);
    append_many(&log, 5);
    log.flush().unwrap();
    let range = log.cursor(Offset(0)).unwrap().next(1 << 20).unwrap().unwrap();
    bench.rot(0, 3 * FRAME_BYTES);
    append_many(&log, 5);
    log.flush().unwrap();
    range.verify().unwrap_err();
    // Nothing leads behind damage in the last index interval; the frame after the range is known to begin where the range ends.
    append_many(&log, 100);
    log.flush().unwrap();
    let seen = consume(&log, 0, 500);
    assert!(seen.frames.ends_with(&(10..110).collect::<Vec<_>>()), "{seen:?}");
}

#[test]
fn an_emptied_last_segment_is_reported_and_read_past() {
    for bases in [1, 3] {
        let bench = Bench::new();
        let config = LogConfig { segment_bytes: 1000, ..LogConfig::default() };
        let (log, _) = bench.open(&config, false, 0);
        append_many(&log, bases * 10);
        log.flush().unwrap();
        log.close().unwrap();
        drop(log);
        let last = (bases - 1) * 10;
        bench.disk.truncate(&wal(last), 0);
        for clean in [true, false] {
            let bench = Bench { disk: bench.disk.fork(), clock: Arc::clone(&bench.clock) };
            let (log, report) = bench.open(&config, clean, 1);
            assert_eq!(log.bounds().log_end, Offset(bases * 10));
            assert_eq!(report.fenced.len(), 1, "{report:?}");
            let seen = consume(&log, 0, 500);
            assert_eq!((seen.frames, seen.corrupt), ((0..last).collect(), vec![(last, bases * 10)]));
            append_many(&log, 5);
            log.flush().unwrap();
            let seen = consume(&log, 0, 500);
            let expected = numbers(&[0..last, bases * 10..bases * 10 + 5]);
            assert_eq!((seen.frames, seen.corrupt), (expected, vec![(last, bases * 10)]));
            drop(log);
            let (log, _) = bench.open(&config, false, 2);
            let seen = consume(&log, 0, 500);
            let expected = numbers(&[0..last, bases * 10..bases * 10 + 5]);
            assert_eq!((seen.frames, seen.corrupt), (expected, vec![(last, bases * 10)]));
        }
    }
}

#[test]
fn missing_segments_are_reported_and_the_next_offset_stays() {
    let bench = Bench::new();
    let config = LogConfig { segment_bytes: 1000, ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 0);
    append_many(&log, 20);
    log.flush().unwrap();
    log.trim(Offset(5)).unwrap();
    log.close().unwrap();
    drop(log);
    for base in [0, 10] {
        bench.disk.remove(&wal(base));
    }
    let (log, report) = bench.open(&config, true, 1);
    assert_eq!(log.bounds().log_end, Offset(20));
    assert!(!report.fenced.is_empty());
    assert_eq!(consume(&log, 0, 500), Seen::default());
    append(&log);
    log.flush().unwrap();
    assert!(consume(&log, 0, 500).frames.ends_with(&[20]));
}

#[test]
fn a_last_segment_that_cannot_be_read_at_all_is_not_written_over() {
    let bench = Bench::new();
    let (log, _) = bench.open(&LogConfig::default(), false, 0);
    append_many(&log, 10);
    log.close().unwrap();
    drop(log);
    bench.rot(0, 0);
    bench.disk.remove(&idx(0));
    bench.disk.remove(&dir().join("checkpoint"));
    let before = bench.disk.bytes(&wal(0)).unwrap();
    let (log, report) = bench.open(&LogConfig::default(), true, 0);
    assert_eq!(report.fenced.len(), 1);
    append(&log);
    log.flush().unwrap();
    assert_eq!(bench.disk.bytes(&wal(0)).unwrap(), before);
    assert!(log.bounds().log_end >= Offset(11), "offsets are given again: {:?}", log.bounds());
}

/// A disk that appends a frame to the log, in a segment of its own, while the first sync of a file runs.
#[derive(Debug)]
struct Intruder {
    disk: SimDisk,
    log: Arc<Mutex<Option<Log>>>,
}

#[derive(Debug)]
struct IntruderFile {
    file: Arc<dyn DiskFile>,
    log: Arc<Mutex<Option<Log>>>,
}

impl Disk for Intruder {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.disk.list(dir)
    }
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(IntruderFile { file: self.disk.open(path, how)?, log: Arc::clone(&self.log) }))
    }
    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.disk.file_len(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>> {
        self.disk.lock(path)
    }
}

impl DiskFile for IntruderFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buf, position)
    }
    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        self.file.write_at(buf, position)
    }
    fn sync_data(&self) -> io::Result<()> {
        let log = self.log.lock().unwrap().take();
        if let Some(log) = log {
            append(&log);
        }
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }
    fn map(&self, len: usize) -> io::Result<Mapping> {
        self.file.map(len)
    }
    fn cached(&self, position: u64, len: u64) -> bool {
        self.file.cached(position, len)
    }
    fn will_need(&self, position: u64, len: u64) {
        self.file.will_need(position, len);
    }
    fn drop_cached(&self, position: u64, len: u64) {
        self.file.drop_cached(position, len);
    }
}

#[test]
fn a_segment_that_is_trimmed_while_it_waits_for_a_flush_does_not_end_flushing() {
    let bench = Bench::new();
    let log_slot = Arc::new(Mutex::new(None));
    let clock = Arc::clone(&bench.clock);
    let disk = Intruder { disk: bench.disk.clone(), log: Arc::clone(&log_slot) };
    let env = LogEnv::new(Arc::new(disk), Arc::clone(&clock) as _, Flusher::manual(clock), 64);
    let start = Start { clean: false, leader_epoch: LeaderEpoch(0) };
    let config = LogConfig { segment_bytes: 1000, durability: Durability::Os, ..LogConfig::default() };
    let (log, _) = Log::open_in(&env, dir(), LogIdentity::default(), config, start, Arc::new(Deaf)).unwrap();
    append_many(&log, 10);
    // The trim flushes; while that runs, the next append rolls.
    *log_slot.lock().unwrap() = Some(log.clone());
    log.trim(Offset(10)).unwrap();
    assert_eq!((log.bounds().log_start, log.bounds().log_end), (Offset(10), Offset(11)));
    log.flush().unwrap();
    assert_eq!(log.bounds().flushed_end, Offset(11));
}

#[test]
fn damage_that_a_consumer_was_told_of_is_not_taken_for_a_torn_tail() {
    let bench = Bench::new();
    let (log, _) = bench.open(&LogConfig::default(), false, 0);
    append_many(&log, 10);
    log.flush().unwrap();
    bench.rot(0, 9 * FRAME_BYTES);
    assert_eq!(consume(&log, 0, 1 << 20).corrupt, vec![(9, 10)]);
    drop(log);
    bench.disk.kill();
    bench.disk.remove(&dir().join("checkpoint"));
    let (log, report) = bench.open(&LogConfig::default(), false, 1);
    assert_eq!(report.cut, None);
    assert_eq!(log.bounds().log_end, Offset(10));
    append_many(&log, 5);
    log.flush().unwrap();
    let seen = consume(&log, 0, 1 << 20);
    assert_eq!((seen.frames, seen.corrupt), (numbers(&[0..9, 10..15]), vec![(9, 10)]));
}

#[test]
fn a_tombstone_outlives_the_value_it_deletes_when_keys_do_not_fit_into_memory() {
    let bench = Bench::new();
    let compaction = CompactionConfig { tombstone_age: Duration::from_secs(60), key_memory_bytes: 500 };
    let config = LogConfig {
        segment_bytes: 1 << 20,
        segment_age: Some(Duration::from_secs(1)),
        compaction: Some(compaction),
        ..LogConfig::default()
    };
    let (log, _) = bench.open(&config, false, 0);
    keyed(&log, "a", "deleted below");
    // More than one step of reading, so that the limit is met in between.
    for i in 0..40 {
        keyed(&log, &format!("key {i}"), &"x".repeat(60_000));
    }
    log.append(&mut batch(&[ProducedFrame::tombstone(7, b"a")])).unwrap();
    bench.clock.advance(Duration::from_secs(100));
    keyed(&log, "z", "");
    bench.clock.advance(Duration::from_secs(100));
    keyed(&log, "z", "");
    log.flush().unwrap();
    log.compact().unwrap();
    let values_of_a = consume(&log, 0, 1 << 20).keys.iter().filter(|key| *key == "a").count();
    assert!(values_of_a == 0 || values_of_a == 2, "the value came back without its tombstone");
    for _ in 0..50 {
        log.compact().unwrap();
    }
    assert!(!consume(&log, 0, 1 << 20).keys.iter().any(|key| key == "a"), "keys behind the limit are never compacted");
}

#[test]
fn a_tombstone_stays_while_the_value_is_kept_for_its_producers_sake() {
    let bench = Bench::new();
    let compaction = CompactionConfig { tombstone_age: Duration::from_secs(60), ..CompactionConfig::default() };
    let config = LogConfig { segment_age: Some(Duration::from_secs(1)), compaction: Some(compaction), ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 0);
    let producer = ProducerStamp { id: ProducerId(9), epoch: ProducerEpoch(0), first_sequence: Sequence(0) };
    let value = ProducedFrame { producer: Some(producer), ..ProducedFrame::message(0, Some(b"a"), b"deleted below") };
    log.append(&mut batch(&[value])).unwrap();
    log.append(&mut batch(&[ProducedFrame::tombstone(7, b"a")])).unwrap();
    for _ in 0..2 {
        bench.clock.advance(Duration::from_secs(100));
        keyed(&log, "z", "");
    }
    log.flush().unwrap();
    log.compact().unwrap();
    let frames_of_a = consume(&log, 0, 1 << 20).keys.iter().filter(|key| *key == "a").count();
    assert!(frames_of_a != 1, "the value came back without its tombstone");
}

#[test]
fn a_rotten_key_removes_no_other_keys_value() {
    let bench = Bench::new();
    let config = LogConfig { segment_bytes: 300, compaction: Some(CompactionConfig::default()), ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 0);
    keyed(&log, "b", "good");
    keyed(&log, "x", &"x".repeat(150));
    let rotten = keyed(&log, "c", "1234");
    keyed(&log, "x", &"x".repeat(150));
    keyed(&log, "x", &"x".repeat(150));
    keyed(&log, "x", &"x".repeat(150));
    log.flush().unwrap();
    // "c" becomes "b".
    let segment = wal(rotten);
    let bytes = bench.disk.bytes(&segment).unwrap();
    assert_eq!(bytes[69], b'c');
    bench.disk.flip_bit(&segment, 69 * 8);
    log.compact().unwrap();
    assert_eq!(consume(&log, 0, 1).keys.first().map(String::as_str), Some("b"));
}

#[test]
fn compaction_goes_on_where_the_first_frame_is_damaged() {
    let bench = Bench::new();
    let config = LogConfig { segment_bytes: 300, compaction: Some(CompactionConfig::default()), ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 0);
    for i in 0..20 {
        keyed(&log, "x", &payload(i));
    }
    log.flush().unwrap();
    bench.rot(0, 0);
    log.compact().unwrap();
    let done = log.compact().unwrap();
    assert!(log.segment_count() < 5, "{done:?}");
}

#[test]
fn idempotent_producers_go_on_past_damage_on_both_sides_of_a_roll() {
    let bench = Bench::new();
    let config = LogConfig { segment_bytes: 1000, ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 0);
    append_many(&log, 30);
    for sequence in 0..5 {
        stamped(&log, sequence).unwrap();
    }
    log.flush().unwrap();
    drop(log);
    bench.disk.kill();
    bench.rot(0, 9 * FRAME_BYTES);
    bench.rot(10, 0);
    let (log, _) = bench.open(&config, false, 1);
    assert_eq!(consume(&log, 0, 100).frames.last(), Some(&34));
    assert_eq!(stamped(&log, 4).unwrap().duplicates, 1);
    assert_eq!(stamped(&log, 5).unwrap().base_offset, Offset(35));
}

#[test]
fn a_damaged_first_frame_does_not_end_its_epoch() {
    let bench = Bench::new();
    let config = LogConfig { segment_bytes: 1000, index_interval_bytes: 200, ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 3);
    append_many(&log, 50);
    log.flush().unwrap();
    drop(log);
    for base in [0, 10, 20, 30, 40] {
        let bench = Bench { disk: bench.disk.fork(), clock: Arc::clone(&bench.clock) };
        bench.rot(base, 0);
        let (log, _) = bench.open(&config, false, 4);
        append_many(&log, 5);
        log.flush().unwrap();
        assert_eq!(log.epoch_end(LeaderEpoch(3)).unwrap(), Some(Offset(50)), "segment {base}");
        assert_eq!(log.epoch_end(LeaderEpoch(2)).unwrap(), Some(Offset(0)), "segment {base}");
        drop(log);
        bench.rot(50, 0);
        let (log, _) = bench.open(&config, false, LeaderEpoch::UNKNOWN.0);
        assert!(log.leader_epoch() > LeaderEpoch(4), "{}", log.leader_epoch());
    }
}

#[test]
fn a_directory_that_a_killed_process_left_is_made_durable() {
    let bench = Bench::new();
    bench.disk.create_dir_all(dir()).unwrap();
    bench.disk.kill();
    let (log, _) = bench.open(&LogConfig::default(), false, 0);
    append(&log);
    log.flush().unwrap();
    drop(log);
    bench.disk.crash_with(Survival::Nothing, 1);
    let (log, _) = bench.open(&LogConfig::default(), false, 1);
    assert_eq!(consume(&log, 0, 100).frames, vec![0]);
}

#[test]
fn an_index_that_rotted_before_it_was_sealed_leads_nobody_astray() {
    for bit in [31, 32 + 29, 24, 32 + 24] {
        let bench = Bench::new();
        let config = LogConfig { index_interval_bytes: 200, ..LogConfig::default() };
        let (log, _) = bench.open(&config, false, 0);
        append_many(&log, 600);
        log.flush().unwrap();
        drop(log);
        bench.disk.kill();
        // The entry of frame 200, in its offset or its position.
        assert!(bench.disk.flip_bit(&idx(0), 100 * 128 + (bit / 8 * 8) + 7 - bit % 8));
        let (log, _) = bench.open(&config, false, 1);
        for i in 0..600 {
            assert_eq!(consume(&log, i, 100).frames[0], i);
        }
        assert_eq!(log.fenced(), vec![]);
        assert_eq!(log.find_time(1).unwrap(), Offset(0));
    }
}
