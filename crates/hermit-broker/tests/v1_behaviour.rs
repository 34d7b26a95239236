//! What version-1 clients may rely on, and what is refused to them.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use hermit_broker::{BrokerConfig, Durability, TopicConfig};
use hermit_log::disk::sim::SimDisk;
use hermit_log::{Clock, Flusher, LogEnv, ManualClock};
use hermit_proto::record_set::{NewRecord, RecordSetBuilder};
use hermit_proto::v1::Handshake;
use hermit_proto::{Codec, FrameLimits, FrameView, PartitionId, ProducedFrame, TopicName};
use std::sync::Arc;
use support::v2::Session;
use support::{Server, config, eventually, v1};
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn both_versions_read_each_others_messages() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("mixed", 1, TopicConfig::default()).await.unwrap();
    let mut producer = v1::producer(&server, "mixed").await;
    producer.write_all(&v1::frame(11, b"k", b"from one", 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 0));
    producer.write_all(&v1::frame(12, b"", b"three lines", 3)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 1));
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let mut set = RecordSetBuilder::new(2_000_000_000);
        for value in [b"a", b"b"] {
            set.append(&NewRecord { timestamp_ms: 2500, key: Some(b"sk"), value: Some(value), headers: &[] }).unwrap();
        }
        let frame = ProducedFrame::record_set(2_000_000_000, codec, 2, &set.finish(codec).unwrap()).to_vec().unwrap();
        session.produce(topic, 0, &frame).await.unwrap();
    }
    session.produce(topic, 0, &ProducedFrame::tombstone(5, b"dead").to_vec().unwrap()).await.unwrap();
    session.produce(topic, 0, &ProducedFrame::message(6, Some(b""), b"empty key").to_vec().unwrap()).await.unwrap();

    // Version 2 gets what version 1 sent.
    let (id, _) = session.subscribe(topic, 0, 1 << 20).await.unwrap();
    let (_, unit) = session.delivery(id).await;
    let (first, rest) = FrameView::split(unit.payload(), &FrameLimits::default()).unwrap();
    assert_eq!((first.key(), first.payload(), first.prefix.header.timestamp), (Some(&b"k"[..]), &b"from one"[..], 11));
    let (second, _) = FrameView::split(rest, &FrameLimits::default()).unwrap();
    assert_eq!((second.key(), second.prefix.header.record_count), (None, 3));
    second.verify_body().unwrap();

    // Version 1 gets what version 2 sent, record by record, from the very record asked for.
    assert!(v1::commit(&server, "g", "mixed", 0, 5).await);
    let mut consumer = v1::consumer(&server, "g", "mixed").await;
    let mut got: Vec<(u64, u64, Vec<u8>, Vec<u8>)> = Vec::new();
    while got.last().is_none_or(|(offset, ..)| *offset < 11) {
        let (header, key, payload) = v1::next_frame(&mut consumer).await;
        got.push((header.offset, header.timestamp, key, payload));
    }
    let record = |offset, value: &[u8]| (offset, 2_500_000_000, b"sk".to_vec(), value.to_vec());
    let expected = [
        record(5, b"b"),
        record(6, b"a"),
        record(7, b"b"),
        record(8, b"a"),
        record(9, b"b"),
        (10, 5, b"dead".to_vec(), vec![]),
        (11, 6, vec![], b"empty key".to_vec()),
    ];
    assert_eq!(got, expected);
    server.stop().await;
}

