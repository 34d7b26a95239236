//! Version-2 sessions: what each request does, and what each fault is answered with.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use bytes::BytesMut;
use hermit_log::disk::{Disk, Open, RealDisk};
use hermit_proto::session::{
    Acks, CommitEntry, CommitRequest, DeleteTopicRequest, Durability, FetchCommittedRequest, GoodbyeRequest, HeartbeatRequest,
    HelloRequest, ListOffsetsRequest, ListTopicsRequest, MetadataRequest, OffsetQuery, ProduceResponse, Request, Status,
    TopicConfig, TopicSelection, UnsubscribeRequest, WireError,
};
use hermit_proto::{
    Codec, CorrelationId, FrameLimits, FrameSalt, FrameView, Generation, Header, LeaderEpoch, MemberId, Offset, PartitionId,
    ProducedFrame, ProducerStamp, Sequence, TopicId, magic,
};
use support::v2::{Session, message};
use support::{Server, config, within};

/// Checks both checksums of all frames, and gives offsets and payloads.
fn frames(topic: TopicId, mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (view, rest) = FrameView::split(bytes, &FrameLimits::default()).unwrap();
        view.verify_body().unwrap();
        view.verify_frame(&FrameSalt::new(topic, PartitionId(0))).unwrap();
        frames.push((view.prefix.offset().0, view.payload().to_vec()));
        bytes = rest;
    }
    frames
}

/// Reads deliveries until there are `count` frames.
async fn read(session: &mut Session, topic: TopicId, subscription: CorrelationId, count: usize) -> Vec<(u64, Vec<u8>)> {
    let mut read = Vec::new();
    while read.len() < count {
        let (_, unit) = session.delivery(subscription).await;
        read.extend(frames(topic, unit.payload()));
    }
    read
}

#[tokio::test]
async fn what_is_produced_is_delivered_as_it_is_and_followed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("orders", 1, TopicConfig::default()).await.unwrap();
    let batch = [message(b"a"), message(b"bb")].concat();
    let stored = session.produce(topic, 0, &batch).await.unwrap();
    assert_eq!((stored.base_offset, stored.end_offset, stored.duplicate), (Offset(0), Offset(2), false));
    let (id, subscribed) = session.subscribe(topic, 0, 1 << 20).await.unwrap();
    assert_eq!(subscribed.high_watermark, Offset(2));
    assert_eq!(read(&mut session, topic, id, 2).await, [(0, b"a".to_vec()), (1, b"bb".to_vec())]);
    session.produce(topic, 0, &message(b"ccc")).await.unwrap();
    assert_eq!(read(&mut session, topic, id, 1).await, [(2, b"ccc".to_vec())]);
    session.call(&UnsubscribeRequest { subscription: id }).await.unwrap();
    let error = session.call(&UnsubscribeRequest { subscription: id }).await.unwrap_err();
    assert_eq!(error.status, Status::BadSubscription);
    server.stop().await;
}

#[tokio::test]
async fn credit_bounds_what_is_sent_and_one_frame_may_go_beyond() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    for _ in 0..3 {
        session.produce(topic, 0, &message(&[1; 1000])).await.unwrap();
    }
    let (id, _) = session.subscribe(topic, 0, 1).await.unwrap();
    let (head, unit) = session.delivery(id).await;
    assert_eq!((frames(topic, unit.payload()).len(), head.next_offset), (1, Offset(1)));
    // The credit is used up: a heartbeat overtakes whatever does not come.
    session.call(&HeartbeatRequest).await.unwrap();
    assert!(session.aside.is_empty());
    session.credit(id, 1 << 20).await;
    assert_eq!(read(&mut session, topic, id, 2).await.len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn large_frames_pass_in_both_directions_without_a_byte_changed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("large", 1, TopicConfig::default()).await.unwrap();
    let payload: Vec<u8> = (0..20u32 << 20).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    session.produce(topic, 0, &message(&payload)).await.unwrap();
    let (id, _) = session.subscribe(topic, 0, u64::MAX).await.unwrap();
    let got = read(&mut session, topic, id, 1).await;
    assert!(got[0].1 == payload);
    server.stop().await;
}

