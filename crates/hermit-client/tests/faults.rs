//! What the client makes of brokers that fail, lie and fall silent: a fake one says what it is told to.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use bytes::BytesMut;
use hermit_client::{
    Acks, Client, ClientBuilder, Consumer, Delivery, Error, Fault, LeaderEpoch, Offset, OffsetQuery, OnDamage, PartitionId,
    Producer, ProducerRecord, ProtocolFault, Start, Status, WireError,
};
use hermit_proto::session::{DeliveryError, DeliveryHead, Message, Operation, SubscribeRequest, SubscribeResponse};
use hermit_proto::{BrokerStamp, CorrelationId, FramePrefix, FrameSalt, Header, ProducedFrame, magic};
use support::fake::{Fake, Peer, Produced, TOPIC};
use support::{builder, text, within};

async fn connected(change: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Fake, Client, Peer) {
    let fake = Fake::start().await;
    let client = change(builder(fake.address)).start().unwrap();
    let peer = fake.accept().await;
    (fake, client, peer)
}

/// Sends a record, up to the request for it.
async fn send(producer: &Producer, peer: &mut Peer, value: &str) -> (Delivery, Produced) {
    let record = ProducerRecord::new(value).key("k");
    let (delivery, produced) = within(async { tokio::join!(producer.enqueue("t", record), peer.expect_produce()) }).await;
    (delivery.unwrap(), produced)
}

fn prompt(client: &Client) -> Producer {
    client.producer().linger(Duration::ZERO).build().unwrap()
}

// Producing

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

// The connection

fn response_header(correlation: CorrelationId, status: u32) -> Header {
    Header { magic: magic::RESPONSE, timestamp: 0, offset: correlation.0, key_size: 0, payload_size: 0, record_count: status }
}

#[tokio::test]
async fn no_answer_to_the_hello_makes_it_panic_or_hang() {
    let huge = Header { key_size: u32::MAX, payload_size: u32::MAX, ..response_header(CorrelationId(1), 0) };
    let over_limit = Header { payload_size: u32::MAX, ..response_header(CorrelationId(1), 0) };
    let answers: [&[u8]; 8] = [
        b"",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        &[0xFF; 200],
        &huge.encode(),
        &over_limit.encode(),
        &response_header(CorrelationId(1), 0).encode(),
        &response_header(CorrelationId(7), 0).encode(),
        &Header { magic: magic::DELIVERY, ..response_header(CorrelationId(1), 0) }.encode(),
    ];
    for answer in answers {
        let fake = Fake::start().await;
        let connecting = builder(fake.address).connect_timeout(Duration::from_secs(5)).connect();
        let answering = async {
            let mut peer = fake.accept_raw().await;
            peer.recv().await;
            peer.send(answer).await;
        };
        let (connected, ()) = within(async { tokio::join!(connecting, answering) }).await;
        let error = connected.unwrap_err();
        assert!(matches!(error, Error::Protocol { .. } | Error::ConnectionLost { .. }), "{answer:?}: {error}");
    }
}

#[tokio::test]
async fn a_refused_hello_is_told_at_once() {
    let fake = Fake::start().await;
    let connecting = builder(fake.address).connect();
    let refusing = async {
        let mut peer = fake.accept_raw().await;
        let hello = peer.recv().await;
        peer.refuse(hello.correlation(), WireError::new(Status::NotAuthenticated, "who are you?")).await;
    };
    let (connected, ()) = within(async { tokio::join!(connecting, refusing) }).await;
    let error = connected.unwrap_err();
    assert_eq!((error.status(), error.fault()), (Some(Status::NotAuthenticated), Fault::Caller));
    assert!(error.to_string().contains("who are you?"), "{error}");
}

#[tokio::test]
async fn an_unreachable_broker_is_told_at_once_with_the_cause() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = within(Client::connect(&address.to_string())).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert_eq!(error.to_string(), format!("cannot reach {address}: connection refused"));
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_broker_that_hangs_up_each_time_is_not_called_without_pause() {
    let fake = Fake::start().await;
    let client = builder(fake.address).request_timeout(Duration::from_millis(400)).start().unwrap();
    let admin = client.admin();
    let asking = admin.list_topics();
    let hanging_up = async {
        let mut calls = 0;
        loop {
            drop(fake.accept().await);
            calls += 1;
            assert!(calls < 100, "it spins");
        }
    };
    let error = within(async {
        tokio::select! {
            asked = asking => asked.unwrap_err(),
            () = hanging_up => panic!("never ends"),
        }
    })
    .await;
    assert!(matches!(error, Error::Timeout { source: Some(_), .. }), "{error}");
}

