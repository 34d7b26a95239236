//! What compaction must not take, and must not bring back.

use std::time::Duration;

use hermit_log::{CompactionConfig, LogConfig};
use hermit_proto::{ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence};

use crate::rig::{Bench, batch, consume, keyed, payload, wal};

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