#[tokio::test]
async fn pipelined_requests_to_a_partition_are_answered_in_order_refusals_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 2, TopicConfig::default()).await.unwrap();
    let mut damaged = message(b"x");
    *damaged.last_mut().unwrap() ^= 1;
    let mut expected = Vec::new();
    for round in 0..200 {
        let bad = round % 7 == 3;
        let frames = if bad { damaged.clone() } else { message(b"y") };
        expected.push((session.send_produce(topic, 0, Acks::Committed, &frames).await, bad));
    }
    let mut next = 0;
    for (correlation, bad) in expected {
        let (answered, response) = session.next_response::<ProduceResponse>().await;
        assert_eq!(answered, correlation);
        match response {
            Ok(stored) => {
                assert!(!bad);
                assert_eq!(stored.base_offset, Offset(next));
                next += 1;
            }
            Err(error) => {
                assert!(bad);
                assert_eq!(error.status, Status::CorruptFrame);
            }
        }
    }
    server.stop().await;
}

/// What comes in one read goes into one append where that can be. Nobody is to see it: neither in an answer, nor in what is stored.
#[tokio::test]
async fn requests_that_came_together_are_answered_as_each_would_be_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 2, TopicConfig::default()).await.unwrap();
    let producer = session.init_producer().await;
    let stamped = |first: u32, count: u32| {
        let frame = |sequence: u32| {
            let first_sequence = Sequence(i32::try_from(sequence).unwrap());
            let stamp = ProducerStamp { id: producer.producer_id, epoch: producer.producer_epoch, first_sequence };
            ProducedFrame { producer: Some(stamp), ..ProducedFrame::message(0, None, &[sequence.to_le_bytes()[0]]) }
                .to_vec()
                .unwrap()
        };
        (first..first + count).flat_map(frame).collect::<Vec<_>>()
    };
    let mut damaged = [message(b"sound"), message(b"x")].concat();
    *damaged.last_mut().unwrap() ^= 1;
    let (gap, large) = (stamped(90, 1), message(&[b'l'; 20_000]));
    let sent = [
        (0, stamped(0, 2), Ok((0, 2, false))),
        (0, stamped(2, 1), Ok((2, 3, false))),
        (0, gap, Err(Status::OutOfOrderSequence)),
        (0, stamped(3, 1), Ok((3, 4, false))),
        (0, stamped(0, 2), Ok((0, 2, true))),
        (0, damaged, Err(Status::CorruptFrame)),
        (0, message(b"4"), Ok((4, 5, false))),
        (1, message(b"0"), Ok((0, 1, false))),
        (9, message(b"0"), Err(Status::UnknownPartition)),
        (0, large, Ok((5, 6, false))),
        (0, stamped(4, 1), Ok((6, 7, false))),
    ];
    let requests: Vec<_> = sent.iter().map(|(partition, frames, _)| (*partition, Acks::Committed, &**frames)).collect();
    let correlations = session.send_together(topic, &requests).await;
    let goodbye = session.request(&GoodbyeRequest).await;
    let mut answers = std::collections::HashMap::new();
    let mut order = Vec::new();
    while answers.len() < sent.len() {
        let (correlation, answer) = session.next_response::<ProduceResponse>().await;
        let told = |stored: ProduceResponse| (stored.base_offset.0, stored.end_offset.0, stored.duplicate);
        answers.insert(correlation, answer.map(told).map_err(|error| error.status));
        order.push(correlation);
    }
    for (correlation, (_, _, expected)) in correlations.iter().zip(&sent) {
        assert_eq!(answers[correlation], *expected);
    }
    let of_first = |correlation: &&CorrelationId| sent[correlations.iter().position(|sent| sent == *correlation).unwrap()].0 == 0;
    assert!(order.iter().filter(of_first).is_sorted_by_key(|correlation| correlation.0), "the order within a partition: {order:?}");
    session.response::<hermit_proto::session::GoodbyeResponse>(goodbye).await.unwrap();

    let mut session = Session::open(&server).await;
    let (id, _) = session.subscribe(topic, 0, 1 << 20).await.unwrap();
    let read = read(&mut session, topic, id, 7).await;
    let heads: Vec<_> = read.iter().map(|(offset, payload)| (*offset, payload[0])).collect();
    assert_eq!(heads, [(0, 0), (1, 1), (2, 2), (3, 3), (4, b'4'), (5, b'l'), (6, 4)]);
    server.stop().await;
}

