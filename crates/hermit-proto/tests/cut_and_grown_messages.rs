//! Every message cut at every byte is an error, never a panic; bytes behind the last known field are passed over.
#![expect(clippy::unwrap_used, reason = "a failed expectation is the test's failure")]

mod samples;

use hermit_proto::session::*;
use hermit_proto::*;

fn is_session(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(magic::REQUEST | magic::RESPONSE | magic::DELIVERY)))
}

/// The unit with another payload, and a header that fits it.
fn with_payload(bytes: &[u8], payload: &[u8]) -> Vec<u8> {
    let header = Header::peek(bytes).unwrap();
    let key = &bytes[HEADER_SIZE..][..header.key_size as usize];
    let header = Header { payload_size: u32::try_from(payload.len()).unwrap(), ..header };
    [&header.encode()[..], key, payload].concat()
}

#[test]
fn every_sample_cut_at_every_byte_is_refused() {
    for sample in samples::all() {
        for cut in 0..sample.bytes.len() {
            assert!((sample.reread)(&sample.bytes[..cut]).is_err(), "{} cut at {cut}", sample.name);
        }
    }
}

#[test]
fn every_payload_cut_at_every_byte_under_a_header_that_fits_is_refused() {
    for sample in samples::all().into_iter().filter(|sample| is_session(&sample.bytes)) {
        let header = Header::peek(&sample.bytes).unwrap();
        let payload = &sample.bytes[HEADER_SIZE + header.key_size as usize..];
        for cut in 0..payload.len() {
            assert!((sample.reread)(&with_payload(&sample.bytes, &payload[..cut])).is_err(), "{} cut at {cut}", sample.name);
        }
    }
}

#[test]
fn fields_of_a_newer_release_are_passed_over() {
    for sample in samples::all().into_iter().filter(|sample| is_session(&sample.bytes)) {
        let header = Header::peek(&sample.bytes).unwrap();
        if header.key_size > 0 {
            continue; // The payload is frames.
        }
        let grown = [&sample.bytes[HEADER_SIZE..], b"a new field"].concat();
        // It reads as the same value, which is then written as this release writes it.
        assert_eq!((sample.reread)(&with_payload(&sample.bytes, &grown)), Ok(sample.bytes), "{}", sample.name);
    }
}

#[test]
fn every_flipped_bit_of_a_stored_frame_is_noticed() {
    let sample = samples::all().into_iter().find(|sample| sample.name == "frame-stored").unwrap();
    for bit in 0..sample.bytes.len() * 8 {
        let mut bytes = sample.bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!((sample.reread)(&bytes).is_err(), "bit {bit}");
    }
}

#[test]
fn items_of_a_newer_release_are_passed_over() {
    // One listed topic whose item has four bytes more than this release knows.
    let mut payload = Vec::new();
    payload.extend(1u32.to_be_bytes());
    payload.extend((2u32 + 1 + 16 + 4 + 4).to_be_bytes());
    payload.extend([0, 1, b't']);
    payload.extend(9u128.to_be_bytes());
    payload.extend(8u32.to_be_bytes());
    payload.extend(b"more");
    payload.push(1);
    let expected =
        ListTopicsResponse { topics: vec![ListedTopic { name: "t".into(), topic: TopicId(9), partitions: 8 }], more: true };
    assert_eq!(ListTopicsResponse::decode(b"", &payload), Ok(expected));
}

/// Name `t`, no partitions, one setting with tag 99.
fn config_with_an_unknown_tag() -> [u8; 18] {
    [0, 1, b't', 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 99, 1]
}

#[test]
fn an_unknown_setting_is_refused_in_a_request() {
    let refused = CreateTopicRequest::decode(b"", &config_with_an_unknown_tag()).unwrap_err();
    assert_eq!(refused, BodyError::UnknownSetting { tag: 99 });
    assert_eq!(WireError::from(refused).status, Status::InvalidConfig);
}

#[test]
fn an_unknown_setting_is_passed_over_in_a_response() {
    let mut payload = 5u128.to_be_bytes().to_vec();
    payload.extend(&config_with_an_unknown_tag()[3..]);
    let expected = CreateTopicResponse { topic: TopicId(5), partitions: 0, config: TopicConfig::default() };
    assert_eq!(CreateTopicResponse::decode(b"", &payload), Ok(expected));
}

