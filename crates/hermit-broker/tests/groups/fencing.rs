//! Members that are silent, slow, or cut off.

use std::time::Duration;

use hermit_proto::PartitionId;
use hermit_proto::session::Status;

use super::member::{LONG_MS, Member, World, committed, short_join_request as join_request};
use super::support::v2::Session;
use super::support::{eventually, within};

#[tokio::test]
async fn a_zombie_is_told_so_and_commits_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 1).await;
    world.produce(topic, 0, 10).await;
    let of = (topic, PartitionId(0));
    let mut zombie = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let since = zombie.holds[&of];
    let mut other = Member::join(&world, join_request("g", 2, &["orders"])).await.unwrap();
    // The one is silent, the other is not.
    world.pass(Duration::from_secs(6));
    other.beat().await.unwrap();
    let waiting = other.park(LONG_MS).await;
    world.pass(Duration::from_secs(5));
    within(other.parked(waiting)).await.unwrap();
    assert_eq!(other.partitions(), [0]);
    assert_eq!(other.commit(of, other.holds[&of], 8).await.unwrap(), Status::Ok);
    assert_eq!(zombie.commit(of, since, 3).await.unwrap_err().status, Status::UnknownMember);
    let refused = zombie.beat().await.unwrap_err();
    assert_eq!((refused.status, refused.field.as_str()), (Status::UnknownMember, "member"));
    assert_eq!(committed(&mut zombie.session, "g", of).await, Some(8));
    // Even under its old id it does not get the old generation back.
    let mut again = Member::over(zombie.session, zombie.request).await.unwrap();
    assert_eq!(again.commit(of, since, 3).await.unwrap(), Status::StaleGeneration);
    world.stop().await;
}

#[tokio::test]
async fn a_heartbeat_that_waits_is_no_sign_of_life_and_hears_of_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut member = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let waiting = member.park(LONG_MS).await;
    eventually("it waits", || world.server.broker.group_members() == (1, 1)).await;
    world.pass(Duration::from_secs(11));
    assert_eq!(within(member.parked(waiting)).await.unwrap_err().status, Status::UnknownMember);
    assert_eq!(world.server.broker.group_members(), (0, 0));
    world.stop().await;
}

#[tokio::test]
async fn who_does_not_give_up_in_time_is_put_out() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 2).await;
    let mut request = join_request("g", 1, &["orders"]);
    request.processing_timeout_ms = 30_000;
    let mut slow = Member::join(&world, request).await.unwrap();
    let mut other = Member::join(&world, join_request("g", 2, &["orders"])).await.unwrap();
    // The time counts from when it is told, not from when it was decided.
    world.pass(Duration::from_secs(5));
    slow.beat().await.unwrap();
    other.beat().await.unwrap();
    let moving = slow.giving_up[0];
    let since = slow.holds[&moving];
    for _ in 0..5 {
        world.pass(Duration::from_secs(5));
        slow.beat().await.unwrap();
        other.beat().await.unwrap();
    }
    assert_eq!(slow.commit(moving, since, 0).await.unwrap(), Status::Ok);
    assert!(other.holds.is_empty());
    let waiting = other.park(LONG_MS).await;
    world.pass(Duration::from_secs(5));
    within(other.parked(waiting)).await.unwrap();
    // With what it gave up it loses the rest: nobody knows what it is doing.
    assert_eq!(other.holds.len(), 2);
    assert!(other.holds.contains_key(&(topic, PartitionId(0))));
    assert_eq!(slow.commit(moving, since, 0).await.unwrap_err().status, Status::UnknownMember);
    world.stop().await;
}

#[tokio::test]
async fn a_broken_connection_does_not_end_the_membership() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 2).await;
    world.produce(topic, 0, 5).await;
    let of = (topic, PartitionId(0));
    let mut member = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let _waiting = member.park(LONG_MS).await;
    eventually("it waits", || world.server.broker.group_members() == (1, 1)).await;
    drop(member.session);
    eventually("nobody waits", || world.server.broker.group_members() == (1, 0)).await;
    world.pass(Duration::from_secs(9));
    let mut session = Session::open(&world.server).await;
    let since = member.holds[&of];
    // The same join again changes nothing: neither the version nor the grants.
    let again = session.call(&member.request).await.unwrap();
    assert_eq!(again.assignment.version, member.version);
    assert_eq!((again.session_timeout_ms, again.heartbeat_interval_ms), (10_000, 3333));
    member.session = session;
    assert_eq!(member.commit(of, since, 5).await.unwrap(), Status::Ok);
    world.pass(Duration::from_secs(9));
    member.beat().await.unwrap();
    assert_eq!(member.partitions(), [0, 1]);
    world.stop().await;
}

#[tokio::test]
async fn after_a_restart_old_ids_are_nobodys_and_claims_bring_back_what_was_held() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 4).await;
    world.produce(topic, 0, 10).await;
    let of = (topic, PartitionId(0));
    let mut first = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let mut second = Member::join(&world, join_request("g", 2, &["orders"])).await.unwrap();
    first.beat().await.unwrap();
    first.give_up();
    first.beat().await.unwrap();
    second.beat().await.unwrap();
    let (firsts, seconds) = (first.holds.clone(), second.holds.clone());
    let owner = if firsts.contains_key(&of) { &mut first } else { &mut second };
    assert_eq!(owner.commit(of, owner.holds[&of], 6).await.unwrap(), Status::Ok);
    let clock = world.clock.clone();
    world.stop().await;

    clock.advance(Duration::from_secs(1));
    let mut config = super::member::group_config(dir.path());
    config.limits.group_return_delay = Duration::from_secs(3);
    let world = World::at(config, clock).await;
    let mut session = Session::open(&world.server).await;
    // Nobody is in the group, and what was its member least of all.
    let (id, since) = (owner.id(), owner.holds[&of]);
    let refused = super::member::commit(&mut session, "g", id, of, since, 9).await.unwrap_err();
    assert_eq!(refused.status, Status::UnknownMember);
    // The second comes back first. What it claims it has at once; the rest waits for the first.
    let back = |id, held: &std::collections::BTreeMap<_, _>| {
        let mut request = join_request("g", id, &["orders"]);
        request.claims = held.keys().copied().collect();
        request
    };
    let mut second = Member::over(session, back(12, &seconds)).await.unwrap();
    assert!(second.holds.keys().eq(seconds.keys()));
    let generation = *second.holds.values().next().unwrap();
    assert!(seconds.values().chain(firsts.values()).all(|before| *before < generation));
    world.pass(Duration::from_secs(2));
    second.beat().await.unwrap();
    assert!(second.holds.keys().eq(seconds.keys()));
    let mut first = Member::join(&world, back(11, &firsts)).await.unwrap();
    assert!(first.holds.keys().eq(firsts.keys()));
    second.beat().await.unwrap();
    assert!(second.giving_up.is_empty());
    assert_eq!(committed(&mut first.session, "g", of).await, Some(6));
    world.stop().await;
}
