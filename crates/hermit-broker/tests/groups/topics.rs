//! Topics that come, grow and go while groups ask for them.

use hermit_broker::TopicConfig;
use hermit_proto::PartitionId;
use hermit_proto::session::Status;

use super::member::{LONG_MS, Member, World, join_request};
use super::support::within;

#[tokio::test]
async fn a_topic_that_comes_to_be_is_told_at_once_to_whoever_asks_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let broker = &world.server.broker;
    let mut by_name = Member::join(&world, join_request("names", 1, &["odrers"])).await.unwrap();
    let mut request = join_request("patterns", 2, &[]);
    request.patterns = vec![r"logs\..*|orders".into()];
    let mut by_pattern = Member::join(&world, request).await.unwrap();
    // Asking for a topic does not make it.
    assert!(broker.topics().iter().all(|topic| topic.meta.name.is_internal()));
    let waiting = by_pattern.park(LONG_MS).await;
    broker.create_topic("logs.app", 2, &TopicConfig::default()).unwrap();
    within(by_pattern.parked(waiting)).await.unwrap();
    assert_eq!(by_pattern.holds.len(), 2);
    let waiting = by_name.park(LONG_MS).await;
    broker.create_topic("odrers", 1, &TopicConfig::default()).unwrap();
    within(by_name.parked(waiting)).await.unwrap();
    assert_eq!(by_name.partitions(), [0]);
    by_pattern.beat().await.unwrap();
    assert_eq!(by_pattern.holds.len(), 2);
    world.stop().await;
}

#[tokio::test]
async fn the_partitions_of_a_deleted_topic_are_nobodys_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let (orders, logs) = (world.topic("orders", 2).await, world.topic("logs", 2).await);
    let mut member = Member::join(&world, join_request("g", 1, &["orders", "logs"])).await.unwrap();
    assert_eq!(member.holds.len(), 4);
    let of = (orders, PartitionId(0));
    let since = member.holds[&of];
    let waiting = member.park(LONG_MS).await;
    world.server.broker.delete_topic(&"orders".parse().unwrap()).unwrap();
    within(member.parked(waiting)).await.unwrap();
    assert_eq!(member.giving_up, [of, (orders, PartitionId(1))].map(|of| of));
    assert_eq!(member.commit(of, since, 0).await.unwrap(), Status::UnknownTopic);
    member.give_up();
    assert!(member.holds.keys().all(|(topic, _)| *topic == logs));
    // Under the same name another topic comes to be, which is another topic.
    let again = world.topic("orders", 1).await;
    member.beat().await.unwrap();
    assert!(member.holds.contains_key(&(again, PartitionId(0))));
    world.stop().await;
}

#[tokio::test]
async fn partitions_that_are_added_are_told_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.topic("orders", 1).await;
    let mut member = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let before = member.holds.clone();
    let waiting = member.park(LONG_MS).await;
    world.server.broker.add_partitions(&"orders".parse().unwrap(), 3).unwrap();
    within(member.parked(waiting)).await.unwrap();
    assert_eq!(member.partitions(), [0, 1, 2]);
    assert!(before.iter().all(|(of, since)| member.holds[of] == *since), "what it had it has had all the time");
    world.stop().await;
}

#[tokio::test]
async fn a_member_that_asks_for_something_else_gives_up_what_it_no_longer_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let (orders, logs) = (world.topic("orders", 1).await, world.topic("logs", 1).await);
    let mut first = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let mut second = Member::join(&world, join_request("g", 2, &["orders"])).await.unwrap();
    first.request.topics = vec!["logs".into()];
    let joined = first.session.call(&first.request).await.unwrap();
    first.take_up(&joined.assignment);
    assert_eq!(first.giving_up, [(orders, PartitionId(0))]);
    assert!(first.holds.contains_key(&(logs, PartitionId(0))));
    second.beat().await.unwrap();
    assert!(second.holds.is_empty());
    first.give_up();
    first.beat().await.unwrap();
    second.beat().await.unwrap();
    assert_eq!(second.partitions(), [0]);
    world.stop().await;
}
