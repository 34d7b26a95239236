//! Full disks, retention and compaction of topics that are in use, and topics that are deleted half-way.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerConfig, BrokerError, MIN_SEGMENT_BYTES, NEVER, Position, Ticket};
use hermit_log::disk::sim::{Fault, Op, SimDisk};
use hermit_log::{Flusher, LogEnv, LogError, ManualClock};
use hermit_proto::session::{AlterTopicRequest, Status, TopicConfig};
use hermit_proto::{FrameLimits, FrameView, GroupName, LeaderEpoch, Offset, PartitionId, TopicId, TopicName};
use support::v2::{Session, message};
use support::{Server, config, v1};
use tokio::io::AsyncWriteExt;

fn name(topic: &str) -> TopicName {
    TopicName::new(topic).unwrap()
}

fn small_segments() -> TopicConfig {
    TopicConfig { segment_bytes: Some(MIN_SEGMENT_BYTES), ..TopicConfig::default() }
}

fn append(broker: &Broker, topic: &str, frame: &[u8]) -> Result<Ticket, BrokerError> {
    let topic = broker.topic(&name(topic))?;
    let partition = Arc::clone(topic.partition(PartitionId(0))?);
    let mut batch = broker.parse(BytesMut::from(frame))?;
    broker.append(&partition, &mut batch)
}

/// The offsets that can be read.
fn offsets(broker: &Broker, topic: &str) -> Vec<u64> {
    let topic = broker.topic(&name(topic)).unwrap();
    let log = topic.partition(PartitionId(0)).unwrap().log().unwrap();
    let mut cursor = log.cursor(log.bounds().log_start).unwrap();
    let (mut bytes, mut offsets) = (Vec::new(), Vec::new());
    while let Some(range) = cursor.next(1 << 20).unwrap() {
        range.read_into(&mut bytes).unwrap();
    }
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (frame, behind) = FrameView::split(rest, &FrameLimits::default()).unwrap();
        frame.verify_body().unwrap();
        offsets.push(frame.prefix.offset().0);
        rest = behind;
    }
    offsets
}

struct World {
    disk: SimDisk,
    flusher: Flusher,
    clock: Arc<ManualClock>,
}

impl World {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000));
        Self { disk: SimDisk::new(1), flusher: Flusher::manual(clock.clone()), clock }
    }

    fn open(&self) -> Broker {
        let env = LogEnv::new(Arc::new(self.disk.clone()), self.clock.clone(), self.flusher.clone(), 64);
        let mut config = BrokerConfig { recovery_threads: 1, reserve_bytes: 16 << 10, ..BrokerConfig::new("/data") };
        (config.limits.disk_low_bytes, config.limits.disk_high_bytes) = (100_000, 200_000);
        // Room would take much of a disk as small as these.
        config.log.preallocate_bytes = 0;
        Broker::open_with(config, env).unwrap()
    }

    /// Fills the disk to the last byte, with the reserve in place.
    fn fill(&self, broker: &Broker) {
        self.leave(300_000);
        broker.maintain();
        self.leave(0);
        broker.maintain();
    }

    /// Sets the free space.
    fn leave(&self, free_bytes: u64) {
        self.disk.set_capacity(Some(self.disk.used_bytes() + free_bytes));
    }

    fn data_of(&self, id: TopicId) -> usize {
        let id = id.to_string();
        self.disk.files().iter().filter(|(path, _)| path.to_string_lossy().contains(&id)).count()
    }
}

#[test]
fn thresholds_that_are_changed_while_space_is_low_count_at_once() {
    let world = World::new();
    let broker = world.open();
    broker.create_topic("t", 1, &TopicConfig::default()).unwrap();
    world.leave(50_000);
    broker.check_space();
    let frame = message(b"x");
    assert!(matches!(append(&broker, "t", &frame), Err(BrokerError::LowSpace { .. })));
    let mut config = broker.config().clone();
    (config.limits.disk_low_bytes, config.limits.disk_high_bytes) = (0, 0);
    broker.reconfigure(&config).unwrap();
    append(&broker, "t", &frame).unwrap();
    (config.limits.disk_low_bytes, config.limits.disk_high_bytes) = (60_000, 70_000);
    broker.reconfigure(&config).unwrap();
    assert!(matches!(append(&broker, "t", &frame), Err(BrokerError::LowSpace { .. })));
}

