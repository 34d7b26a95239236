//! Members of groups at a real broker.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use hermit_client::{AutoCommit, Client, Consumer, ConsumerBuilder, Error, Offset, ProducerRecord, Start, Subscription};
use support::proxy::Proxy;
use support::{TestBroker, create, text, values, within};

const SESSION: Duration = Duration::from_secs(1);

async fn fill(client: &Client, topic: &str, partitions: u32, numbers: std::ops::Range<u32>) {
    let producer = client.producer().build().unwrap();
    for number in numbers {
        for partition in 0..partitions {
            let (key, value) = (format!("k{}", number % 5), number.to_string());
            let record = ProducerRecord::new(&value).key(&key).partition(partition);
            drop(producer.enqueue(topic, record).await.unwrap());
        }
    }
    within(producer.close()).await.unwrap();
}

fn member(client: &Client) -> ConsumerBuilder {
    client.consumer().group("g").session_timeout(SESSION).auto_commit_interval(Duration::from_millis(20))
}

async fn subscribed(builder: ConsumerBuilder, subscription: impl Into<Subscription>) -> Consumer {
    let mut consumer = builder.build().unwrap();
    within(consumer.subscribe(subscription)).await.unwrap();
    consumer
}

async fn committed(client: &Client, topic: &str, partition: u32) -> Option<u64> {
    client.admin().committed("g", topic, partition).await.unwrap().map(|found| found.offset.0)
}