#[tokio::test]
async fn a_silent_broker_is_given_up_and_called_again() {
    let (fake, client, mut peer) = connected(|builder| builder.heartbeat_interval(Duration::from_millis(40))).await;
    let admin = client.admin();
    let asking = tokio::spawn(async move { admin.list_offsets("t", 0, OffsetQuery::Latest).await });
    peer.recv().await;
    // It says nothing more.
    peer.hung_up().await;
    let mut peer = fake.accept().await;
    peer.expect(Operation::ListOffsets).await;
    asking.abort();
}

#[tokio::test]
async fn a_session_that_the_broker_ends_is_made_again() {
    let (fake, client, mut peer) = connected(|builder| builder).await;
    let admin = client.admin();
    let asking = tokio::spawn(async move { admin.list_topics().await });
    peer.recv().await;
    peer.refuse(CorrelationId(0), WireError::new(Status::ShuttingDown, "good night")).await;
    peer.hung_up().await;
    let mut peer = fake.accept().await;
    let request = peer.recv().await;
    peer.respond(request.correlation(), &hermit_proto::session::ListTopicsResponse::default()).await;
    assert!(within(asking).await.unwrap().unwrap().is_empty());
}

#[tokio::test]
async fn what_nobody_asked_for_is_passed_over() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let mut noise = BytesMut::new();
    noise.extend_from_slice(&response_header(CorrelationId(999_999), 77).encode());
    let head = DeliveryHead { high_watermark: Offset(1), log_start: Offset(0), next_offset: Offset(1) };
    noise.extend_from_slice(&head.encode(CorrelationId(888), 3));
    noise.extend_from_slice(b"abc");
    peer.send(&noise).await;
    let producer = prompt(&client);
    let (delivery, one) = send(&producer, &mut peer, "1").await;
    peer.stored(&one, 0).await;
    within(delivery).await.unwrap();
}

#[tokio::test]
async fn pages_that_do_not_lead_on_are_not_followed_for_ever() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let admin = client.admin();
    let asking = tokio::spawn(async move { admin.list_topics().await });
    let request = peer.recv().await;
    let page = hermit_proto::session::ListTopicsResponse { topics: Vec::new(), more: true };
    peer.respond(request.correlation(), &page).await;
    let error = within(asking).await.unwrap().unwrap_err();
    assert!(matches!(error, Error::Protocol { source: ProtocolFault::Answer { .. }, .. }), "{error}");
}

#[tokio::test]
async fn the_client_says_goodbye() {
    let (_fake, client, mut peer) = connected(|builder| builder.connect_timeout(Duration::from_millis(200))).await;
    client.broker().await.unwrap();
    drop(client);
    assert_eq!(peer.recv().await.header().record_count, Operation::Goodbye.number());
    peer.hung_up().await;
}

// Consuming

fn stored(value: &str, offset: u64) -> Vec<u8> {
    let mut bytes = ProducedFrame::message(1, None, value.as_bytes()).to_vec().unwrap();
    let stamp = BrokerStamp { offset: Offset(offset), leader_epoch: LeaderEpoch(0), append_time: 9, flushed_distance: 0 };
    FramePrefix::stamp(bytes.first_chunk_mut().unwrap(), &stamp, &FrameSalt::new(TOPIC, PartitionId(0)));
    bytes
}

fn delivery(subscription: CorrelationId, frames: &[u8], next: u64) -> Vec<u8> {
    let head = DeliveryHead { high_watermark: Offset(1000), log_start: Offset(0), next_offset: Offset(next) };
    [&head.encode(subscription, u32::try_from(frames.len()).unwrap()), frames].concat()
}

/// Waits for the subscription from `offset`, and accepts it.
async fn subscribed(peer: &mut Peer, offset: u64) -> (CorrelationId, SubscribeRequest) {
    let unit = peer.expect(Operation::Subscribe).await;
    let request = SubscribeRequest::decode(unit.key(), unit.payload()).unwrap();
    assert_eq!(request.offset, Offset(offset));
    let answer = SubscribeResponse { start_offset: Offset(offset), log_start: Offset(0), high_watermark: Offset(1000) };
    peer.respond(unit.correlation(), &answer).await;
    (unit.correlation(), request)
}

