use hermit_log::disk::sim::SimDisk;
use hermit_proto::{LeaderEpoch, ProducerId, TopicId, TopicName};

use super::*;
use crate::topic::{TopicMeta, TopicSettings};

fn meta(id: u128, name: &str) -> TopicMeta {
    TopicMeta {
        id: TopicId(id),
        name: TopicName::new(name).unwrap(),
        partitions: 3,
        created_at: 5,
        settings: TopicSettings::default(),
        revision: 7,
    }
}

fn history() -> Vec<Record> {
    let altered = TopicSettings { compaction: true, retention_bytes: 9, ..TopicSettings::default() };
    vec![
        Record::Begin { broker_id: 77 },
        Record::Epoch(LeaderEpoch(1)),
        Record::Producers { next: ProducerId(1000) },
        Record::CreateIntent(meta(1, "orders")),
        Record::CreateDone(TopicId(1)),
        Record::DeleteIntent(TopicId(1)),
        Record::CreateIntent(meta(2, "orders")),
        Record::DeleteDone(TopicId(1)),
        Record::CreateDone(TopicId(2)),
        Record::Alter { id: TopicId(2), settings: altered },
        Record::Epoch(LeaderEpoch(2)),
        Record::GrowIntent { id: TopicId(2), partitions: 5 },
        Record::GrowDone(TopicId(2)),
        Record::GrowIntent { id: TopicId(2), partitions: 6 },
        Record::GrowUndo(TopicId(2)),
        Record::GrowUndone(TopicId(2)),
        Record::CreateIntent(meta(3, "x")),
        Record::GrowIntent { id: TopicId(2), partitions: 7 },
    ]
}

fn bytes_of(records: &[Record]) -> Vec<u8> {
    let mut bytes = state::header(FORMAT_VERSION).to_vec();
    records.iter().for_each(|record| record.encode_into(&mut bytes));
    bytes
}

fn state_of(records: &[Record]) -> State {
    let mut state = State::default();
    records.iter().for_each(|record| state.apply(record.clone()).unwrap());
    state
}

#[test]
fn records_add_up_and_the_compact_form_says_the_same() {
    let facts = read(&bytes_of(&history())).unwrap();
    assert_eq!(facts.damage, None);
    assert_eq!(facts.state, state_of(&history()));
    assert_eq!(read(&facts.state.encode()).unwrap().state, facts.state);
    assert_eq!(facts.state.by_name(&TopicName::new("orders").unwrap()).unwrap().meta.id, TopicId(2));
}

#[test]
fn a_growth_adds_up_and_what_is_left_of_it_is_not_forgotten() {
    let mut records = history();
    let state = state_of(&records);
    let entry = |state: &State| state.topics[&TopicId(2)].clone();
    // Once altered, once grown.
    assert_eq!((entry(&state).meta.partitions, entry(&state).meta.revision), (5, 9));
    assert_eq!((entry(&state).growth, entry(&state).partitions()), (Some(Growth::Growing(7)), 7));
    assert_eq!(state.total_partitions(), 7 + 3);
    records.push(Record::GrowUndo(TopicId(2)));
    let state = state_of(&records);
    assert_eq!(entry(&state).growth, Some(Growth::Undoing(7)));
    assert_eq!(read(&state.encode()).unwrap().state, state);
    // What is deleted goes with all its directories.
    records.push(Record::DeleteIntent(TopicId(2)));
    let state = state_of(&records);
    assert_eq!((entry(&state).partitions(), entry(&state).growth), (7, None));
    assert_eq!(read(&state.encode()).unwrap().state, state);
    let grow = |id, partitions| state_of(&history()).apply(Record::GrowIntent { id: TopicId(id), partitions });
    for (id, partitions) in [(2, 8), (3, 8), (9, 8)] {
        assert!(grow(id, partitions).is_err(), "topic {id}");
    }
}

/// Written by the release before format 2, with topics `orders` and `ü`.
const FORMAT_1: &str = "\
4845524d49544d5100000001001a0bcc00000011017273ca4b15dadb7b8d4e340d42466ef5eef7cc64000000050200000001\
6469689600000009030000000000000000287839660000004b048cec84e8fc3a1c1de98250fdaa112ad400125f5f636f6e73\
756d65725f6f6666736574730000000118ec9c133f1ec5bf0001ffffffffffffffffffffffffffffffff0000000001000000\
5ab7293500000011058cec84e8fc3a1c1de98250fdaa112ad4179ba1410000003f04d6178fe80384374af755350ed37bdc11\
00066f72646572730000000118ec9c13d07259c60000ffffffffffffffffffffffffffffffff0000000010000000f57d17a0\
0000001105d6178fe80384374af755350ed37bdc11dd14cdd90000003b04f11af8e05c968c1f1da442599fcabc3a0002c3bc\
0000000118ec9c13d4e0481f0000ffffffffffffffffffffffffffffffff0000000010000000419926a10000001105f11af8\
e05c968c1f1da442599fcabc3ad93272e4";
const FORMAT_1_COPY: &str = "\
0000004200000001d6178fe80384374af755350ed37bdc1100066f72646572730000000118ec9c13d07259c60000ffffffff\
ffffffffffffffffffffffff0000000010000000e652d8c5";

fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).unwrap()).collect()
}

#[test]
fn what_the_previous_release_wrote_is_read_and_rewritten() {
    let bytes = from_hex(FORMAT_1);
    let facts = read(&bytes).unwrap();
    assert_eq!((facts.version, &facts.damage, facts.state.epoch), (1, &None, LeaderEpoch(1)));
    let meta = facts.state.by_name(&TopicName::new("orders").unwrap()).unwrap().meta.clone();
    assert_eq!((meta.partitions, meta.revision, meta.settings), (1, 0, TopicSettings::default()));
    assert_eq!(topic_copy::decode(&from_hex(FORMAT_1_COPY)), Some(meta.clone()));

    let disk = SimDisk::new(1);
    let dir = Path::new("/data");
    for entry in facts.state.topics.values() {
        disk.create_dir_all(&layout::partition_dir(dir, entry.meta.id, hermit_proto::PartitionId(0))).unwrap();
    }
    disk.put(&dir.join(layout::MANIFEST), &bytes);
    let open = || {
        let clock = Arc::new(hermit_log::ManualClock::new(1));
        let flusher = hermit_log::Flusher::manual(clock.clone());
        let env = hermit_log::LogEnv::new(Arc::new(disk.clone()), clock, flusher, 64);
        let config = crate::BrokerConfig { recovery_threads: 1, reserve_bytes: 0, ..crate::BrokerConfig::new(dir) };
        crate::Broker::open_with(config, env).unwrap()
    };
    let broker = open();
    assert!(broker.report().manifest.is_none(), "{:?}", broker.report());
    assert_eq!(broker.add_partitions(&meta.name, 3).unwrap().meta.id, meta.id);
    broker.close().unwrap();
    let facts = read(&load(&disk, dir).unwrap().unwrap()).unwrap();
    assert_eq!((facts.version, facts.damage), (FORMAT_VERSION, None));
    let broker = open();
    assert_eq!((broker.topic(&meta.name).unwrap().partitions().len(), broker.report().clean), (3, true));
}

#[test]
fn a_newer_format_is_told_by_its_number() {
    let mut bytes = state::header(FORMAT_VERSION + 1).to_vec();
    bytes.extend_from_slice(b"whatever");
    assert_eq!(read(&bytes), Err(state::Newer(FORMAT_VERSION + 1)));
}

#[test]
fn every_flipped_bit_leaves_the_records_before_it() {
    let records = history();
    let bytes = bytes_of(&records);
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let facts = read(&damaged).unwrap();
        assert!(facts.damage.is_some(), "bit {bit}");
        assert!(facts.good_bytes <= bit / 8, "bit {bit}");
        assert_eq!(facts.state, prefix_state(&records, facts.good_bytes), "bit {bit}");
    }
}

#[test]
fn every_cut_leaves_the_whole_records_before_it() {
    let records = history();
    let bytes = bytes_of(&records);
    for len in 0..bytes.len() {
        let facts = read(&bytes[..len]).unwrap();
        assert_eq!(facts.damage.is_none(), facts.good_bytes == len && len > state::HEADER_BYTES, "cut at {len}");
        assert_eq!(facts.state, prefix_state(&records, facts.good_bytes), "cut at {len}");
    }
}

fn prefix_state(records: &[Record], good_bytes: usize) -> State {
    let mut kept = 0;
    while kept < records.len() && bytes_of(&records[..=kept]).len() <= good_bytes {
        kept += 1;
    }
    state_of(&records[..kept])
}

#[test]
fn every_damaged_topic_copy_is_refused() {
    let meta = meta(9, "ü");
    let bytes = topic_copy::encode(&meta);
    assert_eq!(topic_copy::decode(&bytes), Some(meta));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(topic_copy::decode(&damaged), None, "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert_eq!(topic_copy::decode(&bytes[..len]), None, "cut at {len}");
    }
}

#[test]
fn a_long_history_is_rewritten_and_still_says_the_same() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1));
    let dir = Path::new("/data");
    disk.create_dir_all(dir).unwrap();
    let mut manifest = Manifest::create(Arc::clone(&disk), dir, State::begin(1, LeaderEpoch(0))).unwrap();
    for epoch in 1..20_000 {
        manifest.append(&[Record::Epoch(LeaderEpoch(epoch))]).unwrap();
    }
    let bytes = load(&*disk, dir).unwrap().unwrap();
    assert!(bytes.len() < 70_000, "{} bytes", bytes.len());
    assert_eq!(read(&bytes).unwrap().state, *manifest.state());
}

#[test]
fn a_file_that_is_longer_than_any_manifest_says_what_its_beginning_says() {
    let (disk, dir) = (SimDisk::new(1), Path::new("/data"));
    disk.create_dir_all(dir).unwrap();
    let records = bytes_of(&history());
    let longer = [records.as_slice(), &[0; 1000]].concat();
    write_atomically(&disk, dir, layout::MANIFEST, &longer).unwrap();
    let read_back = load_up_to(&disk, dir, records.len() as u64 + 10).unwrap().unwrap();
    assert_eq!(read_back, longer[..records.len() + 11]);
    let facts = read(&read_back).unwrap();
    assert_eq!((facts.state, facts.damage.is_some()), (state_of(&history()), true));
}