#[tokio::test]
async fn frames_of_all_sizes_arrive_in_order_and_the_stream_follows() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let sizes = [0, 1, 100, 16 << 10, 64 << 10, (96 << 10) - 1, 96 << 10, 200, 600_000, 5, 1 << 20, 40_000, 97 << 10, 95 << 10, 0];
    let payload = |at: usize, size: usize| (0..size).map(|i| (i * 31 + at).to_le_bytes()[0]).collect::<Vec<_>>();
    let mut consumer = v1::consumer(&server, "g", "sizes").await;
    let mut producer = v1::producer(&server, "sizes").await;
    for round in 0..3u64 {
        let sent: Vec<u8> =
            sizes.iter().enumerate().flat_map(|(at, size)| v1::frame(round, b"key", &payload(at, *size), 1)).collect();
        let (mut reading, mut writing) = producer.split();
        let write = writing.write_all(&sent);
        let read = async {
            for at in 0..sizes.len() as u64 {
                let mut bytes = [0; 9];
                tokio::io::AsyncReadExt::read_exact(&mut reading, &mut bytes).await.unwrap();
                assert_eq!(u64::from_be_bytes(bytes[1..].try_into().unwrap()), round * sizes.len() as u64 + at);
            }
        };
        tokio::join!(async { write.await.unwrap() }, read);
        for (at, size) in sizes.iter().enumerate() {
            let (header, key, got) = v1::next_frame(&mut consumer).await;
            assert_eq!((header.offset, header.timestamp), (round * sizes.len() as u64 + at as u64, round));
            assert_eq!(key, b"key");
            assert!(got == payload(at, *size), "payload {at}");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn a_consumer_that_reads_late_gets_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("late", 1, TopicConfig::default()).await.unwrap();
    let payload = |offset: u64, size: usize| (0..size).map(|i| (i as u64 * 31 + offset).to_le_bytes()[0]).collect::<Vec<_>>();
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for round in 0..12 {
        let mut frames = Vec::new();
        for size in [100, 60_000, 90_000, 0, 110_000, 29] {
            sent.push(payload(sent.len() as u64, size));
            frames.extend(ProducedFrame::message(1, None, &sent[sent.len() - 1]).to_vec().unwrap());
        }
        let mut set = RecordSetBuilder::new(0);
        for size in [10, 300, 50_000, 200_000, 20, 150_000] {
            sent.push(payload(sent.len() as u64, size));
            set.append(&NewRecord { timestamp_ms: 0, key: None, value: sent.last().map(Vec::as_slice), headers: &[] }).unwrap();
        }
        let codec = [Codec::None, Codec::Zstd][round % 2];
        let set = set.finish(codec).unwrap();
        frames.extend(ProducedFrame::record_set(0, codec, 6, &set).to_vec().unwrap());
        session.produce(topic, 0, &frames).await.unwrap();
    }
    // The broker's side fills up, whatever the system's buffers take, and is emptied in small steps.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    let mut consumer = socket.connect(server.address).await.unwrap();
    let (group, topic) = ("g".parse().unwrap(), "late".parse().unwrap());
    let mut handshake = Vec::new();
    Handshake::Consumer { group, topic, partition: PartitionId(0) }.encode(&mut handshake);
    consumer.write_all(&handshake).await.unwrap();
    for (offset, value) in sent.iter().enumerate() {
        let (header, _, got) = v1::next_frame(&mut consumer).await;
        assert_eq!(header.offset, offset as u64);
        assert!(got == *value, "record {offset}");
    }
    server.stop().await;
}

#[tokio::test]
async fn only_producing_creates_a_topic_and_a_consumer_waits_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut waiting = v1::consumer(&server, "g", "odrers").await;
    assert!(!v1::commit(&server, "g", "odrers", 0, 0).await);
    eventually("the consumer is there", || server.broker.connections() == 1).await;
    assert!(server.broker.topic(&TopicName::new("odrers").unwrap()).is_err());
    let mut producer = v1::producer(&server, "odrers").await;
    producer.write_all(&v1::frame(1, b"", b"now", 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 0));
    assert_eq!(v1::next_frame(&mut waiting).await.2, b"now");
    server.stop().await;
}

#[tokio::test]
async fn producing_creates_nothing_where_the_setting_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(BrokerConfig { create_topics: false, ..config(dir.path()) }).await;
    let mut producer = v1::producer(&server, "t").await;
    assert!(v1::is_closed(&mut producer).await);
    assert_eq!(server.broker.topics().len(), 1);
    server.stop().await;
}

