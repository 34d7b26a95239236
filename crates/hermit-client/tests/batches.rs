//! Many records in one call, and handing over without waiting, at a real broker.

mod support;

use std::collections::HashMap;
use std::time::Duration;

use hermit_client::{Codec, Error, Offset, PartitionId, ProducerRecord, Start, TopicConfig};
use support::proxy::Proxy;
use support::{TestBroker, create, drain, text, within};

/// Numbers as values, under a key each that `key_of` gives.
fn numbered(count: u32, key_of: impl Fn(u32) -> Option<String>) -> Vec<(String, Option<String>)> {
    (0..count).map(|number| (number.to_string(), key_of(number))).collect()
}

fn records(of: &[(String, Option<String>)]) -> Vec<ProducerRecord<'_>> {
    of.iter()
        .map(|(value, key)| match key {
            Some(key) => ProducerRecord::new(value).key(key),
            None => ProducerRecord::new(value),
        })
        .collect()
}

#[tokio::test]
async fn a_call_gives_one_result_for_each_batch_and_keeps_the_order_within_partitions() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 4).await;
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd] {
        let producer = client.producer().codec(codec).zstd_level(9).batch_bytes(2000).build().unwrap();
        let before: Vec<_> = (0..4).map(|partition| broker.end_of("t", partition)).collect();
        let sent = numbered(3000, |number| Some((number % 13).to_string()));
        let stored = within(producer.send_batch("t", &records(&sent))).await.unwrap();
        assert!(stored.len() < 300, "{} results", stored.len());
        assert_eq!(stored.iter().map(|part| part.records).sum::<u32>(), 3000);
        let mut next: HashMap<PartitionId, u64> = (0..).map(PartitionId).zip(before.clone()).collect();
        for part in &stored {
            let next = next.get_mut(&part.partition).unwrap();
            assert_eq!(part.first_offset, Some(Offset(*next)), "one behind the other");
            *next += u64::from(part.records);
            assert_eq!(part.last_offset, Some(Offset(*next - 1)));
        }
        let mut consumer = client.consumer().build().unwrap();
        for (partition, before) in (0..).zip(before) {
            consumer.assign("t", partition, Start::Offset(Offset(before))).await.unwrap();
        }
        consumer.stop_at_present_end().await.unwrap();
        let (mut last, mut count) = (HashMap::new(), 0);
        for record in drain(&mut consumer).await {
            let number: u32 = text(record.value.as_ref()).unwrap().parse().unwrap();
            assert_eq!(text(record.key.as_ref()), sent[number as usize].1);
            assert!(last.insert(record.partition, number).is_none_or(|before| before < number));
            count += 1;
        }
        assert_eq!(count, 3000);
    }
}

#[tokio::test]
async fn keyless_records_of_one_call_are_spread() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 4).await;
    let producer = client.producer().batch_bytes(1000).build().unwrap();
    let sent = numbered(1000, |_number| None);
    let stored = within(producer.send_batch("t", &records(&sent))).await.unwrap();
    let mut counts = HashMap::new();
    for part in stored {
        *counts.entry(part.partition).or_insert(0) += part.records;
    }
    assert!(counts.len() == 4 && counts.values().all(|count| *count > 100), "{counts:?}");
}

