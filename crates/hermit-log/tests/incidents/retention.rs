//! What is removed, and when: settings that change, readers inside, power cuts, lookups in between.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use hermit_log::disk::Disk;
use hermit_log::disk::sim::Survival;
use hermit_log::{Log, LogConfig, LogError};
use hermit_proto::{LeaderEpoch, Offset, ProducedFrame};

use crate::hooked::On;
use crate::rig::{Bench, FRAME_BYTES, SECOND, append_many, batch, consume, wal};

fn config() -> LogConfig {
    LogConfig { segment_bytes: 1000, ..LogConfig::default() }
}

fn age(seconds: u64) -> LogConfig {
    LogConfig { retention_age: Some(Duration::from_secs(seconds)), ..config() }
}

fn bytes(bytes: u64) -> LogConfig {
    LogConfig { retention_bytes: Some(bytes), ..config() }
}

/// Ten frames, a segment, every ten seconds.
fn filled(bench: &Bench, segments: u64) -> Log {
    let (log, _) = bench.open(&config(), false, 0);
    for _ in 0..segments {
        append_many(&log, 10);
        bench.clock.advance(Duration::from_secs(10));
    }
    log.flush().unwrap();
    log
}

fn start_under(log: &Log, config: LogConfig) -> u64 {
    log.set_config(config).unwrap();
    log.apply_retention().unwrap();
    log.bounds().log_start.0
}

#[test]
fn a_setting_that_changes_counts_from_then_on_and_brings_nothing_back() {
    let bench = Bench::new();
    let log = filled(&bench, 10);
    // The segment that is written to is one of the ten.
    assert_eq!(start_under(&log, config()), 0);
    assert_eq!(start_under(&log, age(85)), 20, "never → 85 s");
    assert_eq!(start_under(&log, age(1000)), 20, "up");
    assert_eq!(start_under(&log, age(65)), 40, "down");
    assert_eq!(start_under(&log, config()), 40, "→ never");
    bench.clock.advance(Duration::from_secs(1000));
    assert_eq!(start_under(&log, config()), 40, "never is never");
    assert_eq!(start_under(&log, bytes(4 * 1000)), 60, "never → 4 segments");
    assert_eq!(start_under(&log, bytes(9 * 1000)), 60, "up");
    assert_eq!(start_under(&log, bytes(2 * 1000)), 80, "down");
    assert_eq!(start_under(&log, LogConfig { retention_age: Some(Duration::from_secs(5)), ..bytes(100_000) }), 100);
    assert_eq!(log.bounds().log_end, Offset(100));
    append_many(&log, 3);
    log.flush().unwrap();
    drop(log);
    bench.disk.crash_with(Survival::Nothing, 0);
    let (log, _) = bench.open(&config(), false, 1);
    assert_eq!(consume(&log, 0, 500).frames, (100..103).collect::<Vec<_>>());
}

