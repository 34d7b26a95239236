//! Consuming from a real broker.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use hermit_client::{
    Client, Codec, Error, LeaderEpoch, Offset, OnLostPosition, Otherwise, Position, ProducerRecord, Start, Status,
};
use support::proxy::Proxy;
use support::{TestBroker, create, drain, text, values, within};

async fn fill(client: &Client, topic: &str, partition: u32, numbers: std::ops::Range<u32>) {
    let producer = client.producer().batch_bytes(300).codec(Codec::Lz4).build().unwrap();
    for number in numbers {
        drop(producer.enqueue(topic, ProducerRecord::new(&number.to_string()).partition(partition)).await.unwrap());
    }
    within(producer.close()).await.unwrap();
}

fn numbers(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[tokio::test]
async fn every_start_begins_where_it_says() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, "t", 0, 0..100).await;
    for (start, first) in [(Start::Earliest, 0), (Start::Offset(Offset(42)), 42), (Start::Committed { or: Otherwise::Earliest }, 0)]
    {
        let mut consumer = client.consumer().group("g").build().unwrap();
        consumer.assign("t", 0, start).await.unwrap();
        consumer.stop_at_present_end().await.unwrap();
        assert_eq!(values(&drain(&mut consumer).await), numbers(first..100), "{start:?}");
        assert_eq!(consumer.position("t", 0).unwrap().offset, Offset(100));
        assert_eq!(consumer.lag("t", 0).unwrap(), Some(0));
    }
    for start in [Start::Latest, Start::Committed { or: Otherwise::Latest }] {
        let mut consumer = client.consumer().group("g").build().unwrap();
        consumer.assign("t", 0, start).await.unwrap();
        assert_eq!(consumer.position("t", 0).unwrap().offset, Offset(100));
    }
}

#[tokio::test]
async fn a_follower_gets_what_comes_later() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 2).await;
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign_topic("t", Start::Latest).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(50), consumer.recv()).await;
    assert!(waiting.is_err(), "nothing is there");
    for partition in [1, 0, 1] {
        fill(&client, "t", partition, 7..8).await;
        let record = within(consumer.recv()).await.unwrap().unwrap();
        assert_eq!((record.partition.0, text(record.value.as_ref()).as_deref()), (partition, Some("7")));
    }
}

#[tokio::test]
async fn only_what_was_committed_is_passed_over_next_time() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, "t", 0, 0..50).await;
    let committed = Start::Committed { or: Otherwise::Earliest };
    let mut consumer = client.consumer().group("g").build().unwrap();
    consumer.assign("t", 0, committed).await.unwrap();
    let batch = within(consumer.recv_batch(5)).await.unwrap();
    assert_eq!(batch.len(), 5);
    // Fetched five, processed three.
    consumer.commit_through(&batch[2]).await.unwrap();
    assert_eq!(consumer.committed("t", 0).await.unwrap().unwrap().offset, Offset(3));
    drop(consumer);

    let broker = broker.restart().await;
    let client = broker.client().await;
    let mut consumer = client.consumer().group("g").build().unwrap();
    consumer.assign("t", 0, committed).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    assert_eq!(values(&drain(&mut consumer).await), numbers(3..50));
    consumer.commit().await.unwrap();
    let found = client.admin().committed("g", "t", 0).await.unwrap().unwrap();
    assert_eq!(found.offset, Offset(50));
    assert_eq!(client.admin().committed("other", "t", 0).await.unwrap(), None);
}

#[tokio::test]
async fn a_commit_beyond_the_end_is_refused_and_changes_nothing() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, "t", 0, 0..5).await;
    let mut consumer = client.consumer().group("g").build().unwrap();
    consumer.assign("t", 0, Start::Earliest).await.unwrap();
    let beyond =
        |offset| Position { topic: "t".into(), partition: 0.into(), offset: Offset(offset), leader_epoch: LeaderEpoch::UNKNOWN };
    for offset in [6, u64::MAX] {
        let error = consumer.commit_positions(&[beyond(offset)]).await.unwrap_err();
        assert_eq!(error.status(), Some(Status::CommitBeyondEnd), "{error}");
    }
    assert_eq!(consumer.committed("t", 0).await.unwrap(), None);
    consumer.commit_positions(&[beyond(5)]).await.unwrap();
    let foreign = Position { topic: "elsewhere".into(), ..beyond(1) };
    assert!(matches!(consumer.commit_positions(&[foreign]).await, Err(Error::NotAssigned { .. })));
    let nobody = client.consumer().build().unwrap();
    assert!(matches!(nobody.commit().await, Err(Error::NoGroup)));
}

