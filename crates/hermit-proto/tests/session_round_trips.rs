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
    (any::<u32>(), status(), any::<u32>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(number, status, epoch, start, high, log_bytes)| PartitionMetadata {
            partition: PartitionId(number),
            status,
            leader_epoch: LeaderEpoch(epoch),
            log_start: Offset(start),
            high_watermark: Offset(high),
            log_bytes,
        },
    )
}

fn member() -> impl Strategy<Value = MemberId> {
    (1..=u128::MAX).prop_map(MemberId)
}

fn partitions() -> impl Strategy<Value = Vec<(TopicId, PartitionId)>> {
    prop::collection::vec((topic(), any::<u32>().prop_map(PartitionId)), 0..10)
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(text(), 0..5)
}

fn strategy() -> impl Strategy<Value = AssignmentStrategy> {
    prop_oneof![Just(AssignmentStrategy::Balanced), Just(AssignmentStrategy::Range)]
}

fn group_state() -> impl Strategy<Value = GroupState> {
    prop_oneof![Just(GroupState::Empty), Just(GroupState::Stable), Just(GroupState::Rebalancing)]
}

fn assignment() -> impl Strategy<Value = Assignment> {
    let assigned = (any::<u32>(), any::<u64>())
        .prop_map(|(partition, generation)| AssignedPartition { partition: partition.into(), generation: generation.into() });
    let topic = (topic(), text(), prop::collection::vec(assigned, 0..5)).prop_map(|(topic, name, partitions)| AssignedTopic {
        topic,
        name,
        partitions,
    });
    (any::<u64>(), any::<u64>(), prop::collection::vec(topic, 0..5)).prop_map(|(version, generation, topics)| Assignment {
        version,
        generation: generation.into(),
        topics,
    })
}

fn group_member() -> impl Strategy<Value = GroupMember> {
    (member(), text(), text(), any::<[u32; 3]>(), texts(), texts()).prop_map(
        |(member, client, address, numbers, topics, patterns)| {
            let [session_timeout_ms, processing_timeout_ms, partitions] = numbers;
            GroupMember { member, client, address, session_timeout_ms, processing_timeout_ms, topics, patterns, partitions }
        },
    )
}

fn group_partition() -> impl Strategy<Value = GroupPartition> {
    (topic(), text(), any::<u32>(), status(), any::<u128>(), any::<Option<u64>>(), any::<[u64; 6]>()).prop_map(
        |(topic, name, partition, status, owner, committed, numbers)| {
            let [generation, committed_at, log_start, high_watermark, lag, lag_ms] = numbers;
            GroupPartition {
                topic,
                name,
                partition: PartitionId(partition),
                status,
                owner: MemberId(owner),
                generation: Generation(generation),
                committed: committed.map(Offset),
                committed_at,
                log_start: Offset(log_start),
                high_watermark: Offset(high_watermark),
                lag,
                lag_ms,
            }
        },
    )
}

fn operations() -> impl Strategy<Value = AccessOperations> {
    (0..16u32).prop_map(|bits| AccessOperations::from_bits(bits).unwrap())
}

fn rule() -> impl Strategy<Value = AccessRule> {
    let pattern = || {
        prop_oneof![text().prop_map(NamePattern::Exact), text().prop_map(NamePattern::Prefix), text().prop_map(NamePattern::Regex)]
    };
    let resource = prop_oneof![
        pattern().prop_map(AccessResource::Topic),
        pattern().prop_map(AccessResource::Group),
        Just(AccessResource::Broker)
    ];
    (text(), resource, operations()).prop_map(|(principal, resource, operations)| AccessRule { principal, resource, operations })
}

