//! Flushes, while others change the directory.

use std::sync::Arc;
use std::time::Duration;

use hermit_log::disk::Disk;
use hermit_log::disk::sim::{Fault, Op, Survival};
use hermit_log::{Clock as _, Durability, LogConfig, LogError};
use hermit_proto::Offset;
use rustix::io::Errno;

use crate::hooked::On;
use crate::rig::{Bench, append, append_many, consume, dir};

#[test]
fn a_segment_that_is_trimmed_while_it_waits_for_a_flush_does_not_end_flushing() {
    let bench = Bench::new();
    let config = LogConfig { segment_bytes: 1000, durability: Durability::Os, ..LogConfig::default() };
    let (log, hooks) = bench.open_hooked(&config, false, 0);
    append_many(&log, 10);
    // The trim flushes; while that runs, the next append rolls.
    let other = log.clone();
    hooks.once(On::Sync, "", move || {
        append(&other);
    });
    log.trim(Offset(10)).unwrap();
    assert_eq!((log.bounds().log_start, log.bounds().log_end), (Offset(10), Offset(11)));
    log.flush().unwrap();
    assert_eq!(log.bounds().flushed_end, Offset(11));
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
fn a_flush_that_ends_after_a_change_of_durability_takes_nothing_back() {
    let bench = Bench::new();
    let sync = LogConfig::default();
    let os = LogConfig { durability: Durability::Os, ..sync.clone() };
    let (log, hooks) = bench.open_hooked(&sync, false, 0);
    append_many(&log, 5);
    let (other, shown_at_once) = (log.clone(), os.clone());
    hooks.once(On::Sync, "", move || {
        append(&other);
        other.set_config(shown_at_once).unwrap();
        assert_eq!(other.bounds().high_watermark, Offset(6));
    });
    log.flush().unwrap();
    assert_eq!((log.bounds().flushed_end, log.bounds().high_watermark), (Offset(5), Offset(6)));
    log.set_config(sync).unwrap();
    assert_eq!(log.bounds().flushed_end, Offset(6), "what was shown is flushed");
}

/// The second time nothing changes but a number, and readers are still shown what no disk has.
#[test]
fn a_promise_that_a_failed_flush_has_broken_is_refused_each_time_it_is_asked_for() {
    let bench = Bench::new();
    let sync = LogConfig::default();
    let os = LogConfig { durability: Durability::Os, ..sync.clone() };
    let (log, _) = bench.open(&os, false, 0);
    append(&log);
    bench.disk.fail(Fault::error(Op::Sync, Errno::IO));
    for segment_bytes in [1000, 2000] {
        let refused = log.set_config(LogConfig { segment_bytes, ..sync.clone() }).unwrap_err();
        assert!(matches!(refused, LogError::ReadOnly { .. }), "{refused}");
    }
    assert_eq!((log.bounds().high_watermark, log.bounds().flushed_end), (Offset(1), Offset(0)));
}

/// What a disk does not end is in no count of what it has done.
#[test]
fn a_sync_and_a_write_that_take_for_ever_show_while_they_do() {
    let bench = Bench::new();
    let (log, hooks, times) = bench.open_hooked_with_times(&LogConfig::default(), false, 0);
    let hang = Duration::from_secs(11);
    append(&log);
    let (clock, seen) = (Arc::clone(&bench.clock), Arc::clone(&times));
    hooks.once(On::Sync, "", move || {
        clock.advance(hang);
        assert_eq!((seen.flushing.oldest(clock.monotonic()), seen.flush.read().count()), (hang, 0));
    });
    log.flush().unwrap();
    assert!(!hooks.is_waiting());
    assert_eq!((times.flushing.oldest(bench.clock.monotonic()), times.flush.read().count()), (Duration::ZERO, 1));

    let before = times.writes.seen();
    let seen = Arc::clone(&times);
    hooks.once(On::Write, "", move || {
        let during = seen.writes.seen();
        assert!(seen.writes.hang_since(during) && !seen.writes.hang_since(before));
    });
    append(&log);
    let after = times.writes.seen();
    assert!(!hooks.is_waiting() && !times.writes.hang_since(before) && !times.writes.hang_since(after));
}
