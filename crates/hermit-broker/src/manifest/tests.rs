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
        Record::CreateIntent(meta(3, "x")),
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
