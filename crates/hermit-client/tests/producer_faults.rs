//! What a producer makes of brokers that fail, forget and fall silent: a fake one says what it is told to.
#![expect(clippy::unwrap_used, reason = "the helpers below are a test's too")]

mod support;

use std::time::Duration;

use hermit_client::{Acks, Error, Keyless, Offset, Producer, ProducerRecord, Status, WireError};
use hermit_proto::Header;
use support::fake::{Peer, connected, prompt, response_header, send};
use support::{PATIENCE, within};
use tokio::time::Instant;

#[tokio::test]
async fn a_batch_whose_answer_is_lost_comes_again_byte_for_byte_and_before_anything_new() {
    let (fake, client, mut peer) = connected(|builder| builder).await;
    let producer = prompt(&client);
    let (first, one) = send(&producer, &mut peer, "1").await;
    let (second, two) = send(&producer, &mut peer, "2").await;
    assert_eq!((one.first_sequence, two.first_sequence), (Some(0), Some(1)));
    // Appended, never answered.
    drop(peer);
    let third = producer.enqueue("t", ProducerRecord::new("3")).await.unwrap();
    let mut peer = fake.accept().await;
    for (before, base) in [(&one, 70), (&two, 71)] {
        let again = peer.expect_produce().await;
        assert_eq!(again.frames, before.frames);
        peer.stored(&again, base).await;
    }
    let three = peer.expect_produce().await;
    assert_eq!((three.first_sequence, three.producer_id), (Some(2), one.producer_id));
    peer.stored(&three, 72).await;
    for (delivery, offset) in [(first, 70), (second, 71), (third, 72)] {
        assert_eq!(within(delivery).await.unwrap().offset, Some(Offset(offset)));
    }
}

#[tokio::test]
async fn a_full_disk_is_waited_for_in_order() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let producer = prompt(&client);
    let (first, one) = send(&producer, &mut peer, "1").await;
    let (second, two) = send(&producer, &mut peer, "2").await;
    let (mut one, mut two) = (one, two);
    for _ in 0..3 {
        peer.refuse(one.correlation, WireError::new(Status::DiskFull, "full")).await;
        peer.refuse(two.correlation, WireError::new(Status::OutOfOrderSequence, "gap").detail(0).detail(1)).await;
        one = peer.expect_produce().await;
        two = peer.expect_produce().await;
        assert_eq!((one.first_sequence, two.first_sequence), (Some(0), Some(1)));
    }
    peer.stored(&one, 5).await;
    peer.stored(&two, 6).await;
    assert_eq!(within(first).await.unwrap().offset, Some(Offset(5)));
    assert_eq!(within(second).await.unwrap().offset, Some(Offset(6)));
}

#[tokio::test]
async fn statuses_of_newer_brokers_are_retried_where_they_say_so() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let producer = prompt(&client);
    let (delivery, one) = send(&producer, &mut peer, "1").await;
    peer.refuse(one.correlation, WireError::new(Status::Other(5000), "later")).await;
    let again = peer.expect_produce().await;
    peer.stored(&again, 0).await;
    within(delivery).await.unwrap();
    let (delivery, two) = send(&producer, &mut peer, "2").await;
    peer.refuse(two.correlation, WireError::new(Status::Other(500), "never")).await;
    let error = within(delivery).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
    assert!(error.to_string().contains("status 500: never"), "{error}");
}

#[tokio::test]
async fn a_broker_that_lost_its_tail_gets_the_next_records_under_a_new_id() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let producer = prompt(&client);
    let (delivery, one) = send(&producer, &mut peer, "1").await;
    peer.stored(&one, 0).await;
    within(delivery).await.unwrap();
    for refusal in [
        WireError::new(Status::UnknownProducer, "forgotten"),
        WireError::new(Status::OutOfOrderSequence, "gap").detail(0).detail(1),
        // Not in doubt, so nothing of it can be stored, whatever the broker expects.
        WireError::new(Status::OutOfOrderSequence, "odd").detail(9).detail(1),
    ] {
        let (delivery, refused) = send(&producer, &mut peer, "2").await;
        peer.refuse(refused.correlation, refusal).await;
        let again = peer.expect_produce().await;
        assert_eq!(again.first_sequence, Some(0));
        assert_ne!(again.producer_id, refused.producer_id);
        peer.stored(&again, 1).await;
        within(delivery).await.unwrap();
    }
}

#[tokio::test]
async fn a_forgotten_producer_is_reported_where_a_retry_could_double() {
    let (fake, client, mut peer) = connected(|builder| builder).await;
    let producer = prompt(&client);
    let (delivery, one) = send(&producer, &mut peer, "1").await;
    peer.stored(&one, 0).await;
    within(delivery).await.unwrap();
    let (doubtful, two) = send(&producer, &mut peer, "2").await;
    drop(peer);
    let mut peer = fake.accept().await;
    let again = peer.expect_produce().await;
    assert_eq!(again.frames, two.frames);
    peer.refuse(again.correlation, WireError::new(Status::UnknownProducer, "forgotten")).await;
    let error = within(doubtful).await.unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
    let (delivery, three) = send(&producer, &mut peer, "3").await;
    assert_ne!(three.producer_id, two.producer_id);
    peer.stored(&three, 1).await;
    within(delivery).await.unwrap();
    assert!(matches!(producer.flush().await, Err(Error::OutcomeUnknown { .. })));
}

