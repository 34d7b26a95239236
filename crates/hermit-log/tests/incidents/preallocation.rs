//! Room ahead of the log's end: it is there while it is of use, and never in the way.

use std::time::Duration;

use hermit_log::disk::sim::{Fault, Op, SimDisk, Survival};
use hermit_log::disk::{Disk as _, Open};
use hermit_log::inspect::{Check, IndexReport, inspect};
use hermit_log::repair::{RepairOptions, repair};
use hermit_log::{Durability, Log, LogConfig, LogIdentity};
use hermit_proto::{Offset, ProducedFrame};
use rustix::io::Errno;

use crate::rig::{Bench, FRAME_BYTES, PREFIX_BYTES, append, append_many, batch, consume, dir, wal};

fn config() -> LogConfig {
    LogConfig { preallocate_bytes: 64 << 10, ..LogConfig::default() }
}

fn append_flushed(log: &Log, count: u64) {
    for _ in 0..count {
        append(log);
        log.flush().unwrap();
    }
}

fn len(disk: &SimDisk, base: u64) -> u64 {
    disk.file_len(&wal(base)).unwrap()
}

/// Bytes of the file behind the log's end.
fn room(bench: &Bench, log: &Log, base: u64) -> u64 {
    len(&bench.disk, base) - log.size_bytes()
}

#[test]
fn a_log_that_is_flushed_often_has_room_and_hundreds_of_flushes_change_no_files_length() {
    let bench = Bench::new();
    let (log, _) = bench.open(&config(), false, 0);
    append_flushed(&log, 1);
    assert_eq!(room(&bench, &log, 0), 0, "the first flush of a segment leaves it alone");
    append_flushed(&log, 1);
    let first = len(&bench.disk, 0);
    assert!(first > log.size_bytes() + 4000);
    append_flushed(&log, 30);
    assert_eq!(len(&bench.disk, 0), first);
    // It is as long as some flushes of their size, and no longer than it may be.
    for frames in [1, 50, 80] {
        for _ in 0..20 {
            append_many(&log, frames);
            log.flush().unwrap();
        }
        let room = room(&bench, &log, 0);
        assert!(room > 0 && room <= 64 << 10, "{room}");
    }
    assert_eq!(consume(&log, 0, 5000).frames.len() as u64, log.bounds().log_end.0);
}

#[test]
fn there_is_none_where_it_would_not_help() {
    let cases = [
        ("flushed rarely", config(), 1, 101),
        ("large flushes", config(), 83, 0),
        ("os", LogConfig { durability: Durability::Os, ..config() }, 1, 0),
        ("switched off", LogConfig { preallocate_bytes: 0, ..config() }, 1, 0),
    ];
    for (what, config, frames, rest_ms) in cases {
        let bench = Bench::new();
        let (log, _) = bench.open(&config, false, 0);
        for _ in 0..5 {
            append_many(&log, frames);
            log.flush().unwrap();
            bench.clock.advance(Duration::from_millis(rest_ms));
        }
        assert_eq!(room(&bench, &log, 0), 0, "{what}");
    }
}

