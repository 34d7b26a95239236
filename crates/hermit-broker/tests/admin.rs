//! Changing topics that are in use, and asking about the broker, over a version-2 session.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use bytes::BytesMut;
use hermit_broker::{Broker, BrokerConfig};
use hermit_proto::session::{
    AddPartitionsRequest, AlterTopicRequest, BrokerSetting, DescribeBrokerRequest, Durability, ListOffsetsRequest, MetadataRequest,
    OffsetQuery, Request, Status, TopicConfig, TopicSelection, TrimRequest, WireError,
};
use hermit_proto::{Offset, PartitionId, TopicId, TopicName};
use support::v2::{Session, message};
use support::{Server, config};

fn alter(name: &str, config: TopicConfig) -> AlterTopicRequest {
    AlterTopicRequest { name: name.into(), config }
}

fn grow(name: &str, partitions: u32) -> AddPartitionsRequest {
    AddPartitionsRequest { name: name.into(), partitions }
}

fn trim(topic: TopicId, partition: u32, offset: u64) -> TrimRequest {
    TrimRequest { topic, partition: PartitionId(partition), offset: Offset(offset) }
}

async fn refused<Q: Request>(session: &mut Session, request: &Q) -> (Status, String, Vec<u64>)
where
    Q::Response: std::fmt::Debug,
{
    let WireError { status, field, details, .. } = session.call(request).await.unwrap_err();
    (status, field, details)
}

#[tokio::test]
async fn each_refusal_names_the_field_at_fault() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.max_partitions = 8;
    config.limits.max_total_partitions = 10;
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 3, TopicConfig::default()).await.unwrap();
    session.produce(topic, 0, &message(b"x")).await.unwrap();
    let positions = server.broker.topic(&TopicName::new("__consumer_offsets").unwrap()).unwrap().meta.id;
    let small = TopicConfig { segment_bytes: Some(1), ..TopicConfig::default() };
    let told = |status, field: &str, details: &[u64]| (status, field.to_owned(), details.to_vec());
    let s = &mut session;
    assert_eq!(refused(s, &alter("nowhere", TopicConfig::default())).await, told(Status::UnknownTopic, "topic", &[]));
    assert_eq!(refused(s, &alter("", TopicConfig::default())).await, told(Status::InvalidName, "topic", &[]));
    assert_eq!(refused(s, &alter("t", small)).await, told(Status::InvalidConfig, "segment_bytes", &[]));
    let internal = "__consumer_offsets";
    assert_eq!(refused(s, &alter(internal, TopicConfig::default())).await, told(Status::InternalTopic, "topic", &[]));
    assert_eq!(refused(s, &grow(internal, 2)).await, told(Status::InternalTopic, "topic", &[]));
    assert_eq!(refused(s, &trim(positions, 0, 0)).await, told(Status::InternalTopic, "topic", &[]));
    assert_eq!(refused(s, &grow("nowhere", 2)).await, told(Status::UnknownTopic, "topic", &[]));
    assert_eq!(refused(s, &grow("t", 2)).await, told(Status::InvalidConfig, "partitions", &[3]));
    assert_eq!(refused(s, &grow("t", 9)).await, told(Status::InvalidConfig, "partitions", &[8]));
    session.create("u", 4, TopicConfig::default()).await.unwrap();
    let s = &mut session;
    assert_eq!(refused(s, &grow("t", 6)).await, told(Status::TooLarge, "partitions", &[10]));
    assert_eq!(refused(s, &trim(TopicId(9), 0, 0)).await, told(Status::UnknownTopic, "topic", &[]));
    assert_eq!(refused(s, &trim(topic, 3, 0)).await, told(Status::UnknownPartition, "partition", &[3]));
    assert_eq!(refused(s, &trim(topic, 0, 2)).await, told(Status::OffsetOutOfRange, "offset", &[0, 1]));
    server.stop().await;
}