#[tokio::test]
async fn a_cut_connection_costs_no_record_and_repeats_none() {
    let broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let client = support::builder(proxy.address).connect().await.unwrap();
    create(&client, "t", 2).await;
    fill(&client, "t", 0, 0..3000).await;
    fill(&client, "t", 1, 0..3000).await;
    // A small window, so that most is still to come when the connection is cut.
    let mut consumer = client.consumer().prefetch_bytes(2000).build().unwrap();
    consumer.assign_topic("t", Start::Earliest).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    let mut read = [Vec::new(), Vec::new()];
    within(async {
        let mut count = 0;
        while let Some(record) = consumer.recv().await.unwrap() {
            read[record.partition.0 as usize].push(text(record.value.as_ref()).unwrap());
            count += 1;
            if count % 777 == 0 {
                proxy.cut();
            }
        }
    })
    .await;
    assert_eq!(read, [numbers(0..3000), numbers(0..3000)]);
}

#[tokio::test]
async fn streams_much_longer_than_their_windows_take_one_connection() {
    let broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let client = support::builder(proxy.address).connect().await.unwrap();
    create(&client, "t", 4).await;
    for partition in 0..4 {
        fill(&client, "t", partition, 0..4_000).await;
    }
    for prefetch_bytes in [1, 5_000, 40_000, 1 << 20] {
        let mut consumer = client.consumer().prefetch_bytes(prefetch_bytes).build().unwrap();
        consumer.assign_topic("t", Start::Earliest).await.unwrap();
        consumer.stop_at_present_end().await.unwrap();
        let mut next = [0u64; 4];
        let mut taken = 0u32;
        within(async {
            while let Some(record) = consumer.recv().await.unwrap() {
                let next = &mut next[record.partition.0 as usize];
                assert_eq!(record.offset.0, *next);
                *next += 1;
                taken += 1;
                if taken.is_multiple_of(1000) {
                    // A slow reader: what is sent meanwhile uses up the credit.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        })
        .await;
        assert_eq!(next, [4_000; 4], "{prefetch_bytes}");
    }
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn a_restarted_broker_is_followed() {
    let mut broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let client = support::builder(proxy.address).connect().await.unwrap();
    create(&client, "t", 1).await;
    let mut consumer = client.consumer().group("g").build().unwrap();
    consumer.assign("t", 0, Start::Earliest).await.unwrap();
    for round in 0..3 {
        fill(&client, "t", 0, round * 100..(round + 1) * 100).await;
        let mut read = Vec::new();
        while read.len() < 100 {
            read.push(within(consumer.recv()).await.unwrap().unwrap());
        }
        assert_eq!(values(&read), numbers(round * 100..(round + 1) * 100));
        consumer.commit().await.unwrap();
        broker = broker.restart().await;
        proxy.retarget(broker.address);
    }
    assert_eq!(within(consumer.committed("t", 0)).await.unwrap().unwrap().offset, Offset(300));
}

#[tokio::test]
async fn a_batch_holds_what_is_there_over_frames_and_partitions() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 2).await;
    let producer = client.producer().linger(Duration::ZERO).build().unwrap();
    for number in 0..40u32 {
        within(producer.send("t", ProducerRecord::new(&number.to_string()).partition(number % 2))).await.unwrap();
    }
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign_topic("t", Start::Earliest).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    let mut sizes = Vec::new();
    loop {
        let batch = within(consumer.recv_batch(15)).await.unwrap();
        if batch.is_empty() {
            break;
        }
        sizes.push(batch.len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 40);
    assert!(sizes.len() <= 10 && sizes.iter().all(|size| *size <= 15), "{sizes:?}");
}

#[tokio::test]
async fn seeking_goes_back_and_forth() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, "t", 0, 0..200).await;
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("t", 0, Start::Earliest).await.unwrap();
    for offset in [150u32, 3, 199, 0, 77] {
        consumer.seek("t", 0, u64::from(offset)).unwrap();
        for expected in offset..(offset + 10).min(200) {
            let record = within(consumer.recv()).await.unwrap().unwrap();
            assert_eq!(record.offset, Offset(expected.into()));
        }
    }
}

#[tokio::test]
async fn a_position_that_is_not_there_is_an_error_or_is_left_by_the_policy() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, "t", 0, 0..10).await;
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("t", 0, Start::Offset(Offset(1000))).await.unwrap();
    let error = within(consumer.recv()).await.unwrap_err();
    assert!(matches!(error, Error::OutOfRange { position: Offset(1000), high_watermark: Offset(10), .. }), "{error}");
    assert!(within(consumer.recv()).await.unwrap().is_none(), "it is stopped");
    consumer.seek("t", 0, 9).unwrap();
    assert_eq!(within(consumer.recv()).await.unwrap().unwrap().offset, Offset(9));

    for (policy, position) in [(OnLostPosition::Earliest, 0), (OnLostPosition::Latest, 10), (OnLostPosition::EpochEnd, 10)] {
        let mut consumer = client.consumer().on_lost_position(policy).build().unwrap();
        consumer.assign("t", 0, Start::Offset(Offset(1000))).await.unwrap();
        consumer.stop_at("t", 0, 12).unwrap();
        // The end that was set lies before the lost position.
        assert!(within(consumer.recv()).await.unwrap().is_none());
        let mut consumer = client.consumer().on_lost_position(policy).build().unwrap();
        consumer.assign("t", 0, Start::Offset(Offset(1000))).await.unwrap();
        let waiting = tokio::time::timeout(Duration::from_millis(100), consumer.recv()).await;
        match policy {
            OnLostPosition::Earliest => assert_eq!(waiting.unwrap().unwrap().unwrap().offset, Offset(0)),
            _ => assert!(waiting.is_err(), "nothing comes at the end"),
        }
        assert!(consumer.position("t", 0).unwrap().offset.0 >= position, "{policy:?}");
    }
}