#[test]
fn producing_stops_before_the_last_byte_is_gone_and_resumes_at_a_higher_threshold() {
    let world = World::new();
    let broker = world.open();
    broker.create_topic("t", 1, &TopicConfig::default()).unwrap();
    world.leave(300_000);
    let frame = message(&[1; 10_000]);
    let mut stored = 0;
    let refused = loop {
        match append(&broker, "t", &frame) {
            Ok(_ticket) => stored += 1,
            Err(error) => break error,
        }
        world.flusher.run_until_idle();
        broker.check_space();
    };
    assert!(matches!(refused, BrokerError::LowSpace { free_bytes: 50_000.., .. }), "{refused}");
    assert!(refused.is_retryable());
    assert_eq!(offsets(&broker, "t"), (0..stored).collect::<Vec<_>>(), "reads go on");
    let topic = broker.topic(&name("t")).unwrap().meta.id;
    let position = Position { topic, partition: PartitionId(0), offset: Offset(1), leader_epoch: LeaderEpoch::UNKNOWN };
    assert!(matches!(broker.commit(&GroupName::new("g").unwrap(), &[position]), Err(BrokerError::LowSpace { .. })));
    // More than the low threshold is not enough to begin again: that would be refused again at once.
    world.leave(150_000);
    broker.check_space();
    assert!(append(&broker, "t", &frame).is_err());
    world.leave(250_000);
    broker.check_space();
    append(&broker, "t", &frame).unwrap();
}

#[test]
fn a_full_disk_can_be_started_on_and_freed_by_altering_trimming_and_deleting() {
    let world = World::new();
    let broker = world.open();
    for topic in ["altered", "trimmed", "deleted"] {
        broker.create_topic(topic, 1, &small_segments()).unwrap();
        for _ in 0..20 {
            append(&broker, topic, &message(&[1; 10_000])).unwrap();
        }
    }
    world.flusher.run_until_idle();
    drop(broker);
    world.disk.kill();
    world.leave(0);
    let broker = world.open();
    assert_eq!(offsets(&broker, "trimmed").len(), 20);
    broker.maintain();
    assert!(matches!(append(&broker, "trimmed", &message(b"x")), Err(BrokerError::LowSpace { .. })));
    world.fill(&broker);
    let before = world.disk.used_bytes();
    broker.alter_topic(&name("altered"), &TopicConfig { retention_bytes: Some(1), ..TopicConfig::default() }).unwrap();
    broker.maintain();
    let altered = world.disk.used_bytes();
    assert!(altered + 100_000 < before, "{altered} bytes of {before}");
    world.fill(&broker);
    let altered = world.disk.used_bytes();
    broker.trim(broker.topic(&name("trimmed")).unwrap().meta.id, PartitionId(0), Offset(u64::MAX)).unwrap();
    let trimmed = world.disk.used_bytes();
    assert!(trimmed + 100_000 < altered, "{trimmed} bytes of {altered}");
    world.fill(&broker);
    let trimmed = world.disk.used_bytes();
    broker.delete_topic(&name("deleted")).unwrap();
    assert!(world.disk.used_bytes() + 100_000 < trimmed);
    world.leave(300_000);
    broker.maintain();
    append(&broker, "trimmed", &message(b"x")).unwrap();
}

#[test]
fn what_readers_hold_of_deleted_files_is_told_and_comes_free_with_the_last_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::open(config(dir.path())).unwrap();
    let topic = broker.create_topic("t", 1, &small_segments()).unwrap();
    for _ in 0..20 {
        append(&broker, "t", &message(&[1; 10_000])).unwrap().wait().unwrap();
    }
    let log = topic.partitions()[0].log().unwrap();
    let segments = |dir: &Path| {
        std::fs::read_dir(dir).unwrap().filter(|e| e.as_ref().unwrap().path().extension() == Some("wal".as_ref())).count()
    };
    let before = segments(log.dir());
    let range = log.cursor(Offset(0)).unwrap().next(20_000).unwrap().unwrap();
    let expected = {
        let mut bytes = Vec::new();
        range.read_into(&mut bytes).unwrap();
        bytes
    };
    broker.trim(topic.meta.id, PartitionId(0), Offset(u64::MAX)).unwrap();
    assert!(segments(log.dir()) < before, "the names go at once");
    assert!(broker.held_bytes() >= 20_000, "{} bytes are held", broker.held_bytes());
    let mut bytes = Vec::new();
    range.read_into(&mut bytes).unwrap();
    assert!(bytes == expected, "a reader lost what it reads");
    drop(range);
    assert_eq!(broker.held_bytes(), 0);
    broker.close().unwrap();
}

