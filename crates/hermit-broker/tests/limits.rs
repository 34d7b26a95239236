//! What clients may cost: memory follows what was received, time is bounded, and who goes away leaves nothing behind.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerError, TopicConfig};
use hermit_proto::session::{Acks, HeartbeatRequest, HelloRequest, Operation, ProduceTarget, Status};
use hermit_proto::{CorrelationId, Header, PartitionId, ProducedFrame, magic};
use support::v2::Session;
use support::{Server, config, eventually, v1, within};
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn announced_bytes_cost_nothing_until_they_come() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let announced = Header { magic: 1, timestamp: 0, offset: 0, key_size: 0, payload_size: (50 << 20) - 1, record_count: 1 };
    let mut stalled = Vec::new();
    for number in 0..200 {
        let mut stream = v1::producer(&server, "t").await;
        stream.write_all(&announced.encode()).await.unwrap();
        stream.write_all(&[number; 1000]).await.unwrap();
        stalled.push(stream);
    }
    eventually("all was read", || server.broker.inflight_bytes() == 200 * 1029).await;
    drop(stalled);
    eventually("all was given back", || server.broker.inflight_bytes() == 0 && server.broker.connections() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn frames_that_do_not_come_make_room_for_others_and_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.max_frame_bytes = 100_000;
    config.limits.max_request_bytes = 110_000;
    config.limits.max_inflight_bytes = 400_000;
    config.limits.frame_timeout = Duration::from_millis(300);
    let server = Server::with(config).await;
    let frame = v1::frame(1, b"", &[1; 90_000], 1);
    let mut stalled = Vec::new();
    for _ in 0..5 {
        let mut stream = v1::producer(&server, "t").await;
        stream.write_all(&frame[..80_000]).await.unwrap();
        stalled.push(stream);
    }
    eventually("one is being read", || server.broker.inflight_bytes() >= 80_000).await;
    // Of the others, a piece each.
    assert!(server.broker.inflight_bytes() < 400_000);
    for mut stream in stalled {
        assert!(v1::is_closed(&mut stream).await);
    }
    eventually("all was given back", || server.broker.inflight_bytes() == 0).await;
    let mut producer = v1::producer(&server, "t").await;
    producer.write_all(&frame).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await.0, 0);
    server.stop().await;
}

