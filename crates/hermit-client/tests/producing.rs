//! Producing to a real broker.

mod support;

use std::collections::HashMap;
use std::time::Duration;

use hermit_client::{
    Acks, Codec, Error, Keyless, Offset, OffsetQuery, PartitionId, ProducerRecord, RecordFault, Start, TopicConfig,
};
use support::proxy::Proxy;
use support::{TestBroker, create, drain, eventually, text, values, within};

#[tokio::test]
async fn records_come_back_as_they_were_sent() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    for (codec, from) in [(Codec::None, 0), (Codec::Lz4, 5), (Codec::Zstd, 10)] {
        let producer = client.producer().codec(codec).build().unwrap();
        let large = "x".repeat(200_000);
        let records = [
            ProducerRecord::new("plain"),
            ProducerRecord::new("").key("").timestamp(1_700_000_000_123_000_000),
            ProducerRecord::tombstone("gone"),
            ProducerRecord::new("with headers").key(&[0xFFu8, 0]).headers(&[("a", Some(b"1")), ("a", None), ("b", Some(b""))]),
            ProducerRecord::new(&large),
        ];
        let mut deliveries = Vec::new();
        for record in records {
            deliveries.push(producer.enqueue("t", record).await.unwrap());
        }
        for (delivery, offset) in deliveries.into_iter().zip(from..) {
            let stored = within(delivery).await.unwrap();
            assert_eq!((&**stored.topic(), stored.partition, stored.offset), ("t", PartitionId(0), Some(Offset(offset))));
        }
        producer.close().await.unwrap();

        let mut consumer = client.consumer().build().unwrap();
        consumer.assign("t", 0, Start::Offset(Offset(from))).await.unwrap();
        consumer.stop_at_present_end().await.unwrap();
        let read = drain(&mut consumer).await;
        assert_eq!(read.len(), 5, "{codec:?}");
        for (record, sent) in read.iter().zip(&records) {
            assert_eq!(record.key.as_deref(), sent.key);
            assert_eq!(record.value.as_deref(), sent.value);
            let headers: Vec<_> = record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
            assert_eq!(headers, sent.headers);
        }
        assert_eq!(read[1].timestamp, 1_700_000_000_123_000_000);
        assert!(read[0].append_time > 0);
    }
}

#[tokio::test]
async fn keys_land_where_kafkas_clients_put_them() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 8).await;
    let producer = client.producer().build().unwrap();
    // (murmur2 & 0x7fffffff) % 8 of the vectors in Kafka's own tests.
    let hashes: [(&str, i32); 5] = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("abc", 479_470_107),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
    ];
    for (key, hash) in hashes {
        let stored = within(producer.send("t", ProducerRecord::new("v").key(key))).await.unwrap();
        assert_eq!(stored.partition.0, (hash.cast_unsigned() & 0x7fff_ffff) % 8, "{key}");
    }
    let told = within(producer.send("t", ProducerRecord::new("v").key("21").partition(7))).await.unwrap();
    assert_eq!(told.partition, PartitionId(7));
}

#[tokio::test]
async fn keyless_records_are_spread() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 4).await;
    for keyless in [Keyless::Sticky, Keyless::RoundRobin] {
        let producer = client.producer().keyless(keyless).batch_bytes(500).build().unwrap();
        let mut deliveries = Vec::new();
        for _ in 0..400 {
            deliveries.push(producer.enqueue("t", ProducerRecord::new("some twenty bytes ...")).await.unwrap());
        }
        let mut counts = HashMap::new();
        for delivery in deliveries {
            *counts.entry(within(delivery).await.unwrap().partition).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 4, "{keyless:?}: {counts:?}");
        assert!(counts.values().all(|count| *count >= 50), "{keyless:?}: {counts:?}");
        producer.close().await.unwrap();
    }
}

#[tokio::test]
async fn round_robin_takes_one_turn_for_each_record_also_when_each_is_a_batch() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 2).await;
    let producer = client.producer().keyless(Keyless::RoundRobin).linger(Duration::ZERO).build().unwrap();
    for number in 0..6 {
        let stored = within(producer.send("t", ProducerRecord::new("1"))).await.unwrap();
        assert_eq!(stored.partition, PartitionId(number % 2));
    }
}

