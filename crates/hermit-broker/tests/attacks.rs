//! What hostile and unlucky clients try, and what must come of it.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerConfig, BrokerError};
use hermit_log::disk::RealDisk;
use hermit_log::{Flusher, LogEnv, SystemClock};
use hermit_proto::record_set::{NewRecord, RecordSetBuilder};
use hermit_proto::session::{
    Acks, CreditRequest, HeartbeatRequest, HeartbeatResponse, InitProducerIdRequest, InitProducerIdResponse, MetadataRequest,
    MetadataResponse, ProduceResponse, Request, Status, TopicConfig, TopicSelection,
};
use hermit_proto::{
    Codec, CorrelationId, Offset, PartitionId, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp, Sequence, magic,
};
use support::v2::{Session, message};
use support::{Server, config, eventually, v1, within};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

fn describe(names: Vec<String>) -> MetadataRequest {
    MetadataRequest { topics: TopicSelection::Names(names), create_missing: false }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_whose_answers_are_large_are_all_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    session.create("wide", 50, TopicConfig::default()).await.unwrap();
    let mut requests = BytesMut::new();
    // In one read of the broker's there are more than its answers may take up.
    let ids: Vec<_> = (1000..5000).map(CorrelationId).collect();
    for id in &ids {
        describe(vec!["wide".into()]).encode(*id, &mut requests).unwrap();
    }
    session.send(&requests).await;
    for id in ids {
        let answer: MetadataResponse = session.response(id).await.unwrap();
        assert_eq!(answer.topics[0].partitions.len(), 50);
    }
    server.stop().await;
}

/// A broker on the real disk that flushes when the test says so.
async fn flushed_by_hand(dir: &Path) -> (Server, Flusher) {
    let clock = Arc::new(SystemClock);
    let flusher = Flusher::manual(clock.clone());
    let env = LogEnv::new(Arc::new(RealDisk), clock, flusher.clone(), 64);
    let config = BrokerConfig { recovery_threads: 1, ..config(dir) };
    let server = Server::serve(Broker::open_with(config, env).unwrap()).await;
    (server, flusher)
}

#[tokio::test]
async fn what_is_refused_while_stopping_is_told_behind_what_is_owed_before() {
    let dir = tempfile::tempdir().unwrap();
    let (server, flusher) = flushed_by_hand(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    let first = session.send_produce(topic, 0, Acks::Committed, &message(b"1")).await;
    let partition = server.broker.partition(topic, PartitionId(0)).unwrap();
    eventually("the first is in the log", || partition.bounds().unwrap().log_end == Offset(1)).await;
    let stopping = tokio::spawn({
        let broker = server.broker.clone();
        async move { broker.shutdown().await }
    });
    // Nobody is taken in any more once the broker stops.
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let second = session.send_produce(topic, 0, Acks::Committed, &message(b"2")).await;
    let third = session.request(&HeartbeatRequest).await;
    let (answered, heartbeat) = session.next_response::<HeartbeatResponse>().await;
    assert_eq!((answered, heartbeat.is_ok()), (third, true), "a refusal overtook an answer");
    flusher.run_until_idle();
    let (answered, stored) = session.next_response::<ProduceResponse>().await;
    assert_eq!((answered, stored.unwrap().end_offset), (first, Offset(1)));
    let (answered, refused) = session.next_response::<ProduceResponse>().await;
    assert_eq!((answered, refused.unwrap_err().status), (second, Status::ShuttingDown));
    drop(session);
    within(stopping).await.unwrap().unwrap();
    server.stop().await;
}

/// A client takes that for an acknowledgement: all before the sequence that is expected is stored.
#[tokio::test]
async fn that_sequences_are_past_is_told_once_they_are_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let (server, flusher) = flushed_by_hand(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    let InitProducerIdResponse { producer_id: id, producer_epoch: epoch } = session.init_producer().await;
    let frame = |sequence| {
        let stamp = ProducerStamp { id, epoch, first_sequence: Sequence(sequence) };
        ProducedFrame { producer: Some(stamp), ..ProducedFrame::message(7, None, b"x") }.to_vec().unwrap()
    };
    // More than the log remembers one by one, with somebody else's between.
    for sequence in 0..6 {
        session.send_produce(topic, 0, Acks::None, &frame(sequence)).await;
        session.send_produce(topic, 0, Acks::None, &message(b"other")).await;
    }
    let partition = server.broker.partition(topic, PartitionId(0)).unwrap();
    eventually("all are in the log", || partition.bounds().unwrap().log_end == Offset(12)).await;
    let mut retry = Session::open(&server).await;
    let again = retry.send_produce(topic, 0, Acks::Committed, &frame(0)).await;
    let behind = retry.request(&HeartbeatRequest).await;
    let (answered, heartbeat) = retry.next_response::<HeartbeatResponse>().await;
    assert_eq!((answered, heartbeat.is_ok()), (behind, true), "what is not flushed is told to be stored");
    flusher.run_until_idle();
    let (answered, refused) = retry.next_response::<ProduceResponse>().await;
    let refused = refused.unwrap_err();
    assert_eq!((answered, refused.status, refused.details), (again, Status::OutOfOrderSequence, vec![6, 0]));
    drop((session, retry));
    server.stop().await;
}

#[tokio::test]
async fn no_delivery_comes_behind_the_last_word() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    session.produce(topic, 0, &message(b"x")).await.unwrap();
    // The first delivery uses the credit up: the second waits for more.
    let (id, _) = session.subscribe(topic, 0, 1).await.unwrap();
    session.delivery(id).await;
    session.produce(topic, 0, &message(&[7; 100_000])).await.unwrap();
    // In one piece: the credit, and a request that ends the session.
    let mut bytes = BytesMut::new();
    CreditRequest { bytes: 1 << 20 }.encode(id, &mut bytes).unwrap();
    Request::encode(&HeartbeatRequest, CorrelationId(0), &mut bytes).unwrap();
    session.send(&bytes).await;
    let mut last = None;
    while let Some(unit) = session.read_unit().await {
        last = Some((unit.header().magic, unit.correlation(), unit.header().record_count));
    }
    assert_eq!(last, Some((magic::RESPONSE, CorrelationId(0), Status::Malformed.code())));
    server.stop().await;
}