#[tokio::test]
async fn a_request_that_is_never_answered_is_sent_again_over_another_connection() {
    let (fake, client, mut peer) = connected(|builder| builder.request_timeout(Duration::from_millis(200))).await;
    let producer = prompt(&client);
    let (delivery, one) = send(&producer, &mut peer, "1").await;
    peer.hung_up().await;
    let mut peer = fake.accept().await;
    let again = peer.expect_produce().await;
    assert_eq!(again.frames, one.frames);
    peer.stored(&again, 3).await;
    assert_eq!(within(delivery).await.unwrap().offset, Some(Offset(3)));
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_costs_the_connection_and_no_record() {
    let (fake, client, mut peer) = connected(|builder| builder).await;
    let producer = prompt(&client);
    let (delivery, one) = send(&producer, &mut peer, "1").await;
    let cut = Header { payload_size: 3, ..response_header(one.correlation, 0) };
    peer.send(&[&cut.encode()[..], b"abc"].concat()).await;
    peer.hung_up().await;
    let mut peer = fake.accept().await;
    let again = peer.expect_produce().await;
    assert_eq!(again.frames, one.frames);
    peer.stored(&again, 3).await;
    within(delivery).await.unwrap();
}

#[tokio::test]
async fn what_asks_for_no_answer_is_done_when_it_is_written_and_not_repeated() {
    let (fake, client, mut peer) = connected(|builder| builder).await;
    let producer = client.producer().acks(Acks::None).linger(Duration::ZERO).build().unwrap();
    let (delivery, one) = send(&producer, &mut peer, "1").await;
    assert_eq!((one.producer_id, one.first_sequence), (None, None));
    assert_eq!(within(delivery).await.unwrap().offset, None);
    drop(peer);
    let mut peer = fake.accept().await;
    let (delivery, two) = send(&producer, &mut peer, "2").await;
    assert_ne!(two.frames, one.frames);
    within(delivery).await.unwrap();
}

/// Sends a record with a key, and answers it; gives the partition that it came to.
async fn where_it_goes(producer: &Producer, peer: &mut Peer, key: &str) -> u32 {
    let (delivery, produced) = within(async {
        let record = ProducerRecord::new("v").key(key);
        tokio::join!(producer.enqueue("t", record), peer.expect_produce())
    })
    .await;
    peer.stored(&produced, 0).await;
    within(delivery.unwrap()).await.unwrap();
    produced.partition.0
}

/// "21" belongs to partition 4 of 8, and "abc" to 3.
#[tokio::test]
async fn partitions_that_are_added_are_used_within_the_metadata_age() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let age = Duration::from_millis(100);
    let producer = client.producer().linger(Duration::ZERO).metadata_max_age(age).build().unwrap();
    assert_eq!(where_it_goes(&producer, &mut peer, "21").await, 0);
    peer.partitions = 8;
    let deadline = Instant::now() + PATIENCE;
    while where_it_goes(&producer, &mut peer, "21").await != 4 {
        assert!(Instant::now() < deadline, "it keeps to the old partitions");
    }
    assert_eq!(where_it_goes(&producer, &mut peer, "abc").await, 3);
}

#[tokio::test]
async fn partitions_are_asked_for_again_after_a_new_connection_and_for_one_that_is_not_known() {
    let (fake, client, mut peer) = connected(|builder| builder).await;
    let producer = client.producer().linger(Duration::ZERO).metadata_max_age(Duration::from_secs(3600)).build().unwrap();
    assert_eq!(where_it_goes(&producer, &mut peer, "21").await, 0);
    peer.partitions = 3;
    let (delivery, produced) = within(async {
        let record = ProducerRecord::new("v").partition(2);
        tokio::join!(producer.enqueue("t", record), peer.expect_produce())
    })
    .await;
    peer.stored(&produced, 0).await;
    assert_eq!(within(delivery.unwrap()).await.unwrap().partition.0, 2);
    let wrong = [ProducerRecord::new("v").partition(3)];
    let (beyond, _) = tokio::join!(
        within(producer.enqueue_batch("t", &wrong)),
        tokio::time::timeout(Duration::from_millis(50), peer.expect_produce())
    );
    assert!(matches!(beyond, Err(Error::UnknownPartition { count: 3, .. })));
    drop(peer);
    let mut peer = fake.accept().await;
    peer.partitions = 8;
    let deadline = Instant::now() + PATIENCE;
    while where_it_goes(&producer, &mut peer, "21").await != 4 {
        assert!(Instant::now() < deadline, "it keeps to the old partitions");
    }
}