#[tokio::test]
async fn acks_none_answers_refusals_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    session.send_produce(topic, 0, Acks::None, &message(b"x")).await;
    let refused = session.send_produce(topic, 9, Acks::None, &message(b"x")).await;
    let (answered, error) = session.next_response::<ProduceResponse>().await;
    assert_eq!(answered, refused);
    let error = error.unwrap_err();
    assert_eq!((error.status, error.field.as_str(), error.details), (Status::UnknownPartition, "partition", vec![1]));
    let stored = session.produce(topic, 0, &message(b"y")).await.unwrap();
    assert_eq!(stored.base_offset, Offset(1));
    server.stop().await;
}

async fn produce_error(session: &mut Session, topic: TopicId, frames: &[u8]) -> WireError {
    session.produce(topic, 0, frames).await.unwrap_err()
}

#[tokio::test]
async fn what_is_refused_is_told_by_status_and_field_and_the_session_lives() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.max_frame_bytes = 2000;
    config.limits.max_request_bytes = 4000;
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let plain = session.create("plain", 1, TopicConfig::default()).await.unwrap();
    let compaction = TopicConfig { compaction: Some(true), ..TopicConfig::default() };
    let compacted = session.create("compacted", 1, compaction).await.unwrap();

    let error = produce_error(&mut session, plain, &message(&[0; 2001])).await;
    assert_eq!((error.status, error.field.as_str(), error.details), (Status::TooLarge, "frame", vec![2000, 2001]));
    let error = produce_error(&mut session, plain, &message(&[0; 5000])).await;
    assert_eq!((error.status, error.details.first()), (Status::TooLarge, Some(&4000)));
    let many = ProducedFrame { record_count: 2_000_000, ..ProducedFrame::message(0, None, b"x") }.to_vec().unwrap();
    assert_eq!(produce_error(&mut session, plain, &many).await.status, Status::TooManyRecords);
    let lies = ProducedFrame::record_set(0, Codec::None, 1000, b"").to_vec().unwrap();
    assert_eq!(produce_error(&mut session, plain, &lies).await.status, Status::Malformed);
    assert_eq!(produce_error(&mut session, plain, &message(b"abc")[..71]).await.status, Status::Malformed);
    assert_eq!(produce_error(&mut session, compacted, &message(b"x")).await.status, Status::KeyRequired);
    let set = ProducedFrame::record_set(0, Codec::Zstd, 2, b"whatever").to_vec().unwrap();
    assert_eq!(produce_error(&mut session, compacted, &set).await.status, Status::RecordSetNotAllowed);
    assert_eq!(produce_error(&mut session, TopicId(1), &message(b"x")).await.status, Status::UnknownTopic);
    let offsets = server.broker.topics().iter().find(|topic| topic.meta.name.is_internal()).unwrap().meta.id;
    assert_eq!(produce_error(&mut session, offsets, &message(b"x")).await.status, Status::InternalTopic);

    assert_eq!(session.create("plain", 1, TopicConfig::default()).await.unwrap_err().status, Status::TopicExists);
    assert_eq!(session.create("__mine", 1, TopicConfig::default()).await.unwrap_err().status, Status::InvalidName);
    assert_eq!(session.create("x", 1_000_000, TopicConfig::default()).await.unwrap_err().status, Status::InvalidConfig);
    let tiny = TopicConfig { segment_bytes: Some(1), ..TopicConfig::default() };
    let error = session.create("x", 1, tiny).await.unwrap_err();
    assert_eq!((error.status, error.field.as_str()), (Status::InvalidConfig, "segment_bytes"));
    let error = session.call(&DeleteTopicRequest { name: "__consumer_offsets".into() }).await.unwrap_err();
    assert_eq!(error.status, Status::InternalTopic);

    let error = session.subscribe(plain, 1, 1).await.unwrap_err();
    assert_eq!((error.status, error.details), (Status::OffsetOutOfRange, vec![0, 0]));
    session.produce(plain, 0, &message(b"still here")).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_session_begins_with_hello_and_only_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::raw(&server).await;
    let error = session.call(&HeartbeatRequest).await.unwrap_err();
    assert_eq!(error.status, Status::BadSessionState);
    assert!(session.read_unit().await.is_none());

    let mut session = Session::open(&server).await;
    assert_eq!(session.call(&HelloRequest::new("again")).await.unwrap_err().status, Status::BadSessionState);
    assert!(session.read_unit().await.is_none());

    let mut session = Session::raw(&server).await;
    let hello = HelloRequest { min_version: 7, max_version: 9, ..HelloRequest::new("new") };
    let error = session.call(&hello).await.unwrap_err();
    assert_eq!((error.status, error.details), (Status::UnsupportedVersion, vec![1, 1]));
    assert!(session.read_unit().await.is_none());

    let mut session = Session::open(&server).await;
    session.send(&[0x02; 40]).await;
    let unit = session.read_unit().await.unwrap();
    assert_eq!((unit.correlation(), unit.header().record_count), (CorrelationId(0), Status::Malformed.code()));
    assert!(session.read_unit().await.is_none());

    let mut session = Session::open(&server).await;
    let unknown = Header { magic: magic::REQUEST, timestamp: 0, offset: 5, key_size: 0, payload_size: 0, record_count: 9999 };
    session.send(&unknown.encode()).await;
    let unit = session.read_unit().await.unwrap();
    assert_eq!((unit.correlation(), unit.header().record_count), (CorrelationId(5), Status::UnknownOperation.code()));
    session.call(&HeartbeatRequest).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn goodbye_comes_behind_everything_that_was_asked_before() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    session.subscribe(topic, 0, 1 << 20).await.unwrap();
    let produced = session.send_produce(topic, 0, Acks::Committed, &message(b"x")).await;
    let goodbye = session.request(&GoodbyeRequest).await;
    let mut order = Vec::new();
    while let Some(unit) = session.read_unit().await {
        if unit.header().magic == magic::RESPONSE {
            assert_eq!(unit.header().record_count, 0);
            order.push(unit.correlation());
        }
    }
    assert_eq!(order, [produced, goodbye]);
    server.stop().await;
}

