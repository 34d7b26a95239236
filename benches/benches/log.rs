//! The log: what an append costs with and without waiting for the disk, and finding an offset.
#![allow(missing_docs, reason = "criterion's macros write public functions")]
#![expect(clippy::unwrap_used, reason = "a benchmark whose set-up fails has nothing to measure")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hermit_benches::{frame, print_machine};
use hermit_log::{Batch, Durability, Log, LogConfig};
use hermit_proto::{FrameLimits, Offset};
use tempfile::TempDir;

/// After so many appended bytes a log is emptied, so that a long measurement does not fill the disk.
const KEPT_BYTES: u64 = 256 << 20;

fn open(durability: Durability) -> (TempDir, Log) {
    // On the disk where the tree is: on a memory file system a flush costs nothing.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let config = LogConfig { durability, segment_bytes: KEPT_BYTES / 4, ..LogConfig::default() };
    let (log, _report) = Log::open(dir.path(), config).unwrap();
    (dir, log)
}

#[expect(clippy::disallowed_methods, reason = "criterion leaves the clock to those who time a part only")]
fn now() -> Instant {
    Instant::now()
}

/// Appends `batch` so many times; trimming is not part of the time.
fn append(log: &Log, batch: &[u8], times: u64, wait: bool) -> Duration {
    let limits = FrameLimits::default();
    let mut buffer = BytesMut::new();
    let mut spent = Duration::ZERO;
    for _ in 0..times {
        buffer.clear();
        buffer.extend_from_slice(batch);
        let begun = now();
        let mut parsed = Batch::parse(buffer, &limits).unwrap();
        let appended = log.append(&mut parsed).unwrap();
        if wait {
            log.wait_flushed(appended.next_offset).unwrap();
        }
        spent += begun.elapsed();
        buffer = parsed.into_bytes();
        if log.size_bytes() > KEPT_BYTES {
            log.flush().unwrap();
            log.trim(log.bounds().log_end).unwrap();
        }
    }
    spent
}

fn appends(c: &mut Criterion) {
    print_machine();
    let mut group = c.benchmark_group("append");
    for (frames, payload_bytes) in [(1, 100), (100, 100), (16, 64 << 10)] {
        let batch = frame(payload_bytes).unwrap().repeat(frames);
        group.throughput(Throughput::Bytes(batch.len() as u64));
        for (name, durability, wait) in [("os", Durability::Os, false), ("sync, flushed", Durability::Sync, true)] {
            let (_dir, log) = open(durability);
            let id = BenchmarkId::new(name, format!("{frames} × {payload_bytes} B"));
            group.bench_with_input(id, &batch, |b, batch| b.iter_custom(|times| append(&log, batch, times, wait)));
            assert!(log.bounds().log_end > Offset(0), "nothing was appended");
            log.close().unwrap();
        }
    }
    group.finish();
}

fn reads(c: &mut Criterion) {
    let (_dir, log) = open(Durability::Os);
    let batch = frame(100).unwrap().repeat(1000);
    append(&log, &batch, 1000, false);
    let end = log.bounds().high_watermark.0;
    assert_eq!(end, 1_000_000, "all frames are there to be found");

    let mut offset = 0;
    c.bench_function("find an offset among 1,000,000", |b| {
        b.iter(|| {
            // A stride that is prime visits all parts of the log.
            offset = (offset + 611_953) % end;
            let cursor = log.cursor(black_box(Offset(offset))).unwrap();
            assert_eq!(cursor.next_offset(), Offset(offset));
        });
    });

    let mut group = c.benchmark_group("range of 1 MiB");
    group.throughput(Throughput::Bytes(1 << 20));
    let mut cursor = log.cursor(Offset(0)).unwrap();
    group.bench_function("next", |b| {
        b.iter(|| {
            let range = cursor.next(1 << 20).unwrap();
            if range.is_none() {
                cursor = log.cursor(Offset(0)).unwrap();
            }
            range.map(|range| range.len_bytes())
        });
    });
    group.finish();
    log.close().unwrap();
}

criterion_group!(benches, appends, reads);
criterion_main!(benches);
