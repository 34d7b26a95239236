//! The values of what belongs to groups, and of the broker.

use super::*;

pub(super) fn all() -> Vec<Sample> {
    let mut samples = positions();
    samples.extend(membership());
    samples.extend(groups_and_broker());
    samples
}

/// The consumer whose life the examples tell.
const MEMBER: MemberId = MemberId(0x6d65_6d62_6572_2d69_642d_3136_2d62_7974);

/// When the example group began, in ms.
const GENERATION: Generation = Generation(TIME / 1_000_000 + 1);

fn positions() -> Vec<Sample> {
    vec![
        request(
            "commit-request",
            13,
            CommitRequest {
                group: "billing".into(),
                entries: vec![CommitEntry {
                    topic: TOPIC,
                    partition: PARTITION,
                    offset: Offset(42),
                    leader_epoch: LeaderEpoch(2),
                    generation: GENERATION,
                }],
                member: MEMBER,
            },
        ),
        response(
            "commit-response",
            13,
            CommitResponse { results: vec![CommitResult { topic: TOPIC, partition: PARTITION, status: Status::Ok }] },
        ),
        request(
            "fetch-committed-request",
            14,
            FetchCommittedRequest { group: "billing".into(), partitions: vec![(TOPIC, PARTITION)] },
        ),
        response(
            "fetch-committed-response",
            14,
            FetchCommittedResponse {
                positions: vec![CommittedOffset {
                    topic: TOPIC,
                    partition: PARTITION,
                    status: Status::Ok,
                    offset: Some(Offset(42)),
                    leader_epoch: LeaderEpoch(2),
                }],
            },
        ),
    ]
}

fn membership() -> Vec<Sample> {
    let assigned = |numbers: &[u32]| {
        let partition = |number: &u32| AssignedPartition { partition: PartitionId(*number), generation: GENERATION };
        AssignedTopic { topic: TOPIC, name: "orders".into(), partitions: numbers.iter().map(partition).collect() }
    };
    vec![
        request(
            "join-group-request",
            18,
            JoinGroupRequest {
                group: "billing".into(),
                member: MEMBER,
                session_timeout_ms: 0,
                processing_timeout_ms: 300_000,
                strategy: AssignmentStrategy::Balanced,
                topics: vec!["orders".into()],
                patterns: vec!["eu-.*".into()],
                claims: vec![(TOPIC, PARTITION)],
            },
        ),
        response(
            "join-group-response",
            18,
            JoinGroupResponse {
                session_timeout_ms: 10_000,
                processing_timeout_ms: 300_000,
                heartbeat_interval_ms: 3_333,
                assignment: Assignment { version: 1, generation: GENERATION, topics: vec![assigned(&[2, 3])] },
            },
        ),
        request(
            "group-heartbeat-request",
            19,
            GroupHeartbeatRequest {
                group: "billing".into(),
                member: MEMBER,
                version: 1,
                owned: vec![(TOPIC, PartitionId(2)), (TOPIC, PARTITION)],
                wait_ms: 3_333,
            },
        ),
        response(
            "group-heartbeat-response",
            19,
            GroupHeartbeatResponse {
                assignment: Assignment { version: 2, generation: Generation(GENERATION.0 + 1), topics: vec![assigned(&[3])] },
            },
        ),
        request("leave-group-request", 20, LeaveGroupRequest { group: "billing".into(), member: MEMBER }),
        response("leave-group-response", 20, LeaveGroupResponse),
    ]
}

fn groups_and_broker() -> Vec<Sample> {
    vec![
        request("list-groups-request", 21, ListGroupsRequest { after: "audit".into(), limit: 100 }),
        response(
            "list-groups-response",
            21,
            ListGroupsResponse {
                groups: vec![ListedGroup { name: "billing".into(), state: GroupState::Stable, members: 1, partitions: 8 }],
                more: false,
            },
        ),
        request("describe-group-request", 22, DescribeGroupRequest { group: "billing".into() }),
        response("describe-group-response", 22, described_group()),
        request("delete-group-request", 23, DeleteGroupRequest { group: "billing".into() }),
        response("delete-group-response", 23, DeleteGroupResponse),
        request("describe-broker-request", 24, DescribeBrokerRequest),
        response("describe-broker-response", 24, described_broker()),
    ]
}

fn described_group() -> DescribeGroupResponse {
    DescribeGroupResponse {
        state: GroupState::Stable,
        generation: GENERATION,
        strategy: AssignmentStrategy::Balanced,
        members: vec![GroupMember {
            member: MEMBER,
            client: "example".into(),
            address: "[::1]:50412".into(),
            session_timeout_ms: 10_000,
            processing_timeout_ms: 300_000,
            topics: vec!["orders".into()],
            patterns: vec!["eu-.*".into()],
            partitions: 1,
        }],
        partitions: vec![GroupPartition {
            topic: TOPIC,
            name: "orders".into(),
            partition: PARTITION,
            status: Status::Ok,
            owner: MEMBER,
            generation: GENERATION,
            committed: Some(Offset(40)),
            committed_at: TIME + 2_000_000,
            log_start: Offset(0),
            high_watermark: Offset(42),
            lag: 2,
            lag_ms: 1500,
        }],
    }
}

fn described_broker() -> DescribeBrokerResponse {
    DescribeBrokerResponse {
        broker: "hermitd 0.1.0".into(),
        broker_id: 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10,
        instance: 9,
        leader_epoch: LeaderEpoch(2),
        started_at: TIME,
        topics: 1,
        partitions: 8,
        groups: 1,
        connections: 2,
        max_connections: 10_000,
        inflight_bytes: 0,
        max_inflight_bytes: 256 << 20,
        log_bytes: 4096,
        free_bytes: 64 << 30,
        held_bytes: 8192,
        settings: vec![BrokerSetting { name: "listen".into(), value: "\"127.0.0.1:9092\"".into() }],
        figures: Some(BrokerFigures {
            taken_at: TIME + 2_000_000,
            disk_bytes: 128 << 30,
            disk_low_bytes: 1 << 30,
            disk_is_low: false,
            read_only_partitions: 1,
            down_partitions: 0,
            damaged_partitions: 1,
            appended_records: 42,
            appended_bytes: 4096,
            delivered_records: 84,
            delivered_bytes: 8192,
            scrub: ScrubFigures {
                segments: 3,
                bytes: 12_288,
                damaged_ranges: 1,
                rebuilt_indexes: 0,
                read_errors: 0,
                passes: 1,
                pass_began_at: TIME,
                pass_ended_at: TIME + 1_000_000,
            },
        }),
    }
}