#[tokio::test]
async fn many_lost_positions_are_all_found_again() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 8).await;
    for partition in 0..8 {
        fill(&client, "t", partition, 0..3).await;
    }
    let mut consumer = client.consumer().on_lost_position(OnLostPosition::Earliest).build().unwrap();
    for partition in 0..8 {
        consumer.assign("t", partition, Start::Offset(Offset(50))).await.unwrap();
    }
    let mut counts = [0; 8];
    while counts != [3; 8] {
        counts[within(consumer.recv()).await.unwrap().unwrap().partition.0 as usize] += 1;
    }
}

#[tokio::test]
async fn subscriptions_that_are_given_up_leave_nothing_behind() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    // Far more than a session may have at a time.
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("t", 0, Start::Earliest).await.unwrap();
    for _ in 0..1500 {
        consumer.seek("t", 0, 0).unwrap();
        drop(tokio::time::timeout(Duration::ZERO, consumer.recv()).await);
    }
    fill(&client, "t", 0, 0..1).await;
    assert_eq!(within(consumer.recv()).await.unwrap().unwrap().offset, Offset(0));
}

#[tokio::test]
async fn records_larger_than_the_prefetch_come_through() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let producer = client.producer().build().unwrap();
    let large = vec![5u8; 3 << 20];
    for _ in 0..5 {
        drop(producer.enqueue("t", ProducerRecord::new(&large)).await.unwrap());
    }
    producer.close().await.unwrap();
    let mut consumer = client.consumer().prefetch_bytes(1000).build().unwrap();
    consumer.assign("t", 0, Start::Earliest).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    let read = drain(&mut consumer).await;
    assert_eq!(read.len(), 5);
    assert!(read.iter().all(|record| record.value.as_deref() == Some(&large[..])));
}

#[tokio::test]
async fn a_deleted_topic_is_told_to_its_reader() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, "t", 0, 0..1).await;
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("t", 0, Start::Earliest).await.unwrap();
    within(consumer.recv()).await.unwrap().unwrap();
    client.admin().delete_topic("t").await.unwrap();
    let error = within(consumer.recv()).await.unwrap_err();
    assert!(matches!(error, Error::UnknownTopic { .. }), "{error}");
    assert!(within(consumer.recv()).await.unwrap().is_none());
}

#[tokio::test]
async fn partitions_can_be_given_up() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 3).await;
    for partition in 0..3 {
        fill(&client, "t", partition, 0..10).await;
    }
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign_topic("t", Start::Earliest).await.unwrap();
    within(consumer.recv()).await.unwrap().unwrap();
    consumer.unassign("t", 0).unwrap();
    consumer.stop_at_present_end().await.unwrap();
    let rest = drain(&mut consumer).await;
    assert!(rest.iter().all(|record| record.partition.0 > 0));
    let mut all: Vec<_> = rest.iter().map(|record| (record.partition.0, record.offset.0)).collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), rest.len(), "nothing twice");
    assert!(matches!(consumer.seek("t", 0, 0), Err(Error::NotAssigned { .. })));
}