#[tokio::test]
async fn a_topic_is_altered_grown_and_trimmed_and_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    for payload in [b"a", b"b", b"c"] {
        session.produce(topic, 0, &message(payload)).await.unwrap();
    }
    let asked = TopicConfig { retention_bytes: Some(1 << 20), compaction: Some(true), ..TopicConfig::default() };
    let altered = session.call(&alter("t", asked)).await.unwrap().config;
    assert_eq!(
        (altered.retention_bytes, altered.compaction, altered.durability),
        (Some(1 << 20), Some(true), Some(Durability::Sync))
    );
    assert_eq!(session.produce(topic, 0, &message(b"no key")).await.unwrap_err().status, Status::KeyRequired);
    session.call(&alter("t", TopicConfig { compaction: Some(false), ..TopicConfig::default() })).await.unwrap();
    session.produce(topic, 0, &message(b"no key")).await.unwrap();
    assert_eq!(session.call(&grow("t", 3)).await.unwrap().partitions, 3);
    assert_eq!(session.call(&grow("t", 3)).await.unwrap().partitions, 3);
    session.produce(topic, 2, &message(b"in a new one")).await.unwrap();
    assert_eq!(session.call(&trim(topic, 0, 2)).await.unwrap().log_start, Offset(2));
    // Already gone: nothing to do.
    assert_eq!(session.call(&trim(topic, 0, 1)).await.unwrap().log_start, Offset(2));
    assert_eq!(session.call(&trim(topic, 2, u64::MAX)).await.unwrap().log_start, Offset(1));
    server.stop().await;

    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let request = MetadataRequest { topics: TopicSelection::Ids(vec![topic]), create_missing: false };
    let described = session.call(&request).await.unwrap().topics.remove(0);
    let bounds: Vec<_> = described.partitions.iter().map(|p| (p.log_start.0, p.high_watermark.0, p.log_bytes > 0)).collect();
    assert_eq!(bounds, [(2, 4, true), (0, 0, false), (1, 1, true)]);
    assert_eq!((described.config.retention_bytes, described.config.compaction), (Some(1 << 20), Some(false)));
    for (count, offset) in [(1, 3), (2, 2), (0, 4), (100, 2)] {
        let request = ListOffsetsRequest { topic, partition: PartitionId(0), query: OffsetQuery::Last(count) };
        assert_eq!(session.call(&request).await.unwrap().offset, Offset(offset), "the last {count}");
    }
    server.stop().await;
}

#[tokio::test]
async fn the_broker_tells_what_it_is_and_how_it_fares() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.described_settings = vec![("threads".into(), "2".into())];
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 3, TopicConfig::default()).await.unwrap();
    session.produce(topic, 1, &message(&[7; 1000])).await.unwrap();
    let told = session.call(&DescribeBrokerRequest).await.unwrap();
    assert!(told.broker.starts_with("hermitmq "), "{}", told.broker);
    assert_eq!((told.broker_id, told.instance), (server.broker.broker_id(), server.broker.instance()));
    assert_eq!((told.topics, told.partitions, told.groups, told.connections), (1, 3, 0, 1));
    assert_eq!((told.max_connections, told.max_inflight_bytes), (10_000, 256 << 20));
    assert!((1000..2000).contains(&told.log_bytes), "{} bytes", told.log_bytes);
    assert!(told.free_bytes > 0 && told.started_at > 0 && told.leader_epoch.0 > 0);
    assert_eq!(told.settings, [BrokerSetting { name: "threads".into(), value: "2".into() }]);
    // Limits that were changed since are told to who was there before.
    let mut changed = server.broker.config().clone();
    (changed.limits.max_connections, changed.limits.disk_low_bytes) = (77, 1);
    server.broker.reconfigure(&changed).unwrap();
    let told = session.call(&DescribeBrokerRequest).await.unwrap();
    assert_eq!((told.max_connections, told.figures.unwrap().disk_low_bytes), (77, 1));
    server.stop().await;
}

#[test]
fn the_same_in_process() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::open(BrokerConfig::new(dir.path())).unwrap();
    let topic = broker.create_topic("t", 1, &TopicConfig::default()).unwrap();
    let name = topic.meta.name.clone();
    let grown = broker.add_partitions(&name, 2).unwrap();
    assert_eq!((grown.meta.id, grown.partitions().len()), (topic.meta.id, 2));
    let mut batch = broker.parse(BytesMut::from(&message(b"x")[..])).unwrap();
    let partition = broker.writable(topic.meta.id, PartitionId(1)).unwrap();
    broker.append(&partition, &mut batch).unwrap().wait().unwrap();
    assert_eq!(broker.trim(topic.meta.id, PartitionId(1), Offset(u64::MAX)).unwrap(), Offset(1));
    let settings = broker.alter_topic(&name, &TopicConfig { retention_age_ms: Some(5), ..TopicConfig::default() }).unwrap();
    assert_eq!(settings.meta.settings.retention_age_ms, 5);
    broker.close().unwrap();
    assert!(broker.trim(topic.meta.id, PartitionId(1), Offset(1)).is_err());
    assert!(broker.add_partitions(&name, 3).is_err());
}
