//! What a producer makes of brokers that fail, forget and fall silent: a fake one says what it is told to.

mod support;

use std::time::Duration;

use hermit_client::{Acks, Error, Offset, ProducerRecord, Status, WireError};
use hermit_proto::Header;
use support::fake::{connected, prompt, response_header, send};
use support::within;

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
