//! What a member of a group makes of what its broker says: a fake one says what it is told to.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hermit_client::{
    Assigned, AutoCommit, Consumer, ConsumerBuilder, Error, Fencing, Otherwise, Position, RebalanceListener, Revoked, Status,
    TopicPartition,
};
use support::group::{GroupFake, Said};
use support::within;

async fn member(fake: &GroupFake, change: impl FnOnce(ConsumerBuilder) -> ConsumerBuilder) -> Consumer {
    let builder = fake.client.consumer().group("g").auto_commit_interval(Duration::from_millis(10));
    let mut consumer = change(builder).build().unwrap();
    within(consumer.subscribe("t")).await.unwrap();
    consumer
}

async fn take(consumer: &mut Consumer, count: usize) -> Vec<(u32, u64)> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let record = within(consumer.recv()).await.unwrap().unwrap();
        taken.push((record.partition.0, record.offset.0));
    }
    taken
}

/// Nothing comes for a moment.
async fn nothing(consumer: &mut Consumer) {
    let waited = tokio::time::timeout(Duration::from_millis(30), consumer.recv()).await;
    assert!(waited.is_err(), "{waited:?}");
}

#[tokio::test]
async fn what_was_only_handed_out_is_not_committed() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake, |builder| builder.auto_commit(AutoCommit::Processed)).await;
    assert_eq!(take(&mut consumer, 5).await, [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)]);
    // Four were followed by a call for the next. Many intervals pass.
    fake.until("committed", |world| world.committed.contains_key(&0)).await;
    fake.until("four are committed", |world| world.committed[&0] == 4).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fake.committed(0), Some(4));
    // A batch counts with the next call, and a record that is acknowledged counts at once.
    let batch = within(consumer.recv_batch(3)).await.unwrap();
    fake.until("the fifth too", |world| world.committed[&0] == 5).await;
    consumer.ack(&batch[1]).unwrap();
    fake.until("two of the batch", |world| world.committed[&0] == 7).await;
    within(consumer.close()).await.unwrap();
    assert_eq!(fake.committed(0), Some(7), "the last of the batch was not followed by anything");
    assert!(fake.look(|world| matches!(world.said.last(), Some(Said::Leave(_)))));
}

#[tokio::test]
async fn acknowledged_records_are_committed_without_a_gap() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake, |builder| builder.auto_commit(AutoCommit::Acknowledged)).await;
    let records = within(consumer.recv_batch(5)).await.unwrap();
    let acker = consumer.acker().unwrap();
    for at in [1, 2, 4] {
        acker.ack(&records[at]);
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(fake.committed(0), None, "the first is not done");
    acker.ack(&records[0]);
    fake.until("the first three", |world| world.committed.get(&0) == Some(&3)).await;
    acker.ack(&records[3]);
    drop(consumer);
    fake.until("all five, also when the consumer is dropped", |world| world.committed[&0] == 5).await;
    fake.until("it left", |world| world.members.is_empty()).await;
}

#[tokio::test]
async fn a_revoked_partition_is_committed_before_it_is_given_up() {
    let fake = GroupFake::start(2).await;
    let slow = Duration::from_secs(3600);
    let mut consumer = member(&fake, |builder| builder.auto_commit(AutoCommit::Processed).auto_commit_interval(slow)).await;
    let taken = take(&mut consumer, 150).await;
    let of_zero = taken.iter().filter(|(partition, _)| *partition == 0).count() as u64;
    let last = *taken.last().unwrap();
    fake.until("it tells of both", |world| world.said.contains(&Said::Owns(vec![0, 1]))).await;
    fake.change(|world| world.granted = [(1, 1)].into());
    if last.0 == 0 {
        // It is being worked on.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(fake.look(|world| !world.said.contains(&Said::Owns(vec![1]))));
    }
    let mut rest = Vec::new();
    while rest.len() as u64 + taken.len() as u64 - of_zero < 100 {
        rest.extend(take(&mut consumer, 1).await);
    }
    assert!(rest.iter().all(|(partition, _)| *partition == 1), "nothing more of it is handed out: {rest:?}");
    fake.until("it was given up", |world| world.said.contains(&Said::Owns(vec![1]))).await;
    let said = fake.look(|world| world.said.clone());
    let commit = said
        .iter()
        .position(|said| matches!(said, Said::Commit { entries, ok: true, .. } if entries.contains(&(0, of_zero, 1))))
        .unwrap();
    let gave_up = said.iter().position(|said| *said == Said::Owns(vec![1])).unwrap();
    assert!(commit < gave_up, "{said:?}");
}

