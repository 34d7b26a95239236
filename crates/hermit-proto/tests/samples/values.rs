//! The values, but for those of groups.

use super::*;

pub(crate) fn all() -> Vec<Sample> {
    let mut samples = version_1();
    samples.extend(frames());
    samples.extend(session_and_topics());
    samples.extend(altered_topics());
    samples.extend(data());
    samples.extend(groups::all());
    samples.extend(access::all());
    samples
}

fn config() -> TopicConfig {
    TopicConfig {
        durability: Some(Durability::Sync),
        compaction: Some(false),
        retention_age_ms: Some(604_800_000),
        retention_bytes: Some(u64::MAX),
        segment_bytes: Some(1 << 30),
    }
}

fn topic(name: &str) -> TopicName {
    TopicName::new(name).unwrap()
}

fn version_1() -> Vec<Sample> {
    let group = GroupName::new("grp").unwrap();
    vec![
        handshake("v1-producer", Handshake::Producer { topic: topic("golden"), partition: PartitionId(0) }),
        handshake("v1-consumer", Handshake::Consumer { group: group.clone(), topic: topic("golden"), partition: PartitionId(0) }),
        handshake("v1-commit", Handshake::Commit { group, topic: topic("golden"), partition: PartitionId(0), offset: Offset(3) }),
        v1_frame("v1-frame"),
        answer("v1-answer-stored", Answer::Stored(Offset(5))),
        answer("v1-answer-refused", Answer::Refused),
        Sample {
            name: "v1-commit-stored",
            bytes: vec![COMMIT_STORED],
            reread: Box::new(|bytes| same(&bytes, &&[COMMIT_STORED][..]).map(|()| bytes.to_vec())),
        },
    ]
}

fn frames() -> Vec<Sample> {
    vec![
        frame("frame-from-producer", frame_bytes(), false),
        frame("frame-stored", stamped_frame_bytes(), true),
        record_set("record-set", Codec::None),
        record_set("record-set-lz4", Codec::Lz4),
        record_set("record-set-zstd", Codec::Zstd),
    ]
}

fn session_and_topics() -> Vec<Sample> {
    let limits = SessionLimits {
        max_frame_bytes: 50 << 20,
        max_records: 1_000_000,
        max_request_bytes: 64 << 20,
        max_subscriptions: 1000,
        heartbeat_interval_ms: 10_000,
    };
    vec![
        request("hello-request", 1, HelloRequest::new("example")),
        response(
            "hello-response",
            1,
            HelloResponse {
                version: 1,
                features: 0,
                broker: "hermitd 0.1.0".into(),
                broker_id: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
                instance: 9,
                limits,
            },
        ),
        request("heartbeat-request", 2, HeartbeatRequest),
        response("heartbeat-response", 2, HeartbeatResponse),
        request("goodbye-request", 3, GoodbyeRequest),
        response("goodbye-response", 3, GoodbyeResponse),
        request(
            "metadata-request",
            4,
            MetadataRequest { topics: TopicSelection::Names(vec!["orders".into(), "odrers".into()]), create_missing: false },
        ),
        request("metadata-request-ids", 4, MetadataRequest { topics: TopicSelection::Ids(vec![TOPIC]), create_missing: false }),
        request("metadata-request-all", 4, MetadataRequest { topics: TopicSelection::All, create_missing: false }),
        response(
            "metadata-response",
            4,
            MetadataResponse {
                topics: vec![TopicMetadata {
                    name: "orders".into(),
                    topic: TOPIC,
                    config: config(),
                    partitions: vec![PartitionMetadata {
                        partition: PartitionId(0),
                        status: Status::Ok,
                        leader_epoch: LeaderEpoch(2),
                        log_start: Offset(0),
                        high_watermark: Offset(42),
                        log_bytes: 4096,
                    }],
                }],
                missing: vec![MissingTopic { name: "odrers".into(), topic: TopicId(0), status: Status::UnknownTopic }],
            },
        ),
        request(
            "create-topic-request",
            5,
            CreateTopicRequest {
                name: "orders".into(),
                partitions: 8,
                config: TopicConfig { durability: Some(Durability::Os), compaction: Some(true), ..TopicConfig::default() },
            },
        ),
        response("create-topic-response", 5, CreateTopicResponse { topic: TOPIC, partitions: 8, config: config() }),
        request("delete-topic-request", 6, DeleteTopicRequest { name: "orders".into() }),
        response("delete-topic-response", 6, DeleteTopicResponse),
        request("list-topics-request", 7, ListTopicsRequest { after: String::new(), limit: 100 }),
        response(
            "list-topics-response",
            7,
            ListTopicsResponse { topics: vec![ListedTopic { name: "orders".into(), topic: TOPIC, partitions: 8 }], more: false },
        ),
    ]
}