fn user() -> impl Strategy<Value = ListedUser> {
    let token = (text(), any::<u64>()).prop_map(|(label, created_at)| ListedToken { label, created_at });
    (text(), any::<[bool; 2]>(), any::<u64>(), prop::collection::vec(token, 0..4)).prop_map(
        |(name, [enabled, has_password], created_at, tokens)| ListedUser { name, enabled, has_password, created_at, tokens },
    )
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
        request_survives(&AlterTopicRequest { name: name.clone(), config }, id);
        response_survives(&AlterTopicResponse { config }, id);
        request_survives(&AddPartitionsRequest { name: name.clone(), partitions }, id);
        response_survives(&AddPartitionsResponse { partitions }, id);
        response_survives(&ListTopicsResponse { topics: vec![ListedTopic { name, topic, partitions }; 3], more }, id);
    }

    #[test]
    fn offsets(topic in topic(), partition in any::<u32>(), value in any::<u64>(), epoch in any::<u32>(), bounds in any::<[u64; 3]>(), id in any::<u64>()) {
        let (id, partition) = (CorrelationId(id), PartitionId(partition));
        for query in [OffsetQuery::Earliest, OffsetQuery::Latest, OffsetQuery::AtOrAfter(value), OffsetQuery::Last(value)] {
            request_survives(&ListOffsetsRequest { topic, partition, query }, id);
        }
        let [log_start, high_watermark, log_end] = bounds.map(Offset);
        let leader_epoch = LeaderEpoch(epoch);
        response_survives(&ListOffsetsResponse { offset: Offset(value), leader_epoch, log_start, high_watermark, log_end }, id);
        request_survives(&TrimRequest { topic, partition, offset: Offset(value) }, id);
        response_survives(&TrimResponse { log_start }, id);
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
    fn commits(group in text(), entries in prop::collection::vec((topic(), any::<u32>(), any::<u64>(), any::<u32>(), any::<u64>(), status(), any::<bool>()), 0..10), member in any::<u128>()) {
        let id = CorrelationId(9);
        let (mut commits, mut results, mut asked, mut positions) = (vec![], vec![], vec![], vec![]);
        for (topic, partition, offset, epoch, generation, status, known) in entries {
            let (partition, offset, leader_epoch) = (PartitionId(partition), Offset(offset), LeaderEpoch(epoch));
            commits.push(CommitEntry { topic, partition, offset, leader_epoch, generation: Generation(generation) });
            results.push(CommitResult { topic, partition, status });
            asked.push((topic, partition));
            positions.push(CommittedOffset { topic, partition, status, offset: known.then_some(offset), leader_epoch });
        }
        request_survives(&CommitRequest { group: group.clone(), entries: commits, member: MemberId(member) }, id);
        response_survives(&CommitResponse { results }, id);
        request_survives(&FetchCommittedRequest { group, partitions: asked }, id);
        response_survives(&FetchCommittedResponse { positions }, id);
    }

    #[test]
    fn membership(
        group in text(),
        member in member(),
        timeouts in any::<[u32; 3]>(),
        strategy in strategy(),
        subscription in (texts(), texts()),
        partitions in partitions(),
        version in any::<u64>(),
        assignment in assignment(),
        id in any::<u64>(),
    ) {
        let id = CorrelationId(id);
        let [session_timeout_ms, processing_timeout_ms, heartbeat_interval_ms] = timeouts;
        let (topics, patterns) = subscription;
        let join = JoinGroupRequest {
            group: group.clone(),
            member,
            session_timeout_ms,
            processing_timeout_ms,
            strategy,
            topics,
            patterns,
            claims: partitions.clone(),
        };
        request_survives(&join, id);
        let joined = JoinGroupResponse {
            session_timeout_ms,
            processing_timeout_ms,
            heartbeat_interval_ms,
            assignment: assignment.clone(),
        };
        response_survives(&joined, id);
        let wait_ms = heartbeat_interval_ms;
        request_survives(&GroupHeartbeatRequest { group: group.clone(), member, version, owned: partitions, wait_ms }, id);
        response_survives(&GroupHeartbeatResponse { assignment }, id);
        request_survives(&LeaveGroupRequest { group, member }, id);
        response_survives(&LeaveGroupResponse, id);
    }

    #[test]
    fn groups(
        group in text(),
        limit in any::<u32>(),
        state in group_state(),
        generation in any::<u64>(),
        strategy in strategy(),
        members in prop::collection::vec(group_member(), 0..4),
        partitions in prop::collection::vec(group_partition(), 0..4),
        more in any::<bool>(),
        id in any::<u64>(),
    ) {
        let id = CorrelationId(id);
        request_survives(&ListGroupsRequest { after: group.clone(), limit }, id);
        let listed = ListedGroup { name: group.clone(), state, members: limit, partitions: !limit };
        response_survives(&ListGroupsResponse { groups: vec![listed; 3], more }, id);
        request_survives(&DescribeGroupRequest { group: group.clone() }, id);
        let generation = Generation(generation);
        response_survives(&DescribeGroupResponse { state, generation, strategy, members, partitions }, id);
        request_survives(&DeleteGroupRequest { group }, id);
        response_survives(&DeleteGroupResponse, id);
    }

    #[test]
    fn broker(
        names in prop::collection::vec((text(), text()), 0..5),
        broker in text(),
        broker_id in any::<u128>(),
        counts in any::<[u32; 6]>(),
        sizes in any::<[u64; 7]>(),
        figures in prop::option::of((any::<[u64; 15]>(), any::<[u32; 3]>(), any::<bool>())),
    ) {
        let id = CorrelationId(2);
        request_survives(&DescribeBrokerRequest, id);
        let [epoch, topics, partitions, groups, connections, max_connections] = counts;
        let [instance, started_at, inflight_bytes, max_inflight_bytes, log_bytes, free_bytes, held_bytes] = sizes;
        let described = DescribeBrokerResponse {
            broker,
            broker_id,
            instance,
            leader_epoch: LeaderEpoch(epoch),
            started_at,
            topics,
            partitions,
            groups,
            connections,
            max_connections,
            inflight_bytes,
            max_inflight_bytes,
            log_bytes,
            free_bytes,
            held_bytes,
            settings: names.into_iter().map(|(name, value)| BrokerSetting { name, value }).collect(),
            figures: figures.map(|(sizes, counts, disk_is_low)| {
                let [taken_at, disk_bytes, disk_low_bytes, appended_records, appended_bytes, delivered_records, delivered_bytes, scrub @ ..] = sizes;
                let [segments, bytes, damaged_ranges, rebuilt_indexes, read_errors, passes, pass_began_at, pass_ended_at] = scrub;
                let [read_only_partitions, down_partitions, damaged_partitions] = counts;
                let scrub = ScrubFigures { segments, bytes, damaged_ranges, rebuilt_indexes, read_errors, passes, pass_began_at, pass_ended_at };
                BrokerFigures {
                    taken_at, disk_bytes, disk_low_bytes, disk_is_low, read_only_partitions, down_partitions, damaged_partitions,
                    appended_records, appended_bytes, delivered_records, delivered_bytes, scrub,
                }
            }),
        };
        response_survives(&described, id);
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

    #[test]
    fn users(name in text(), secret in text(), mode in 0..3usize, change in 0..3usize, enabled in any::<Option<bool>>(), created in any::<bool>(), users in prop::collection::vec(user(), 0..4), id in any::<u64>()) {
        let id = CorrelationId(id);
        let mode = [PutUserMode::CreateOrChange, PutUserMode::Create, PutUserMode::Change][mode];
        let secret = Secret::new(secret);
        let password = [PasswordChange::Keep, PasswordChange::Set(secret.clone()), PasswordChange::Remove][change].clone();
        request_survives(&PutUserRequest { user: name.clone(), mode, password, enabled }, id);
        response_survives(&PutUserResponse { created }, id);
        request_survives(&DeleteUserRequest { user: name.clone() }, id);
        request_survives(&ListUsersRequest { after: name.clone(), limit: 7 }, id);
        response_survives(&ListUsersResponse { users, more: created }, id);
        request_survives(&CreateTokenRequest { user: name.clone(), label: name.clone() }, id);
        response_survives(&CreateTokenResponse { token: secret }, id);
        request_survives(&DeleteTokenRequest { user: name.clone(), label: name }, id);
    }

    #[test]
    fn rules(rules in prop::collection::vec(rule(), 0..5), after in prop::option::of(rule()), principal in text(), number in any::<u32>(), id in any::<u64>()) {
        let id = CorrelationId(id);
        request_survives(&AddRulesRequest { rules: rules.clone() }, id);
        response_survives(&AddRulesResponse { changed: number }, id);
        request_survives(&DeleteRulesRequest { rules: rules.clone() }, id);
        response_survives(&DeleteRulesResponse { changed: number }, id);
        request_survives(&ListRulesRequest { principal: principal.clone(), after, limit: number }, id);
        response_survives(&ListRulesResponse { rules, more: number == 0 }, id);
        let login = [LoginKind::Anonymous, LoginKind::Password, LoginKind::Token, LoginKind::FirstAdministrator][number as usize % 4];
        response_survives(&WhoAmIResponse { principal, login }, id);
    }
}
