//! Record sets: Kafka's bytes, round trips, damage, limits.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

use std::borrow::Cow;

use hermit_proto::record_set::*;
use hermit_proto::{Attributes, Codec};
use proptest::prelude::*;

const CODECS: [Codec; 3] = [Codec::None, Codec::Lz4, Codec::Zstd];

fn attributes(codec: Codec) -> Attributes {
    Attributes(Attributes::RECORD_SET).with_codec(codec)
}

#[derive(Clone, Debug, PartialEq)]
struct Owned {
    timestamp_ms: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

fn append(builder: &mut RecordSetBuilder, record: &Owned) {
    let headers: Vec<_> = record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
    let new = NewRecord {
        timestamp_ms: record.timestamp_ms,
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: &headers,
    };
    let (before, added) = (builder.len_bytes(), builder.added_bytes(&new));
    builder.append(&new).unwrap();
    assert_eq!(builder.len_bytes(), before + added);
}

fn read(set: &[u8], frame_timestamp: u64) -> Vec<Owned> {
    let owned = |record: Record<'_>| Owned {
        timestamp_ms: record.timestamp_ms(frame_timestamp),
        key: record.key.map(<[u8]>::to_vec),
        value: record.value.map(<[u8]>::to_vec),
        headers: record.headers.map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec))).collect(),
    };
    RecordSet::new(set).records().map(|record| owned(record.unwrap())).collect()
}

fn any_record() -> impl Strategy<Value = Owned> {
    let field = || prop::option::of(prop::collection::vec(any::<u8>(), 0..200));
    let headers = prop::collection::vec((".{0,10}", field()), 0..4);
    (0..=4_000_000_000_000i64, field(), field(), headers).prop_map(|(timestamp_ms, key, value, headers)| Owned {
        timestamp_ms,
        key,
        value,
        headers,
    })
}

