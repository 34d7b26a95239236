//! What is produced is delivered as it is: within the credit, whatever its size, and found by name and time.

use hermit_proto::session::{HeartbeatRequest, ListOffsetsRequest, OffsetQuery, Status, TopicConfig, UnsubscribeRequest};
use hermit_proto::{Offset, PartitionId};

use super::{frames, read};
use crate::support::Server;
use crate::support::v2::{Session, message};

#[tokio::test]
async fn what_is_produced_is_delivered_as_it_is_and_followed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("orders", 1, TopicConfig::default()).await.unwrap();
    let batch = [message(b"a"), message(b"bb")].concat();
    let stored = session.produce(topic, 0, &batch).await.unwrap();
    assert_eq!((stored.base_offset, stored.end_offset, stored.duplicate), (Offset(0), Offset(2), false));
    let (id, subscribed) = session.subscribe(topic, 0, 1 << 20).await.unwrap();
    assert_eq!(subscribed.high_watermark, Offset(2));
    assert_eq!(read(&mut session, topic, id, 2).await, [(0, b"a".to_vec()), (1, b"bb".to_vec())]);
    session.produce(topic, 0, &message(b"ccc")).await.unwrap();
    assert_eq!(read(&mut session, topic, id, 1).await, [(2, b"ccc".to_vec())]);
    session.call(&UnsubscribeRequest { subscription: id }).await.unwrap();
    let error = session.call(&UnsubscribeRequest { subscription: id }).await.unwrap_err();
    assert_eq!(error.status, Status::BadSubscription);
    server.stop().await;
}

#[tokio::test]
async fn credit_bounds_what_is_sent_and_one_frame_may_go_beyond() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    for _ in 0..3 {
        session.produce(topic, 0, &message(&[1; 1000])).await.unwrap();
    }
    let (id, _) = session.subscribe(topic, 0, 1).await.unwrap();
    let (head, unit) = session.delivery(id).await;
    assert_eq!((frames(topic, unit.payload()).len(), head.next_offset), (1, Offset(1)));
    // The credit is used up: a heartbeat overtakes whatever does not come.
    session.call(&HeartbeatRequest).await.unwrap();
    assert!(session.aside.is_empty());
    session.credit(id, 1 << 20).await;
    assert_eq!(read(&mut session, topic, id, 2).await.len(), 2);
    server.stop().await;
}

#[tokio::test]
async fn large_frames_pass_in_both_directions_without_a_byte_changed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("large", 1, TopicConfig::default()).await.unwrap();
    let payload: Vec<u8> = (0..20u32 << 20).map(|i| i.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    session.produce(topic, 0, &message(&payload)).await.unwrap();
    let (id, _) = session.subscribe(topic, 0, u64::MAX).await.unwrap();
    let got = read(&mut session, topic, id, 1).await;
    assert!(got[0].1 == payload);
    server.stop().await;
}

#[tokio::test]
async fn offsets_are_found_by_name_and_by_time() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    let mut times = Vec::new();
    for _ in 0..3 {
        times.push(session.produce(topic, 0, &message(b"x")).await.unwrap().append_time);
    }
    let mut ask = async |query| {
        let request = ListOffsetsRequest { topic, partition: PartitionId(0), query };
        session.call(&request).await.unwrap().offset.0
    };
    assert_eq!(ask(OffsetQuery::Earliest).await, 0);
    assert_eq!(ask(OffsetQuery::Latest).await, 3);
    assert_eq!(ask(OffsetQuery::AtOrAfter(times[1])).await, 1);
    assert_eq!(ask(OffsetQuery::AtOrAfter(u64::MAX)).await, 3);
    server.stop().await;
}