async fn consuming(client: &Client, peer: &mut Peer, on_damage: OnDamage) -> Consumer {
    let mut consumer = client.consumer().on_damage(on_damage).prefetch_bytes(1000).build().unwrap();
    let answering = async {
        let unit = peer.recv().await;
        assert_eq!(unit.header().record_count, Operation::Metadata.number());
        let found = support::fake::topic("t", 1, false);
        let answer = hermit_proto::session::MetadataResponse { topics: vec![found], missing: Vec::new() };
        peer.respond(unit.correlation(), &answer).await;
    };
    let (assigned, ()) = within(async { tokio::join!(consumer.assign("t", 0, Start::Offset(Offset(0))), answering) }).await;
    assigned.unwrap();
    consumer
}

async fn next(consumer: &mut Consumer) -> String {
    text(within(consumer.recv()).await.unwrap().unwrap().value.as_ref()).unwrap()
}

#[tokio::test]
async fn half_a_delivery_is_fetched_again_behind_the_last_whole_record() {
    let (fake, client, mut peer) = connected(|builder| builder).await;
    let mut consumer = consuming(&client, &mut peer, OnDamage::Stop).await;
    let (first, ()) = tokio::join!(next(&mut consumer), async {
        let (subscription, _) = subscribed(&mut peer, 0).await;
        peer.send(&delivery(subscription, &stored("a", 0), 1)).await;
        let half = delivery(subscription, &stored("b", 1), 2);
        peer.send(&half[..half.len() - 3]).await;
    });
    assert_eq!(first, "a");
    drop(peer);
    let mut peer = fake.accept().await;
    let (second, ()) = tokio::join!(next(&mut consumer), async {
        let (subscription, _) = subscribed(&mut peer, 1).await;
        peer.send(&delivery(subscription, &stored("b", 1), 2)).await;
    });
    assert_eq!(second, "b");
}

#[tokio::test]
async fn more_than_the_credit_costs_the_connection() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let mut consumer = consuming(&client, &mut peer, OnDamage::Stop).await;
    let flooding = async {
        let (subscription, request) = subscribed(&mut peer, 0).await;
        let frame = stored(&"x".repeat(400), 0);
        let mut sent = 0;
        while sent <= request.credit_bytes + 2 * frame.len() as u64 {
            peer.send(&delivery(subscription, &frame, 0)).await;
            sent += frame.len() as u64;
        }
        peer.hung_up().await;
    };
    // Asked for once, so that the subscription is made; nothing is taken after that.
    let waiting = async {
        drop(tokio::time::timeout(Duration::from_millis(50), consumer.recv()).await);
        std::future::pending::<()>().await;
    };
    within(async {
        tokio::select! {
            () = flooding => {}
            () = waiting => {}
        }
    })
    .await;
}

#[tokio::test]
async fn credit_is_given_back_as_records_are_taken() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let mut consumer = consuming(&client, &mut peer, OnDamage::Stop).await;
    let frame = stored(&"x".repeat(400), 0);
    let delivering = async {
        let (subscription, request) = subscribed(&mut peer, 0).await;
        let mut credit = request.credit_bytes;
        for offset in 0..200u64 {
            while credit == 0 {
                let unit = peer.expect(Operation::Credit).await;
                let grant = hermit_proto::session::CreditRequest::decode(unit.key(), unit.payload()).unwrap();
                credit += grant.bytes;
            }
            peer.send(&delivery(subscription, &stored(&"x".repeat(400), offset), offset + 1)).await;
            credit = credit.saturating_sub(frame.len() as u64);
        }
    };
    let taking = async {
        for _ in 0..200 {
            assert_eq!(next(&mut consumer).await.len(), 400);
        }
    };
    within(async { tokio::join!(delivering, taking) }).await;
}

#[tokio::test]
async fn damaged_frames_are_named_and_skipped_only_if_asked() {
    let mut damaged = stored("bad", 1);
    *damaged.last_mut().unwrap() ^= 1;
    for on_damage in [OnDamage::Stop, OnDamage::Skip] {
        let (_fake, client, mut peer) = connected(|builder| builder).await;
        let mut consumer = consuming(&client, &mut peer, on_damage).await;
        let frames = [stored("a", 0), damaged.clone(), stored("c", 2)].concat();
        let (first, ()) = tokio::join!(next(&mut consumer), async {
            let (subscription, _) = subscribed(&mut peer, 0).await;
            peer.send(&delivery(subscription, &frames, 3)).await;
        });
        assert_eq!(first, "a");
        let error = within(consumer.recv()).await.unwrap_err();
        assert!(matches!(error, Error::Corrupt { first: Offset(1), next: Offset(2), source: Some(_), .. }), "{error}");
        assert_eq!(error.fault(), Fault::Data);
        match on_damage {
            OnDamage::Skip => assert_eq!(next(&mut consumer).await, "c"),
            OnDamage::Stop => {
                assert!(within(consumer.recv()).await.unwrap().is_none());
                assert_eq!(consumer.position("t", 0).unwrap().offset, Offset(1));
                // The application decides to go on behind it.
                consumer.seek("t", 0, 2).unwrap();
                let (third, ()) = tokio::join!(next(&mut consumer), async {
                    peer.expect(Operation::Unsubscribe).await;
                    let (subscription, _) = subscribed(&mut peer, 2).await;
                    peer.send(&delivery(subscription, &stored("c", 2), 3)).await;
                });
                assert_eq!(third, "c");
            }
        }
    }
}

