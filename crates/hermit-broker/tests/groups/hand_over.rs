//! A partition on its way from one member to another.

use hermit_proto::session::Status;
use hermit_proto::{Generation, PartitionId};

use super::member::{LONG_MS, Member, World, committed, join_request};
use super::support::within;

#[tokio::test]
async fn the_old_owner_commits_before_the_new_one_begins() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 4).await;
    for partition in 0..4 {
        world.produce(topic, partition, 10).await;
    }
    let mut first = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    assert_eq!(first.partitions(), [0, 1, 2, 3]);
    let waiting = first.park(LONG_MS).await;
    let mut second = Member::join(&world, join_request("g", 2, &["orders"])).await.unwrap();
    assert!(second.holds.is_empty(), "nothing is free yet");
    // The first hears of it without delay.
    within(first.parked(waiting)).await.unwrap();
    assert_eq!(first.giving_up.len(), 2);
    let seconds_turn = second.park(LONG_MS).await;
    // Saying that it has heard is not giving up.
    first.beat().await.unwrap();
    let moving = first.giving_up[0];
    let since = first.holds[&moving];
    assert_eq!(first.commit(moving, since, 7).await.unwrap(), Status::Ok);
    first.give_up();
    first.beat().await.unwrap();
    within(second.parked(seconds_turn)).await.unwrap();
    assert_eq!(second.holds.len(), 2);
    assert_eq!(committed(&mut second.session, "g", moving).await, Some(7));
    // From now on only the second commits there.
    assert_eq!(first.commit(moving, since, 8).await.unwrap(), Status::StaleGeneration);
    let now_since = second.holds[&moving];
    assert!(now_since > since);
    assert_eq!(first.commit(moving, now_since, 8).await.unwrap(), Status::StaleGeneration);
    assert_eq!(second.commit(moving, Generation(now_since.0 + 1), 9).await.unwrap(), Status::StaleGeneration);
    assert_eq!(second.commit(moving, now_since, 9).await.unwrap(), Status::Ok);
    assert_eq!(committed(&mut second.session, "g", moving).await, Some(9));
    world.stop().await;
}

#[tokio::test]
async fn what_is_not_told_yet_is_not_given_up_by_silence() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    world.topic("orders", 2).await;
    let mut first = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let known = first.version;
    let mut second = Member::join(&world, join_request("g", 2, &["orders"])).await.unwrap();
    // A heartbeat that was sent before the news, and left out a partition that it has not begun to read.
    let kept = first.holds.clone();
    first.holds.clear();
    assert_eq!(first.version, known);
    let early = first.park(0).await;
    first.holds = kept;
    first.parked(early).await.unwrap();
    assert_eq!(first.giving_up.len(), 1);
    second.beat().await.unwrap();
    assert!(second.holds.is_empty(), "it was taken away before it was given up");
    first.give_up();
    first.beat().await.unwrap();
    second.beat().await.unwrap();
    assert_eq!(second.holds.len(), 1);
    world.stop().await;
}

#[tokio::test]
async fn who_leaves_gives_everything_to_the_others_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 3).await;
    let mut first = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let mut second = Member::join(&world, join_request("g", 2, &["orders"])).await.unwrap();
    first.beat().await.unwrap();
    first.give_up();
    first.beat().await.unwrap();
    second.beat().await.unwrap();
    assert_eq!((first.holds.len(), second.holds.len()), (2, 1));
    let waiting = second.park(LONG_MS).await;
    let of = (topic, PartitionId(0));
    let since = first.holds[&of];
    first.leave().await.unwrap();
    within(second.parked(waiting)).await.unwrap();
    assert_eq!(second.partitions(), [0, 1, 2]);
    assert_eq!(first.commit(of, since, 0).await.unwrap_err().status, Status::UnknownMember);
    assert_eq!(first.leave().await.unwrap_err().status, Status::UnknownMember);
    assert_eq!(first.beat().await.unwrap_err().status, Status::UnknownMember);
    world.stop().await;
}

#[tokio::test]
async fn a_commit_for_several_partitions_is_judged_one_by_one() {
    use hermit_proto::session::{CommitEntry, CommitRequest};
    use hermit_proto::{LeaderEpoch, Offset, TopicId};
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let topic = world.topic("orders", 2).await;
    world.produce(topic, 0, 1).await;
    let mut member = Member::join(&world, join_request("g", 1, &["orders"])).await.unwrap();
    let since = member.holds[&(topic, PartitionId(0))];
    let entry = |topic, partition, offset, generation| CommitEntry {
        topic,
        partition: PartitionId(partition),
        offset: Offset(offset),
        leader_epoch: LeaderEpoch::UNKNOWN,
        generation,
    };
    let entries = vec![
        entry(topic, 0, 1, since),
        entry(topic, 1, 0, Generation(0)),
        entry(topic, 0, u64::MAX, since),
        entry(topic, 7, 0, since),
        entry(TopicId(7), 0, 0, since),
    ];
    let request = CommitRequest { group: "g".into(), entries, member: member.id() };
    let statuses: Vec<_> = member.session.call(&request).await.unwrap().results.iter().map(|result| result.status).collect();
    assert_eq!(
        statuses,
        [Status::Ok, Status::StaleGeneration, Status::CommitBeyondEnd, Status::UnknownPartition, Status::UnknownTopic]
    );
    assert_eq!(committed(&mut member.session, "g", (topic, PartitionId(0))).await, Some(1));
    world.stop().await;
}
