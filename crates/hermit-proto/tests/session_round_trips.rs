//! Messages with any contents read as they were written.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

use std::fmt::Debug;

use bytes::BytesMut;
use hermit_proto::session::*;
use hermit_proto::*;
use proptest::prelude::*;

fn unit(bytes: &[u8]) -> Unit {
    let limits = UnitLimits { max_key_bytes: 1 << 10, max_body_bytes: 1 << 20 };
    let mut deframer = Deframer::new(&[magic::REQUEST, magic::RESPONSE, magic::DELIVERY], limits);
    deframer.extend(bytes);
    let unit = deframer.next_unit().unwrap().unwrap();
    assert!(deframer.is_between_units());
    unit
}

fn request_survives<R: Request + PartialEq + Debug>(request: &R, correlation: CorrelationId) {
    let mut out = BytesMut::new();
    request.encode(correlation, &mut out).unwrap();
    let unit = unit(&out);
    assert_eq!((unit.correlation(), unit.header().record_count), (correlation, R::OPERATION.number()));
    assert_eq!(R::decode(unit.key(), unit.payload()).as_ref(), Ok(request));
}

fn response_survives<R: Response + PartialEq + Debug>(response: &R, correlation: CorrelationId) {
    let mut out = BytesMut::new();
    response.encode(correlation, &mut out).unwrap();
    let unit = unit(&out);
    assert_eq!(unit.correlation(), correlation);
    assert_eq!(R::decode_response(unit.header(), unit.key(), unit.payload()).as_ref(), Ok(response));
}

fn text() -> impl Strategy<Value = String> {
    ".{0,40}"
}

fn topic() -> impl Strategy<Value = TopicId> {
    any::<u128>().prop_map(TopicId)
}

fn status() -> impl Strategy<Value = Status> {
    any::<u32>().prop_map(Status::from_code)
}

fn config() -> impl Strategy<Value = TopicConfig> {
    let durability = prop::option::of(prop_oneof![Just(Durability::Sync), Just(Durability::Os)]);
    (durability, any::<Option<bool>>(), any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>()).prop_map(
        |(durability, compaction, retention_age_ms, retention_bytes, segment_bytes)| TopicConfig {
            durability,
            compaction,
            retention_age_ms,
            retention_bytes,
            segment_bytes,
        },
    )
}

fn partition() -> impl Strategy<Value = PartitionMetadata> {
    (any::<u32>(), status(), any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(number, status, epoch, start, high)| {
        PartitionMetadata {
            partition: PartitionId(number),
            status,
            leader_epoch: LeaderEpoch(epoch),
            log_start: Offset(start),
            high_watermark: Offset(high),
            log_bytes: start,
        }
    })
}

proptest! {
    #[test]
    fn hello(min_version in any::<u16>(), max_version in any::<u16>(), features in any::<u64>(), names in (text(), text()), auth in any::<Vec<u8>>(), id in any::<u64>()) {
        let request = HelloRequest { min_version, max_version, features, client_name: names.0, auth_mechanism: names.1, auth };
        request_survives(&request, CorrelationId(id));
    }

    #[test]
    fn topics(name in text(), partitions in any::<u32>(), config in config(), topic in topic(), more in any::<bool>(), id in any::<u64>()) {
        let id = CorrelationId(id);
        request_survives(&CreateTopicRequest { name: name.clone(), partitions, config }, id);
        response_survives(&CreateTopicResponse { topic, partitions, config }, id);
        request_survives(&DeleteTopicRequest { name: name.clone() }, id);
        request_survives(&ListTopicsRequest { after: name.clone(), limit: partitions }, id);
        response_survives(&ListTopicsResponse { topics: vec![ListedTopic { name, topic, partitions }; 3], more }, id);
    }

    #[test]
    fn metadata(
        names in prop::collection::vec(text(), 0..5),
        ids in prop::collection::vec(topic(), 0..5),
        config in config(),
        partitions in prop::collection::vec(partition(), 0..5),
        status in status(),
        create_missing in any::<bool>(),
    ) {
        let id = CorrelationId(1);
        request_survives(&MetadataRequest { topics: TopicSelection::Names(names.clone()), create_missing }, id);
        request_survives(&MetadataRequest { topics: TopicSelection::Ids(ids.clone()), create_missing }, id);
        let topics = names.iter().map(|name| TopicMetadata { name: name.clone(), topic: TopicId(7), config, partitions: partitions.clone() });
        let missing = ids.iter().map(|topic| MissingTopic { name: String::new(), topic: *topic, status });
        response_survives(&MetadataResponse { topics: topics.collect(), missing: missing.collect() }, id);
    }

    #[test]
    fn commits(group in text(), entries in prop::collection::vec((topic(), any::<u32>(), any::<u64>(), any::<u32>(), status(), any::<bool>()), 0..10)) {
        let id = CorrelationId(9);
        let (mut commits, mut results, mut asked, mut positions) = (vec![], vec![], vec![], vec![]);
        for (topic, partition, offset, epoch, status, known) in entries {
            let (partition, offset, leader_epoch) = (PartitionId(partition), Offset(offset), LeaderEpoch(epoch));
            commits.push(CommitEntry { topic, partition, offset, leader_epoch, generation: Generation(offset.0) });
            results.push(CommitResult { topic, partition, status });
            asked.push((topic, partition));
            positions.push(CommittedOffset { topic, partition, status, offset: known.then_some(offset), leader_epoch });
        }
        request_survives(&CommitRequest { group: group.clone(), entries: commits, member: MemberId(7) }, id);
        response_survives(&CommitResponse { results }, id);
        request_survives(&FetchCommittedRequest { group, partitions: asked }, id);
        response_survives(&FetchCommittedResponse { positions }, id);
    }

    #[test]
    fn refusals(code in 1u32.., field in text(), message in text(), details in prop::collection::vec(any::<u64>(), 0..20), ended in any::<bool>()) {
        let error = WireError { status: Status::from_code(code), field, message, details };
        let mut out = BytesMut::new();
        error.encode(CorrelationId(3), &mut out);
        let whole = unit(&out);
        let read = HeartbeatResponse::decode_response(whole.header(), whole.key(), whole.payload());
        prop_assert_eq!(read, Err(ResponseError::Refused(error.clone())));

        let mut out = BytesMut::new();
        let error = DeliveryError { ended, error };
        error.encode(CorrelationId(3), &mut out).unwrap();
        let whole = unit(&out);
        prop_assert_eq!(DeliveryError::decode(whole.header(), whole.payload()), Ok(error));
    }
}
