//! Members that mean ill.

use std::time::Duration;

use hermit_proto::session::JoinGroupRequest;
use tokio::time::Instant;

use super::member::{Member, World, join_request};
use super::support::v2::Session;

/// Patterns that take some 100 ms for each name of 250 `a`s.
fn slow_patterns() -> Vec<String> {
    (0..40).map(|number| format!(r"(?-u:(?:a*b*){{100}}{number})")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_patterns_hold_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    for number in 0..12 {
        world.topic(&format!("{}{number}", "a".repeat(250)), 1).await;
    }
    world.topic("orders", 1).await;
    let mut member = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let mut ill = Session::open(&world.server).await;
    let began = Instant::now();
    let request = JoinGroupRequest { patterns: slow_patterns(), ..join_request("g", 2, &[]) };
    let join = tokio::spawn(async move { ill.call(&request).await.map(|_| ill) });
    let mut longest = Duration::ZERO;
    while !join.is_finished() {
        let asked = Instant::now();
        member.beat().await.unwrap();
        longest = longest.max(asked.elapsed());
    }
    let took = began.elapsed();
    let _ill = join.await.unwrap().unwrap();
    assert!(longest < took / 3, "a heartbeat took {longest:?}, while a join took {took:?}");
    // Nor does a topic that is new.
    let began = Instant::now();
    let mut other = Session::open(&world.server).await;
    let create = tokio::spawn(async move { other.create(&"a".repeat(255), 1, Default::default()).await });
    let mut longest = Duration::ZERO;
    while !create.is_finished() {
        let asked = Instant::now();
        member.beat().await.unwrap();
        longest = longest.max(asked.elapsed());
    }
    let took = began.elapsed();
    create.await.unwrap().unwrap();
    assert!(
        longest < took.max(Duration::from_millis(60)) * 2 / 3,
        "a heartbeat took {longest:?}, while creating a topic took {took:?}"
    );
    world.stop().await;
}
