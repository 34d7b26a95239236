//! What compaction must not take, and must not bring back.

use std::time::Duration;

use hermit_log::disk::sim::Survival;
use hermit_log::{CompactionConfig, LogConfig, LogError};
use hermit_proto::{Attributes, FrameLimits, FrameView, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence};

use crate::rig::{Bench, append_many, batch, consume, dir, keyed, payload, wal};

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

/// Frames as they lie in the segments.
fn stored(bench: &Bench) -> Vec<(u64, Vec<u8>)> {
    let files = bench.disk.files().into_iter().map(|(path, _)| path);
    let wals = files.filter(|path| path.extension().is_some_and(|extension| extension == "wal"));
    let mut found = Vec::new();
    for path in wals {
        let bytes = bench.disk.bytes(&path).unwrap();
        let mut rest = &bytes[..];
        while let Ok((view, behind)) = FrameView::split(rest, &FrameLimits::default()) {
            found.push((view.prefix.offset().0, view.as_bytes().to_vec()));
            rest = behind;
        }
    }
    found
}

#[test]
fn gaps_of_a_compaction_are_no_damage_once_compaction_is_off() {
    let on = LogConfig { segment_bytes: 300, compaction: Some(CompactionConfig::default()), ..LogConfig::default() };
    let off = LogConfig { compaction: None, ..on.clone() };
    for clean in [false, true] {
        let bench = Bench::new();
        let (log, _) = bench.open(&on, false, 0);
        for i in 0..30 {
            keyed(&log, ["a", "b"][i % 2], &payload(i as u64));
        }
        // Whole segments go, at the front, between, and at the end of segments that stay.
        keyed(&log, "c", &"c".repeat(150));
        for i in 0..30 {
            keyed(&log, ["a", "b"][i % 2], &payload(i as u64));
        }
        log.flush().unwrap();
        assert!(log.compact().unwrap().frames > 30);
        log.set_config(off.clone()).unwrap();
        append_many(&log, 5);
        log.flush().unwrap();
        let seen = consume(&log, 0, 200);
        if clean {
            log.close().unwrap();
        }
        drop(log);
        for epoch in 1..4 {
            bench.disk.crash_with(Survival::Nothing, 0);
            // Also where the marker is damaged, and where no index tells where a segment ends.
            if epoch == 3 {
                assert!(bench.disk.flip_bit(&dir().join("compacted"), 70));
            }
            for (path, _) in bench.disk.files() {
                if epoch == 2 && path.extension().is_some_and(|extension| extension == "idx") {
                    bench.disk.remove(&path);
                }
            }
            let (log, report) = bench.open(&off, clean && epoch == 1, epoch);
            assert_eq!((&report.fenced, &report.cut), (&vec![], &None));
            assert_eq!(consume(&log, 0, 200), seen);
            assert_eq!(seen.corrupt, vec![]);
            assert_eq!(log.fenced(), vec![]);
            for i in 0..seen.frames.last().unwrap() + 1 {
                let expected = seen.frames.iter().find(|offset| **offset >= i);
                assert_eq!(consume(&log, i, 200).frames.first(), expected);
            }
        }
        assert!(bench.disk.flip_bit(&dir().join("compacted"), 70));
        let (log, _) = bench.open(&on, false, 5);
        log.compact().unwrap();
        let again = consume(&log, 0, 200);
        assert!(again.corrupt.is_empty() && again.frames.ends_with(&[61, 62, 63, 64, 65]), "{again:?}");
        drop(log);
        // A segment that is gone from behind what was ever compacted is still missed.
        let last = bench.disk.files().into_iter().rev().map(|(path, _)| path);
        let mut wals = last.filter(|path| path.extension().is_some_and(|extension| extension == "wal"));
        let newest = wals.find(|path| *path > wal(60)).unwrap();
        assert!(bench.disk.remove(&newest));
        let (_, report) = bench.open(&on, true, 5);
        assert_eq!(report.fenced.len(), 1, "{newest:?}: {report:?}");
    }
}

#[test]
fn what_has_no_key_stays_byte_for_byte_when_compaction_is_switched_on() {
    let bench = Bench::new();
    let off = LogConfig { segment_bytes: 400, ..LogConfig::default() };
    let on = LogConfig { compaction: Some(CompactionConfig::default()), ..off.clone() };
    let (log, _) = bench.open(&off, false, 0);
    let (key, text) = (Some(&b"k"[..]), payload(1));
    let message = |key| ProducedFrame::message(7, key, text.as_bytes());
    let several = ProducedFrame { record_count: 3, ..message(key) };
    let set = ProducedFrame { attributes: Attributes(Attributes::RECORD_SET), record_count: 2, ..message(None) };
    let set_of_one = ProducedFrame { record_count: 1, ..set };
    for _ in 0..4 {
        log.append(&mut batch(&[message(None), several, message(key), set, set_of_one, message(key)])).unwrap();
    }
    let producer = ProducerStamp { id: ProducerId(9), epoch: ProducerEpoch(0), first_sequence: Sequence(0) };
    let sent = ProducedFrame { producer: Some(producer), ..message(None) };
    log.append(&mut batch(&[sent])).unwrap();
    log.flush().unwrap();
    log.set_config(on.clone()).unwrap();
    for refused in [message(None), several, set, set_of_one] {
        let end = log.bounds().log_end;
        let refused = log.append(&mut batch(&[message(key), refused]));
        assert!(matches!(refused, Err(LogError::KeyRequired { index: 1 })), "{refused:?}");
        assert_eq!(log.bounds().log_end, end);
    }
    assert_eq!(log.append(&mut batch(&[sent])).unwrap().duplicates, 1, "what is there is no new append");
    for _ in 0..10 {
        keyed(&log, "k", &payload(2));
    }
    log.flush().unwrap();
    let before = stored(&bench);
    log.compact().unwrap();
    let after = stored(&bench);
    // Of each round of nine offsets the frames of one record with the key go, at 4 and 8.
    let stays = |offset: &u64| matches!(offset % 9, 0 | 1 | 5 | 7);
    let expected: Vec<_> = before.iter().filter(|(offset, _)| *offset < 36 && stays(offset)).cloned().collect();
    let kept: Vec<_> = after.iter().filter(|(offset, _)| *offset < 36 && stays(offset)).cloned().collect();
    assert_eq!(kept, expected);
    assert!(!after.iter().any(|(offset, _)| [4, 8].contains(offset)), "frames with a key are compacted");
    drop(log);
    bench.disk.crash_with(Survival::Nothing, 0);
    let (log, report) = bench.open(&on, false, 1);
    assert_eq!(report.fenced, vec![]);
    assert_eq!(consume(&log, 0, 100).corrupt, vec![]);
}
