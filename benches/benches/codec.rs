//! The codec: what every frame costs on its way through the broker, and what a record costs in a set.
#![allow(missing_docs, reason = "criterion's macros write public functions")]
#![expect(clippy::unwrap_used, reason = "a benchmark whose set-up fails has nothing to measure")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hermit_benches::{frame, noise, print_machine};
use hermit_proto::record_set::{NewRecord, RecordSet, RecordSetBuilder, unpack};
use hermit_proto::v1::record_header;
use hermit_proto::{
    Attributes, BrokerStamp, Codec, FrameLimits, FramePrefix, FrameSalt, FrameView, LeaderEpoch, Offset, PREFIX_SIZE, PartitionId,
    ProducedFrame, TopicId, crc32c,
};

const SALT: FrameSalt = FrameSalt::new(TopicId(1), PartitionId(2));

fn checksum(c: &mut Criterion) {
    print_machine();
    assert_eq!(crc32c(b"123456789"), 0xE306_9283, "this is not CRC-32C");
    let mut group = c.benchmark_group("crc32c");
    for bytes in [29, 100, 4 << 10, 64 << 10] {
        let data = noise(bytes);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_with_input(BenchmarkId::from_parameter(bytes), &data, |b, data| b.iter(|| crc32c(black_box(data))));
    }
    group.finish();
}

fn frames(c: &mut Criterion) {
    let limits = FrameLimits::default();
    let mut group = c.benchmark_group("frame");
    for bytes in [100, 4 << 10, 64 << 10] {
        let payload = noise(bytes);
        let encoded = frame(bytes).unwrap();
        group.throughput(Throughput::Bytes(encoded.len() as u64));

        group.bench_with_input(BenchmarkId::new("encode", bytes), &payload, |b, payload| {
            b.iter(|| ProducedFrame::message(1, Some(b"key"), black_box(payload)).prefix());
        });
        group.bench_with_input(BenchmarkId::new("split and check the body", bytes), &encoded, |b, encoded| {
            b.iter(|| {
                let (view, rest) = FrameView::split(black_box(encoded), &limits).unwrap();
                view.verify_body().unwrap();
                assert!(rest.is_empty());
            });
        });
    }
    group.finish();

    // What is done under the partition's lock, and by whoever reads a header back; the size of the frame does not matter.
    let stamp = BrokerStamp { offset: Offset(7), leader_epoch: LeaderEpoch(1), append_time: 9, flushed_distance: 0 };
    let mut encoded = frame(100).unwrap();
    let prefix: &mut [u8; PREFIX_SIZE] = encoded.first_chunk_mut().unwrap();
    FramePrefix::stamp(prefix, &stamp, &SALT);
    assert_eq!(FramePrefix::verify(prefix, &SALT).unwrap().offset(), Offset(7));
    c.bench_function("frame/stamp", |b| b.iter(|| FramePrefix::stamp(black_box(prefix), &stamp, &SALT)));
    c.bench_function("frame/verify the prefix", |b| b.iter(|| FramePrefix::verify(black_box(prefix), &SALT)));
}

/// A line of a CSV file as a record: compressible, some 70 bytes.
const VALUE: &[u8] = b"2013,1,1,517,2,11,UA,1545,N14228,EWR,IAH,227,1400,2013-01-01T10:00:00Z";
const RECORDS: u32 = 800;

fn build(builder: &mut RecordSetBuilder) {
    builder.reset(1_700_000_000_000_000_000);
    for _ in 0..RECORDS {
        let record = NewRecord { timestamp_ms: 1_700_000_000_001, key: Some(b"UA"), value: Some(VALUE), headers: &[] };
        builder.append(black_box(&record)).unwrap();
    }
}

/// What a version-1 consumer gets of a set: a header of its own for each record.
fn unfold(set: &[u8], frames: &mut Vec<u8>) -> usize {
    frames.clear();
    for (record, offset) in RecordSet::new(black_box(set)).records().zip(7..) {
        let record = record.unwrap();
        let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
        let header = record_header(record.timestamp_ns(5), Offset(offset), key.len(), value.len()).unwrap();
        for part in [&header, key, value] {
            frames.extend_from_slice(part);
        }
    }
    frames.len()
}

fn record_sets(c: &mut Criterion) {
    let mut builder = RecordSetBuilder::new(0);
    build(&mut builder);
    RecordSet::new(builder.as_bytes()).verify_count(RECORDS).unwrap();
    let values = || RecordSet::new(builder.as_bytes()).records().map(|record| record.unwrap().value.unwrap().len()).sum::<usize>();
    assert_eq!(values(), VALUE.len() * RECORDS as usize);

    let mut group = c.benchmark_group(format!("record set of {RECORDS}"));
    group.throughput(Throughput::Elements(RECORDS.into()));
    group.bench_function("iterate", |b| b.iter(values));
    group.bench_function("verify the count", |b| b.iter(|| RecordSet::new(black_box(builder.as_bytes())).verify_count(RECORDS)));
    group.bench_function("unfold into frames of version 1", |b| {
        let mut frames = Vec::with_capacity(2 * builder.len_bytes());
        b.iter(|| unfold(builder.as_bytes(), &mut frames));
    });
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let payload = builder.finish(codec).unwrap();
        let attributes = Attributes(Attributes::RECORD_SET).with_codec(codec);
        assert_eq!(unpack(attributes, &payload, builder.len_bytes()).unwrap(), builder.as_bytes());
        group.bench_function(format!("unpack, {codec:?}"), |b| {
            b.iter(|| unpack(attributes, black_box(&payload), 1 << 20).unwrap().len());
        });
        group.bench_function(format!("build and compress, {codec:?}"), |b| {
            let mut builder = RecordSetBuilder::new(0);
            b.iter(|| {
                build(&mut builder);
                builder.finish(codec)
            });
        });
    }
    group.finish();
}

criterion_group!(benches, checksum, frames, record_sets);
criterion_main!(benches);
