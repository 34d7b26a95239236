//! Damage hides what it hit and nothing else.

use std::sync::Arc;

use hermit_log::LogConfig;
use hermit_proto::{LeaderEpoch, Offset};

use crate::rig::{Bench, FRAME_BYTES, Seen, append, append_many, consume, dir, idx, numbers, stamped, wal};

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

#[test]
fn files_of_two_segments_that_were_exchanged_are_damaged_and_nothing_is_read_out_of_order() {
    let bench = Bench::new();
    let config = LogConfig { segment_bytes: 1000, index_interval_bytes: 200, ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 0);
    append_many(&log, 45);
    log.flush().unwrap();
    log.close().unwrap();
    drop(log);
    bench.disk.kill();
    // Of the same size, with indexes that fit it: the start has no reason to read them.
    let [ten, twenty] = [10, 20].map(|base| bench.disk.bytes(&wal(base)).unwrap());
    assert!(bench.disk.put(&wal(10), &twenty) && bench.disk.put(&wal(20), &ten));
    for clean in [true, false] {
        let bench = Bench { disk: bench.disk.fork(), clock: Arc::clone(&bench.clock) };
        let (log, report) = bench.open(&config, clean, 1);
        assert_eq!((report.fenced, report.cut), (vec![], None));
        for from in [0, 13, 25] {
            let seen = consume(&log, from, 500);
            assert_eq!(seen.frames, numbers(&[from..10, 30..45]), "from {from}");
        }
        assert_eq!(log.fenced().iter().map(|range| (range.from.0, range.next.0)).collect::<Vec<_>>(), [(10, 20), (20, 30)]);
    }
}