proptest! {
    #[test]
    fn every_set_survives_every_codec(records in prop::collection::vec(any_record(), 0..50), frame_timestamp in any::<u64>()) {
        let mut builder = RecordSetBuilder::new(frame_timestamp);
        for record in &records {
            append(&mut builder, record);
        }
        let count = u32::try_from(records.len()).unwrap();
        prop_assert_eq!(builder.count(), count);
        for codec in CODECS {
            let payload = builder.finish(codec).unwrap();
            let set = unpack(attributes(codec), &payload, builder.len_bytes()).unwrap();
            prop_assert_eq!(&read(&set, frame_timestamp), &records);
            prop_assert_eq!(RecordSet::new(&set).verify_count(count), Ok(()));
            prop_assert!(RecordSet::new(&set).verify_count(count + 1).is_err());
            if builder.len_bytes() > 0 {
                let refused = unpack(attributes(codec), &payload, builder.len_bytes() - 1);
                prop_assert_eq!(refused, Err(RecordSetError::UnpackedTooLarge { limit_bytes: builder.len_bytes() - 1 }));
            }
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic(records in prop::collection::vec(any_record(), 1..8), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut builder = RecordSetBuilder::new(0);
        for record in &records {
            append(&mut builder, record);
        }
        for codec in CODECS {
            let mut payload = builder.finish(codec).unwrap();
            let at = at.index(payload.len());
            payload[at] = byte;
            if let Ok(set) = unpack(attributes(codec), &payload, 1 << 20) {
                let read = RecordSet::new(&set).records().count();
                prop_assert!(read <= set.len());
            }
        }
    }

    #[test]
    fn random_bytes_are_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for record in RecordSet::new(&bytes).records().flatten() {
            prop_assert_eq!(record.headers.len(), record.headers.count());
        }
        for codec in CODECS {
            if let Ok(set) = unpack(attributes(codec), &bytes, 1 << 16) {
                prop_assert!(set.len() <= 1 << 16);
            }
        }
    }
}

/// Written by hand from the format: two records, the first with a header.
const BY_HAND: &[u8] = &[
    0x1e, // length 15
    0x00, // attributes
    0x00, // timestamp delta 0
    0x00, // offset delta 0
    0x06, b'k', b'e', b'y', // key
    0x04, b'v', b'1', // value
    0x02, // one header
    0x02, b'h', // its name
    0x02, b'x', // its value
    0x0e, // length 7
    0x00, // attributes
    0xd0, 0x0f, // timestamp delta 1000
    0x02, // offset delta 1
    0x01, // key null
    0x00, // value empty
    0x00, // no headers
];

#[test]
fn bytes_made_by_hand_read_as_meant() {
    let records = read(BY_HAND, 5_000_000);
    assert_eq!(records.len(), 2);
    assert_eq!(records[0].key.as_deref(), Some(&b"key"[..]));
    assert_eq!(records[0].value.as_deref(), Some(&b"v1"[..]));
    assert_eq!(records[0].headers, [("h".to_owned(), Some(b"x".to_vec()))]);
    assert_eq!((records[1].timestamp_ms, &records[1].key, &records[1].value), (1_005, &None, &Some(vec![])));
}

#[test]
fn every_cut_of_a_set_is_an_error_or_whole_records() {
    for cut in 0..BY_HAND.len() {
        let set = RecordSet::new(&BY_HAND[..cut]);
        assert!(set.verify_count(2).is_err(), "cut at {cut}");
        assert!(set.records().count() <= 2);
    }
}

#[test]
fn each_fault_is_told_with_its_record_and_field() {
    let first = |bytes: &[u8]| RecordSet::new(bytes).records().next().unwrap().unwrap_err();
    let cut = |field| RecordSetError::Cut { index: 0, field };
    assert_eq!(first(&[0x80]), cut("length"));
    assert_eq!(first(&[0x0e]), cut("length"));
    assert_eq!(first(&[0x00]), cut("attributes"));
    assert_eq!(first(&[0x01]), RecordSetError::Negative { index: 0, field: "length", value: -1 });
    assert_eq!(first(&[0xff, 0xff, 0xff, 0xff, 0x1f]), RecordSetError::Number { index: 0, field: "length" });
    // A key of length 100 in a record of 7 bytes; one of length −2.
    assert_eq!(first(&[0x0e, 0, 0, 0, 0xc8, 0x01, 0, 0]), cut("key"));
    assert_eq!(first(&[0x0c, 0, 0, 0, 0x03, 0x01, 0]), RecordSetError::Negative { index: 0, field: "key", value: -2 });
    // 2³⁰ headers in no bytes.
    assert_eq!(first(&[0x14, 0, 0, 0, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x08]), cut("header name"));
    assert_eq!(first(&[0x0e, 0, 0, 0, 1, 1, 0, 9]), RecordSetError::LeftOver { index: 0, bytes: 1 });
    assert_eq!(first(&[0x12, 0, 0, 0, 1, 1, 2, 2, 0xff, 1]), RecordSetError::HeaderName { index: 0 });
    assert_eq!(first(&[0x0c, 0, 0, 1, 1, 1, 0]), RecordSetError::Negative { index: 0, field: "offset delta", value: -1 });
}

#[test]
fn counts_and_offset_deltas_are_verified() {
    let record = |delta| [0x0c, 0, 0, delta, 1, 1, 0];
    let two = [record(0), record(2)].concat();
    assert_eq!(RecordSet::new(&two).verify_count(2), Ok(()));
    assert_eq!(RecordSet::new(&two).verify_count(1), Err(RecordSetError::Count { expected: 1, found: 2 }));
    assert_eq!(RecordSet::new(&two).verify_count(u32::MAX), Err(RecordSetError::Count { expected: u32::MAX, found: 2 }));
    let gap = [record(0), record(4)].concat();
    assert_eq!(RecordSet::new(&gap).verify_count(2), Err(RecordSetError::OffsetDelta { index: 1, delta: 2 }));
    assert_eq!(RecordSet::new(b"").verify_count(0), Ok(()));
}

#[test]
fn codecs_that_are_not_spoken_are_refused_by_name() {
    for (number, name) in [(1, "gzip"), (2, "snappy"), (5, "unknown")] {
        let refused = unpack(Attributes(Attributes::RECORD_SET | number), b"", 10).unwrap_err();
        assert_eq!(refused, RecordSetError::UnsupportedCodec { number, name });
        assert!(refused.to_string().contains(name));
    }
}

#[test]
fn an_uncompressed_set_is_not_copied() {
    assert!(matches!(unpack(attributes(Codec::None), b"abc", 3), Ok(Cow::Borrowed(b"abc"))));
    assert_eq!(unpack(attributes(Codec::None), b"abc", 2), Err(RecordSetError::UnpackedTooLarge { limit_bytes: 2 }));
}

#[test]
fn bombs_are_stopped_at_the_limit() {
    let zeros = vec![0; 100 << 20];
    for codec in [Codec::Lz4, Codec::Zstd] {
        let bomb = compress(codec, &zeros).unwrap();
        assert!(bomb.len() < 1 << 20);
        let mut set = Vec::new();
        let refused = unpack_into(codec, &bomb, 1 << 20, &mut set);
        assert_eq!(refused, Err(RecordSetError::UnpackedTooLarge { limit_bytes: 1 << 20 }));
        assert!(set.capacity() <= 4 << 20, "{codec:?} took {} bytes", set.capacity());
    }
}

#[test]
fn a_declared_size_allocates_nothing() {
    // LZ4: blocks of 4 MiB and a content of 2⁶³ bytes are announced, one block of one literal follows.
    let mut lz4 = 0x184D_2204_u32.to_le_bytes().to_vec();
    lz4.extend([0b0110_1000, 0x70]);
    lz4.extend((1u64 << 63).to_le_bytes());
    lz4.push(0);
    lz4.extend(2u32.to_le_bytes());
    lz4.extend([0x10, b'x']);
    lz4.extend(0u32.to_le_bytes());
    let mut set = Vec::new();
    unpack_into(Codec::Lz4, &lz4, 1 << 30, &mut set).unwrap();
    assert_eq!(set, b"x");
    assert!(set.capacity() < 4096);

    // Zstandard: a window of 2³⁰ bytes is announced.
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0x00, (30 - 10) << 3, 0x09, 0, 0, b'x'];
    let refused = unpack_into(Codec::Zstd, &zstd, 1 << 30, &mut set).unwrap_err();
    assert!(matches!(refused, RecordSetError::Compressed { codec: "zstd", .. }), "{refused}");
}

