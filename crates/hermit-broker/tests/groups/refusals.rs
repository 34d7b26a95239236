//! What is refused, with the field at fault.

use std::time::Duration;

use hermit_proto::session::{AssignmentStrategy, DeleteGroupRequest, DescribeGroupRequest, JoinGroupRequest, Status, WireError};
use hermit_proto::{Generation, MemberId, PartitionId};

use super::member::{Member, World, commit, committed, group_config, short_join_request as join_request};
use super::support::v1;
use super::support::v2::Session;

async fn refusal(world: &World, request: JoinGroupRequest) -> (Status, String) {
    match Member::join(world, request).await {
        Ok(_) => (Status::Ok, String::new()),
        Err(WireError { status, field, .. }) => (status, field),
    }
}

#[tokio::test]
async fn joins_that_break_a_rule_or_a_limit_say_which() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = group_config(dir.path());
    config.limits.max_group_members = 2;
    config.limits.max_active_groups = 2;
    config.limits.max_member_subscriptions = 3;
    config.limits.max_pattern_bytes = 10;
    let world = World::with(config).await;
    let plain = || join_request("g", 1, &["orders"]);
    let told = |status, field: &str| (status, field.to_owned());
    for (request, expected) in [
        (JoinGroupRequest { group: String::new(), ..plain() }, told(Status::InvalidName, "group")),
        (JoinGroupRequest { group: "__g".into(), ..plain() }, told(Status::InvalidName, "group")),
        (JoinGroupRequest { member: MemberId::NONE, ..plain() }, told(Status::Malformed, "member")),
        (JoinGroupRequest { session_timeout_ms: 999, ..plain() }, told(Status::InvalidConfig, "session_timeout_ms")),
        (JoinGroupRequest { session_timeout_ms: u32::MAX, ..plain() }, told(Status::InvalidConfig, "session_timeout_ms")),
        (JoinGroupRequest { processing_timeout_ms: 1, ..plain() }, told(Status::InvalidConfig, "processing_timeout_ms")),
        (JoinGroupRequest { topics: vec!["__consumer_offsets".into()], ..plain() }, told(Status::InvalidName, "topics")),
        (JoinGroupRequest { topics: vec!["a".into(); 4], ..plain() }, told(Status::TooLarge, "topics")),
        (JoinGroupRequest { patterns: vec!["(".into()], ..plain() }, told(Status::InvalidPattern, "patterns")),
        (JoinGroupRequest { patterns: vec!["a".repeat(11)], ..plain() }, told(Status::InvalidPattern, "patterns")),
    ] {
        assert_eq!(refusal(&world, request).await, expected);
    }
    // Nothing of all this has left a group behind.
    assert!(world.server.broker.list_groups("", 0).unwrap().groups.is_empty());
    let _first = Member::join(&world, plain()).await.unwrap();
    let range = JoinGroupRequest { strategy: AssignmentStrategy::Range, member: MemberId(2), ..plain() };
    assert_eq!(refusal(&world, range).await, told(Status::InconsistentStrategy, "strategy"));
    // Whoever is alone may change its mind.
    let range = JoinGroupRequest { strategy: AssignmentStrategy::Range, ..plain() };
    let first = Member::join(&world, range.clone()).await.unwrap();
    let second = Member::join(&world, JoinGroupRequest { member: MemberId(2), ..range.clone() }).await.unwrap();
    let third = JoinGroupRequest { member: MemberId(3), ..range };
    assert_eq!(refusal(&world, third).await, told(Status::TooManyMembers, "group"));
    let other = Member::join(&world, join_request("g2", 1, &[])).await.unwrap();
    assert_eq!(refusal(&world, join_request("g3", 1, &[])).await, told(Status::TooManyMembers, "group"));
    drop((first, second, other));
    world.pass(Duration::from_secs(11));
    assert_eq!(refusal(&world, join_request("g3", 1, &[])).await, told(Status::Ok, ""));
    world.stop().await;
}

#[tokio::test]
async fn a_version_that_was_never_told_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut member = Member::join(&world, join_request("g", 1, &[])).await.unwrap();
    member.version += 1;
    let refused = member.beat().await.unwrap_err();
    assert_eq!((refused.status, refused.field.as_str()), (Status::Malformed, "version"));
    world.stop().await;
}

#[tokio::test]
async fn a_group_with_members_takes_commits_from_them_only() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 1).await;
    world.produce(topic, 0, 5).await;
    let of = (topic, PartitionId(0));
    let mut other = Session::open(&world.server).await;
    assert!(v1::commit(&world.server, "g", "orders", 0, 1).await);
    assert_eq!(commit(&mut other, "g", MemberId::NONE, of, Generation(0), 2).await.unwrap(), Status::Ok);
    let mut member = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let refused = commit(&mut other, "g", MemberId::NONE, of, Generation(0), 3).await.unwrap_err();
    assert_eq!((refused.status, refused.field.as_str()), (Status::GroupActive, "group"));
    assert!(!v1::commit(&world.server, "g", "orders", 0, 3).await);
    assert!(v1::commit(&world.server, "another", "orders", 0, 3).await);
    let refused = other.call(&DeleteGroupRequest { group: "g".into() }).await.unwrap_err();
    assert_eq!(refused.status, Status::GroupActive);
    assert_eq!(committed(&mut other, "g", of).await, Some(2));
    let position = hermit_broker::Position {
        topic,
        partition: PartitionId(0),
        offset: hermit_proto::Offset(4),
        leader_epoch: hermit_proto::LeaderEpoch::UNKNOWN,
    };
    let group = "g".parse().unwrap();
    assert!(world.server.broker.commit(&group, &[position]).is_err());
    member.leave().await.unwrap();
    assert!(v1::commit(&world.server, "g", "orders", 0, 3).await);
    world.server.broker.commit(&group, &[position]).unwrap().wait().unwrap();
    assert_eq!(committed(&mut other, "g", of).await, Some(4));
    other.call(&DeleteGroupRequest { group: "g".into() }).await.unwrap();
    assert_eq!(committed(&mut other, "g", of).await, None);
    for unknown in [
        other.call(&DeleteGroupRequest { group: "g".into() }).await.map(drop).unwrap_err(),
        other.call(&DescribeGroupRequest { group: "g".into() }).await.map(drop).unwrap_err(),
    ] {
        assert_eq!((unknown.status, unknown.field.as_str()), (Status::UnknownGroup, "group"));
    }
    // And it stays deleted.
    let clock = world.clock.clone();
    world.stop().await;
    let world = World::at(group_config(dir.path()), clock).await;
    assert_eq!(committed(&mut Session::open(&world.server).await, "g", of).await, None);
    assert_eq!(committed(&mut Session::open(&world.server).await, "another", of).await, Some(3));
    world.stop().await;
}
