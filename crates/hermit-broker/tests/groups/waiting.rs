//! Heartbeats that wait, and what they leave behind.

use std::time::Duration;

use hermit_proto::session::{GoodbyeRequest, GoodbyeResponse, Status};

use super::member::{LONG_MS, Member, World, group_config, join_request};
use super::support::v2::Session;
use super::support::{eventually, within};

/// A session timeout whose third no test outlasts.
const HOUR_MS: u32 = 3_600_000;

#[tokio::test]
async fn a_newer_heartbeat_and_the_end_of_the_membership_answer_an_older_one() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.topic("orders", 1).await;
    let mut member = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let older = member.park(LONG_MS).await;
    let newer = member.park(LONG_MS).await;
    within(member.parked(older)).await.unwrap();
    assert_eq!(world.server.broker.group_members(), (1, 1));
    within(member.leave()).await.unwrap();
    assert_eq!(within(member.parked(newer)).await.unwrap_err().status, Status::UnknownMember);
    assert_eq!(world.server.broker.group_members(), (0, 0));
    world.stop().await;
}

#[tokio::test]
async fn a_wait_ends_by_itself_and_with_the_session() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut request = join_request("g", 1, &[]);
    // The broker cuts a wait to a third of this.
    request.session_timeout_ms = 1000;
    let mut member = Member::join(&world, request).await.unwrap();
    let waiting = member.park(20).await;
    within(member.parked(waiting)).await.unwrap();
    let waiting = member.park(LONG_MS).await;
    within(member.parked(waiting)).await.unwrap();
    let waiting = member.park(LONG_MS).await;
    let goodbye = member.session.request(&GoodbyeRequest).await;
    within(member.parked(waiting)).await.unwrap();
    let _bye: GoodbyeResponse = member.session.response(goodbye).await.unwrap();
    world.stop().await;
}

#[tokio::test]
async fn a_stop_answers_heartbeats_that_wait() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let mut member = Member::join(&world, join_request("g", 1, &[])).await.unwrap();
    let waiting = member.park(LONG_MS).await;
    eventually("it waits", || world.server.broker.group_members() == (1, 1)).await;
    within(world.stop()).await;
    within(member.parked(waiting)).await.unwrap();
}

#[tokio::test]
async fn a_new_group_waits_a_moment_so_that_members_that_start_together_share_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = group_config(dir.path());
    config.limits.group_initial_delay = Duration::from_millis(100);
    let world = World::with(config).await;
    world.topic("orders", 4).await;
    let mut first = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let mut second = Member::join(&world, join_request("g", 2, &["orders"])).await.unwrap();
    assert!(first.holds.is_empty() && second.holds.is_empty());
    let (firsts, seconds) = (first.park(LONG_MS).await, second.park(LONG_MS).await);
    eventually("both wait", || world.server.broker.group_members() == (2, 2)).await;
    // No round of maintenance is needed: the sessions look at the group when its time has come.
    world.clock.advance(Duration::from_millis(100));
    within(first.parked(firsts)).await.unwrap();
    within(second.parked(seconds)).await.unwrap();
    assert_eq!((first.holds.len(), second.holds.len()), (2, 2));
    world.stop().await;
}

#[tokio::test]
async fn a_thousand_members_that_join_and_vanish_leave_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.topic("orders", 8).await;
    eventually("the creator is gone", || world.server.broker.connections() == 0).await;
    let handles = world.server.broker.handles();
    for round in 0..10 {
        let mut sessions = Vec::new();
        for connection in 0..4 {
            let mut session = Session::open(&world.server).await;
            for member in 0..25 {
                let id = 1000 * (round + 1) + 100 * connection + member + 1;
                let group = format!("g{connection}-{member}");
                let mut request = join_request(&group, id, &["orders"]);
                request.session_timeout_ms = HOUR_MS;
                let mut member = Member::over(session, request).await.unwrap();
                let _waiting = member.park(LONG_MS).await;
                session = member.session;
            }
            sessions.push(session);
        }
        let all = (100 * (usize::try_from(round).unwrap() + 1), 100);
        eventually("all wait", || world.server.broker.group_members() == all).await;
        drop(sessions);
        eventually("nobody waits", || world.server.broker.group_members() == (all.0, 0)).await;
    }
    world.pass(Duration::from_millis(HOUR_MS.into()));
    assert_eq!(world.server.broker.group_members(), (0, 0));
    assert!(world.server.broker.list_groups("", 0).unwrap().groups.is_empty());
    eventually("no handle is left", || world.server.broker.handles() == handles).await;
    world.stop().await;
}
