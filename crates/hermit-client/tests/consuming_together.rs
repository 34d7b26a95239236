//! Records that are received together: `recv_records`.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use hermit_client::{AutoCommit, Client, Codec, Consumer, ConsumerBuilder, Offset, Position, ProducerRecord, Start};
use support::{TestBroker, create, drain, eventually, values, within};

const SESSION: Duration = Duration::from_secs(6);

/// Some in sets, each with a header and every third without a value, and some so large that they travel alone.
async fn fill(client: &Client, codec: Codec, numbers: std::ops::Range<u32>) {
    let producer = client.producer().batch_bytes(700).codec(codec).build().unwrap();
    for number in numbers {
        let value = format!("{number}{}", if number % 10 == 9 { "x".repeat(900) } else { String::new() });
        let headers = [("number", Some(&b"7"[..])), ("none", None)];
        let record = ProducerRecord { value: (number % 3 != 0).then_some(value.as_bytes()), ..ProducerRecord::default() };
        let alone = codec == Codec::None && value.len() > 900 && number % 3 != 0;
        let record = if alone { record } else { record.headers(&headers) };
        drop(producer.enqueue("t", record.key("k").partition(0)).await.unwrap());
    }
    within(producer.close()).await.unwrap();
}

async fn reader(client: &Client, start: u64) -> Consumer {
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("t", 0, Start::Offset(Offset(start))).await.unwrap();
    consumer
}

fn member(client: &Client) -> ConsumerBuilder {
    client.consumer().group("g").session_timeout(SESSION).auto_commit_interval(Duration::from_millis(20))
}

async fn until_committed(client: &Client, offset: Offset) {
    within(async {
        while client.admin().committed("g", "t", 0).await.unwrap().map(|found| found.offset) != Some(offset) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_same_records_come_together_as_one_by_one() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, Codec::None, 0..100).await;
    fill(&client, Codec::Lz4, 100..200).await;
    // The end and some beginnings lie within sets.
    for start in [0, 3, 9, 101, 190] {
        let mut one_by_one = reader(&client, start).await;
        one_by_one.stop_at("t", 0, 195).unwrap();
        let mut expected = drain(&mut one_by_one).await.into_iter();
        let mut together = reader(&client, start).await;
        together.stop_at("t", 0, 195).unwrap();
        let (mut position, mut calls) = (start, 0);
        while let Some(records) = within(together.recv_records()).await.unwrap() {
            calls += 1;
            assert_eq!(records.first_offset(), Offset(position));
            assert_eq!((&**records.topic(), records.partition().0), ("t", 0));
            for record in &records {
                let same = expected.next().unwrap();
                assert_eq!((record.offset, record.timestamp), (same.offset, same.timestamp));
                assert_eq!((record.key, record.value), (same.key.as_deref(), same.value.as_deref()));
                let headers: Vec<_> = record.headers().map(|(name, value)| (name, value.map(<[u8]>::to_vec))).collect();
                let same: Vec<_> = same.headers.iter().map(|(name, value)| (&**name, value.as_ref().map(|v| v.to_vec()))).collect();
                assert_eq!(headers, same);
            }
            position = records.next_offset().0;
            assert_eq!(together.position("t", 0).unwrap(), Position::from(&records));
        }
        assert_eq!((expected.next(), position), (None, 195));
        assert!(start > 100 || calls < 60, "{calls} calls from {start}");
    }
}

#[tokio::test]
async fn calls_for_one_and_for_many_take_turns() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, Codec::None, 0..100).await;
    let mut consumer = reader(&client, 0).await;
    consumer.stop_at_present_end().await.unwrap();
    let mut offsets = Vec::new();
    while let Some(record) = within(consumer.recv()).await.unwrap() {
        offsets.push(record.offset.0);
        if let Some(records) = within(consumer.recv_records()).await.unwrap() {
            offsets.extend(records.iter().map(|record| record.offset.0));
        }
    }
    assert_eq!(offsets, (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_followed_by_another_call_is_committed() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, Codec::None, 0..50).await;
    let mut consumer = member(&client).auto_commit(AutoCommit::Processed).build().unwrap();
    within(consumer.subscribe("t")).await.unwrap();
    let first = within(consumer.recv_records()).await.unwrap().unwrap();
    assert!(first.generation().0 > 0);
    let second = within(consumer.recv_records()).await.unwrap().unwrap();
    until_committed(&client, first.next_offset()).await;
    // The last one handed out does not count by itself.
    within(consumer.close()).await.unwrap();
    until_committed(&client, first.next_offset()).await;
    assert_eq!(second.first_offset(), first.next_offset());
}

#[tokio::test]
async fn what_is_acknowledged_is_committed_up_to_the_first_that_is_not() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    fill(&client, Codec::None, 0..50).await;
    let mut consumer = member(&client).auto_commit(AutoCommit::Acknowledged).build().unwrap();
    within(consumer.subscribe("t")).await.unwrap();
    let mut received = Vec::new();
    for _ in 0..3 {
        received.push(within(consumer.recv_records()).await.unwrap().unwrap());
    }
    let acker = consumer.acker().unwrap();
    acker.ack_records(&received[1]);
    acker.ack_records(&received[0]);
    until_committed(&client, received[1].next_offset()).await;
    consumer.ack_records(&received[2]).unwrap();
    within(consumer.close()).await.unwrap();
    until_committed(&client, received[2].next_offset()).await;
}

#[tokio::test]
async fn members_read_on_while_others_come_and_nothing_comes_twice() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 2).await;
    fill(&client, Codec::None, 0..50).await;
    let mut first = member(&client).auto_commit(AutoCommit::Processed).build().unwrap();
    within(first.subscribe("t")).await.unwrap();
    let held = within(first.recv_records()).await.unwrap().unwrap();
    let mut second = member(&client).auto_commit(AutoCommit::Processed).build().unwrap();
    within(second.subscribe("t")).await.unwrap();
    let mut seen: Vec<_> = held.iter().map(|record| record.offset.0).collect();
    // Both read on until everything was seen: each record once, whoever has the partition.
    within(async {
        while seen.len() < 50 {
            tokio::select! {
                records = first.recv_records() => seen.extend(records.unwrap().unwrap().iter().map(|record| record.offset.0)),
                records = second.recv_records() => seen.extend(records.unwrap().unwrap().iter().map(|record| record.offset.0)),
            }
        }
    })
    .await;
    seen.sort_unstable();
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
}

#[test]
fn the_blocking_facade_has_it_too() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let broker = runtime.block_on(TestBroker::start());
    let filled = runtime.block_on(async {
        let client = broker.client().await;
        create(&client, "t", 1).await;
        fill(&client, Codec::None, 0..20).await;
        drain(&mut {
            let mut consumer = reader(&client, 1).await;
            consumer.stop_at("t", 0, 3).unwrap();
            consumer
        })
        .await
    });
    assert_eq!(values(&filled), ["1", "2"]);
    runtime.block_on(eventually("filled", || broker.end_of("t", 0) == 20));
    let client = hermit_client::blocking::Client::connect(&broker.address.to_string()).unwrap();
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("t", 0, Start::Earliest).unwrap();
    consumer.stop_at_present_end().unwrap();
    let mut count = 0;
    while let Some(records) = consumer.recv_records().unwrap() {
        count += records.len();
    }
    assert_eq!(count, 20);
}