#[tokio::test]
async fn a_range_that_the_broker_calls_corrupt_is_passed_by_the_policy() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let mut consumer = consuming(&client, &mut peer, OnDamage::Skip).await;
    let mut trouble = BytesMut::new();
    let corrupt = WireError::new(Status::CorruptLog, "rot").detail(1).detail(5);
    let (first, ()) = tokio::join!(next(&mut consumer), async {
        let (subscription, _) = subscribed(&mut peer, 0).await;
        peer.send(&delivery(subscription, &stored("a", 0), 1)).await;
        DeliveryError { ended: true, error: corrupt }.encode(subscription, &mut trouble).unwrap();
        peer.send(&trouble).await;
    });
    assert_eq!(first, "a");
    let error = within(consumer.recv()).await.unwrap_err();
    assert!(matches!(error, Error::Corrupt { first: Offset(1), next: Offset(5), source: None, .. }), "{error}");
    let (second, ()) = tokio::join!(next(&mut consumer), async {
        let (subscription, _) = subscribed(&mut peer, 5).await;
        peer.send(&delivery(subscription, &stored("f", 5), 6)).await;
    });
    assert_eq!(second, "f");
}

#[tokio::test]
async fn a_position_of_a_lost_tail_is_an_error_that_says_so() {
    let (fake, client, mut peer) = connected(|builder| builder).await;
    let mut consumer = consuming(&client, &mut peer, OnDamage::Stop).await;
    let (first, ()) = tokio::join!(next(&mut consumer), async {
        let (subscription, _) = subscribed(&mut peer, 0).await;
        peer.send(&delivery(subscription, &stored("a", 0), 1)).await;
    });
    assert_eq!(first, "a");
    drop(peer);
    let mut peer = fake.accept().await;
    let (error, ()) = within(async {
        tokio::join!(consumer.recv(), async {
            let unit = peer.expect(Operation::Subscribe).await;
            let request = SubscribeRequest::decode(unit.key(), unit.payload()).unwrap();
            assert_eq!((request.offset, request.leader_epoch), (Offset(1), LeaderEpoch(0)));
            peer.refuse(unit.correlation(), WireError::new(Status::Diverged, "lost").detail(0)).await;
        })
    })
    .await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Diverged { position: Offset(1), epoch_end: Offset(0), .. }), "{error}");
}

#[tokio::test]
async fn an_offset_only_delivery_moves_the_position_over_a_gap() {
    let (_fake, client, mut peer) = connected(|builder| builder).await;
    let mut consumer = consuming(&client, &mut peer, OnDamage::Stop).await;
    consumer.stop_at("t", 0, 40).unwrap();
    let (ended, ()) = within(async {
        tokio::join!(consumer.recv(), async {
            let (subscription, _) = subscribed(&mut peer, 0).await;
            peer.send(&delivery(subscription, &[], 20)).await;
            peer.send(&delivery(subscription, &[], 40)).await;
        })
    })
    .await;
    assert!(ended.unwrap().is_none());
    assert_eq!(consumer.position("t", 0).unwrap().offset, Offset(40));
}

#[tokio::test]
async fn an_outage_reaches_the_reader_with_its_cause_and_ends_nothing() {
    let (fake, client, mut peer) = connected(|builder| builder.request_timeout(Duration::from_millis(150))).await;
    let mut consumer = consuming(&client, &mut peer, OnDamage::Stop).await;
    let address = fake.address;
    drop((peer, fake));
    for _ in 0..2 {
        let error = within(consumer.recv()).await.unwrap_err();
        assert!(
            matches!(&error, Error::Timeout { source: Some(cause), .. } if matches!(**cause, Error::Unreachable { .. })),
            "{error}"
        );
        assert!(error.to_string().contains(&address.to_string()), "{error}");
    }
}
