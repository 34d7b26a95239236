//! Topics are told, listed and deleted.

use hermit_proto::magic;
use hermit_proto::session::{
    DeleteTopicRequest, Durability, ListTopicsRequest, MetadataRequest, Status, TopicConfig, TopicSelection,
};

use crate::support::Server;
use crate::support::v2::Session;

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