#[tokio::test]
async fn a_partition_that_nobody_works_on_is_given_up_without_the_application() {
    let fake = GroupFake::start(2).await;
    let _consumer = member(&fake, |builder| builder.auto_commit(AutoCommit::Processed)).await;
    fake.until("it holds both", |world| world.said.contains(&Said::Owns(vec![0, 1]))).await;
    fake.change(|world| world.granted = [(0, 1)].into());
    fake.until("it gave one up", |world| world.said.contains(&Said::Owns(vec![0]))).await;
}

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<String>>>);

impl RebalanceListener for Heard {
    fn on_assigned(&mut self, assigned: &mut Assigned) {
        for Position { partition, offset, .. } in assigned.positions().to_vec() {
            self.0.lock().unwrap().push(format!("+{partition}@{offset}"));
            if offset.0 == 0 {
                assigned.seek(TopicPartition { topic: "t".into(), partition }, 10);
            }
        }
    }

    fn on_revoked(&mut self, revoked: &mut Revoked) {
        for Position { partition, offset, .. } in revoked.positions() {
            self.0.lock().unwrap().push(format!("-{partition}@{offset}"));
        }
        revoked.commit_all();
    }

    fn on_lost(&mut self, lost: &[TopicPartition]) {
        self.0.lock().unwrap().extend(lost.iter().map(|lost| format!("!{}", lost.partition)));
    }
}

#[tokio::test]
async fn a_listener_hears_of_everything_and_can_seek_and_commit() {
    let fake = GroupFake::start(1).await;
    let heard = Heard::default();
    let mut consumer = fake.client.consumer().group("g").build().unwrap();
    consumer.set_rebalance_listener(heard.clone());
    within(consumer.subscribe("t")).await.unwrap();
    assert_eq!(take(&mut consumer, 2).await, [(0, 10), (0, 11)], "from where the listener sought");
    fake.change(|world| world.granted.clear());
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(*heard.0.lock().unwrap(), ["+0@0"], "the application works on the record");
    nothing(&mut consumer).await;
    fake.until("its commit", |world| world.committed.get(&0) == Some(&12)).await;
    fake.until("it was given up", |world| world.said.contains(&Said::Owns(vec![]))).await;
    fake.change(|world| world.granted = [(0, 5)].into());
    take(&mut consumer, 1).await;
    // The broker forgets the member, and somebody else has the partition.
    fake.forget(&[]);
    // What is at hand may be handed out until the member hears of it.
    let error = loop {
        match within(consumer.recv()).await {
            Ok(_record) => tokio::time::sleep(Duration::from_millis(2)).await,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::Fenced { reason: Fencing::Expired, .. }), "{error}");
    assert_eq!(*heard.0.lock().unwrap(), ["+0@0", "-0@12", "+0@12", "!0"]);
}

#[tokio::test]
async fn a_member_that_was_forgotten_goes_on_where_it_was() {
    let fake = GroupFake::start(2).await;
    let mut consumer = member(&fake, |builder| builder).await;
    let taken = take(&mut consumer, 7).await;
    let record = within(consumer.recv()).await.unwrap().unwrap();
    within(consumer.commit_through(&record)).await.unwrap();
    let partition = record.partition.0;
    let committed = fake.committed(partition).unwrap();
    let first = fake.member();
    let taken = take(&mut consumer, 3).await.last().copied().unwrap_or(*taken.last().unwrap());
    fake.forget(&[(0, 9), (1, 9)]);
    fake.until("it is back", |world| world.members.len() == 1).await;
    let claims = vec![0, 1];
    assert!(fake.look(|world| world.said.contains(&Said::Join { member: world.members[0], claims })));
    assert_ne!(fake.member(), first, "under another id");
    // Nothing is handed out twice, and commits carry the new generation.
    let next = take(&mut consumer, 1).await[0];
    assert_eq!(next, (taken.0, taken.1 + 1), "committed was {committed}");
    within(consumer.commit()).await.unwrap();
    let (member, said) = (fake.member(), fake.look(|world| world.said.last().cloned()).unwrap());
    assert!(
        matches!(&said, Said::Commit { member: by, entries, ok: true } if *by == member && entries.iter().all(|entry| entry.2 == 9)),
        "{said:?}"
    );
}