#[tokio::test]
async fn many_records_are_stored_in_order_with_consecutive_offsets() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let producer = client.producer().batch_bytes(4096).linger(Duration::ZERO).build().unwrap();
    let mut deliveries = Vec::new();
    for number in 0..20_000 {
        deliveries.push(producer.enqueue("t", ProducerRecord::new(&number.to_string())).await.unwrap());
    }
    producer.flush().await.unwrap();
    for (delivery, offset) in deliveries.into_iter().zip(0..) {
        assert_eq!(within(delivery).await.unwrap().offset, Some(Offset(offset)));
    }
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign_topic("t", Start::Earliest).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    let expected: Vec<_> = (0..20_000).map(|number: u32| number.to_string()).collect();
    assert_eq!(values(&drain(&mut consumer).await), expected);
}

#[tokio::test]
async fn an_append_whose_answer_was_lost_is_not_doubled() {
    let broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let client = support::builder(proxy.address).connect().await.unwrap();
    create(&client, "t", 1).await;
    let producer = client.producer().linger(Duration::ZERO).build().unwrap();
    within(producer.send("t", ProducerRecord::new("0"))).await.unwrap();
    proxy.hold_answers();
    let mut deliveries = Vec::new();
    for number in 1..=3 {
        deliveries.push(producer.enqueue("t", ProducerRecord::new(&number.to_string())).await.unwrap());
        eventually("the record is stored", || broker.end_of("t", 0) == number + 1).await;
    }
    proxy.cut();
    for (delivery, offset) in deliveries.into_iter().zip(1..) {
        assert_eq!(within(delivery).await.unwrap().offset, Some(Offset(offset)));
    }
    within(producer.send("t", ProducerRecord::new("4"))).await.unwrap();
    assert_eq!(broker.end_of("t", 0), 5);
}

#[tokio::test]
async fn a_restart_of_the_broker_in_the_middle_loses_doubles_and_reorders_nothing() {
    let mut broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let client = support::builder(proxy.address).connect().await.unwrap();
    create(&client, "t", 4).await;
    let producer = client.producer().batch_bytes(512).linger(Duration::from_millis(1)).build().unwrap();
    const RECORDS: u32 = 6000;
    let sending = tokio::spawn(async move {
        for number in 0..RECORDS {
            let key = (number % 17).to_string();
            drop(producer.enqueue("t", ProducerRecord::new(&number.to_string()).key(&key)).await.unwrap());
            if number % 100 == 0 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        producer.close().await
    });
    for _ in 0..3 {
        let before: u64 = (0..4).map(|partition| broker.end_of("t", partition)).sum();
        eventually("something more is stored", || {
            (0..4).map(|partition| broker.end_of("t", partition)).sum::<u64>() > before || sending.is_finished()
        })
        .await;
        proxy.cut();
        broker = broker.restart().await;
        proxy.retarget(broker.address);
    }
    within(sending).await.unwrap().unwrap();

    let mut consumer = client.consumer().build().unwrap();
    consumer.assign_topic("t", Start::Earliest).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    let records = drain(&mut consumer).await;
    let mut last_of_key = HashMap::new();
    let mut seen = vec![0u32; RECORDS as usize];
    for record in &records {
        let number: u32 = text(record.value.as_ref()).unwrap().parse().unwrap();
        seen[number as usize] += 1;
        let last = last_of_key.insert(record.key.clone(), number);
        assert!(last.is_none_or(|last| last < number), "{last:?} before {number}");
    }
    assert!(seen.iter().all(|count| *count == 1), "{:?}", seen.iter().enumerate().find(|(_, count)| **count != 1));
}

#[tokio::test]
async fn compacted_topics_get_single_frames_and_clear_errors() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let config = TopicConfig { compaction: Some(true), ..TopicConfig::default() };
    client.admin().create_topic("c", 1, config).await.unwrap();
    let producer = client.producer().codec(Codec::Zstd).build().unwrap();
    let fault = |error| match error {
        Error::InvalidRecord { source, .. } => source,
        other => unreachable!("{other}"),
    };
    let keyless = producer.enqueue("c", ProducerRecord::new("v")).await.unwrap_err();
    assert_eq!(fault(keyless), RecordFault::KeyRequired);
    let headers = producer.enqueue("c", ProducerRecord::new("v").key("k").headers(&[("h", None)])).await.unwrap_err();
    assert_eq!(fault(headers), RecordFault::HeadersNotAllowed);
    for number in 0..50 {
        drop(producer.enqueue("c", ProducerRecord::new(&number.to_string()).key(&(number % 5).to_string())).await.unwrap());
    }
    drop(producer.enqueue("c", ProducerRecord::tombstone("3")).await.unwrap());
    producer.flush().await.unwrap();
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("c", 0, Start::Earliest).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    let records = drain(&mut consumer).await;
    assert_eq!(records.last().unwrap().value, None);
    assert_eq!(text(records[49].value.as_ref()).as_deref(), Some("49"));
}