#[test]
fn a_topic_that_was_deleted_half_way_is_gone_and_its_name_is_free() {
    let world = World::new();
    let broker = world.open();
    let old = broker.create_topic("t", 2, &TopicConfig::default()).unwrap().meta.id;
    append(&broker, "t", &message(b"old")).unwrap();
    world.flusher.run_until_idle();
    world.disk.fail(Fault::error(Op::RemoveFile, rustix::io::Errno::IO).on(".wal"));
    broker.delete_topic(&name("t")).unwrap();
    assert!(world.data_of(old) > 0, "nothing is left of it: this tests nothing");
    let new = broker.create_topic("t", 1, &TopicConfig::default()).unwrap().meta.id;
    assert_ne!(old, new);
    append(&broker, "t", &message(b"new")).unwrap();
    world.flusher.run_until_idle();
    drop(broker);
    world.disk.kill();
    let broker = world.open();
    assert_eq!(world.data_of(old), 0, "what was left is removed at the next start");
    let topic = broker.topic(&name("t")).unwrap();
    assert_eq!((topic.meta.id, topic.partitions().len(), offsets(&broker, "t")), (new, 1, vec![0]));
    assert!(broker.report().unknown.is_empty(), "{:?}", broker.report().unknown);
}

#[tokio::test]
async fn a_topic_that_becomes_compacted_refuses_records_without_a_key_from_those_who_are_connected() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    let mut producer = v1::producer(&server, "t").await;
    producer.write_all(&v1::frame(1, b"", b"no key", 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 0));
    let compaction = TopicConfig { compaction: Some(true), ..TopicConfig::default() };
    session.call(&AlterTopicRequest { name: "t".into(), config: compaction }).await.unwrap();
    assert_eq!(session.produce(topic, 0, &message(b"no key")).await.unwrap_err().status, Status::KeyRequired);
    assert!(matches!(append(&server.broker, "t", &message(b"no key")), Err(BrokerError::Log(LogError::KeyRequired { .. }))));
    producer.write_all(&v1::frame(1, b"key", b"with a key", 1)).await.unwrap();
    assert_eq!(v1::answer(&mut producer).await, (0, 1));
    producer.write_all(&v1::frame(1, b"", b"no key", 1)).await.unwrap();
    assert!(v1::is_closed(&mut producer).await);
    let log_end = server.broker.partition(topic, PartitionId(0)).unwrap().bounds().unwrap().log_end;
    assert_eq!(log_end, Offset(2));
    server.stop().await;
}

/// Reads deliveries until `last` has come; checks that offsets only rise, and that every frame is whole.
async fn read_until(session: &mut Session, subscription: hermit_proto::CorrelationId, from: u64, last: u64) -> Vec<u64> {
    let mut offsets = vec![from];
    while *offsets.last().unwrap() < last {
        let (_, unit) = session.delivery(subscription).await;
        let mut rest = unit.payload();
        while !rest.is_empty() {
            let (frame, behind) = FrameView::split(rest, &FrameLimits::default()).unwrap();
            frame.verify_body().unwrap();
            let offset = frame.prefix.offset().0;
            assert!(offset > *offsets.last().unwrap(), "{offset} behind {offsets:?}");
            offsets.push(offset);
            rest = behind;
        }
        session.credit(subscription, 20_000).await;
    }
    offsets
}

#[tokio::test]
async fn retention_follows_the_settings_as_they_are_with_readers_inside() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, small_segments()).await.unwrap();
    for _ in 0..60 {
        session.produce(topic, 0, &message(&[1; 10_000])).await.unwrap();
    }
    // Both are at the beginning, one with credit for little, the other taking nothing.
    let (id, _) = session.subscribe(topic, 0, 1).await.unwrap();
    let (head, _) = session.delivery(id).await;
    assert_eq!(head.next_offset, Offset(1));
    let mut consumer = v1::consumer(&server, "g", "t").await;
    assert_eq!(v1::next_frame(&mut consumer).await.0.offset, 0);

    let log_start = || server.broker.partition(topic, PartitionId(0)).unwrap().bounds().unwrap().log_start.0;
    server.broker.maintain();
    assert_eq!(log_start(), 0, "nothing goes that nobody asked to go");
    let alter = |bytes| AlterTopicRequest {
        name: "t".into(),
        config: TopicConfig { retention_bytes: Some(bytes), ..TopicConfig::default() },
    };
    session.call(&alter(100_000)).await.unwrap();
    server.broker.maintain();
    let first = log_start();
    assert!((40..60).contains(&first), "the log begins at {first}");

    session.credit(id, 20_000).await;
    let read = read_until(&mut session, id, 0, 59).await;
    assert_eq!(read.last(), Some(&59));
    assert!(read.len() < 30, "what is gone was read: {read:?}");
    let mut last = 0;
    while last < 59 {
        let (header, _, payload) = v1::next_frame(&mut consumer).await;
        assert!(header.offset > last && payload == [1; 10_000], "{} behind {last}", header.offset);
        last = header.offset;
    }

    session.call(&alter(NEVER)).await.unwrap();
    for _ in 0..20 {
        session.produce(topic, 0, &message(&[1; 10_000])).await.unwrap();
    }
    server.broker.maintain();
    assert_eq!(log_start(), first, "what is kept for ever now went");
    assert_eq!(read_until(&mut session, id, 59, 79).await.len(), 21);
    server.stop().await;
}
