//! What the broker counts, and how far groups are behind.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::log::disk::sim::{Fault, Op, SimDisk};
use hermit_broker::log::{Clock, Flusher, LogEnv, ManualClock};
use hermit_broker::metrics::{BrokerMetrics, ByName, Health, PartitionMetrics, TopicMetrics};
use hermit_broker::{Broker, BrokerConfig, Position};
use hermit_proto::session::{ListOffsetsRequest, OffsetQuery, TopicConfig};
use hermit_proto::{GroupName, LeaderEpoch, Offset, PartitionId, ProducedFrame, TopicId, TopicName};
use rustix::io::Errno;
use support::v2::Session;
use support::{Server, eventually};

fn messages(count: usize) -> BytesMut {
    let frame = ProducedFrame::message(7, Some(b"key"), b"payload").to_vec().unwrap();
    BytesMut::from(&frame.repeat(count)[..])
}

struct Simulated {
    broker: Broker,
    disk: SimDisk,
    clock: Arc<ManualClock>,
    flusher: Flusher,
}

/// A clock by which a second passes at each look: all takes long.
#[derive(Debug)]
struct Slow(Arc<ManualClock>);

impl Clock for Slow {
    fn now(&self) -> u64 {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.advance(Duration::from_secs(1));
        self.0.monotonic()
    }
}

impl Simulated {
    fn open() -> Self {
        Self::open_with(|clock| clock)
    }

    fn open_slow() -> Self {
        Self::open_with(|clock| Arc::new(Slow(clock)))
    }

    fn open_with(shown: impl Fn(Arc<ManualClock>) -> Arc<dyn Clock>) -> Self {
        let (disk, clock) = (SimDisk::new(1), Arc::new(ManualClock::new(1_700_000_000_000_000_000)));
        let flusher = Flusher::manual(shown(clock.clone()));
        let env = LogEnv::new(Arc::new(disk.clone()), shown(clock.clone()), flusher.clone(), 64);
        let config = BrokerConfig { recovery_threads: 1, reserve_bytes: 0, ..BrokerConfig::new("/data") };
        Self { broker: Broker::open_with(config, env).unwrap(), disk, clock, flusher }
    }

    fn produce(&self, topic: TopicId, partition: u32, count: usize) {
        let partition = self.broker.writable(topic, PartitionId(partition)).unwrap();
        let mut batch = self.broker.parse(messages(count)).unwrap();
        self.broker.append(&partition, &mut batch).unwrap();
        self.flusher.run_until_idle();
    }

    fn commit(&self, group: &str, topic: TopicId, offset: u64) {
        let position = Position { topic, partition: PartitionId(0), offset: Offset(offset), leader_epoch: LeaderEpoch::UNKNOWN };
        self.broker.commit(&GroupName::new(group).unwrap(), &[position]).unwrap();
        self.flusher.run_until_idle();
    }
}

fn of<'a>(metrics: &'a BrokerMetrics, name: &str) -> &'a TopicMetrics {
    metrics.topics.iter().find(|topic| topic.topic.meta.name.as_str() == name).unwrap()
}

fn partition(metrics: &BrokerMetrics, name: &str, partition: usize) -> PartitionMetrics {
    of(metrics, name).partitions[partition]
}

fn count(counts: &ByName, name: &str) -> u64 {
    counts.iter().find(|(other, _)| *other == name).map_or(0, |(_, count)| *count)
}

#[test]
fn a_partition_tells_what_came_and_where_its_log_is() {
    let sim = Simulated::open();
    let topic = sim.broker.create_topic("t", 2, &TopicConfig::default()).unwrap().meta.id;
    sim.produce(topic, 1, 3);
    sim.produce(topic, 1, 2);
    let metrics = sim.broker.metrics();
    assert_eq!((partition(&metrics, "t", 0).log.appended_records, partition(&metrics, "t", 0).log.size_bytes), (0, 0));
    let log = partition(&metrics, "t", 1).log;
    assert_eq!((log.appended_records, log.appended_batches, log.segments, log.fenced_ranges), (5, 2, 1, 0));
    assert!(log.appended_bytes > 5 * 69 && log.size_bytes == log.appended_bytes, "{log:?}");
    assert_eq!((log.bounds.log_start, log.bounds.high_watermark, log.bounds.log_end), (Offset(0), Offset(5), Offset(5)));
    // What was appended to the broker's own topic counts too.
    assert!(metrics.times.append.count() >= 2 && metrics.times.flush.count() >= 2);

    sim.broker.trim(topic, PartitionId(1), Offset(4)).unwrap();
    let trimmed = partition(&sim.broker.metrics(), "t", 1).log;
    assert_eq!((trimmed.appended_records, trimmed.bounds.log_start), (5, Offset(4)));

    // Another topic under the same name begins anew; what was counted since the start stays.
    let before = sim.broker.describe().figures.unwrap();
    assert!(before.appended_records >= 5 && before.delivered_records == 0);
    sim.broker.partition(topic, PartitionId(1)).unwrap().count_delivery(Offset(1), Offset(4), 100);
    sim.broker.delete_topic(&TopicName::new("t").unwrap()).unwrap();
    let after = sim.broker.describe().figures.unwrap();
    assert_eq!((after.appended_records, after.appended_bytes), (before.appended_records, before.appended_bytes));
    assert_eq!((after.delivered_records, after.delivered_bytes), (3, 100));
    sim.broker.create_topic("t", 2, &TopicConfig::default()).unwrap();
    assert_eq!(partition(&sim.broker.metrics(), "t", 1).log.appended_records, 0);
}