#[tokio::test]
async fn a_call_larger_than_the_buffer_goes_through_in_portions() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 2).await;
    let producer = client.producer().batch_bytes(1000).max_buffered_bytes(8000).build().unwrap();
    let value = [7u8; 100];
    let sent = vec![ProducerRecord::new(&value); 1000];
    let (stored, ()) = tokio::join!(within(producer.send_batch("t", &sent)), async {
        for _ in 0..100 {
            assert!(producer.buffered_bytes() <= 8000);
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(stored.unwrap().iter().map(|part| part.records).sum::<u32>(), 1000);
    assert_eq!(producer.buffered_bytes(), 0);
    let error =
        within(producer.send_batch("t", &[ProducerRecord::new(&value), ProducerRecord::new(&[0; 9000])])).await.unwrap_err();
    assert!(matches!(error, Error::InvalidRecord { .. }), "{error}");
    assert_eq!(broker.end_of("t", 0) + broker.end_of("t", 1), 1000, "then none is sent");
}

#[tokio::test]
async fn compacted_topics_take_batches_and_none_of_one_with_a_record_they_refuse() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let config = TopicConfig { compaction: Some(true), ..TopicConfig::default() };
    client.admin().create_topic("c", 1, config).await.unwrap();
    let producer = client.producer().batch_bytes(500).build().unwrap();
    let mut sent = vec![ProducerRecord::new("v").key("k"); 99];
    sent.push(ProducerRecord::new("keyless"));
    assert!(matches!(producer.send_batch("c", &sent).await, Err(Error::InvalidRecord { .. })));
    sent[99] = ProducerRecord::tombstone("k");
    let stored = within(producer.send_batch("c", &sent)).await.unwrap();
    assert_eq!(stored.last().unwrap().last_offset, Some(Offset(99)));
}

#[tokio::test]
async fn each_part_is_told_of_where_some_fail() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let producer = client.producer().batch_bytes(1000).build().unwrap();
    let sent = numbered(500, |_number| None);
    within(producer.send_batch("t", &records(&sent))).await.unwrap();
    client.admin().delete_topic("t").await.unwrap();
    create(&client, "t", 2).await;
    // The first of these batches learn that the topic is another one.
    let outcomes = within(producer.enqueue_batch("t", &records(&sent))).await.unwrap().outcomes().await;
    assert_eq!(outcomes.iter().map(|part| part.records).sum::<u32>(), 500);
    let stored = outcomes.iter().filter(|part| part.result.is_ok()).map(|part| u64::from(part.records)).sum::<u64>();
    assert_eq!(broker.end_of("t", 0) + broker.end_of("t", 1), stored);
    assert!(outcomes.iter().any(|part| matches!(part.result, Err(Error::Refused { .. }))));
    within(producer.send_batch("t", &records(&sent))).await.unwrap();
    assert!(matches!(producer.flush().await, Err(Error::Refused { .. })), "told once more");
    producer.close().await.unwrap();
    assert!(matches!(producer.send_batch("t", &records(&sent)).await, Err(Error::Closed { .. })));
    assert!(within(producer.send_batch("t", &[])).await.unwrap().is_empty(), "nothing is nothing");
}

#[tokio::test]
async fn what_would_wait_says_so_instead() {
    let broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let client = support::builder(proxy.address).connect().await.unwrap();
    create(&client, "t", 1).await;
    let producer = client.producer().batch_bytes(1000).max_buffered_bytes(5000).linger(Duration::from_secs(3600)).build().unwrap();
    let value = [0u8; 100];
    let record = ProducerRecord::new(&value);
    let error = producer.try_enqueue("t", record).unwrap_err();
    assert!(matches!(error, Error::WouldWait { .. }) && error.is_retryable() && error.to_string().contains("prepare"), "{error}");
    producer.prepare("t").await.unwrap();
    proxy.hold_answers();
    let mut deliveries = Vec::new();
    let error = loop {
        match producer.try_enqueue("t", record) {
            Ok(delivery) => deliveries.push(delivery),
            Err(error) => break error,
        }
        assert!(deliveries.len() < 100);
    };
    assert!(matches!(error, Error::WouldWait { .. }), "{error}");
    assert!(producer.buffered_bytes() > 4000);
    proxy.cut();
    within(producer.flush()).await.unwrap();
    // From a thread without a runtime.
    let elsewhere = producer.clone();
    let delivery = std::thread::spawn(move || elsewhere.try_enqueue("t", ProducerRecord::new("x")).unwrap()).join().unwrap();
    within(producer.flush()).await.unwrap();
    assert_eq!(within(delivery).await.unwrap().offset, Some(Offset(deliveries.len() as u64)));
}