/// Sends a unit slowly for as long as it is let, and comes again.
async fn trickle(address: std::net::SocketAddr, opening: Vec<u8>, unit: Vec<u8>) {
    loop {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let _let = stream.write_all(&opening).await;
        for piece in unit.chunks(4096) {
            if stream.write_all(piece).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_senders_of_large_frames_hold_up_nobody() {
    const SLOW: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.max_frame_bytes = 1 << 20;
    config.limits.max_request_bytes = (1 << 20) + 2048;
    config.limits.max_inflight_bytes = 5 << 20;
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    let large_v1 = v1::frame(1, b"", &[1; 1_000_000], 1);
    let large_v2 = ProducedFrame::message(1, None, &[2; 1_000_000]).to_vec().unwrap();
    let small_v2 = ProducedFrame::message(1, None, b"x").to_vec().unwrap();
    let mut producer = v1::producer(&server, "t").await;

    let (mut hello, mut request) = (bytes::BytesMut::new(), bytes::BytesMut::new());
    hermit_proto::session::Request::encode(&HelloRequest::new("slow"), CorrelationId(1), &mut hello).unwrap();
    ProduceTarget { topic, partition: PartitionId(0), acks: Acks::Committed }
        .encode(CorrelationId(2), &large_v2, &mut request)
        .unwrap();
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..SLOW {
        slow.spawn(trickle(server.address, b"\x01\x01t\0\0\0\0".to_vec(), large_v1.clone()));
        slow.spawn(trickle(server.address, hello.to_vec(), request.to_vec()));
    }
    eventually("they are there, and there is no room for all", || server.broker.inflight_bytes() > 1_500_000).await;
    for _ in 0..10 {
        let began = tokio::time::Instant::now();
        producer.write_all(&v1::frame(1, b"", b"x", 1)).await.unwrap();
        v1::answer(&mut producer).await;
        session.produce(topic, 0, &small_v2).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(2), "small frames took {:?}", began.elapsed());
        assert!(server.broker.inflight_bytes() <= 6 << 20);
    }
    // Forty slow ones have a tenth of a second each, one or two at a time.
    let began = tokio::time::Instant::now();
    producer.write_all(&large_v1).await.unwrap();
    v1::answer(&mut producer).await;
    session.produce(topic, 0, &large_v2).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(15), "two large frames took {:?}", began.elapsed());
    slow.shutdown().await;
    eventually("all was given back", || server.broker.inflight_bytes() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn the_whole_handshake_has_one_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.handshake_timeout = Duration::from_millis(300);
    let server = Server::with(config).await;
    let mut hello = bytes::BytesMut::new();
    hermit_proto::session::Request::encode(&HelloRequest::new("slow"), CorrelationId(1), &mut hello).unwrap();
    for bytes in [&b""[..], b"\x01\xFFaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", &hello[..hello.len() - 1]] {
        let began = tokio::time::Instant::now();
        let mut stream = server.connect().await;
        // A byte now and then does not help.
        for byte in bytes {
            if stream.write_all(&[*byte]).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut rest = Vec::new();
        let _closed = within(tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest)).await;
        assert!(began.elapsed() < Duration::from_secs(5));
    }
    eventually("all are gone", || server.broker.connections() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_told_and_others_live() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.max_connections = 3;
    let server = Server::with(config).await;
    let mut sessions = Vec::new();
    for _ in 0..3 {
        sessions.push(Session::open(&server).await);
    }
    // Who it is for is known once it has said so: version 1 has no words for it.
    let mut old = server.connect().await;
    old.write_all(b"\x01\x01t\0\0\0\0").await.unwrap();
    let mut rest = Vec::new();
    within(tokio::io::AsyncReadExt::read_to_end(&mut old, &mut rest)).await.unwrap();
    assert_eq!(rest, b"");
    let mut fourth = Session::raw(&server).await;
    let refused = fourth.call(&HelloRequest::new("fourth")).await.unwrap_err();
    assert_eq!((refused.status, refused.details), (Status::TooManyConnections, vec![3]));
    assert!(fourth.read_unit().await.is_none());
    assert_eq!(server.broker.connection_counts().turned_away, 2);
    for session in &mut sessions {
        session.call(&HeartbeatRequest).await.unwrap();
    }
    drop(sessions);
    eventually("there is room", || server.broker.connections() == 0).await;
    Session::open(&server).await.call(&HeartbeatRequest).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn unfinished_handshakes_make_room_and_take_none() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    (config.limits.max_connections, config.limits.max_handshakes) = (2, 5);
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let mut stream = server.connect().await;
        stream.write_all(b"\x01").await.unwrap();
        waiting.push(stream);
    }
    eventually("the oldest were closed", || server.broker.connection_counts().put_out == 15).await;
    session.call(&HeartbeatRequest).await.unwrap();
    Session::open(&server).await.call(&HeartbeatRequest).await.unwrap();
    drop((session, waiting));
    eventually("all are gone", || server.broker.connections() == 0).await;
    assert_eq!(server.broker.connection_counts().open, 0);
    server.stop().await;
}

#[tokio::test]
async fn dropped_idle_subscribers_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut admin = Session::open(&server).await;
    let topic = admin.create("idle", 1, TopicConfig::default()).await.unwrap();
    eventually("the creation is over", || server.broker.connections() == 1).await;
    let handles = server.broker.handles();
    for _ in 0..20 {
        let mut waiting = Vec::new();
        for _ in 0..25 {
            let mut session = Session::open(&server).await;
            session.subscribe(topic, 0, 1 << 20).await.unwrap();
            let consumer = v1::consumer(&server, "g", "idle").await;
            waiting.push((session, consumer, v1::consumer(&server, "g", "nowhere").await));
        }
        eventually("all are waiting", || server.broker.connections() == 76).await;
        drop(waiting);
        eventually("all are gone", || server.broker.connections() == 1).await;
    }
    let partition = server.broker.partition(topic, hermit_proto::PartitionId(0)).unwrap();
    assert_eq!(partition.waiters(), 0);
    eventually("no handle is left", || server.broker.handles() == handles).await;
    server.stop().await;
}

#[tokio::test]
async fn a_request_that_is_too_large_is_passed_over_and_the_session_lives() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.max_frame_bytes = 10_000;
    config.limits.max_request_bytes = 20_000;
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let produce = Operation::Produce.number();
    let header =
        Header { magic: magic::REQUEST, timestamp: 0, offset: 99, key_size: 21, payload_size: 3_000_000, record_count: produce };
    session.send(&header.encode()).await;
    session.send(&vec![0; 3_000_021]).await;
    let unit = session.read_unit().await.unwrap();
    assert_eq!((unit.correlation(), unit.header().record_count), (CorrelationId(99), Status::TooLarge.code()));
    session.call(&HeartbeatRequest).await.unwrap();
    let monster = Header {
        magic: magic::REQUEST,
        timestamp: 0,
        offset: 100,
        key_size: u32::MAX,
        payload_size: u32::MAX,
        record_count: produce,
    };
    session.send(&monster.encode()).await;
    assert_eq!(session.read_unit().await.unwrap().header().record_count, Status::TooLarge.code());
    assert!(server.broker.inflight_bytes() < 100_000);
    server.stop().await;
}