#[test]
fn it_is_given_back_when_a_segment_is_closed_when_the_log_is_idle_and_when_it_stops() {
    let bench = Bench::new();
    let (log, _) = bench.open(&LogConfig { segment_bytes: 10 * FRAME_BYTES, ..config() }, false, 0);
    append_flushed(&log, 9);
    assert_eq!(len(&bench.disk, 0), 10 * FRAME_BYTES, "no room beyond the segment");
    append_flushed(&log, 1);
    log.set_config(LogConfig { segment_bytes: 15 * FRAME_BYTES, ..config() }).unwrap();
    append_flushed(&log, 2);
    log.append(&mut batch(&[ProducedFrame::message(7, None, &[b'x'; 600])])).unwrap();
    log.flush().unwrap();
    assert_eq!(len(&bench.disk, 0), 12 * FRAME_BYTES, "a closed segment has none");
    assert_eq!(len(&bench.disk, 12), 669);

    log.set_config(config()).unwrap();
    append_flushed(&log, 3);
    let with_room = len(&bench.disk, 12);
    bench.clock.advance(Duration::from_secs(9));
    log.apply_retention().unwrap();
    assert_eq!(len(&bench.disk, 12), with_room, "not idle for long enough");
    bench.clock.advance(Duration::from_secs(1));
    log.apply_retention().unwrap();
    assert_eq!(len(&bench.disk, 12), 669 + 3 * FRAME_BYTES);

    append_flushed(&log, 3);
    assert!(len(&bench.disk, 12) > 669 + 6 * FRAME_BYTES);
    log.close().unwrap();
    assert_eq!(len(&bench.disk, 12), 669 + 6 * FRAME_BYTES);
    drop(log);
    let (log, report) = bench.open(&config(), true, 0);
    assert_eq!(report, hermit_log::RecoveryReport::default(), "a clean stop leaves nothing to read");
    assert_eq!(append(&log), 19);
}

#[test]
fn a_start_after_a_kill_finds_the_end_and_reports_nothing() {
    for survival in [Survival::Nothing, Survival::Everything] {
        let bench = Bench::new();
        let (log, _) = bench.open(&config(), false, 0);
        append_flushed(&log, 5);
        append(&log);
        drop(log);
        bench.disk.crash_with(survival, 0);
        let expected = if survival == Survival::Nothing { 5 } else { 6 };
        let found = inspect(&bench.disk, dir(), LogIdentity::default(), Check::Everything).unwrap();
        assert!(found.is_sound(), "{found:?}");
        assert_eq!((found.records(), found.log_bytes()), (expected, expected * FRAME_BYTES));
        assert!(matches!(found.segments[0].index, IndexReport::Unsealed { .. }));
        assert_eq!(inspect(&bench.disk, dir(), LogIdentity::default(), Check::Headers).unwrap().log_end, Offset(expected));
        let (log, report) = bench.open(&config(), false, 1);
        assert!(report.cut.is_none() && report.fenced.is_empty(), "{report:?}");
        assert_eq!(log.bounds().log_end, Offset(expected));
        assert!(len(&bench.disk, 0) <= 6 * FRAME_BYTES, "the room is given back");
        assert_eq!(append(&log), expected);
    }
}

/// What a client sends may look like room.
#[test]
fn a_payload_of_filler_is_not_taken_for_room() {
    for phase in 0..8 {
        for size in [1, 7, 8, 9, 300] {
            let bench = Bench::new();
            let (log, _) = bench.open(&config(), false, 0);
            append_flushed(&log, 3);
            let payload: Vec<u8> = b"prealloc".iter().copied().cycle().skip(phase).take(size).collect();
            log.append(&mut batch(&[ProducedFrame::message(7, None, &payload)])).unwrap();
            log.flush().unwrap();
            let size_bytes = log.size_bytes();
            drop(log);
            bench.disk.crash_with(Survival::Nothing, 0);
            let (log, report) = bench.open(&config(), false, 1);
            assert!(report.cut.is_none() && report.fenced.is_empty(), "{phase}, {size}: {report:?}");
            assert_eq!((log.bounds().log_end, log.size_bytes()), (Offset(4), size_bytes), "{phase}, {size}");
            assert_eq!(consume(&log, 0, 5000).frames, [0, 1, 2, 3]);
        }
    }
}