#[tokio::test]
async fn unanswered_records_arrive_all_the_same() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let producer = client.producer().acks(Acks::None).build().unwrap();
    for number in 0..500 {
        drop(producer.enqueue("t", ProducerRecord::new(&number.to_string())).await.unwrap());
    }
    let stored = within(producer.send("t", ProducerRecord::new("last"))).await.unwrap();
    assert_eq!(stored.offset, None);
    eventually("all are stored", || broker.end_of("t", 0) == 501).await;
}

#[tokio::test]
async fn a_refusal_of_unanswered_records_is_told_by_flush() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let producer = client.producer().acks(Acks::None).build().unwrap();
    within(producer.send("t", ProducerRecord::new("stored"))).await.unwrap();
    client.admin().delete_topic("t").await.unwrap();
    within(producer.send("t", ProducerRecord::new("refused"))).await.unwrap();
    eventually("the refusal arrives", || producer.failure().is_some()).await;
    assert!(matches!(producer.flush().await, Err(Error::Refused { .. })));
    assert!(producer.flush().await.is_ok());
}

#[tokio::test]
async fn a_topic_that_was_created_again_is_found_again() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let producer = client.producer().build().unwrap();
    within(producer.send("t", ProducerRecord::new("1"))).await.unwrap();
    client.admin().delete_topic("t").await.unwrap();
    create(&client, "t", 3).await;
    let refused = within(producer.send("t", ProducerRecord::new("2"))).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    let stored = within(producer.send("t", ProducerRecord::new("3").partition(2))).await.unwrap();
    assert_eq!((stored.partition, stored.offset), (PartitionId(2), Some(Offset(0))));
}

#[tokio::test]
async fn a_handle_for_a_topic_follows_what_becomes_of_it() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let producer = client.producer().linger(Duration::ZERO).build().unwrap();
    let mut topic = producer.topic("t").await.unwrap();
    let mut other = topic.clone();
    let first = within(topic.send(ProducerRecord::new("1"))).await.unwrap();
    assert_eq!((&**first.topic(), first.partition, first.offset), ("t", PartitionId(0), Some(Offset(0))));
    assert_eq!(first, first.clone());
    assert!(format!("{first:?}").contains("topic: \"t\", partition: PartitionId(0), offset: Some(Offset(0))"), "{first:?}");

    client.admin().add_partitions("t", 3).await.unwrap();
    for handle in [&mut topic, &mut other] {
        let stored = within(handle.send(ProducerRecord::new("2").partition(2))).await.unwrap();
        assert_eq!(stored.partition, PartitionId(2));
        // Now without asking.
        drop(handle.try_enqueue(ProducerRecord::new("3").partition(2)).unwrap());
    }
    let records = [ProducerRecord::new("4").partition(2), ProducerRecord::new("5").partition(2)];
    let stored = within(topic.send_batch(&records)).await.unwrap();
    assert_eq!(stored.iter().map(|part| part.last_offset).collect::<Vec<_>>(), [Some(Offset(5))]);

    client.admin().delete_topic("t").await.unwrap();
    create(&client, "t", 1).await;
    let refused = within(topic.send(ProducerRecord::new("6"))).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    for (handle, offset) in [(&mut topic, 0), (&mut other, 1)] {
        assert_eq!(within(handle.send(ProducerRecord::new("7"))).await.unwrap().offset, Some(Offset(offset)));
    }
    assert_eq!((&**topic.name(), topic.producer().buffered_bytes()), ("t", 0));
}

#[tokio::test]
async fn topics_are_created_only_for_producers_and_only_if_wanted() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let mut consumer = client.consumer().build().unwrap();
    assert!(matches!(consumer.assign("odrers", 0, Start::Earliest).await, Err(Error::UnknownTopic { .. })));
    let picky = client.producer().create_topics(false).build().unwrap();
    assert!(matches!(picky.enqueue("orders", ProducerRecord::new("1")).await, Err(Error::UnknownTopic { .. })));
    let producer = client.producer().build().unwrap();
    within(producer.send("orders", ProducerRecord::new("1"))).await.unwrap();
    let names: Vec<_> = client.admin().list_topics().await.unwrap().into_iter().map(|topic| topic.name).collect();
    assert!(names.contains(&"orders".to_owned()) && !names.contains(&"odrers".to_owned()), "{names:?}");
}

