//! The manifest, and the copies of topics' metadata.

use hermit_proto::TopicId;

use super::record::{Record, encode_checked};
use super::state::{Newer, State, header, read};
use super::topic_copy;
use crate::fuzzing::Steps;

/// Bytes as they come, and records under right checksums: what is believed is the sum of its records, and says the same when it is written again.
///
/// # Panics
/// Where that does not hold.
pub fn manifest(data: &[u8]) {
    check(data);
    let mut steps = Steps(data);
    let mut bytes = header(1 + u32::from(steps.u8() % 2)).to_vec();
    Record::Begin { broker_id: 7 }.encode_into(&mut bytes);
    while !steps.is_empty() {
        encode_checked(steps.bytes(), &mut bytes);
    }
    check(&bytes);

    let mut copy = Vec::new();
    encode_checked(data, &mut copy);
    for bytes in [data, &copy] {
        if let Some(meta) = topic_copy::decode(bytes) {
            assert_eq!(topic_copy::decode(&topic_copy::encode(&meta)).as_ref(), Some(&meta));
            let mut state = State::begin(1, hermit_proto::LeaderEpoch(1));
            assert!(!state.renew(&meta), "nothing is known of it");
            state.apply(Record::CreateIntent(meta.clone())).expect("it is the first");
            state.apply(Record::CreateDone(meta.id)).expect("it was begun");
            let _altered = state.apply(Record::Alter { id: meta.id, settings: meta.settings });
            state.renew(&meta);
        }
    }
}

fn check(bytes: &[u8]) {
    let facts = match read(bytes) {
        Ok(facts) => facts,
        Err(Newer(version)) => return assert!(version > super::FORMAT_VERSION),
    };
    assert!(facts.good_bytes <= bytes.len());
    assert_eq!(facts.damage.is_none(), facts.good_bytes == bytes.len() && facts.good_bytes > super::state::HEADER_BYTES);
    let again = read(&facts.state.encode()).expect("this release wrote it");
    assert_eq!(again.damage, None);
    // Deleted topics are written first, and growth counts partitions once.
    assert_eq!(again.state.total_partitions(), facts.state.total_partitions());
    let ids = |state: &State| state.topics.keys().copied().collect::<Vec<TopicId>>();
    assert_eq!(ids(&again.state), ids(&facts.state));
    for (id, entry) in &facts.state.topics {
        let other = again.state.topics.get(id).expect("it has the same ids");
        assert_eq!((other.stage, &other.meta.name, other.growth), (entry.stage, &entry.meta.name, entry.growth));
    }
}