async fn until_committed(client: &Client, topic: &str, partition: u32, offset: u64) {
    within(async {
        while committed(client, topic, partition).await != Some(offset) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn members_share_and_hand_over_without_doing_anything_twice() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 4).await;
    fill(&client, "t", 4, 0..200).await;
    let builder = || member(&client).auto_commit(AutoCommit::Processed);
    let mut first = subscribed(builder(), "t").await;
    let mut seen = BTreeSet::new();
    let mut note = |record: hermit_client::Record| assert!(seen.insert((record.partition.0, record.offset.0)), "twice: {record:?}");
    for _ in 0..300 {
        note(within(first.recv()).await.unwrap().unwrap());
    }
    let mut second = subscribed(builder(), "t").await;
    // The first one has to come back for them to be given up, and commits before the second begins.
    within(async {
        while second.assignment().count() < 2 {
            tokio::select! {
                record = first.recv() => note(record.unwrap().unwrap()),
                record = second.recv() => note(record.unwrap().unwrap()),
            }
        }
    })
    .await;
    assert_eq!((first.assignment().count(), second.assignment().count()), (2, 2));
    within(first.close()).await.unwrap();
    // The last record that it handed out was not followed by a call for the next: it comes again.
    let mut again = 0;
    within(async {
        while seen.len() < 800 || second.assignment().count() < 4 {
            // It may have been the last record, and partitions still to come.
            let waited = tokio::time::timeout(Duration::from_millis(10), second.recv()).await;
            if let Ok(received) = waited {
                let record = received.unwrap().unwrap();
                again += u32::from(!seen.insert((record.partition.0, record.offset.0)));
            }
        }
    })
    .await;
    assert!(again <= 1, "{again}");
}

#[test]
fn fetched_more_processed_three_killed_resumes_at_the_fourth() {
    let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let outer = runtime();
    let broker = outer.block_on(TestBroker::start());
    let client = outer.block_on(broker.client());
    outer.block_on(async {
        create(&client, "t", 1).await;
        fill(&client, "t", 1, 0..20).await;
    });
    let killed = runtime();
    let consumer = killed.block_on(async {
        let client = broker.client().await;
        let mut consumer = subscribed(member(&client).auto_commit(AutoCommit::Processed), "t").await;
        // All twenty are fetched; the fourth is handed out, and being processed.
        for _ in 0..4 {
            within(consumer.recv()).await.unwrap().unwrap();
        }
        until_committed(&client, "t", 0, 3).await;
        // Many commits more could have been made.
        tokio::time::sleep(Duration::from_millis(100)).await;
        consumer
    });
    // As `kill -9` would: no goodbye, no commit.
    killed.shutdown_background();
    std::mem::forget(consumer);
    outer.block_on(async {
        let mut consumer = subscribed(member(&client), "t").await;
        let record = within(consumer.recv()).await.unwrap().unwrap();
        assert_eq!(record.offset, Offset(3));
    });
}

#[tokio::test]
async fn a_zombie_is_fenced_and_told() {
    let broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let (zombie_client, client) = (support::builder(proxy.address).connect().await.unwrap(), broker.client().await);
    create(&client, "t", 1).await;
    fill(&client, "t", 1, 0..100).await;
    let mut zombie = subscribed(member(&zombie_client), "t").await;
    let held = within(zombie.recv_batch(10)).await.unwrap();
    within(zombie.commit_through(&held[1])).await.unwrap();
    proxy.refuse(true);
    let mut heir = subscribed(member(&client), "t").await;
    let record = within(heir.recv()).await.unwrap().unwrap();
    assert_eq!(record.offset, Offset(2), "after the session timeout");
    within(heir.commit_through(&record)).await.unwrap();
    proxy.refuse(false);
    let error = within(zombie.commit_through(&held[9])).await.unwrap_err();
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    let error = within(async {
        loop {
            if let Err(error) = zombie.recv().await {
                break error;
            }
        }
    })
    .await;
    assert!(matches!(error, Error::Fenced { .. }), "{error}");
    assert_eq!(committed(&client, "t", 0).await, Some(3), "only what the owner committed");
    within(heir.close()).await.unwrap();
    assert_eq!(within(zombie.recv()).await.unwrap().unwrap().offset, Offset(3), "it is a member again");
}

#[tokio::test]
async fn a_restarted_broker_costs_nothing_and_repeats_nothing() {
    let broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let client = support::builder(proxy.address).connect().await.unwrap();
    create(&client, "t", 2).await;
    fill(&client, "t", 2, 0..100).await;
    let mut consumer = subscribed(member(&client), "t").await;
    let mut seen = BTreeSet::new();
    for _ in 0..50 {
        let record = within(consumer.recv()).await.unwrap().unwrap();
        seen.insert((record.partition.0, record.offset.0));
    }
    within(consumer.commit()).await.unwrap();
    for _ in 0..20 {
        let record = within(consumer.recv()).await.unwrap().unwrap();
        seen.insert((record.partition.0, record.offset.0));
    }
    let broker = broker.restart().await;
    proxy.retarget(broker.address);
    while seen.len() < 200 {
        let record = within(consumer.recv()).await.unwrap().unwrap();
        assert!(seen.insert((record.partition.0, record.offset.0)), "twice: {record:?}");
    }
    within(consumer.commit()).await.unwrap();
    assert_eq!(within(committed(&client, "t", 0)).await, Some(100));
    within(consumer.close()).await.unwrap();
}

#[tokio::test]
async fn patterns_pick_up_topics_that_are_created_later() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let mut consumer = subscribed(member(&client), Subscription::new().pattern("audit\\..*").topic("later")).await;
    for topic in ["audit.a", "other", "later"] {
        create(&client, topic, 1).await;
        fill(&client, topic, 1, 0..3).await;
    }
    let mut seen = BTreeSet::new();
    while seen.len() < 6 {
        let record = within(consumer.recv()).await.unwrap().unwrap();
        seen.insert((record.topic.to_string(), record.offset.0));
    }
    assert!(seen.iter().all(|(topic, _)| topic != "other"));
    // Another subscription: what is not in it is given up.
    within(consumer.subscribe("other")).await.unwrap();
    let record = within(consumer.recv()).await.unwrap().unwrap();
    assert_eq!(&*record.topic, "other");
    assert_eq!(consumer.assignment().collect::<Vec<_>>(), [("other", 0.into())]);
}