#[tokio::test]
async fn commits_of_what_is_not_there_are_refused_and_store_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut producer = v1::producer(&server, "t").await;
    producer.write_all(&v1::frame(1, b"", b"x", 3)).await.unwrap();
    v1::answer(&mut producer).await;
    assert!(v1::commit(&server, "g", "t", 0, 2).await);
    for (topic, partition, offset) in [("t", 0, u64::MAX), ("t", 0, 4), ("t", 1, 0), ("u", 0, 0), ("__consumer_offsets", 0, 0)] {
        assert!(!v1::commit(&server, "g", topic, partition, offset).await, "{topic} {partition} {offset}");
    }
    let mut consumer = v1::consumer(&server, "g", "t").await;
    // The position lies within the frame of three: it comes whole.
    assert_eq!(v1::next_frame(&mut consumer).await.0.offset, 0);
    assert!(v1::commit(&server, "g", "t", 0, 3).await);
    server.stop().await;
}

#[tokio::test]
async fn refused_producers_are_closed_and_what_came_before_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.max_frame_bytes = 2000;
    let server = Server::with(config).await;
    let compaction = TopicConfig { compaction: Some(true), ..TopicConfig::default() };
    server.broker.create_topic("compacted", 1, &compaction).unwrap();
    let good = v1::frame(1, b"k", b"good", 1);
    let too_large = v1::frame(1, b"k", &[0; 2000], 1);
    let too_many = v1::frame(1, b"k", b"", 1_000_001);
    let bad_magic = [7; 29].to_vec();
    for (topic, bad) in [
        ("t", too_large),
        ("t", too_many),
        ("t", bad_magic),
        ("compacted", v1::frame(1, b"", b"no key", 1)),
        ("compacted", v1::frame(1, b"k", b"two", 2)),
    ] {
        let mut producer = v1::producer(&server, topic).await;
        producer.write_all(&[good.clone(), bad].concat()).await.unwrap();
        assert_eq!(v1::answer(&mut producer).await.0, 0);
        assert!(v1::is_closed(&mut producer).await);
    }
    let mut producer = v1::producer(&server, "__consumer_offsets").await;
    assert!(v1::is_closed(&mut producer).await);
    let unknown = Handshake::Producer { topic: TopicName::new("t").unwrap(), partition: PartitionId(5) };
    assert!(v1::is_closed(&mut v1::open(&server, &unknown).await).await);
    let mut other = server.connect().await;
    other.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    assert!(v1::is_closed(&mut other).await);
    server.stop().await;
}

#[tokio::test]
async fn names_are_compared_exactly_and_never_become_paths() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let long = "x".repeat(255);
    let names = ["../../x", "a/b", "Foo", "foo", ".", "..", long.as_str(), "grüße 漢字"];
    for name in names {
        let mut producer = v1::producer(&server, name).await;
        producer.write_all(&v1::frame(1, b"", name.as_bytes(), 1)).await.unwrap();
        assert_eq!(v1::answer(&mut producer).await, (0, 0), "{name}");
    }
    for name in names {
        assert_eq!(v1::next_frame(&mut v1::consumer(&server, "g", name).await).await.2, name.as_bytes());
    }
    for entry in std::fs::read_dir(dir.path().join("partitions")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.len() == 34 && name.ends_with("-0"), "{name}");
    }
    let mut control = server.connect().await;
    control.write_all(b"\x01\x03a\nb\0\0\0\0").await.unwrap();
    assert!(v1::is_closed(&mut control).await);
    let mut empty = server.connect().await;
    empty.write_all(b"\x01\0\0\0\0\0").await.unwrap();
    assert!(v1::is_closed(&mut empty).await);
    server.stop().await;
}

/// A broker on a simulated disk, served for real.
async fn simulated(disk: &SimDisk) -> Server {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(1_000_000_000));
    let flusher = Flusher::start(1, Arc::clone(&clock)).unwrap();
    let env = LogEnv::new(Arc::new(disk.clone()), clock, flusher, 64);
    let mut config = BrokerConfig::new("/data");
    config.reserve_bytes = 0;
    config.limits.disk_low_bytes = 0;
    let broker = hermit_broker::Broker::open_with(config, env).unwrap();
    Server::serve(broker).await
}