#[tokio::test]
async fn a_producer_that_the_broker_fences_tells_what_it_knows_of_each_record() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    peer.partitions = 2;
    let producer = prompt(&client);
    let mut sent = Vec::new();
    for partition in [0u32, 0, 1] {
        let record = ProducerRecord::new("v").partition(partition);
        let (delivery, produced) = within(async { tokio::join!(producer.enqueue("t", record), peer.expect_produce()) }).await;
        sent.push((delivery.unwrap(), produced));
    }
    let [(first, one), (second, two), (third, three)] = <[_; 3]>::try_from(sent).ok().unwrap();
    peer.refuse(one.correlation, WireError::new(Status::FencedProducer, "newer")).await;
    assert!(matches!(within(first).await, Err(Error::ProducerFenced { .. })));
    assert!(matches!(producer.enqueue("t", ProducerRecord::new("v")).await, Err(Error::ProducerFenced { .. })));
    // What was in flight is answered; what is not is unknown.
    peer.stored(&three, 9).await;
    assert_eq!(within(third).await.unwrap().offset, Some(Offset(9)));
    drop((peer, two));
    let error = within(second).await.unwrap_err();
    assert!(matches!(&error, Error::OutcomeUnknown { source } if matches!(**source, Error::ProducerFenced { .. })), "{error}");
    assert!(matches!(within(producer.flush()).await, Err(Error::ProducerFenced { .. })));
}

#[tokio::test]
async fn a_record_that_waits_for_room_does_not_take_another_ones_turn() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    peer.partitions = 3;
    let record = ProducerRecord::new("0123456789");
    // Room for one.
    let builder = client.producer().linger(Duration::ZERO).keyless(Keyless::RoundRobin);
    let producer = builder.batch_bytes(10).max_buffered_bytes(60).build().unwrap();
    let (first, mut before) = within(async { tokio::join!(producer.enqueue("t", record), peer.expect_produce()) }).await;
    drop(first.unwrap());
    for number in 1..=4 {
        assert!(matches!(producer.try_enqueue("t", record), Err(Error::WouldWait { .. })));
        let answer_when_waited_for = async {
            tokio::task::yield_now().await;
            peer.stored(&before, 0).await;
            peer.expect_produce().await
        };
        let (delivery, produced) = within(async { tokio::join!(producer.enqueue("t", record), answer_when_waited_for) }).await;
        drop(delivery.unwrap());
        assert_eq!(produced.partition.0, number % 3);
        before = produced;
    }
}

#[tokio::test]
async fn room_for_records_whose_topic_is_looked_up_again_comes_back_when_nobody_waits_for_that() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let producer = client.producer().linger(Duration::ZERO).batch_bytes(10).max_buffered_bytes(60).build().unwrap();
    let (first, produced) = send(&producer, &mut peer, "0123456789").await;
    let more = [ProducerRecord::new("0123456789")];
    let mut enqueuing = Box::pin(producer.enqueue_batch("t", &more));
    let refused = async {
        // The second waits for the room of the first, which brings the news that the topic is gone.
        tokio::task::yield_now().await;
        peer.refuse(produced.correlation, WireError::new(Status::UnknownTopic, "gone")).await;
        within(first).await
    };
    let refused = tokio::select! {
        enqueued = &mut enqueuing => unreachable!("{enqueued:?}"),
        refused = refused => refused,
    };
    assert!(matches!(refused, Err(Error::Refused { .. })));
    // Now it has the room, and looks up the topic, of which nobody tells it.
    tokio::select! {
        biased;
        enqueued = &mut enqueuing => unreachable!("{enqueued:?}"),
        () = tokio::task::yield_now() => {}
    }
    assert!(producer.buffered_bytes() > 0);
    drop(enqueuing);
    assert_eq!(producer.buffered_bytes(), 0);
}

#[tokio::test]
async fn the_default_batch_fits_a_smaller_buffer_and_one_that_was_asked_for_must() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let small = client.producer().linger(Duration::from_secs(3600)).max_buffered_bytes(1000);
    // 128 KiB is the default: asked for, it is taken at its word.
    let refused = small.clone().batch_bytes(128 << 10).build().unwrap_err();
    assert!(matches!(refused, Error::Config { setting: "max_buffered_bytes", .. }), "{refused:?}");
    let producer = small.build().unwrap();
    // There is room for two; when the third waits for it, they do not linger for an hour.
    let value = [7; 450];
    let records = [ProducerRecord::new(&value); 3];
    let mut enqueuing = Box::pin(producer.enqueue_batch("t", &records));
    let produced = tokio::select! {
        enqueued = &mut enqueuing => unreachable!("{enqueued:?}"),
        produced = peer.expect_produce() => produced,
    };
    assert!(produced.record_count <= 2);
    peer.stored(&produced, 0).await;
    drop(within(enqueuing).await.unwrap());
}