#[tokio::test]
async fn topics_are_told_listed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let os = TopicConfig { durability: Some(Durability::Os), retention_bytes: Some(1 << 20), ..TopicConfig::default() };
    let a = session.create("a", 3, os).await.unwrap();
    session.create("b", 0, TopicConfig::default()).await.unwrap();
    let request = MetadataRequest { topics: TopicSelection::Names(vec!["a".into(), "nope".into()]), create_missing: false };
    let metadata = session.call(&request).await.unwrap();
    assert_eq!(metadata.topics.len(), 1);
    assert_eq!((metadata.topics[0].topic, metadata.topics[0].partitions.len()), (a, 3));
    assert_eq!(metadata.topics[0].config.durability, Some(Durability::Os));
    assert_eq!(metadata.topics[0].config.segment_bytes, Some(256 << 20));
    assert_eq!((metadata.missing[0].name.as_str(), metadata.missing[0].status), ("nope", Status::UnknownTopic));
    let request = MetadataRequest { topics: TopicSelection::Names(vec!["made".into(), "__no".into()]), create_missing: true };
    let metadata = session.call(&request).await.unwrap();
    assert_eq!(metadata.topics[0].name, "made");
    assert_eq!((metadata.missing[0].name.as_str(), metadata.missing[0].status), ("__no", Status::InternalTopic));
    let page = session.call(&ListTopicsRequest { after: "__consumer_offsets".into(), limit: 2 }).await.unwrap();
    let names: Vec<_> = page.topics.iter().map(|topic| topic.name.as_str()).collect();
    assert_eq!((names, page.more), (vec!["a", "b"], true));
    let (id, _) = session.subscribe(a, 0, 100).await.unwrap();
    session.call(&DeleteTopicRequest { name: "a".into() }).await.unwrap();
    // Who waits for a deleted topic is told.
    let unit = session.unit_for(magic::DELIVERY, id).await.unwrap();
    assert_eq!(unit.header().record_count, Status::UnknownTopic.code());
    assert_eq!(session.call(&DeleteTopicRequest { name: "a".into() }).await.unwrap_err().status, Status::UnknownTopic);
    let again = session.create("a", 1, TopicConfig::default()).await.unwrap();
    assert_ne!(again, a);
    server.stop().await;
}