#[test]
fn readers_inside_read_whole_frames_or_are_told() {
    let bench = Bench::new();
    let log = filled(&bench, 10);
    let mut readers: Vec<_> = [0, 5, 33, 77].map(|at| (at, log.cursor(Offset(at)).unwrap())).into();
    let ranges: Vec<_> = readers.iter_mut().map(|(_, reader)| reader.next(250).unwrap().unwrap()).collect();
    for setting in [bytes(6000), age(45), bytes(1000), age(1)] {
        start_under(&log, setting);
        for range in &ranges {
            // What a reader holds stays readable: it may be half way out on a socket.
            range.verify().unwrap();
            let mut held = Vec::new();
            range.read_into(&mut held).unwrap();
            assert_eq!(held.len() as u64, range.len_bytes());
        }
        let start = log.bounds().log_start;
        for (at, reader) in &mut readers {
            let before = reader.next_offset();
            match reader.next(250) {
                Ok(Some(range)) => {
                    range.verify().unwrap();
                    assert!(range.first_offset() == before, "the reader from {at} passes over {before}");
                }
                Ok(None) => assert_eq!(before, log.bounds().high_watermark),
                Err(LogError::OutOfRange { .. }) => assert!(before < start, "{before} is still there, from {start}"),
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}

#[test]
fn a_power_cut_during_retention_leaves_a_prefix_gone_and_the_rest_whole() {
    let bench = Bench::new();
    let log = filled(&bench, 6);
    bench.disk.crash_with(Survival::Everything, 0);
    drop(log);
    let (log, _) = bench.open(&config(), false, 1);
    bench.disk.keep_images();
    let mut starts = vec![0];
    for setting in [bytes(4000), age(45), bytes(1500), age(1)] {
        starts.push(start_under(&log, setting));
    }
    assert_eq!(starts.last(), Some(&60));
    for (mutations, image) in bench.disk.take_images() {
        for seed in 0..3 {
            let bench = Bench { disk: image.fork(), clock: Arc::clone(&bench.clock) };
            bench.disk.crash(seed);
            let (log, report) = bench.open(&config(), false, 2);
            assert_eq!((&report.fenced, &report.cut), (&vec![], &None), "cut at {mutations}");
            let bounds = log.bounds();
            assert!(starts.contains(&bounds.log_start.0) && bounds.log_end == Offset(60), "cut at {mutations}: {bounds:?}");
            assert_eq!(consume(&log, 0, 500).frames, (bounds.log_start.0..60).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_trim_reaches_the_high_watermark_and_no_further() {
    let bench = Bench::new();
    let log = filled(&bench, 3);
    append_many(&log, 4);
    assert_eq!((log.bounds().high_watermark, log.bounds().log_end), (Offset(30), Offset(34)));
    for beyond in [31, 34, 35, u64::MAX - 1] {
        assert!(matches!(log.trim(Offset(beyond)), Err(LogError::OutOfRange { .. })), "{beyond}");
    }
    assert_eq!(log.bounds().log_start, Offset(0));
    log.trim(Offset(u64::MAX)).unwrap();
    // Trimming flushes, but what it trims is what could be read when it began.
    assert_eq!(log.bounds().log_start, Offset(30));
    assert_eq!(consume(&log, 0, 500).frames, (30..34).collect::<Vec<_>>());
    bench.disk.keep_images();
    log.trim(Offset(u64::MAX)).unwrap();
    for (mutations, image) in bench.disk.take_images() {
        let bench = Bench { disk: image.fork(), clock: Arc::clone(&bench.clock) };
        bench.disk.crash_with(Survival::Nothing, 0);
        let (log, _) = bench.open(&config(), false, 1);
        assert_eq!(log.bounds().log_end, Offset(34), "cut at {mutations}");
        assert_eq!(crate::rig::append(&log), 34);
    }
    assert_eq!((log.bounds().log_start, log.bounds().log_end), (Offset(34), Offset(34)));
    assert!(log.trim(Offset(3)).unwrap().segments == 0, "a trim that is behind is nothing to do");
    assert_eq!(log.bounds().log_start, Offset(34));
}

#[test]
fn space_comes_back_at_once_and_with_the_last_reader() {
    let bench = Bench::new();
    let log = filled(&bench, 10);
    let held = log.cursor(Offset(0)).unwrap().next(250).unwrap().unwrap();
    // One who stands still holds its place, and no space.
    let mut idle = log.cursor(Offset(15)).unwrap();
    drop(idle.next(250).unwrap());
    let before = bench.disk.used_bytes();
    start_under(&log, bytes(2000));
    let after = bench.disk.used_bytes();
    // All eight but the one segment of which somebody has a range in hands.
    assert!(after + 7 * 10 * FRAME_BYTES < before, "{before} → {after}");
    drop(held);
    assert!(bench.disk.used_bytes() + 9 * FRAME_BYTES < after, "{after} → {}", bench.disk.used_bytes());
}

/// Whatever clients say the time is: what counts is when the broker appended.
#[test]
fn timestamps_of_clients_neither_keep_nor_remove() {
    let hour = 3600 * SECOND;
    for timestamp in [0, 1_700_000_000, u64::MAX, 1_000_000 * SECOND + 1000 * hour] {
        let bench = Bench::new();
        let (log, _) = bench.open(&config(), false, 0);
        for _ in 0..2 {
            for _ in 0..10 {
                let frame = ProducedFrame::message(timestamp, None, &[b'x'; 31]);
                log.append(&mut batch(&[frame])).unwrap();
            }
            bench.clock.advance(Duration::from_secs(10));
        }
        log.flush().unwrap();
        assert_eq!(start_under(&log, age(30)), 0, "{timestamp}");
        assert_eq!(log.find_time(1_000_000 * SECOND + 5 * SECOND).unwrap(), Offset(10));
        bench.clock.advance(Duration::from_secs(15));
        assert_eq!(start_under(&log, age(30)), 10, "{timestamp}");
        bench.clock.advance(Duration::from_secs(15));
        assert_eq!(start_under(&log, age(30)), 20, "{timestamp}");
    }
}

/// Lookups meet files that are gone since they looked: they look again.
#[test]
fn a_lookup_goes_on_while_retention_removes_what_it_looks_at() {
    type Lookup = fn(&Log) -> Result<Offset, LogError>;
    let lookups: [Lookup; 2] =
        [|log| log.find_time(1_000_000 * SECOND + 5 * SECOND), |log| log.epoch_end(LeaderEpoch(0)).map(Option::unwrap)];
    for (number, lookup) in lookups.into_iter().enumerate() {
        let bench = Bench::new();
        drop(filled(&bench, 10));
        let (log, hooks) = bench.open_hooked(&config(), false, 1);
        append_many(&log, 10);
        log.flush().unwrap();
        // So that a trim reads no segment before it removes them.
        log.trim(Offset(1)).unwrap();
        let at = wal([10, 50][number]);
        let other = log.clone();
        let (done, is_done) = mpsc::channel();
        let (disk, path) = (bench.disk.clone(), at.clone());
        hooks.once(On::Open, at, move || {
            std::thread::spawn(move || done.send(other.trim(Offset(80)).is_ok()));
            // The trim then waits for whoever opens the file.
            for _ in 0..100_000_000 {
                if !disk.exists(&path).unwrap() {
                    break;
                }
                std::thread::yield_now();
            }
        });
        let found = lookup(&log);
        assert!(!hooks.is_waiting(), "the lookup looks elsewhere");
        assert!(is_done.recv().unwrap());
        assert_eq!(found.unwrap(), Offset([80, 100][number]));
    }
}