#[tokio::test]
async fn a_full_disk_is_refused_for_now_and_producing_goes_on_when_there_is_space() {
    let disk = SimDisk::new(1);
    let server = simulated(&disk).await;
    let mut producer = v1::producer(&server, "t").await;
    producer.write_all(&v1::frame(1, b"", b"before", 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 0));
    disk.set_capacity(Some(disk.used_bytes()));
    producer.write_all(&v1::frame(1, b"", &[0; 5000], 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0xFF, 0));
    disk.set_capacity(None);
    producer.write_all(&v1::frame(1, b"", b"after", 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 1));
    // Files without a descriptor are served as well.
    let mut consumer = v1::consumer(&server, "g", "t").await;
    assert_eq!(v1::next_frame(&mut consumer).await.2, b"before");
    assert_eq!(v1::next_frame(&mut consumer).await.2, b"after");
    server.stop().await;
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_answered_reading_goes_on_and_others_are_served() {
    use hermit_log::disk::sim::{Fault, Op};
    let disk = SimDisk::new(2);
    let server = simulated(&disk).await;
    let mut session = Session::open(&server).await;
    let bad = session.create("bad", 1, TopicConfig::default()).await.unwrap();
    let good = session.create("good", 1, TopicConfig::default()).await.unwrap();
    let frame = |payload: &[u8]| ProducedFrame::message(1, None, payload).to_vec().unwrap();
    session.produce(bad, 0, &frame(b"flushed")).await.unwrap();
    disk.fail(Fault::error(Op::Sync, rustix::io::Errno::IO).on(&bad.to_string()));
    let error = session.produce(bad, 0, &frame(b"lost")).await.unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    let error = session.produce(bad, 0, &frame(b"refused")).await.unwrap_err();
    assert_eq!(error.status, hermit_proto::session::Status::ReadOnly);
    session.produce(good, 0, &frame(b"elsewhere")).await.unwrap();
    let (id, subscribed) = session.subscribe(bad, 0, 1000).await.unwrap();
    assert_eq!(subscribed.high_watermark.0, 1);
    let (_, unit) = session.delivery(id).await;
    assert!(unit.payload().ends_with(b"flushed"));
    let mut producer = v1::producer(&server, "bad").await;
    producer.write_all(&v1::frame(1, b"", b"x", 1)).await.unwrap();
    assert!(v1::is_closed(&mut producer).await);
    // The stop cannot be a clean one: the next start has to look.
    server.broker.shutdown().await.unwrap_err();
}

#[tokio::test]
async fn large_payloads_are_served_from_files_without_descriptors_too() {
    let disk = SimDisk::new(3);
    let server = simulated(&disk).await;
    let os = TopicConfig { durability: Some(Durability::Os), ..TopicConfig::default() };
    server.broker.create_topic("t", 1, &os).unwrap();
    let payload: Vec<u8> = (0..300_000u32).map(|i| i.to_le_bytes()[1]).collect();
    let mut producer = v1::producer(&server, "t").await;
    producer.write_all(&v1::frame(1, b"k", &payload, 1)).await.unwrap();
    v1::answer(&mut producer).await;
    let mut consumer = v1::consumer(&server, "g", "t").await;
    assert!(v1::next_frame(&mut consumer).await.2 == payload);
    let mut session = Session::open(&server).await;
    let topic = server.broker.topic(&TopicName::new("t").unwrap()).unwrap().meta.id;
    let (id, _) = session.subscribe(topic, 0, 1 << 20).await.unwrap();
    let (_, unit) = session.delivery(id).await;
    let (frame, _) = FrameView::split(unit.payload(), &FrameLimits::default()).unwrap();
    frame.verify_body().unwrap();
    assert!(frame.payload() == payload);
    server.stop().await;
}