#[tokio::test]
async fn positions_are_stored_or_refused_one_by_one_and_survive() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 2, TopicConfig::default()).await.unwrap();
    for _ in 0..5 {
        session.produce(topic, 0, &message(b"x")).await.unwrap();
    }
    let entry = |topic, partition, offset| CommitEntry {
        topic,
        partition: PartitionId(partition),
        offset: Offset(offset),
        leader_epoch: LeaderEpoch(1),
        generation: Generation(0),
    };
    let entries =
        vec![entry(topic, 0, 3), entry(topic, 0, u64::MAX), entry(topic, 1, 1), entry(topic, 7, 0), entry(TopicId(5), 0, 0)];
    let response = session.call(&CommitRequest { group: "g".into(), entries, member: MemberId::NONE }).await.unwrap();
    let statuses: Vec<_> = response.results.iter().map(|result| result.status).collect();
    let expected = [Status::Ok, Status::CommitBeyondEnd, Status::CommitBeyondEnd, Status::UnknownPartition, Status::UnknownTopic];
    assert_eq!(statuses, expected);
    let error = session.call(&CommitRequest { group: "__g".into(), entries: vec![], member: MemberId::NONE }).await.unwrap_err();
    assert_eq!((error.status, error.field.as_str()), (Status::InvalidName, "group"));
    server.stop().await;

    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let request = FetchCommittedRequest { group: "g".into(), partitions: vec![(topic, PartitionId(0)), (topic, PartitionId(1))] };
    let fetched = session.call(&request).await.unwrap();
    assert_eq!((fetched.positions[0].offset, fetched.positions[0].leader_epoch), (Some(Offset(3)), LeaderEpoch(1)));
    assert_eq!((fetched.positions[1].offset, fetched.positions[1].status), (None, Status::Ok));
    server.stop().await;
}

#[tokio::test]
async fn a_position_is_not_stored_under_an_epoch_that_is_still_to_come() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    session.produce(topic, 0, &message(b"x")).await.unwrap();
    let current = server.broker.partition(topic, PartitionId(0)).unwrap().log().unwrap().leader_epoch();
    for leader_epoch in [LeaderEpoch(current.0 + 7), LeaderEpoch::UNKNOWN] {
        let entry = CommitEntry { topic, partition: PartitionId(0), offset: Offset(1), leader_epoch, generation: Generation(0) };
        session.call(&CommitRequest { group: "g".into(), entries: vec![entry], member: MemberId::NONE }).await.unwrap();
        let request = FetchCommittedRequest { group: "g".into(), partitions: vec![(topic, PartitionId(0))] };
        assert_eq!(session.call(&request).await.unwrap().positions[0].leader_epoch, current);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_retry_gets_the_same_offset_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    let producer = session.init_producer().await;
    let other = session.init_producer().await;
    assert_ne!(producer.producer_id, other.producer_id);
    let frame = |sequence| {
        let stamp = ProducerStamp { id: producer.producer_id, epoch: producer.producer_epoch, first_sequence: Sequence(sequence) };
        ProducedFrame { producer: Some(stamp), ..ProducedFrame::message(0, None, b"once") }.to_vec().unwrap()
    };
    session.produce(topic, 0, &message(b"before")).await.unwrap();
    let first = session.produce(topic, 0, &frame(0)).await.unwrap();
    let again = session.produce(topic, 0, &frame(0)).await.unwrap();
    assert_eq!((again.base_offset, again.end_offset, again.duplicate), (first.base_offset, first.end_offset, true));
    let gap = session.produce(topic, 0, &frame(5)).await.unwrap_err();
    assert_eq!((gap.status, gap.details), (Status::OutOfOrderSequence, vec![1, 5]));
    server.stop().await;

    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let again = session.produce(topic, 0, &frame(0)).await.unwrap();
    assert_eq!((again.base_offset, again.duplicate), (first.base_offset, true));
    let next = session.produce(topic, 0, &frame(1)).await.unwrap();
    assert_eq!((next.base_offset, next.duplicate), (Offset(2), false));
    let third = session.init_producer().await;
    assert!(third.producer_id > other.producer_id);
    server.stop().await;
}

#[tokio::test]
async fn offsets_are_found_by_name_and_by_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..3 {
        times.push(session.produce(topic, 0, &message(b"x")).await.unwrap().append_time);
    }
    let mut ask = async |query| {
        let request = ListOffsetsRequest { topic, partition: PartitionId(0), query };
        session.call(&request).await.unwrap().offset.0
    };
    assert_eq!(ask(OffsetQuery::Earliest).await, 0);
    assert_eq!(ask(OffsetQuery::Latest).await, 3);
    assert_eq!(ask(OffsetQuery::AtOrAfter(times[1])).await, 1);
    assert_eq!(ask(OffsetQuery::AtOrAfter(u64::MAX)).await, 3);
    server.stop().await;
}