#[tokio::test]
async fn a_record_over_the_limit_is_refused_before_it_takes_part() {
    let broker = TestBroker::with(|config| {
        config.limits.max_frame_bytes = 10_000;
        config.limits.max_request_bytes = 12_000;
    })
    .await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let producer = client.producer().build().unwrap();
    let (fits, too_large) = (vec![7u8; 9_900], vec![7u8; 10_001]);
    within(producer.send("t", ProducerRecord::new(&fits))).await.unwrap();
    let error = producer.enqueue("t", ProducerRecord::new(&too_large)).await.unwrap_err();
    assert!(matches!(error, Error::InvalidRecord { source: RecordFault::TooLarge { limit_bytes: 10_000, .. }, .. }), "{error}");
    // Batches keep to the limits, whatever the settings say.
    for _ in 0..300 {
        drop(producer.enqueue("t", ProducerRecord::new(&[1u8; 100])).await.unwrap());
    }
    producer.close().await.unwrap();
    assert_eq!(broker.end_of("t", 0), 301);
}

#[tokio::test]
async fn a_full_buffer_makes_sending_wait_and_not_the_memory_grow() {
    let broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let client = support::builder(proxy.address).connect().await.unwrap();
    create(&client, "t", 1).await;
    let producer =
        client.producer().batch_bytes(1000).max_buffered_bytes(10_000).linger(Duration::from_secs(3600)).build().unwrap();
    within(producer.send("t", ProducerRecord::new(&[0u8; 1000]))).await.unwrap();
    proxy.hold_answers();
    let value = [0u8; 100];
    let mut enqueued = 0;
    while let Ok(sent) = tokio::time::timeout(Duration::from_millis(200), producer.enqueue("t", ProducerRecord::new(&value))).await
    {
        drop(sent.unwrap());
        enqueued += 1;
        assert!(enqueued <= 100, "the buffer does not fill");
    }
    assert!(enqueued >= 50, "{enqueued}");
    proxy.cut();
    // What was waiting goes out, though a batch would linger for an hour.
    for _ in 0..500 {
        drop(within(producer.enqueue("t", ProducerRecord::new(&value))).await.unwrap());
    }
    within(producer.close()).await.unwrap();
    assert_eq!(broker.end_of("t", 0), 501 + enqueued);
    assert!(matches!(producer.enqueue("t", ProducerRecord::new("late")).await, Err(Error::Closed { .. })));
}

#[tokio::test]
async fn a_producer_that_is_dropped_sends_what_it_has() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    create(&client, "t", 1).await;
    let producer = client.producer().linger(Duration::from_secs(3600)).build().unwrap();
    let delivery = producer.enqueue("t", ProducerRecord::new("1")).await.unwrap();
    drop(producer);
    assert_eq!(within(delivery).await.unwrap().offset, Some(Offset(0)));
}

#[tokio::test]
async fn errors_reach_the_caller_with_their_cause_when_the_broker_stays_away() {
    let broker = TestBroker::start().await;
    let proxy = Proxy::start(broker.address).await;
    let client = support::builder(proxy.address).request_timeout(Duration::from_millis(300)).connect().await.unwrap();
    create(&client, "t", 1).await;
    let producer = client.producer().delivery_timeout(Duration::from_millis(400)).build().unwrap();
    within(producer.send("t", ProducerRecord::new("1"))).await.unwrap();
    proxy.refuse(true);
    let error = within(producer.send("t", ProducerRecord::new("2"))).await.unwrap_err();
    assert!(matches!(error, Error::DeliveryTimeout { source: Some(_), .. } | Error::OutcomeUnknown { .. }), "{error:?}");
    let error = within(client.admin().list_offsets("t", 0, OffsetQuery::Latest)).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { source: Some(_), .. }), "{error:?}");
    proxy.refuse(false);
    // The failed record left a gap in the sequences; what follows begins anew.
    within(producer.send("t", ProducerRecord::new("3"))).await.unwrap();
}