#[tokio::test]
async fn a_topic_that_is_named_many_times_is_described_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let wide = session.create("wide", 100, TopicConfig::default()).await.unwrap();
    let answer = session.call(&describe(vec!["wide".into(); 5000])).await.unwrap();
    assert_eq!((answer.topics.len(), answer.missing.len()), (1, 0));
    let answer = session.call(&describe(vec!["none".into(); 5000])).await.unwrap();
    assert_eq!((answer.topics.len(), answer.missing.len()), (0, 1));
    let ids = MetadataRequest { topics: TopicSelection::Ids(vec![wide; 5000]), create_missing: false };
    assert_eq!(session.call(&ids).await.unwrap().topics.len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn a_producer_id_that_was_never_given_out_is_refused_and_harms_nobody_who_gets_it_later() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    let first = session.init_producer().await;
    let next = ProducerId(first.producer_id.0 + 1);
    let stamp = ProducerStamp { id: next, epoch: ProducerEpoch(0), first_sequence: Sequence(0) };
    let frame = |payload| ProducedFrame { producer: Some(stamp), ..ProducedFrame::message(7, None, payload) }.to_vec().unwrap();
    let refused = session.produce(topic, 0, &frame(b"thief")).await.unwrap_err();
    assert_eq!(refused.status, Status::UnknownProducer);
    let given = session.init_producer().await;
    assert_eq!(given.producer_id, next);
    let stored = session.produce(topic, 0, &frame(b"owner")).await.unwrap();
    assert!(!stored.duplicate);
    let known = InitProducerIdRequest { producer_id: ProducerId(i64::MAX), producer_epoch: ProducerEpoch(0) };
    assert_eq!(session.call(&known).await.unwrap_err().status, Status::UnknownProducer);
    server.stop().await;
}

#[test]
fn a_closed_broker_changes_nothing_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::open(config(dir.path())).unwrap();
    broker.create_topic("t", 1, &TopicConfig::default()).unwrap();
    broker.close().unwrap();
    let manifest = || std::fs::read(dir.path().join("manifest")).unwrap();
    let before = manifest();
    let name = hermit_proto::TopicName::new("t").unwrap();
    let refused = |result: Result<(), BrokerError>| assert!(matches!(result, Err(BrokerError::ShuttingDown)), "{result:?}");
    refused(broker.create_topic("late", 1, &TopicConfig::default()).map(drop));
    refused(broker.alter_topic(&name, &TopicConfig::default()).map(drop));
    refused(broker.delete_topic(&name));
    refused(broker.init_producer(ProducerId::NONE, ProducerEpoch(0)).map(drop));
    assert_eq!(manifest(), before);
    drop(broker);
    let broker = Broker::open(config(dir.path())).unwrap();
    assert!(broker.report().clean);
    broker.close().unwrap();
}