#[test]
fn lz4_frames_of_other_encoders_unpack() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;

    let text: Vec<u8> = (0..300_000u32).flat_map(|number| (number / 7).to_string().into_bytes()).collect();
    for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB] {
        for mode in [BlockMode::Independent, BlockMode::Linked] {
            for checksums in [false, true] {
                let info = FrameInfo::new()
                    .block_size(size)
                    .block_mode(mode)
                    .block_checksums(checksums)
                    .content_checksum(checksums)
                    .content_size(checksums.then_some(text.len() as u64));
                let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
                encoder.write_all(&text).unwrap();
                let frame = encoder.finish().unwrap();
                let mut set = Vec::new();
                unpack_into(Codec::Lz4, &frame, text.len(), &mut set).unwrap();
                assert!(set == text, "{size:?} {mode:?}");
                for cut in [frame.len() - 1, frame.len() / 2, 7, 3, 0] {
                    assert!(unpack_into(Codec::Lz4, &frame[..cut], text.len(), &mut set).is_err(), "cut at {cut}");
                }
                let twice = [&frame[..], &frame[..]].concat();
                assert!(unpack_into(Codec::Lz4, &twice, 2 * text.len(), &mut set).is_err());
            }
        }
    }
}

#[test]
fn our_lz4_frames_are_read_by_another_decoder() {
    use std::io::Read;

    let text = b"hermit ".repeat(50_000);
    let mut read = Vec::new();
    let frame = compress(Codec::Lz4, &text).unwrap();
    lz4_flex::frame::FrameDecoder::new(&frame[..]).read_to_end(&mut read).unwrap();
    assert_eq!(read, text);
}

#[test]
fn timestamps_keep_their_nanoseconds_where_the_delta_is_0() {
    let mut builder = RecordSetBuilder::new(1_500_000_123);
    for timestamp_ms in [1_500, 1_501, 0] {
        builder.append(&NewRecord { timestamp_ms, key: None, value: None, headers: &[] }).unwrap();
    }
    let times: Vec<_> =
        RecordSet::new(builder.as_bytes()).records().map(|record| record.unwrap().timestamp_ns(1_500_000_123)).collect();
    assert_eq!(times, [1_500_000_123, 1_501_000_000, 0]);
    builder.reset(0);
    assert!(builder.is_empty());
}