#[tokio::test]
async fn where_another_member_went_on_the_records_come_from_there() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake, |builder| builder).await;
    take(&mut consumer, 10).await;
    let record = within(consumer.recv()).await.unwrap().unwrap();
    // The zombie: somebody else had the partition in between, and committed.
    fake.change(|world| world.committed.insert(0, 5));
    fake.forget(&[(0, 9)]);
    let error = within(consumer.commit_through(&record)).await.unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    assert_eq!(fake.committed(0), Some(5), "its commit changed nothing");
    let error = within(consumer.recv()).await.unwrap_err();
    assert!(matches!(error, Error::Fenced { reason: Fencing::Overtaken, .. }), "{error}");
    assert_eq!(take(&mut consumer, 2).await, [(0, 5), (0, 6)]);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_counts_as_the_members_own() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake, |builder| builder).await;
    take(&mut consumer, 10).await;
    fake.change(|world| world.hold_commits = true);
    let commit = consumer.commit_async().unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;
    // It arrived, and the broker died before it answered.
    fake.change(|world| {
        world.committed.insert(0, 10);
        world.cut = true;
    });
    fake.forget(&[(0, 9)]);
    fake.change(|world| world.hold_commits = false);
    assert_eq!(take(&mut consumer, 1).await, [(0, 10)]);
    within(commit).await.unwrap();
}

#[tokio::test]
async fn a_commit_under_a_generation_that_is_over_is_told() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake, |builder| builder).await;
    take(&mut consumer, 3).await;
    fake.change(|world| world.refuse_commits = Some(Status::StaleGeneration));
    let error = within(consumer.commit()).await.unwrap_err();
    assert!(matches!(error, Error::Fenced { reason: Fencing::Moved, .. }), "{error}");
    assert!(error.to_string().contains("read again"), "{error}");
}

#[tokio::test]
async fn asynchronous_commits_are_coalesced_and_in_order() {
    let fake = GroupFake::start(1).await;
    let mut consumer = member(&fake, |builder| builder).await;
    fake.change(|world| world.hold_commits = true);
    let mut handles = Vec::new();
    for record in within(consumer.recv_batch(20)).await.unwrap() {
        handles.push(consumer.commit_through_async(&record).unwrap());
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    fake.change(|world| world.hold_commits = false);
    for handle in handles {
        within(handle).await.unwrap();
    }
    let commits: Vec<u64> = fake.look(|world| {
        world
            .said
            .iter()
            .filter_map(|said| match said {
                Said::Commit { entries, .. } => Some(entries[0].1),
                _ => None,
            })
            .collect()
    });
    assert!(commits.len() <= 3 && commits.is_sorted(), "{commits:?}");
    assert_eq!(commits.last(), Some(&20));
}

#[tokio::test]
async fn an_application_that_does_not_come_back_leaves_is_told_and_rejoins() {
    let fake = GroupFake::start(1).await;
    fake.change(|world| world.processing_timeout_ms = 80);
    let mut consumer = member(&fake, |builder| builder.auto_commit(AutoCommit::Processed)).await;
    take(&mut consumer, 3).await;
    let first = fake.member();
    fake.until("it left", |world| world.said.contains(&Said::Leave(first))).await;
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert!(fake.look(|world| world.members.is_empty()), "it joins only when the application is back");
    let error = within(consumer.recv()).await.unwrap_err();
    assert!(matches!(error, Error::ProcessingTimeout { after } if after == Duration::from_millis(80)), "{error}");
    // Nobody was there in between: it goes on.
    assert_eq!(take(&mut consumer, 1).await, [(0, 3)]);
    assert_ne!(fake.member(), first);
    // While it waits for records it is not away.
    fake.change(|world| world.end = 4);
    let second = fake.member();
    while take(&mut consumer, 1).await[0].1 < 99 {}
    let waiting = tokio::time::timeout(Duration::from_millis(200), consumer.recv()).await;
    assert!(waiting.is_err());
    assert_eq!(fake.member(), second);
}

#[tokio::test]
async fn a_member_that_may_be_taken_for_dead_hands_out_nothing() {
    let fake = GroupFake::start(1).await;
    fake.change(|world| world.session_timeout_ms = 60);
    let mut consumer = member(&fake, |builder| builder).await;
    take(&mut consumer, 1).await;
    // The process stands still for longer than the session timeout, with records at hand.
    std::thread::sleep(Duration::from_millis(100));
    assert!(consumer.try_recv().unwrap().is_none());
    // The broker answers that all is well.
    assert_eq!(take(&mut consumer, 1).await, [(0, 1)]);
}

#[tokio::test]
async fn a_member_that_may_be_taken_for_dead_does_not_say_that_it_gave_its_partitions_up() {
    let fake = GroupFake::start(1).await;
    fake.change(|world| world.session_timeout_ms = 60);
    let mut consumer = member(&fake, |builder| builder).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    consumer.set_rebalance_listener(Hears(heard.clone()));
    take(&mut consumer, 1).await;
    // The process stands still for longer than the session timeout, and is closed before it hears of anything.
    std::thread::sleep(Duration::from_millis(100));
    within(consumer.close()).await.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["lost 0"]);
}