#[test]
fn a_key_where_none_belongs_is_refused() {
    assert_eq!(HeartbeatRequest::decode(b"k", b""), Err(BodyError::KeySize { expected: 0, found: 1 }));
    assert_eq!(ProduceTarget::decode(&[0; 20]), Err(BodyError::KeySize { expected: 21, found: 20 }));
    assert_eq!(DeliveryHead::decode(&[0; 25]), Err(BodyError::KeySize { expected: 24, found: 25 }));
}

#[test]
fn values_that_an_enumeration_does_not_know_are_refused() {
    let bad = |field, value, allowed| BodyError::BadValue { field, value, allowed };
    assert_eq!(MetadataRequest::decode(b"", &[3, 0]), Err(bad("selection", 3, "0, 1 or 2")));
    let mut key = [0; 21];
    key[20] = 2;
    assert_eq!(ProduceTarget::decode(&key), Err(bad("acks", 2, "0 or 1")));
    let mut payload = [0; 29];
    payload[20] = 4;
    assert_eq!(ListOffsetsRequest::decode(b"", &payload), Err(bad("query", 4, "0, 1, 2 or 3")));
    assert_eq!(DescribeGroupResponse::decode(b"", &[3]), Err(bad("state", 3, "0, 1 or 2")));
    assert_eq!(DescribeGroupResponse::decode(b"", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 2]), Err(bad("strategy", 2, "0 or 1")));
}

#[test]
fn a_member_is_not_nobody() {
    let nobody = Err(BodyError::BadValue { field: "member", value: 0, allowed: "above 0" });
    let payload = [&[0, 1, b'g'][..], &[0; 100]].concat();
    assert_eq!(JoinGroupRequest::decode(b"", &payload).map(|_| ()), nobody);
    assert_eq!(GroupHeartbeatRequest::decode(b"", &payload).map(|_| ()), nobody);
    assert_eq!(LeaveGroupRequest::decode(b"", &payload).map(|_| ()), nobody);
    let committed = CommitRequest::decode(b"", &payload).unwrap();
    assert!(!committed.member.is_some(), "who is in no group commits as nobody");
}