/// A file system may show zeros where it lost what was written: these are no room.
#[test]
fn lost_bytes_are_damage_also_where_room_follows() {
    let bench = Bench::new();
    let (log, _) = bench.open(&config(), false, 0);
    append_flushed(&log, 5);
    drop(log);
    assert!(bench.disk.overwrite(&wal(0), 4 * FRAME_BYTES, &[0; 100]));
    let found = inspect(&bench.disk, dir(), LogIdentity::default(), Check::Everything).unwrap();
    assert_eq!(found.damages.len(), 1, "{found:?}");
    assert_eq!((found.damages[0].position, found.damages[0].next_position), (4 * FRAME_BYTES, 5 * FRAME_BYTES));
    let (log, report) = bench.open(&config(), false, 1);
    let cut = report.cut.expect("a torn tail");
    assert_eq!((cut.end, cut.bytes), (Offset(4), FRAME_BYTES), "what is kept aside is what was lost, without the room");
    assert_eq!(bench.disk.file_len(&dir().join(&cut.kept_in[0])).unwrap(), FRAME_BYTES);
    assert_eq!(append(&log), 4);
}

#[test]
fn a_disk_without_space_for_room_takes_appends_as_before() {
    let bench = Bench::new();
    let (log, _) = bench.open(&config(), false, 0);
    append_flushed(&log, 1);
    bench.disk.set_capacity(Some(bench.disk.used_bytes() + 10 * FRAME_BYTES));
    append_flushed(&log, 10);
    assert_eq!(room(&bench, &log, 0), 0);
    assert!(log.failure().is_none());
    assert_eq!(consume(&log, 0, 5000).frames, (0..11).collect::<Vec<_>>());
    // It is tried again some time later.
    bench.disk.set_capacity(None);
    append_flushed(&log, 2);
    assert_eq!(room(&bench, &log, 0), 0);
    bench.clock.advance(Duration::from_secs(10));
    append_flushed(&log, 2);
    assert!(room(&bench, &log, 0) > 0);
}

#[test]
fn a_write_that_fails_amid_the_room_leaves_nothing_behind() {
    let bench = Bench::new();
    let (log, _) = bench.open(&config(), false, 0);
    append_flushed(&log, 5);
    bench.disk.fail(Fault::short_write(150));
    bench.disk.fail(Fault::error(Op::Write, Errno::IO));
    log.append(&mut batch(&[ProducedFrame::message(7, None, &[b'x'; 400])])).unwrap_err();
    assert_eq!(room(&bench, &log, 0), 0);
    append_flushed(&log, 5);
    drop(log);
    bench.disk.crash_with(Survival::Nothing, 0);
    let (log, report) = bench.open(&config(), false, 1);
    assert!(report.cut.is_none() && report.fenced.is_empty(), "{report:?}");
    assert_eq!(consume(&log, 0, 5000).frames, (0..10).collect::<Vec<_>>());
}

/// A segment whose tail a start wrote again is read up to that alone: what its file ends in is no room, whatever it looks like, while the tail's new name may yet be lost.
#[test]
fn a_tail_that_was_written_again_stays_where_it_was_too() {
    for preallocate_bytes in [0, 64 << 10] {
        let bench = Bench::new();
        let config = LogConfig { preallocate_bytes, ..config() };
        let (log, _) = bench.open(&config, false, 0);
        append_flushed(&log, 3);
        // Filler as it would be at its place.
        let phase = usize::try_from((3 * FRAME_BYTES + PREFIX_BYTES) % 8).unwrap();
        let payload: Vec<u8> = b"prealloc".iter().copied().cycle().skip(phase).take(300).collect();
        log.append(&mut batch(&[ProducedFrame::message(7, None, &payload)])).unwrap();
        log.flush().unwrap();
        drop(log);
        bench.disk.kill();
        bench.disk.keep_images();
        drop(bench.open(&config, false, 1));
        for (_, killed_amid_a_start) in bench.disk.take_images() {
            let second = Bench { disk: killed_amid_a_start, clock: bench.clock.clone() };
            second.disk.keep_images();
            drop(second.open(&config, false, 2));
            for (seed, cut_amid_the_next) in second.disk.take_images() {
                for survival in [Survival::Nothing, Survival::InOrder, Survival::Mixed, Survival::Everything] {
                    let third = Bench { disk: cut_amid_the_next.fork(), clock: bench.clock.clone() };
                    third.disk.crash_with(survival, seed);
                    let (log, report) = third.open(&config, false, 3);
                    assert_eq!(
                        log.bounds().log_end,
                        Offset(4),
                        "{preallocate_bytes}, {survival:?}, {report:?}\n{}",
                        second.disk.trace()
                    );
                }
            }
        }
    }
}

