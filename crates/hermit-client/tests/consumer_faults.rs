//! What a consumer makes of brokers that send damage, too much, or half of it: a fake one says what it is told to.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::time::Duration;

use bytes::BytesMut;
use hermit_client::{Client, Consumer, Error, Fault, LeaderEpoch, Offset, OnDamage, PartitionId, Start, Status, WireError};
use hermit_proto::session::{DeliveryError, DeliveryHead, Message, Operation, SubscribeRequest, SubscribeResponse};
use hermit_proto::{BrokerStamp, CorrelationId, FramePrefix, FrameSalt, ProducedFrame};
use support::fake::{Peer, TOPIC, connected};
use support::{text, within};

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