#[tokio::test]
async fn requests_cut_at_every_byte_and_bytes_of_all_kinds_never_hurt_the_broker() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut whole = BytesMut::new();
    HelloRequest::new("cut").encode(CorrelationId(1), &mut whole).unwrap();
    MetadataRequest { topics: TopicSelection::All, create_missing: false }.encode(CorrelationId(2), &mut whole).unwrap();
    for cut in 0..whole.len() {
        let mut session = Session::raw(&server).await;
        session.send(&whole[..cut]).await;
        drop(session);
    }
    for operation in 0..100 {
        for payload_size in [0u32, 1, 7, 30] {
            let mut session = Session::open(&server).await;
            let header =
                Header { magic: magic::REQUEST, timestamp: 0, offset: 9, key_size: 0, payload_size, record_count: operation };
            let bytes = [&header.encode()[..], &vec![0xFF; payload_size as usize]].concat();
            session.send(&bytes).await;
            let goodbye = session.request(&GoodbyeRequest).await;
            let mut last = None;
            while let Some(unit) = session.read_unit().await {
                last = Some(unit.correlation());
            }
            assert!(last == Some(goodbye) || last == Some(CorrelationId(9)) || last == Some(CorrelationId(0)), "{operation}");
        }
    }
    let mut session = Session::open(&server).await;
    session.call(&HeartbeatRequest).await.unwrap();
    drop(session);
    within(async { support::eventually("all are gone", || server.broker.connections() == 0).await }).await;
    server.stop().await;
}

/// Stores messages and stops, then flips a bit of the `at`th frame's prefix or payload in the file.
async fn with_rot(dir: &std::path::Path, sizes: &[usize], at: usize, in_payload: bool) -> TopicId {
    let server = Server::start(dir).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    for (number, size) in sizes.iter().enumerate() {
        let payload = vec![u8::try_from(number).unwrap(); *size];
        session.produce(topic, 0, &message(&payload)).await.unwrap();
    }
    drop(session);
    server.stop().await;
    let path = dir.join(format!("partitions/{topic}-0/00000000000000000000.wal"));
    let mut bytes = std::fs::read(&path).unwrap();
    let start: usize = sizes[..at].iter().map(|size| size + 69).sum();
    bytes[start + if in_payload { 69 } else { 20 }] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    // What is read from the disk anew is checked; what is in the page cache is the client's to check.
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    let file = RealDisk.open(&path, Open::Read).unwrap();
    file.drop_cached(0, bytes.len() as u64);
    topic
}

/// Whether the system let go of a topic's pages; some file systems keep them.
fn is_cold(dir: &std::path::Path, topic: TopicId) -> bool {
    let path = dir.join(format!("partitions/{topic}-0/00000000000000000000.wal"));
    !RealDisk.open(&path, Open::Read).unwrap().cached(0, 4096)
}

#[tokio::test]
async fn damage_that_comes_from_the_disk_is_told_and_what_lies_around_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let sizes = [100, 5000, 5000, 100, 30];
    let topic = with_rot(dir.path(), &sizes, 2, false).await;
    if !is_cold(dir.path(), topic) {
        return;
    }
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let (id, _) = session.subscribe(topic, 0, 1 << 20).await.unwrap();
    let mut read = Vec::new();
    let error = loop {
        let unit = session.unit_for(magic::DELIVERY, id).await.unwrap();
        if unit.header().record_count != 0 {
            break hermit_proto::session::DeliveryError::decode(unit.header(), unit.payload()).unwrap();
        }
        read.extend(frames(topic, unit.payload()).into_iter().map(|(offset, _)| offset));
    };
    assert_eq!((read, error.ended, error.error.status), (vec![0, 1], true, Status::CorruptLog));
    let (_, next) = error.damaged().unwrap();
    let (id, _) = session.subscribe(topic, next.0, 1 << 20).await.unwrap();
    let (_, unit) = session.delivery(id).await;
    assert_eq!(frames(topic, unit.payload()).last().unwrap().0, 4);
    server.stop().await;
}

#[tokio::test]
async fn version_1_passes_over_damage_wherever_it_is() {
    for (at, in_payload) in [(0, true), (2, true), (2, false), (4, true)] {
        let dir = tempfile::tempdir().unwrap();
        with_rot(dir.path(), &[100, 20_000, 3000, 20_000, 30, 7], at, in_payload).await;
        let server = Server::start(dir.path()).await;
        let mut consumer = support::v1::consumer(&server, "g", "t").await;
        let expected: Vec<_> = (0..6).filter(|offset| *offset != at as u64).collect();
        let mut read = Vec::new();
        while read.len() < expected.len() {
            read.push(support::v1::next_frame(&mut consumer).await.0.offset);
        }
        assert_eq!(read, expected, "damage at {at}");
        server.stop().await;
    }
}