/// What `write` writes.
fn body(write: impl FnOnce(&mut BodyWriter<'_>)) -> Vec<u8> {
    let mut out = bytes::BytesMut::new();
    let mut writer = BodyWriter::new(&mut out);
    write(&mut writer);
    writer.finish().unwrap();
    out.to_vec()
}

#[test]
fn a_commit_of_an_older_sender_has_neither_generation_nor_member() {
    let whole = |grown: bool| {
        body(|body| {
            body.string("group", "g");
            body.list("entries", &[1u128], |body, topic| {
                body.u128(*topic);
                body.u32(2);
                body.u64(3);
                body.u32(4);
                if grown {
                    body.u64(5);
                }
            });
        })
    };
    let entry = |generation| CommitEntry {
        topic: TopicId(1),
        partition: PartitionId(2),
        offset: Offset(3),
        leader_epoch: LeaderEpoch(4),
        generation: Generation(generation),
    };
    let read = |payload: &[u8]| CommitRequest::decode(b"", payload);
    let expected = |generation, member| CommitRequest { group: "g".into(), entries: vec![entry(generation)], member };
    assert_eq!(read(&whole(false)), Ok(expected(0, MemberId::NONE)));
    assert_eq!(read(&whole(true)), Ok(expected(5, MemberId::NONE)));
    let with_member = [&whole(true)[..], &6u128.to_be_bytes()].concat();
    assert_eq!(read(&with_member), Ok(expected(5, MemberId(6))));
    // Half a field is none that was left out.
    let cut = Err(BodyError::Short { field: "member", needed: 16, remaining: 15 });
    assert_eq!(read(&with_member[..with_member.len() - 1]), cut);
}

#[test]
fn metadata_of_an_older_broker_has_no_log_bytes() {
    let whole = |appended: &[u8]| {
        body(|body| {
            body.list("topics", &["t"], |body, name| {
                body.string("name", name);
                body.u128(1);
                body.u32(0); // No settings.
                body.list("partitions", &[2u32], |body, number| {
                    body.u32(*number);
                    body.u32(0);
                    body.u32(3);
                    body.u64(4);
                    body.u64(5);
                    body.raw(appended);
                });
            });
            body.u32(0); // Nothing is missing.
        })
    };
    let log_bytes = |payload: &[u8]| MetadataResponse::decode(b"", payload).map(|read| read.topics[0].partitions[0].log_bytes);
    assert_eq!(log_bytes(&whole(&[])), Ok(0));
    assert_eq!(log_bytes(&whole(&6u64.to_be_bytes())), Ok(6));
    assert_eq!(log_bytes(&whole(&[0])), Err(BodyError::Short { field: "log_bytes", needed: 8, remaining: 1 }));
}

/// The fields that are told to be at fault when a sample's payload is cut at every byte, in their order.
fn fields_at_fault<R: Request>(name: &str) -> Vec<String> {
    let sample = samples::all().into_iter().find(|sample| sample.name == name).unwrap();
    let payload = &sample.bytes[HEADER_SIZE..];
    let cuts = (0..payload.len()).filter_map(|cut| R::decode(b"", &payload[..cut]).err());
    let mut fields: Vec<_> = cuts.map(|error| WireError::from(error).field).collect();
    fields.dedup();
    fields
}

#[test]
fn a_cut_request_names_the_field_at_fault() {
    assert_eq!(fields_at_fault::<CreateTopicRequest>("create-topic-request"), ["topic", "partitions", "config"]);
    assert_eq!(fields_at_fault::<AlterTopicRequest>("alter-topic-request"), ["topic", "config"]);
    assert_eq!(fields_at_fault::<AddPartitionsRequest>("add-partitions-request"), ["topic", "partitions"]);
    assert_eq!(fields_at_fault::<TrimRequest>("trim-request"), ["topic", "partition", "offset"]);
    assert_eq!(fields_at_fault::<CommitRequest>("commit-request"), ["group", "entries", "member"]);
    let timeouts = ["session_timeout_ms", "processing_timeout_ms"];
    let join = [&["group", "member"][..], &timeouts, &["strategy", "topics", "patterns", "claims"]].concat();
    assert_eq!(fields_at_fault::<JoinGroupRequest>("join-group-request"), join);
    let heartbeat = ["group", "member", "version", "owned", "wait_ms"];
    assert_eq!(fields_at_fault::<GroupHeartbeatRequest>("group-heartbeat-request"), heartbeat);
    assert_eq!(fields_at_fault::<LeaveGroupRequest>("leave-group-request"), ["group", "member"]);
    assert_eq!(fields_at_fault::<ListGroupsRequest>("list-groups-request"), ["after", "limit"]);
    assert_eq!(fields_at_fault::<DescribeGroupRequest>("describe-group-request"), ["group"]);
    assert_eq!(fields_at_fault::<DeleteGroupRequest>("delete-group-request"), ["group"]);
    assert_eq!(fields_at_fault::<PutUserRequest>("put-user-request"), ["user", "mode", "password", "enabled"]);
    assert_eq!(fields_at_fault::<CreateTokenRequest>("create-token-request"), ["user", "label"]);
    assert_eq!(fields_at_fault::<AddRulesRequest>("add-rules-request"), ["rules"]);
    let list = ["principal", "after", "principal", "resource", "match", "name", "operations", "limit"];
    assert_eq!(fields_at_fault::<ListRulesRequest>("list-rules-request"), list);
}

#[test]
fn an_item_at_fault_is_named_by_its_field_or_its_list() {
    let join = |topics: &[&[u8]], patterns: &[&[u8]]| {
        let payload = body(|body| {
            body.string("group", "g");
            body.u128(1);
            body.u32(0);
            body.u32(0);
            body.u8(0);
            body.list("topics", topics, |body, item| body.raw(item));
            body.list("patterns", patterns, |body, item| body.raw(item));
            body.list("claims", &[7u8], |body, item| body.u8(*item));
        });
        JoinGroupRequest::decode(b"", &payload).unwrap_err()
    };
    assert_eq!(join(&[b"\x00\x01\xff"], &[]), BodyError::NotUtf8 { field: "topics" });
    assert_eq!(join(&[b"\x00\x01t"], &[b"\x00\x02p"]), BodyError::Short { field: "patterns", needed: 2, remaining: 1 });
    assert_eq!(join(&[], &[]), BodyError::Short { field: "topic", needed: 16, remaining: 1 });
}

#[test]
fn a_bad_name_is_told_under_the_field_that_holds_it() {
    let field = |error: NameError| WireError::from(error).field;
    assert_eq!(field(TopicName::new("").unwrap_err()), "topic");
    assert_eq!(field(GroupName::new_public("__x").unwrap_err()), "group");
}

#[test]
fn a_count_is_believed_only_as_far_as_bytes_are_there() {
    let mut payload = vec![0, 1, b'g'];
    payload.extend(u32::MAX.to_be_bytes());
    payload.extend([0; 100]);
    let needed = u64::from(u32::MAX) * 4;
    assert_eq!(CommitRequest::decode(b"", &payload), Err(BodyError::Short { field: "entries", needed, remaining: 100 }));
}

#[test]
fn a_field_that_does_not_fit_leaves_the_buffer_as_it_was() {
    let mut out = bytes::BytesMut::from(&b"before"[..]);
    let too_long = DeleteTopicRequest { name: "x".repeat(65_536) };
    let error = too_long.encode(CorrelationId(1), &mut out).unwrap_err();
    assert_eq!(error, EncodeError { field: "topic", size: 65_536, limit: 65_535 });
    assert_eq!(&out[..], b"before");
}

#[test]
fn an_error_of_any_size_can_be_sent() {
    let error =
        WireError { status: Status::Internal, field: "ä".repeat(5_000), message: "ü".repeat(100_000), details: vec![1; 1_000] };
    let mut out = bytes::BytesMut::new();
    error.encode(CorrelationId(1), &mut out);
    let read = WireError::decode(&Header::peek(&out).unwrap(), &out[HEADER_SIZE..]).unwrap();
    assert_eq!((read.field.len(), read.message.len(), read.details.len()), (4096, 4096, 255));
}

#[test]
fn status_codes_and_operations_are_unique_and_survive_the_wire() {
    for status in Status::ALL {
        assert_eq!(Status::from_code(status.code()), *status);
        assert_eq!(status.is_retryable(), status.code() >= 1000);
    }
    assert!(Status::ALL.is_sorted_by(|a, b| a.code() < b.code()));
    assert_eq!(Status::from_code(1_999), Status::Other(1_999));
    assert!(Status::from_code(1_999).is_retryable());
    assert!(Operation::ALL.is_sorted_by(|a, b| a.number() < b.number()));
    for operation in Operation::ALL {
        assert_eq!(Operation::from_number(operation.number()), Some(*operation));
    }
    assert_eq!(Operation::from_number(0), None);
}

#[test]
fn the_version_in_common_is_the_highest() {
    let hello = HelloRequest { min_version: 2, max_version: 5, ..HelloRequest::new("c") };
    for (min, max, chosen) in [(1, 1, None), (1, 2, Some(2)), (3, 4, Some(4)), (4, 9, Some(5)), (6, 9, None)] {
        assert_eq!(hello.choose_version(min, max), chosen, "{min}..={max}");
    }
}

#[test]
fn a_rule_that_cannot_be_is_refused_by_its_field() {
    let read = |resource: u8, matching: u8, name: &str, operations: u32| {
        let payload = body(|body| {
            body.string("principal", "p");
            body.u8(resource);
            body.u8(matching);
            body.string("name", name);
            body.u32(operations);
        });
        AccessRule::read(&mut BodyReader::new(&payload)).map_err(|error| error.field())
    };
    let broker = AccessRule { principal: "p".into(), resource: AccessResource::Broker, operations: AccessOperations::ADMINISTER };
    assert_eq!(read(2, 0, "", 8), Ok(broker));
    assert_eq!(read(3, 0, "", 8), Err("resource"));
    assert_eq!(read(0, 3, "", 8), Err("match"));
    assert_eq!(read(2, 1, "", 8), Err("name"));
    assert_eq!(read(2, 0, "x", 8), Err("name"));
    assert_eq!(read(0, 0, "x", 16), Err("operations"));
}

#[test]
fn operations_go_by_their_names() {
    let some = AccessOperations::PRODUCE | AccessOperations::ADMINISTER;
    assert_eq!(some.to_string(), "produce,administer");
    assert!(some.names().all(|name| some.contains(AccessOperations::from_name(name).unwrap())));
    assert_eq!(AccessOperations::from_name("all"), Some(AccessOperations::ALL));
    assert_eq!(AccessOperations::from_name("Produce"), None);
}

#[test]
fn no_message_prints_its_secrets() {
    let secret = Secret::new("s3cret");
    let hello = HelloRequest::new("c").with_password("u", &secret);
    assert_eq!(hello.auth, b"\0u\0s3cret");
    let put = PutUserRequest {
        user: "u".into(),
        mode: PutUserMode::Create,
        password: PasswordChange::Set(secret.clone()),
        enabled: None,
    };
    let printed =
        format!("{hello:?} {put:?} {:?} {:?}", HelloRequest::new("c").with_token(&secret), CreateTokenResponse { token: secret });
    assert!(!printed.contains("s3cret") && !printed.contains("115, 51"), "{printed}");
}