#[tokio::test]
async fn reading_begins_and_goes_on_at_times_and_counts_and_stands_still_when_told() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, "t", 1, 0..10).await;
    // Append times are in whole ns; the next records are appended later than this.
    tokio::time::sleep(Duration::from_millis(5)).await;
    #[expect(clippy::disallowed_methods, reason = "the time by the clock of the broker, which is in this process")]
    let between = SystemTime::now();
    fill(&client, "t", 1, 10..20).await;
    for (start, first) in [(Start::Last(3), 17), (Start::Last(1000), 0), (Start::at(between), 10)] {
        let mut consumer = client.consumer().build().unwrap();
        consumer.assign("t", 0, start).await.unwrap();
        consumer.stop_at_present_end().await.unwrap();
        let read = support::drain(&mut consumer).await;
        assert_eq!(values(&read).first().unwrap(), &first.to_string(), "{start:?}");
        assert_eq!(values(&read).last().unwrap(), "19");
    }
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("t", 0, Start::Earliest).await.unwrap();
    assert_eq!(text(within(consumer.recv()).await.unwrap().unwrap().value.as_ref()).unwrap(), "0");
    consumer.pause("t", 0).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), consumer.recv()).await.is_err());
    assert!(consumer.is_paused("t", 0).unwrap());
    consumer.seek_to_time("t", 0, between).await.unwrap();
    consumer.resume("t", 0).unwrap();
    assert_eq!(text(within(consumer.recv()).await.unwrap().unwrap().value.as_ref()).unwrap(), "10");
    consumer.seek_to("t", 0, Start::Latest).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(50), consumer.recv()).await.is_err());
    assert!(consumer.try_recv().unwrap().is_none());
}

#[tokio::test]
async fn a_group_that_begins_at_the_end_misses_nothing_between_two_owners() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, "t", 1, 0..10).await;
    let latest = || member(&client).uncommitted_start(hermit_client::Otherwise::Latest);
    let first = subscribed(latest(), "t").await;
    until_committed(&client, "t", 0, 10).await;
    within(first.close()).await.unwrap();
    // Nobody is there.
    fill(&client, "t", 1, 10..13).await;
    let mut second = subscribed(latest(), "t").await;
    assert_eq!(within(second.recv()).await.unwrap().unwrap().offset, Offset(10));
}

#[tokio::test]
async fn commits_from_outside_are_refused_while_the_group_has_members() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, "t", 1, 0..10).await;
    let mut inside = subscribed(member(&client), "t").await;
    within(inside.recv()).await.unwrap();
    let mut outside = client.consumer().group("g").build().unwrap();
    outside.assign("t", 0, Start::Earliest).await.unwrap();
    within(outside.recv()).await.unwrap();
    let error = within(outside.commit()).await.unwrap_err();
    assert!(matches!(error, Error::GroupActive { .. }), "{error}");
    within(inside.close()).await.unwrap();
    within(outside.commit()).await.unwrap();
}

async fn next<S: futures_core::Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    within(std::future::poll_fn(|cx| std::pin::Pin::new(&mut *stream).poll_next(cx))).await
}

#[tokio::test]
async fn a_stream_waits_ends_where_told_and_loses_nothing_when_dropped() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let mut consumer = subscribed(member(&client), "t").await;
    // While nothing is there it waits.
    let waited = tokio::time::timeout(Duration::from_millis(150), next(&mut consumer.stream())).await;
    assert!(waited.is_err());
    fill(&client, "t", 1, 0..10).await;
    for number in 0..4 {
        let record = next(&mut consumer.stream()).await.unwrap().unwrap();
        assert_eq!(record.offset, Offset(number), "each of another stream");
    }
    within(consumer.stop_at_present_end()).await.unwrap();
    let mut records = consumer.into_stream();
    let mut rest = Vec::new();
    while let Some(record) = next(&mut records).await {
        rest.push(record.unwrap());
    }
    assert_eq!(values(&rest), ["4", "5", "6", "7", "8", "9"]);
}

#[tokio::test]
async fn partitions_assigned_by_hand_are_committed_after_processing_too() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 2).await;
    fill(&client, "t", 2, 0..10).await;
    let mut consumer = member(&client).auto_commit(AutoCommit::Processed).build().unwrap();
    consumer.assign("t", 1, Start::Earliest).await.unwrap();
    for _ in 0..3 {
        within(consumer.recv()).await.unwrap();
    }
    until_committed(&client, "t", 1, 2).await;
    // A place that the application chose is committed once something is processed there.
    consumer.seek("t", 1, 7).unwrap();
    for _ in 0..2 {
        within(consumer.recv()).await.unwrap();
    }
    until_committed(&client, "t", 1, 8).await;
    within(consumer.close()).await.unwrap();
    assert_eq!(committed(&client, "t", 0).await, None);
    let nobody = client.consumer().auto_commit(AutoCommit::Processed).build();
    assert!(matches!(nobody, Err(Error::Config { setting: "auto_commit", .. })));
}
