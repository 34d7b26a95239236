//! Positions that are on their way to the disk, and many of them at once.

use std::sync::Arc;

use hermit_broker::{Broker, Position};
use hermit_log::disk::RealDisk;
use hermit_log::{Flusher, LogEnv, ManualClock};
use hermit_proto::session::{CommitEntry, CommitRequest, CommitResponse, FetchCommittedRequest, FetchCommittedResponse};
use hermit_proto::{Generation, GroupName, LeaderEpoch, MemberId, Offset, PartitionId, ProducedFrame};

use super::member::{World, group_config};
use super::support::v2::Session;
use super::support::{Server, eventually, within};

fn position(topic: hermit_proto::TopicId, offset: u64) -> Position {
    Position { topic, partition: PartitionId(0), offset: Offset(offset), leader_epoch: LeaderEpoch::UNKNOWN }
}

#[tokio::test]
async fn who_fetches_waits_for_commits_that_are_being_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000));
    let flusher = Flusher::manual(clock.clone());
    let env = LogEnv::new(Arc::new(RealDisk), clock, flusher.clone(), 64);
    let broker = Broker::open_with(group_config(dir.path()), env).unwrap();
    let topic = broker.create_topic("orders", 2, &Default::default()).unwrap();
    let id = topic.meta.id;
    let frames: Vec<_> = (0..5).flat_map(|_| ProducedFrame::message(7, None, b"x").to_vec().unwrap()).collect();
    let mut batch = broker.parse(frames[..].into()).unwrap();
    broker.append(topic.partition(PartitionId(0)).unwrap(), &mut batch).unwrap();
    flusher.run_until_idle();
    let server = Server::serve(broker).await;
    let (mut one, mut two) = (Session::open(&server).await, Session::open(&server).await);
    let entry = CommitEntry {
        topic: id,
        partition: PartitionId(0),
        offset: Offset(3),
        leader_epoch: LeaderEpoch::UNKNOWN,
        generation: Generation(0),
    };
    let commit = one.request(&CommitRequest { group: "g".into(), entries: vec![entry], member: MemberId::NONE }).await;
    let group = GroupName::new("g").unwrap();
    let offsets = server.broker.topic(&"__consumer_offsets".parse().unwrap()).unwrap();
    let offsets = offsets.partition(PartitionId(0)).unwrap().clone();
    eventually("the commit waits for the flush", || offsets.waiters() == 1).await;
    assert_eq!(server.broker.committed(&group, id, PartitionId(0)).unwrap(), None);
    // Another partition's position is not held up.
    let fetch = |partition| FetchCommittedRequest { group: "g".into(), partitions: vec![(id, PartitionId(partition))] };
    let other = within(two.call(&fetch(1))).await.unwrap();
    assert_eq!(other.positions[0].offset, None);
    let fetched = two.request(&fetch(0)).await;
    eventually("the fetch waits for it too", || offsets.waiters() == 2).await;
    flusher.run_until_idle();
    let _committed: CommitResponse = within(one.response(commit)).await.unwrap();
    let fetched: FetchCommittedResponse = within(two.response(fetched)).await.unwrap();
    assert_eq!(fetched.positions[0].offset, Some(Offset(3)));
    assert_eq!(offsets.waiters(), 0);
    drop(one);
    server.stop().await;
}

/// Whichever commit came last: the state is what a replay of its log gives.
#[tokio::test]
async fn many_commits_at_once_for_one_key_are_the_same_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let group = GroupName::new("g").unwrap();
    for round in 0..5 {
        let broker = Broker::open(group_config(dir.path())).unwrap();
        let name = "orders".parse().unwrap();
        if round == 0 {
            let topic = broker.create_topic("orders", 1, &Default::default()).unwrap();
            let frames: Vec<_> = (0..100).flat_map(|_| ProducedFrame::message(7, None, b"x").to_vec().unwrap()).collect();
            let mut batch = broker.parse(frames[..].into()).unwrap();
            broker.append(topic.partition(PartitionId(0)).unwrap(), &mut batch).unwrap().wait().unwrap();
        }
        let topic = broker.topic(&name).unwrap().meta.id;
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (broker, group) = (&broker, &group);
                scope.spawn(move || {
                    let commit = |offset| broker.commit(group, &[position(topic, offset)]).unwrap();
                    let tickets: Vec<_> = (0..100).map(|at| commit((at * 7 + thread * 13) % 100)).collect();
                    tickets.iter().for_each(|ticket| ticket.wait().unwrap());
                });
            }
        });
        let before = broker.committed(&group, topic, PartitionId(0)).unwrap().unwrap();
        broker.close().unwrap();
        drop(broker);
        let broker = Broker::open(group_config(dir.path())).unwrap();
        assert_eq!(broker.committed(&group, topic, PartitionId(0)).unwrap().unwrap(), before, "round {round}");
        broker.close().unwrap();
    }
}

/// Members come and go while others commit in nobody's name: each commit is either refused, or was there before the member's first.
#[tokio::test]
async fn no_commit_in_nobodys_name_slips_past_a_member() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 1).await;
    world.produce(topic, 0, 100).await;
    let broker = world.server.broker.clone();
    let group = GroupName::new("g").unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (stopped, committing) = (Arc::clone(&stop), broker.clone());
    let thread = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            // Refused or not: never while the member is in the group.
            drop(committing.commit(&group, &[position(topic, 99)]));
        }
    });
    for round in 0..30 {
        let mut member =
            super::member::Member::join(&world, super::member::join_request("g", round + 1, &["orders"])).await.unwrap();
        let of = (topic, PartitionId(0));
        let since = member.holds[&of];
        assert!(member.commit(of, since, 5).await.unwrap().is_ok());
        assert_eq!(super::member::committed(&mut member.session, "g", of).await, Some(5));
        member.leave().await.unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    thread.join().unwrap();
    world.stop().await;
}