/// A set of `count` records with values of `size` zeros.
fn zeros(count: u32, size: usize, codec: Codec) -> Vec<u8> {
    let mut builder = RecordSetBuilder::new(0);
    let value = vec![0; size];
    for _ in 0..count {
        builder.append(&NewRecord { timestamp_ms: 0, key: None, value: Some(&value), headers: &[] }).unwrap();
    }
    let payload = builder.finish(codec).unwrap();
    ProducedFrame::record_set(0, codec, count, &payload).to_vec().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sets_that_unpack_to_much_reach_a_version_1_consumer_whole() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    for codec in [Codec::Zstd, Codec::Lz4, Codec::None] {
        session.produce(topic, 0, &[zeros(20_000, 100, codec), zeros(2, 3 << 20, codec), message(b"x")].concat()).await.unwrap();
    }
    let mut consumer = v1::consumer(&server, "g", "t").await;
    for offset in 0..3 * 20_003u64 {
        let (header, key, payload) = v1::next_frame(&mut consumer).await;
        assert_eq!((header.magic, header.offset, header.record_count, key.len()), (1, offset, 1, 0));
        let size = match offset % 20_003 {
            0..20_000 => 100,
            20_002 => 1,
            _ => 3 << 20,
        };
        assert_eq!(payload.len(), size, "at {offset}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_keys_reach_a_version_1_consumer_whole() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut producer = v1::producer(&server, "t").await;
    let key: Vec<u8> = (0..9_000_000u32).map(|n| n.to_be_bytes()[3]).collect();
    for payload in [&b""[..], b"small", &key] {
        producer.write_all(&v1::frame(1, &key, payload, 1)).await.unwrap();
        v1::answer(&mut producer).await;
    }
    let mut consumer = v1::consumer(&server, "g", "t").await;
    for payload in [&b""[..], b"small", &key] {
        let (_, got_key, got_payload) = v1::next_frame(&mut consumer).await;
        assert!(got_key == key && got_payload == payload);
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_used_up_budget_is_not_held_against_those_who_send_heartbeats() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.max_frame_bytes = 100_000;
    config.limits.max_request_bytes = 110_000;
    config.limits.max_inflight_bytes = 200_000;
    config.limits.frame_timeout = Duration::from_millis(1500);
    config.limits.heartbeat_interval = Duration::from_millis(100);
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let mut hogs = Vec::new();
    for _ in 0..3 {
        let mut hog = v1::producer(&server, "t").await;
        hog.write_all(&v1::frame(1, b"", &[1; 90_000], 1)[..80_000]).await.unwrap();
        hogs.push(hog);
    }
    // One is let in: the others wait for their turn, and small requests have room of their own.
    eventually("the room for large frames is used up", || server.broker.inflight_bytes() >= 80_000).await;
    let mut sent = Vec::new();
    while server.broker.inflight_bytes() >= 80_000 {
        sent.push(session.request(&HeartbeatRequest).await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for id in sent {
        let _alive: HeartbeatResponse = session.response(id).await.unwrap();
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_creates_many_topics_does_not_hold_the_stop() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let names = (0..5000).map(|number| format!("topic {number}")).collect();
    let request = MetadataRequest { topics: TopicSelection::Names(names), create_missing: true };
    let asked = session.request(&request).await;
    eventually("the first is there", || server.broker.topics().len() > 1).await;
    let stopping = tokio::spawn({
        let broker = server.broker.clone();
        async move { broker.shutdown().await }
    });
    let answer: MetadataResponse = session.response(asked).await.unwrap();
    assert!(!answer.missing.is_empty() && answer.missing.iter().all(|missing| missing.status == Status::ShuttingDown));
    assert_eq!(answer.topics.len() + answer.missing.len(), 5000);
    drop(session);
    within(stopping).await.unwrap().unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_refusal_after_the_topic_was_deleted_is_told_behind_what_is_owed_before() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    let mut sent = Vec::new();
    for _ in 0..200 {
        sent.push(session.send_produce(topic, 0, Acks::Committed, &message(b"x")).await);
    }
    server.broker.delete_topic(&hermit_proto::TopicName::new("t").unwrap()).unwrap();
    for _ in 0..200 {
        sent.push(session.send_produce(topic, 0, Acks::Committed, &message(b"x")).await);
    }
    let mut refused = false;
    for id in sent {
        let (answered, response) = session.next_response::<ProduceResponse>().await;
        assert_eq!(answered, id, "an answer was overtaken");
        assert!(response.is_err() || !refused, "stored behind a refusal");
        refused = response.is_err();
    }
    assert!(refused);
    server.stop().await;
}