/// Notes what a listener is told of the partitions that go.
struct Hears(Arc<Mutex<Vec<String>>>);

impl RebalanceListener for Hears {
    fn on_revoked(&mut self, revoked: &mut Revoked) {
        let names = revoked.positions().iter().map(|position| format!("revoked {}", position.partition));
        self.0.lock().unwrap().extend(names);
    }

    fn on_lost(&mut self, lost: &[TopicPartition]) {
        self.0.lock().unwrap().extend(lost.iter().map(|lost| format!("lost {}", lost.partition)));
    }
}

#[tokio::test]
async fn a_refused_join_reaches_the_application() {
    let fake = GroupFake::start(1).await;
    fake.change(|world| world.refuse_joins = Some(Status::InvalidPattern));
    let mut consumer = fake.client.consumer().group("g").build().unwrap();
    let error = within(consumer.subscribe("t")).await.unwrap_err();
    assert_eq!(error.status(), Some(Status::InvalidPattern), "{error}");
    fake.change(|world| world.refuse_joins = None);
    within(consumer.subscribe("t")).await.unwrap();
    take(&mut consumer, 1).await;
    let empty = hermit_client::Subscription::new();
    assert!(matches!(consumer.subscribe(empty).await, Err(Error::Config { setting: "subscription", .. })));
    assert!(matches!(consumer.assign("t", 0, hermit_client::Start::Earliest).await, Err(Error::Config { .. })));
}

#[tokio::test]
async fn a_group_that_begins_at_the_end_commits_that_place() {
    let fake = GroupFake::start(1).await;
    let _consumer = member(&fake, |builder| builder.uncommitted_start(Otherwise::Latest)).await;
    fake.until("the place is committed", |world| world.committed.get(&0) == Some(&100)).await;
}

#[tokio::test]
async fn a_paused_partition_of_a_member_is_not_read() {
    let fake = GroupFake::start(2).await;
    let mut consumer = member(&fake, |builder| builder).await;
    take(&mut consumer, 1).await;
    fake.until("both are read", |world| world.said.iter().filter(|said| matches!(said, Said::Subscribe { .. })).count() == 2).await;
    consumer.pause("t", 0).unwrap();
    let rest = take(&mut consumer, 90).await;
    assert!(rest.iter().all(|(partition, _)| *partition == 1));
    consumer.seek_to("t", 0, hermit_client::Start::Last(4)).await.unwrap();
    consumer.pause("t", 1).unwrap();
    nothing(&mut consumer).await;
    consumer.resume("t", 0).unwrap();
    assert_eq!(take(&mut consumer, 4).await, [(0, 96), (0, 97), (0, 98), (0, 99)]);
}

/// Consumers, their futures and their helpers can move between threads.
#[test]
fn consumers_can_be_sent_and_shared() {
    const fn shared<T: Send + Sync>() {}
    shared::<Consumer>();
    shared::<hermit_client::Acker>();
    shared::<hermit_client::CommitHandle>();
}
