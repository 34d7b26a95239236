//! Lists, descriptions, and the expiry of positions.

use std::time::Duration;

use hermit_proto::session::{DescribeGroupRequest, GroupState, ListGroupsRequest, Status};
use hermit_proto::{Generation, MemberId, Offset, PartitionId};

use super::member::{Member, World, commit, committed, group_config, join_request};
use super::support::v2::Session;
use super::support::within;

#[tokio::test]
async fn a_description_tells_members_owners_and_lag_in_offsets_and_time() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 2).await;
    world.produce(topic, 0, 3).await;
    world.clock.advance(Duration::from_secs(2));
    world.produce(topic, 0, 4).await;
    let mut member = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let of = (topic, PartitionId(0));
    let since = member.holds[&of];
    world.clock.advance(Duration::from_secs(3));
    let request = DescribeGroupRequest { group: "g".into() };
    let described = member.session.call(&request).await.unwrap();
    assert_eq!((described.state, described.members.len()), (GroupState::Stable, 1));
    assert_eq!((described.members[0].client.as_str(), described.members[0].partitions), ("test", 2));
    assert_eq!(described.members[0].topics, ["orders"]);
    assert_eq!(described.members[0].address.parse::<std::net::SocketAddr>().unwrap().ip().to_string(), "127.0.0.1");
    let [first, second] = &described.partitions[..] else { panic!("{described:?}") };
    assert_eq!((first.name.as_str(), first.owner, first.generation), ("orders", MemberId(1), since));
    // Nothing was committed: the lag counts from the log start, 5 s ago.
    assert_eq!((first.committed, first.lag, first.lag_ms), (None, 7, 5000));
    assert_eq!((second.lag, second.lag_ms), (0, 0));
    assert_eq!(member.commit(of, since, 3).await.unwrap(), Status::Ok);
    let described = member.session.call(&request).await.unwrap();
    let first = &described.partitions[0];
    assert_eq!((first.committed, first.lag, first.lag_ms), (Some(Offset(3)), 4, 3000));
    assert_eq!((first.log_start, first.high_watermark), (Offset(0), Offset(7)));
    assert_eq!(member.commit(of, since, 7).await.unwrap(), Status::Ok);
    let described = member.session.call(&request).await.unwrap();
    assert_eq!((described.partitions[0].lag, described.partitions[0].lag_ms), (0, 0));
    // With a second member partitions are on their way.
    let mut second = Member::join(&world, join_request("g", 2, &["orders"])).await.unwrap();
    assert_eq!(second.session.call(&request).await.unwrap().state, GroupState::Rebalancing);
    member.leave().await.unwrap();
    second.leave().await.unwrap();
    let described = second.session.call(&request).await.unwrap();
    assert_eq!((described.state, described.generation, described.members.len()), (GroupState::Empty, Generation(0), 0));
    assert_eq!((described.partitions.len(), described.partitions[0].owner), (1, MemberId::NONE));
    // A position of a topic that is gone says so, until it is taken back for good.
    world.server.broker.delete_topic(&"orders".parse().unwrap()).unwrap();
    let refused = within(async {
        loop {
            match second.session.call(&request).await {
                Err(error) => break error,
                Ok(described) => {
                    let left = &described.partitions[0];
                    assert_eq!((left.status, left.name.as_str(), left.lag), (Status::UnknownTopic, "", 0));
                }
            }
        }
    });
    assert_eq!(refused.await.status, Status::UnknownGroup);
    world.stop().await;
}

#[tokio::test]
async fn lists_come_in_pages_with_and_without_members() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 3).await;
    let mut session = Session::open(&world.server).await;
    for group in ["a", "c", "e"] {
        assert_eq!(
            commit(&mut session, group, MemberId::NONE, (topic, PartitionId(0)), Generation(0), 0).await.unwrap(),
            Status::Ok
        );
    }
    let _b = Member::join(&world, join_request("b", 1, &["orders"])).await.unwrap();
    let _c = Member::join(&world, join_request("c", 1, &["orders"])).await.unwrap();
    let mut list = async |after: &str, limit| session.call(&ListGroupsRequest { after: after.into(), limit }).await.unwrap();
    let first = list("", 2).await;
    let lines: Vec<_> = first.groups.iter().map(|line| (line.name.as_str(), line.state, line.members, line.partitions)).collect();
    assert_eq!(lines, [("a", GroupState::Empty, 0, 1), ("b", GroupState::Stable, 1, 3)]);
    assert!(first.more);
    let second = list("b", 2).await;
    let lines: Vec<_> = second.groups.iter().map(|line| (line.name.as_str(), line.state, line.members, line.partitions)).collect();
    assert_eq!(lines, [("c", GroupState::Stable, 1, 3), ("e", GroupState::Empty, 0, 1)]);
    assert!(!second.more);
    assert!(list("e", 0).await.groups.is_empty());
    world.stop().await;
}

#[tokio::test]
async fn positions_expire_only_when_a_setting_says_so_and_nobody_is_in_the_group() {
    let dir = tempfile::tempdir().unwrap();
    let day = Duration::from_secs(24 * 3600);
    let of_topic = |topic| (topic, PartitionId(0));
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 1).await;
    let mut session = Session::open(&world.server).await;
    commit(&mut session, "idle", MemberId::NONE, of_topic(topic), Generation(0), 0).await.unwrap();
    world.pass(day * 1000);
    assert_eq!(committed(&mut session, "idle", of_topic(topic)).await, Some(0), "no setting, no expiry");
    let clock = world.clock.clone();
    world.stop().await;

    let mut config = group_config(dir.path());
    config.offsets_retention = Some(day);
    let world = World::at(config.clone(), clock).await;
    let mut session = Session::open(&world.server).await;
    commit(&mut session, "busy", MemberId::NONE, of_topic(topic), Generation(0), 0).await.unwrap();
    commit(&mut session, "used", MemberId::NONE, of_topic(topic), Generation(0), 0).await.unwrap();
    let mut request = join_request("busy", 1, &["orders"]);
    request.session_timeout_ms = 20 * 3600 * 1000;
    let mut member = Member::join(&world, request).await.unwrap();
    for _ in 0..3 {
        world.pass(day / 2);
        member.beat().await.unwrap();
        commit(&mut session, "used", MemberId::NONE, of_topic(topic), Generation(0), 0).await.unwrap();
    }
    assert_eq!(committed(&mut session, "idle", of_topic(topic)).await, None);
    assert_eq!(committed(&mut session, "busy", of_topic(topic)).await, Some(0), "a member is in it");
    assert_eq!(committed(&mut session, "used", of_topic(topic)).await, Some(0), "it commits");
    // The time counts from when the last member has left.
    member.leave().await.unwrap();
    world.pass(day / 2);
    assert_eq!(committed(&mut session, "busy", of_topic(topic)).await, Some(0));
    world.pass(day);
    assert_eq!(committed(&mut session, "busy", of_topic(topic)).await, None);
    let clock = world.clock.clone();
    world.stop().await;
    let world = World::at(config, clock).await;
    assert!(world.server.broker.list_groups("", 0).unwrap().groups.is_empty(), "they come back");
    world.stop().await;
}
