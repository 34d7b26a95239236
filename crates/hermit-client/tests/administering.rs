//! Looking after topics, groups and the broker, at a real one.

mod support;

use std::collections::HashMap;
use std::time::Duration;

use hermit_client::{
    Error, GroupState, MemberId, Offset, OffsetQuery, Otherwise, PartitionId, ProducerRecord, Start, Status, TopicConfig,
};
use support::{PATIENCE, TestBroker, create, drain, within};

#[tokio::test]
async fn a_running_producer_and_its_keys_follow_partitions_that_are_added() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 2).await;
    let producer = client.producer().linger(Duration::ZERO).metadata_max_age(Duration::from_millis(50)).build().unwrap();
    let send = async |number: u32| {
        let key = (number % 40).to_string();
        within(producer.send("t", ProducerRecord::new(&number.to_string()).key(&key))).await.unwrap().partition.0
    };
    for number in 0..80 {
        assert!(send(number).await < 2);
    }
    assert_eq!(client.admin().add_partitions("t", 6).await.unwrap(), 6);
    let mut number = 80;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while send(number).await < 2 {
        assert!(tokio::time::Instant::now() < deadline, "it keeps to the old partitions");
        number += 1;
    }
    // From here on each key has one partition of six.
    let mut homes = HashMap::new();
    for number in 1000..1080 {
        let home = send(number).await;
        assert_eq!(*homes.entry(number % 40).or_insert(home), home);
    }
    assert_eq!(homes.values().collect::<std::collections::HashSet<_>>().len(), 6);
    producer.close().await.unwrap();
    let fewer = client.admin().add_partitions("t", 3).await.unwrap_err();
    assert_eq!(fewer.status(), Some(Status::InvalidConfig), "{fewer}");
}

#[tokio::test]
async fn a_running_producer_follows_compaction_that_is_turned_on() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let producer = client.producer().metadata_max_age(Duration::from_secs(3600)).build().unwrap();
    let record = ProducerRecord::new("v").key("k");
    within(producer.send_batch("t", &[record; 5])).await.unwrap();
    let on = TopicConfig { compaction: Some(true), ..TopicConfig::default() };
    assert_eq!(client.admin().alter_topic("t", on).await.unwrap().compaction, Some(true));
    // The refusal of one batch is what it learns from.
    let refused = within(producer.send_batch("t", &[record; 5])).await.unwrap_err();
    assert_eq!(refused.status(), Some(Status::RecordSetNotAllowed), "{refused}");
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while within(producer.send_batch("t", &[record; 5])).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "it goes on sending sets");
    }
}

#[tokio::test]
async fn topics_are_altered_trimmed_and_looked_at() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let admin = client.admin();
    create(&client, "t", 1).await;
    let producer = client.producer().batch_bytes(200).build().unwrap();
    let value = [1u8; 60];
    within(producer.send_batch("t", &[ProducerRecord::new(&value); 20])).await.unwrap();
    let altered = admin.alter_topic("t", TopicConfig { retention_bytes: Some(1 << 30), ..TopicConfig::default() }).await.unwrap();
    assert_eq!(altered.retention_bytes, Some(1 << 30));
    assert_eq!(admin.describe_topic("t").await.unwrap().config, altered);
    assert_eq!(admin.list_offsets("t", 0, OffsetQuery::Last(5)).await.unwrap().offset, Offset(15));
    let start = admin.trim("t", 0, Offset(10)).await.unwrap();
    assert_eq!(admin.list_offsets("t", 0, OffsetQuery::Earliest).await.unwrap().offset, start);
    assert!(start <= Offset(10) && start > Offset(0), "{start}");
    assert!(matches!(admin.trim("x", 0, Offset(1)).await, Err(Error::UnknownTopic { .. })));
    assert!(matches!(admin.trim("t", 7, Offset(1)).await, Err(Error::UnknownPartition { .. })));
    let broker_now = admin.describe_broker().await.unwrap();
    assert_eq!((broker_now.topics, broker_now.partitions), (1, 1));
}

#[tokio::test]
async fn groups_are_listed_described_moved_and_deleted() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let admin = client.admin();
    create(&client, "t", 2).await;
    let producer = client.producer().build().unwrap();
    for partition in [0u32, 1] {
        within(producer.send_batch("t", &[ProducerRecord::new("v").partition(partition); 10])).await.unwrap();
    }
    assert!(matches!(admin.describe_group("g").await, Err(Error::UnknownGroup { .. })));
    let positions = [("t", PartitionId(0), Offset(4)), ("t", PartitionId(1), Offset(10))];
    admin.commit_group("g", &positions).await.unwrap();
    let beyond = admin.commit_group("g", &[("t", PartitionId(0), Offset(11))]).await.unwrap_err();
    assert_eq!(beyond.status(), Some(Status::CommitBeyondEnd), "{beyond}");
    assert!(matches!(admin.commit_group("g", &[("x", PartitionId(0), Offset(0))]).await, Err(Error::UnknownTopic { .. })));
    let listed = admin.list_groups().await.unwrap();
    assert_eq!(listed.iter().map(|group| (group.name.as_str(), group.state)).collect::<Vec<_>>(), [("g", GroupState::Empty)]);
    let described = admin.describe_group("g").await.unwrap();
    assert_eq!(described.partitions.iter().map(|partition| partition.lag).collect::<Vec<_>>(), [6, 0]);
    assert!(described.partitions.iter().all(|partition| partition.owner == MemberId::NONE));
    // What was set is where a reader begins.
    let mut consumer = client.consumer().group("g").build().unwrap();
    consumer.assign_topic("t", Start::Committed { or: Otherwise::Earliest }).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    assert_eq!(drain(&mut consumer).await.len(), 6);
    admin.delete_group("g").await.unwrap();
    assert!(matches!(admin.delete_group("g").await, Err(Error::UnknownGroup { .. })));
    assert_eq!(admin.committed("g", "t", 0).await.unwrap(), None);
}
