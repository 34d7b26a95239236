use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use hermit_client::{Codec, Durability, LeaderEpoch, Offset, PartitionId, TopicConfig, TopicId};

type OwnedHeaders = Vec<(String, Option<Vec<u8>>)>;

/// A record, owned.
#[derive(Clone, Debug)]
struct Made {
    partition: u32,
    /// Offsets left out before it.
    gap: u64,
    timestamp: u64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: OwnedHeaders,
}

/// What is read back of a record.
type Found = (u32, u64, u64, Option<Vec<u8>>, Option<Vec<u8>>, OwnedHeaders);

fn head() -> Head {
    Head {
        topic: "tö\"pic".to_owned(),
        id: TopicId(0xABCD),
        partitions: 3,
        config: TopicConfig {
            durability: Some(Durability::Os),
            compaction: Some(true),
            retention_age_ms: Some(7),
            retention_bytes: Some(u64::MAX),
            segment_bytes: Some(1 << 20),
        },
    }
}

/// The file, and what should be read from it.
fn written(records: &[Made], codec: Codec) -> (Vec<u8>, Vec<Found>) {
    let mut file = TopicWriter::new(Vec::new(), &head(), codec).unwrap();
    let mut next = [0; 3];
    let mut expected = Vec::new();
    for made in records {
        let offset = next[made.partition as usize] + made.gap;
        next[made.partition as usize] = offset + 1;
        let stored = Stored {
            partition: PartitionId(made.partition),
            offset: Offset(offset),
            next: Offset(offset + 1),
            timestamp: made.timestamp,
            append_time: 1,
            leader_epoch: LeaderEpoch(2),
            key: made.key.as_deref(),
            value: made.value.as_deref(),
            headers: made.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect(),
        };
        file.append(&stored).unwrap();
        let Made { partition, timestamp, key, value, headers, .. } = made.clone();
        expected.push((partition, offset, timestamp, key, value, headers));
    }
    let (bytes, count) = file.finish().unwrap();
    assert_eq!(count, records.len() as u64);
    (bytes, expected)
}

/// What can be read, and how it ended.
fn read(bytes: &[u8]) -> (Vec<Found>, anyhow::Result<()>) {
    let mut found = Vec::new();
    let ended = (|| {
        let mut file = TopicReader::new(bytes, 1 << 20)?;
        assert_eq!(*file.head(), head());
        while let Some(block) = file.next_block()? {
            for (offset, record) in (block.first.0..).zip(block.records()?) {
                let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
                let headers = record.headers.map(|(name, value)| (name.to_owned(), owned(value))).collect();
                let timestamp = record.timestamp_ns(block.timestamp);
                found.push((block.partition.0, offset, timestamp, owned(record.key), owned(record.value), headers));
            }
        }
        Ok(())
    })();
    (found, ended)
}

fn record() -> impl Strategy<Value = Made> {
    let bytes = || option::of(vec(any::<u8>(), 0..20));
    // Times that lie close together, to the ns, and far apart.
    let timestamp = prop_oneof![0..5_000_000u64, (0..5u64).prop_map(|ms| ms * 1_000_000), any::<u64>()];
    let gap = prop_oneof![4 => Just(0), 1 => 0..1000u64];
    let headers = vec((".{0,5}", bytes()), 0..3);
    (0..3u32, gap, timestamp, bytes(), bytes(), headers).prop_map(|(partition, gap, timestamp, key, value, headers)| Made {
        partition,
        gap,
        timestamp,
        key,
        value,
        headers,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn what_was_written_is_read(records in vec(record(), 0..30), codec in prop_oneof![Just(Codec::None), Just(Codec::Lz4), Just(Codec::Zstd)]) {
        let (bytes, expected) = written(&records, codec);
        let (found, ended) = read(&bytes);
        ended.unwrap();
        prop_assert_eq!(found, expected);
    }
}

fn few_records() -> Vec<Made> {
    let record = |partition, value: &str| Made {
        partition,
        gap: 0,
        timestamp: 1_000_000,
        key: Some(b"k".to_vec()),
        value: Some(value.as_bytes().to_vec()),
        headers: vec![("h".to_owned(), None)],
    };
    vec![record(0, "a"), record(0, "b"), record(2, "c"), record(1, "d")]
}

#[test]
fn a_file_cut_anywhere_is_told_and_its_whole_blocks_are_read() {
    let (bytes, expected) = written(&few_records(), Codec::None);
    let mut most = 0;
    for end in 0..bytes.len() {
        let (found, ended) = read(&bytes[..end]);
        let problem = ended.expect_err("a cut file").to_string();
        let foreign = "it is no file that `hermit-cli export` wrote";
        assert!(problem.starts_with("it ends too early") || (end < 16 && problem == foreign), "cut at {end}: {problem}");
        assert!(expected.starts_with(&found), "cut at {end}");
        most = most.max(found.len());
    }
    assert_eq!(most, expected.len(), "cut within its end, the file still has all records");
}

#[test]
fn a_bit_turned_anywhere_is_told() {
    let (bytes, expected) = written(&few_records(), Codec::None);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            let (found, ended) = read(&damaged);
            assert!(ended.is_err(), "byte {at}, bit {bit}");
            assert!(expected.starts_with(&found), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn blocks_that_are_missing_or_follow_the_end_are_told() {
    let (bytes, _) = written(&few_records(), Codec::None);
    let (_, more) = read(&[&bytes[..], b"x"].concat());
    assert_eq!(more.unwrap_err().to_string(), "something follows its end");
    let (two, _) = written(&few_records()[..2], Codec::None);
    let end = bytes.len() - 16;
    let (_, missing) = read(&[&two[..two.len() - 16], &bytes[end..]].concat());
    assert_eq!(missing.unwrap_err().to_string(), "it should have 4 records, and has 2");
    let mut newer = bytes;
    newer[11] = 2;
    let (_, newer) = read(&newer);
    assert_eq!(newer.unwrap_err().to_string(), "its format is version 2, and this hermit-cli reads version 1");
}
