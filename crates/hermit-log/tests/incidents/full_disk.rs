//! A full disk refuses appends, retryably, and nothing else.

use hermit_log::disk::Disk as _;
use hermit_log::disk::sim::Survival;
use hermit_log::{Log, LogConfig, LogError};
use hermit_proto::{Offset, ProducedFrame};

use crate::rig::{Bench, append, append_many, batch, consume, idx, stamped};

fn config() -> LogConfig {
    LogConfig { segment_bytes: 1000, index_interval_bytes: 100, ..LogConfig::default() }
}

/// Leaves room for so many bytes.
fn fill(bench: &Bench, room_bytes: u64) {
    bench.disk.set_capacity(Some(bench.disk.used_bytes() + room_bytes));
}

fn refused(log: &Log) {
    let before = log.bounds();
    let error = log.append(&mut batch(&[ProducedFrame::message(7, None, &[b'x'; 31])])).unwrap_err();
    assert!(matches!(error, LogError::DiskFull { .. }) && error.is_retryable(), "{error:?}");
    assert_eq!(log.bounds(), before);
    assert!(log.failure().is_none());
}

#[test]
fn what_is_there_is_read_and_started_from_and_room_makes_appends_go_on() {
    for survival in [Survival::Nothing, Survival::Everything] {
        let bench = Bench::new();
        let (log, _) = bench.open(&config(), false, 0);
        append_many(&log, 55);
        log.flush().unwrap();
        append_many(&log, 2);
        fill(&bench, 150);
        append(&log);
        for _ in 0..3 {
            refused(&log);
        }
        log.flush().unwrap();
        assert_eq!(consume(&log, 0, 300).frames, (0..58).collect::<Vec<_>>());
        bench.disk.set_capacity(None);
        append(&log);
        fill(&bench, 0);
        refused(&log);
        drop(log);
        bench.disk.crash_with(survival, 0);
        fill(&bench, 0);
        let (log, report) = bench.open(&config(), false, 1);
        assert_eq!(report.fenced, vec![]);
        let end = log.bounds().log_end.0;
        assert!(end == 58 || end == 59);
        assert_eq!(consume(&log, 0, 300).frames, (0..end).collect::<Vec<_>>());
        refused(&log);
        bench.disk.set_capacity(None);
        assert_eq!(append(&log), end);
    }
}

#[test]
fn of_a_batch_that_fits_in_part_nothing_is_there() {
    let bench = Bench::new();
    let (log, _) = bench.open(&LogConfig::default(), false, 0);
    append_many(&log, 3);
    log.flush().unwrap();
    fill(&bench, 150);
    let frame = ProducedFrame::message(7, None, &[b'x'; 31]);
    assert!(matches!(log.append(&mut batch(&[frame, frame])), Err(LogError::DiskFull { .. })));
    drop(log);
    bench.disk.kill();
    bench.disk.set_capacity(None);
    let (log, report) = bench.open(&LogConfig::default(), false, 1);
    assert_eq!((report.cut, log.bounds().log_end), (None, Offset(3)));
    assert_eq!(append(&log), 3);
}

#[test]
fn retention_and_trim_need_no_space_of_their_own() {
    for way in ["bytes", "trim"] {
        let bench = Bench::new();
        let (log, _) = bench.open(&config(), false, 0);
        stamped(&log, 0).unwrap();
        append_many(&log, 95);
        log.flush().unwrap();
        // Somebody is reading where it is removed.
        let mut reader = log.cursor(Offset(13)).unwrap();
        fill(&bench, 0);
        refused(&log);
        if way == "trim" {
            log.trim(Offset(75)).unwrap();
        } else {
            log.set_config(LogConfig { retention_bytes: Some(2000), ..config() }).unwrap();
            log.apply_retention().unwrap();
        }
        assert!(log.bounds().log_start >= Offset(70));
        assert!(matches!(reader.next(300), Ok(Some(_)) | Err(LogError::OutOfRange { .. })));
        append_many(&log, 5);
        log.flush().unwrap();
        let start = log.bounds().log_start.0;
        assert_eq!(consume(&log, 0, 300).frames, (start..101).collect::<Vec<_>>());
        drop(log);
        bench.disk.crash_with(Survival::Nothing, 0);
        let (log, report) = bench.open(&config(), false, 1);
        assert_eq!((report.fenced, log.bounds().log_start.0), (vec![], start));
        assert_eq!(consume(&log, 0, 300).frames, (start..101).collect::<Vec<_>>());
        assert_eq!(stamped(&log, 0).unwrap().duplicates, 1);
    }
}

#[test]
fn an_index_for_which_there_was_no_room_is_made_when_the_log_is_closed() {
    let bench = Bench::new();
    let (log, _) = bench.open(&config(), false, 0);
    append_many(&log, 13);
    // As where its segment had the last room that there was.
    bench.disk.remove_file(&idx(10)).unwrap();
    append(&log);
    log.close().unwrap();
    drop(log);
    assert!(bench.disk.file_len(&idx(10)).unwrap() > 0);
    let (log, report) = bench.open(&config(), true, 0);
    assert_eq!(report.fenced, vec![]);
    assert_eq!(consume(&log, 0, 300).frames, (0..14).collect::<Vec<_>>());
}