/// What was cut off comes back with a power cut, until a sync.
#[test]
fn a_gap_behind_an_append_that_failed_is_as_long_as_it_was_made() {
    for seed in 0..100 {
        let bench = Bench::new();
        let (log, _) = bench.open(&config(), false, 0);
        append_flushed(&log, 5);
        if seed % 2 == 0 {
            bench.disk.fail(Fault::short_write(150));
        }
        bench.disk.fail(Fault::error(Op::Write, Errno::IO));
        let texts = [[b'x'; 31].as_slice(), &[b'y'; 31], &[b'z'; 700]];
        log.append(&mut batch(&texts.map(|text| ProducedFrame::message(7, None, text)))).unwrap_err();
        log.skip_to(Offset(50)).unwrap();
        drop(log);
        bench.disk.crash_with(Survival::Mixed, seed);
        let (log, report) = bench.open(&config(), false, 1);
        assert_eq!((log.bounds().log_end, report.fenced), (Offset(50), vec![]), "seed {seed}");
        assert_eq!(consume(&log, 0, 5000).corrupt, [(5, 50)]);
    }
}

#[test]
fn a_kill_between_a_roll_and_the_flush_behind_it_leaves_nothing_to_report() {
    let bench = Bench::new();
    let (log, _) = bench.open(&config(), false, 0);
    append_flushed(&log, 5);
    log.set_config(LogConfig { segment_bytes: 6 * FRAME_BYTES, ..config() }).unwrap();
    append_many(&log, 3);
    drop(log);
    bench.disk.kill();
    assert!(len(&bench.disk, 0) > 6 * FRAME_BYTES);
    let found = inspect(&bench.disk, dir(), LogIdentity::default(), Check::Everything).unwrap();
    assert!(found.is_sound(), "{found:?}");
    let repaired = repair(&bench.disk, dir(), LogIdentity::default(), &RepairOptions::default()).unwrap();
    assert_eq!(repaired.actions, vec![]);
    let (log, report) = bench.open(&config(), false, 1);
    assert!(report.cut.is_none() && report.fenced.is_empty(), "{report:?}");
    assert_eq!(len(&bench.disk, 0), 6 * FRAME_BYTES);
    assert_eq!(consume(&log, 0, 5000).frames, (0..8).collect::<Vec<_>>());
}

/// One sync of the file system for many logs writes where things lie all the same.
#[test]
fn logs_that_are_flushed_together_have_no_room() {
    let bench = Bench::new();
    let (log, _) = bench.open(&config(), false, 0);
    for _ in 0..5 {
        append(&log);
        Log::flush_all(std::slice::from_ref(&log)).unwrap();
    }
    assert_eq!(log.bounds().flushed_end, Offset(5));
    assert_eq!(room(&bench, &log, 0), 0);
}

/// An older version kept no room: a file of zeros, or of another filler, is a torn tail as it was.
#[test]
fn zeros_behind_the_end_are_a_torn_tail() {
    let bench = Bench::new();
    let (log, _) = bench.open(&LogConfig { preallocate_bytes: 0, ..config() }, false, 0);
    append_flushed(&log, 5);
    drop(log);
    bench.disk.open(&wal(0), Open::ReadWrite).unwrap().set_len(5 * FRAME_BYTES + 1000).unwrap();
    let (_, report) = bench.open(&config(), false, 1);
    assert_eq!(report.cut.map(|cut| cut.bytes), Some(1000));
}