#[test]
fn retention_and_trims_tell_what_they_freed() {
    let sim = Simulated::open();
    let settings = TopicConfig { retention_bytes: Some(1), segment_bytes: Some(64 << 10), ..TopicConfig::default() };
    let topic = sim.broker.create_topic("t", 1, &settings).unwrap().meta.id;
    for _ in 0..4 {
        sim.produce(topic, 0, 500);
    }
    sim.broker.maintain();
    let metrics = sim.broker.metrics();
    let freed = metrics.upkeep.retention;
    assert!(freed.segments >= 1 && freed.bytes > 60_000 && freed.failures == 0, "{freed:?}");
    assert_eq!(metrics.upkeep.trims.segments, 0);
    sim.broker.trim(topic, PartitionId(0), Offset(u64::MAX)).unwrap();
    sim.broker.maintain();
    let after = sim.broker.metrics();
    assert!(after.upkeep.retention.segments >= freed.segments);
    assert_eq!(partition(&after, "t", 0).log.appended_records, 2000);
}

#[test]
fn a_group_is_behind_in_messages_and_in_time() {
    let sim = Simulated::open();
    let topic = sim.broker.create_topic("t", 1, &TopicConfig::default()).unwrap().meta.id;
    sim.produce(topic, 0, 1);
    sim.clock.advance(Duration::from_secs(60));
    sim.produce(topic, 0, 3);
    let lag = |group: &str| {
        let metrics = sim.broker.metrics();
        let group = metrics.groups.iter().find(|other| other.name.as_str() == group).unwrap().clone();
        assert_eq!((group.members, group.partitions.len()), (0, 1));
        (group.partitions[0].messages, group.partitions[0].missed, group.partitions[0].time.unwrap().as_secs())
    };
    sim.commit("slow", topic, 0);
    sim.commit("fast", topic, 4);
    sim.clock.advance(Duration::from_secs(5));
    assert_eq!((lag("slow"), lag("fast")), ((4, 0, 65), (0, 0, 0)));
    // Looked at again, nothing need be read.
    sim.clock.advance(Duration::from_secs(1));
    assert_eq!(lag("slow"), (4, 0, 66));
    sim.commit("slow", topic, 1);
    assert_eq!(lag("slow"), (3, 0, 6));
    // A position whose records are gone is the log start, and it is told how many the group has missed until it goes on.
    sim.broker.trim(topic, PartitionId(0), Offset(3)).unwrap();
    assert_eq!(lag("slow"), (1, 2, 6));
    sim.commit("slow", topic, 4);
    assert_eq!(lag("slow"), (0, 0, 0));
    sim.broker.delete_topic(&TopicName::new("t").unwrap()).unwrap();
    let metrics = sim.broker.metrics();
    assert!(metrics.groups.iter().all(|group| group.partitions.is_empty()), "{:?}", metrics.groups);
}

/// Groups that move on all the time, of which a round can read one.
#[test]
fn no_group_waits_for_ever_for_its_time() {
    let sim = Simulated::open_slow();
    let topic = sim.broker.create_topic("t", 1, &TopicConfig::default()).unwrap().meta.id;
    sim.produce(topic, 0, 20);
    let known = |round: u64| {
        ["a", "b", "c"].iter().for_each(|group| sim.commit(group, topic, round));
        let groups = sim.broker.metrics().groups;
        groups.iter().map(|group| group.partitions[0].time.is_some()).collect::<Vec<_>>()
    };
    assert_eq!(known(1), [true, false, false]);
    assert_eq!(known(2), [true, true, false]);
    assert_eq!(known(3), [true, true, true]);
    assert_eq!(known(4), [true, true, true]);
}

#[test]
fn a_log_that_a_failed_sync_has_ended_is_read_only_and_the_others_are_good() {
    let sim = Simulated::open();
    let topic = sim.broker.create_topic("t", 2, &TopicConfig::default()).unwrap().meta.id;
    sim.produce(topic, 0, 1);
    sim.disk.fail(Fault::error(Op::Sync, Errno::IO).on(".wal"));
    sim.produce(topic, 0, 1);
    let metrics = sim.broker.metrics();
    assert_eq!(of(&metrics, "t").partitions.iter().map(|p| p.health).collect::<Vec<_>>(), [Health::ReadOnly, Health::Good]);
    assert_eq!(partition(&metrics, "t", 0).log.bounds.high_watermark, Offset(1));
}

#[tokio::test]
async fn sessions_deliveries_and_refusals_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    session.produce(topic, 0, &messages(10)).await.unwrap();
    let (id, _) = session.subscribe(topic, 4, 1 << 20).await.unwrap();
    let mut read = 4;
    while read < 10 {
        read = session.delivery(id).await.0.next_offset.0;
    }
    for _ in 0..2 {
        session.produce(TopicId(9), 0, &messages(1)).await.unwrap_err();
    }
    let query = ListOffsetsRequest { topic, partition: PartitionId(7), query: OffsetQuery::Earliest };
    session.call(&query).await.unwrap_err();
    let metrics = server.broker.metrics();
    let delivered = partition(&metrics, "t", 0);
    let frame_bytes = delivered.log.appended_bytes / 10;
    assert_eq!((delivered.delivered_records, delivered.delivered_bytes), (6, 6 * frame_bytes));
    assert_eq!((count(&metrics.refusals, "UnknownTopic"), count(&metrics.refusals, "UnknownPartition")), (2, 1));
    assert_eq!((metrics.connections.accepted, metrics.connections.now.open), (1, 1));

    drop(session);
    let mut strange = server.connect().await;
    tokio::io::AsyncWriteExt::write_all(&mut strange, b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let ended = |reason: &'static str| count(&server.broker.metrics().connections.ended, reason);
    eventually("both ends are counted", || (ended("peer"), ended("protocol")) == (1, 1)).await;
    server.stop().await;
}