fn altered_topics() -> Vec<Sample> {
    let altered = TopicConfig { retention_age_ms: Some(86_400_000), ..TopicConfig::default() };
    vec![
        request("alter-topic-request", 15, AlterTopicRequest { name: "orders".into(), config: altered }),
        response(
            "alter-topic-response",
            15,
            AlterTopicResponse { config: TopicConfig { retention_age_ms: Some(86_400_000), ..config() } },
        ),
        request("add-partitions-request", 16, AddPartitionsRequest { name: "orders".into(), partitions: 12 }),
        response("add-partitions-response", 16, AddPartitionsResponse { partitions: 12 }),
        request("trim-request", 17, TrimRequest { topic: TOPIC, partition: PARTITION, offset: Offset(40) }),
        response("trim-response", 17, TrimResponse { log_start: Offset(40) }),
    ]
}

fn data() -> Vec<Sample> {
    vec![
        request(
            "list-offsets-request",
            8,
            ListOffsetsRequest { topic: TOPIC, partition: PARTITION, query: OffsetQuery::AtOrAfter(TIME) },
        ),
        response(
            "list-offsets-response",
            8,
            ListOffsetsResponse {
                offset: Offset(41),
                leader_epoch: LeaderEpoch(2),
                log_start: Offset(0),
                high_watermark: Offset(42),
                log_end: Offset(42),
            },
        ),
        request(
            "list-offsets-request-last",
            8,
            ListOffsetsRequest { topic: TOPIC, partition: PARTITION, query: OffsetQuery::Last(10) },
        ),
        request("init-producer-id-request", 9, InitProducerIdRequest::default()),
        response(
            "init-producer-id-response",
            9,
            InitProducerIdResponse { producer_id: ProducerId(7), producer_epoch: ProducerEpoch(0) },
        ),
        produce("produce-request", 10, frame_bytes()),
        response(
            "produce-response",
            10,
            ProduceResponse { base_offset: Offset(41), end_offset: Offset(42), append_time: TIME + 1_000_000, duplicate: false },
        ),
        refusal(
            "error-response",
            10,
            WireError::new(Status::TooLarge, "key and payload have 52428801 bytes, the limit is 52428800")
                .field("frame")
                .detail(50 << 20)
                .detail((50 << 20) + 1),
        ),
        request(
            "subscribe-request",
            11,
            SubscribeRequest {
                topic: TOPIC,
                partition: PARTITION,
                offset: Offset(41),
                leader_epoch: LeaderEpoch::UNKNOWN,
                credit_bytes: 1 << 20,
            },
        ),
        response(
            "subscribe-response",
            11,
            SubscribeResponse { start_offset: Offset(41), log_start: Offset(0), high_watermark: Offset(42) },
        ),
        delivery("delivery", 11, stamped_frame_bytes()),
        delivery_error(
            "delivery-error",
            11,
            DeliveryError {
                ended: true,
                error: WireError::new(Status::CorruptLog, "offsets 50 to 59 are damaged").detail(50).detail(60),
            },
        ),
        credit("credit-request", 11, CreditRequest { bytes: 65_536 }),
        request("unsubscribe-request", 12, UnsubscribeRequest { subscription: CorrelationId(11) }),
        response("unsubscribe-response", 12, UnsubscribeResponse),
    ]
}