#[tokio::test]
async fn subscriptions_of_a_session_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.max_subscriptions = 2;
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    for _ in 0..2 {
        session.subscribe(topic, 0, 1).await.unwrap();
    }
    let error = session.subscribe(topic, 0, 1).await.unwrap_err();
    assert_eq!((error.status, error.details), (Status::TooManySubscriptions, vec![2]));
    server.stop().await;
}

#[tokio::test]
async fn a_silent_session_is_closed_and_one_that_does_not_read_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.heartbeat_interval = Duration::from_millis(100);
    config.limits.write_timeout = Duration::from_millis(500);
    let server = Server::with(config).await;
    let mut silent = Session::open(&server).await;
    assert!(silent.read_unit().await.is_none());

    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    for _ in 0..40 {
        session.produce(topic, 0, &ProducedFrame::message(1, None, &[7; 1 << 20]).to_vec().unwrap()).await.unwrap();
    }
    // Forty MiB do not fit the sockets' buffers.
    session.subscribe(topic, 0, u64::MAX).await.unwrap();
    eventually("the broker gave it up", || server.broker.connections() == 0).await;
    drop(session);
    server.stop().await;
}

/// Frames that do not fit the sockets' buffers.
async fn fill(session: &mut Session, topic: hermit_proto::TopicId) {
    for _ in 0..40 {
        session.produce(topic, 0, &ProducedFrame::message(1, None, &[7; 1 << 20]).to_vec().unwrap()).await.unwrap();
    }
}

#[tokio::test]
async fn reading_a_byte_now_and_then_is_not_reading() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.write_timeout = Duration::from_millis(500);
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    fill(&mut session, topic).await;
    session.subscribe(topic, 0, u64::MAX).await.unwrap();
    let mut read = Ok(1);
    let began = tokio::time::Instant::now();
    while matches!(read, Ok(1)) && server.broker.connections() > 0 {
        assert!(began.elapsed() < support::PATIENCE, "it is still served");
        read = tokio::io::AsyncReadExt::read(&mut session.stream, &mut [0]).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn who_takes_nothing_does_not_hold_up_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.drain_timeout = Duration::from_secs(60);
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    fill(&mut session, topic).await;
    session.subscribe(topic, 0, u64::MAX).await.unwrap();
    let mut old = v1::consumer(&server, "g", "t").await;
    // Both were sent something, and take no more.
    tokio::io::AsyncReadExt::read_exact(&mut old, &mut [0; 29]).await.unwrap();
    session.read_unit().await.unwrap();
    within(server.stop()).await;
}

#[test]
fn the_first_producer_behind_a_start_on_a_nearly_full_disk_is_refused_as_later_ones_are() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    let broker = Broker::open(config.clone()).unwrap();
    broker.create_topic("t", 1, &TopicConfig::default()).unwrap();
    broker.close().unwrap();
    (config.limits.disk_low_bytes, config.limits.disk_high_bytes) = (u64::MAX / 2, u64::MAX / 2);
    let broker = Broker::open(config).unwrap();
    let topic = broker.topic(&"t".parse().unwrap()).unwrap();
    let frame = ProducedFrame::message(0, None, b"x").to_vec().unwrap();
    let mut batch = broker.parse(BytesMut::from(&frame[..])).unwrap();
    let refused = broker.append(topic.partition(PartitionId(0)).unwrap(), &mut batch);
    assert!(matches!(refused, Err(BrokerError::LowSpace { .. })));
    broker.close().unwrap();
}
