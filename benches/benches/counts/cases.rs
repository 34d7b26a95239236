//! What is counted: pure paths here, whole sessions beside.

use std::hint::black_box;
use std::ops::ControlFlow;

use bytes::BytesMut;
use hermit_benches::{frame, noise};
use hermit_log::{Batch, Durability, Log, LogConfig};
use hermit_proto::record_set::{NewRecord, RecordSet, RecordSetBuilder};
use hermit_proto::v1::{accept_header, opaque_frame};
use hermit_proto::{Deframer, FrameLimits, Header, Offset, UnitLimits, magic};
use tempfile::TempDir;

use crate::sessions;

/// A path, and how much of it a round is.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    /// Units in a round.
    pub(crate) units: u64,
    /// Few and many.
    pub(crate) rounds: (u64, u64),
    /// So many rounds.
    pub(crate) run: fn(u64),
}

/// Frames or records of a round.
pub(crate) const ROUND: usize = 500;
/// Bytes of a payload.
pub(crate) const PAYLOAD_BYTES: usize = 100;

const fn case(name: &'static str, unit: &'static str, rounds: (u64, u64), run: fn(u64)) -> Case {
    Case { name, unit, units: ROUND as u64, rounds, run }
}

/// A round reads a topic.
const fn reading(name: &'static str, unit: &'static str, run: fn(u64)) -> Case {
    Case { units: sessions::TO_READ as u64, ..case(name, unit, (1, 5), run) }
}

pub(crate) const CASES: &[Case] = &[
    case("v1 frames of a read into a batch", "frame", (10, 110), v1_frames),
    case("parse a batch", "frame", (10, 110), parse),
    case("append a parsed batch, os", "frame", (10, 110), append),
    case("build a record set", "record", (10, 110), build),
    case("verify a record set's count", "record", (10, 110), verify_count),
    case("iterate a record set", "record", (10, 110), iterate),
    Case { units: 1, ..case("find an offset in the index", "look-up", (1000, 21_000), find) },
    Case { units: 1, ..case("next range of 64 KiB", "range", (1000, 21_000), ranges) },
    case("session: v1 produce, os", "frame", (10, 110), sessions::v1_produce),
    case("session: v2 produce frame by frame, os", "request", (10, 110), sessions::v2_produce),
    reading("session: v1 consume frames", "frame", sessions::v1_consume_frames),
    reading("session: v1 consume record sets", "record", sessions::v1_consume_sets),
    case("session: SDK enqueue_batch to the log, os", "record", (10, 110), sessions::sdk_enqueue_batch),
    case("session: SDK enqueue to the log, os", "record", (10, 110), sessions::sdk_enqueue),
    case("session: SDK enqueue to one topic, os", "record", (10, 110), sessions::sdk_enqueue_to_topic),
    reading("session: SDK recv_records", "record", sessions::sdk_recv_records),
    reading("session: SDK recv_batch", "record", sessions::sdk_recv_batch),
];

/// A frame of version 1.
pub(crate) fn v1_frame() -> Vec<u8> {
    let payload_size = u32::try_from(PAYLOAD_BYTES).unwrap();
    let header = Header { magic: magic::DATA_V1, timestamp: 5, offset: 0, key_size: 0, payload_size, record_count: 1 };
    [&header.encode()[..], &noise(PAYLOAD_BYTES)].concat()
}

fn v1_frames(rounds: u64) {
    let read = v1_frame().repeat(ROUND);
    let limits = FrameLimits::default();
    let mut deframer = Deframer::new(&[magic::DATA_V1], UnitLimits { max_key_bytes: 1 << 20, max_body_bytes: 1 << 20 });
    let mut batch = Batch::default();
    for _ in 0..rounds {
        batch.clear();
        deframer.extend(black_box(&read));
        let stopped = deframer.each_unit(|unit| {
            let header = accept_header(unit.header(), &limits).unwrap();
            batch.push(&opaque_frame(&header, unit.key(), unit.payload()), &limits).unwrap();
            ControlFlow::<()>::Continue(())
        });
        assert!(stopped.unwrap().is_continue() && batch.frames().len() == ROUND);
    }
}

fn parse(rounds: u64) {
    let limits = FrameLimits::default();
    let mut bytes = BytesMut::from(&*frame(PAYLOAD_BYTES).unwrap().repeat(ROUND));
    for _ in 0..rounds {
        let batch = Batch::parse(black_box(bytes), &limits).unwrap();
        assert_eq!(batch.frames().len(), ROUND);
        bytes = batch.into_bytes();
    }
}

fn log() -> (TempDir, Log) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (log, _report) = Log::open(dir.path(), LogConfig { durability: Durability::Os, ..LogConfig::default() }).unwrap();
    (dir, log)
}

fn batch() -> Batch {
    Batch::parse(BytesMut::from(&*frame(PAYLOAD_BYTES).unwrap().repeat(ROUND)), &FrameLimits::default()).unwrap()
}

fn append(rounds: u64) {
    let ((_dir, log), mut batch) = (log(), batch());
    for _ in 0..rounds {
        log.append(black_box(&mut batch)).unwrap();
    }
    assert_eq!(log.bounds().high_watermark, Offset(rounds * ROUND as u64));
    log.close().unwrap();
}

/// A log of 50,000 frames.
fn filled() -> (TempDir, Log) {
    let ((dir, log), mut batch) = (log(), batch());
    for _ in 0..100 {
        log.append(&mut batch).unwrap();
    }
    (dir, log)
}

fn find(rounds: u64) {
    let (_dir, log) = filled();
    for round in 0..rounds {
        let offset = Offset(round * 7919 % 50_000);
        assert_eq!(log.cursor(black_box(offset)).unwrap().next_offset(), offset);
    }
    log.close().unwrap();
}

fn ranges(rounds: u64) {
    let (_dir, log) = filled();
    let mut cursor = log.cursor(Offset(0)).unwrap();
    for _ in 0..rounds {
        if black_box(cursor.next(64 << 10).unwrap()).is_none() {
            cursor = log.cursor(Offset(0)).unwrap();
        }
    }
    log.close().unwrap();
}

fn fill(builder: &mut RecordSetBuilder, value: &[u8]) {
    builder.reset(1_700_000_000_000_000_000);
    for _ in 0..ROUND {
        let record = NewRecord { timestamp_ms: 1_700_000_000_001, key: None, value: Some(value), headers: &[] };
        builder.append(black_box(&record)).unwrap();
    }
}

/// A record set of a round's records.
pub(crate) fn record_set() -> Vec<u8> {
    let mut builder = RecordSetBuilder::new(0);
    fill(&mut builder, &noise(PAYLOAD_BYTES));
    builder.as_bytes().to_vec()
}

fn build(rounds: u64) {
    let (mut builder, value) = (RecordSetBuilder::new(0), noise(PAYLOAD_BYTES));
    for _ in 0..rounds {
        fill(&mut builder, &value);
    }
    assert!(builder.len_bytes() > ROUND * PAYLOAD_BYTES);
}

fn verify_count(rounds: u64) {
    let (set, count) = (record_set(), u32::try_from(ROUND).unwrap());
    for _ in 0..rounds {
        RecordSet::new(black_box(&set)).verify_count(count).unwrap();
    }
}

fn iterate(rounds: u64) {
    let set = record_set();
    for _ in 0..rounds {
        let bytes: usize = RecordSet::new(black_box(&set)).records().map(|record| record.unwrap().value.unwrap().len()).sum();
        assert_eq!(bytes, ROUND * PAYLOAD_BYTES);
    }
}
