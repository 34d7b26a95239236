//! What produce requests are answered, and in which order.

use hermit_proto::session::{Acks, GoodbyeRequest, ProduceResponse, Status, TopicConfig};
use hermit_proto::{CorrelationId, Offset, ProducedFrame, ProducerStamp, Sequence};

use super::read;
use crate::support::Server;
use crate::support::v2::{Session, message};

#[tokio::test]
async fn pipelined_requests_to_a_partition_are_answered_in_order_refusals_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 2, TopicConfig::default()).await.unwrap();
    let mut damaged = message(b"x");
    *damaged.last_mut().unwrap() ^= 1;
    let mut expected = Vec::new();
    for round in 0..200 {
        let bad = round % 7 == 3;
        let frames = if bad { damaged.clone() } else { message(b"y") };
        expected.push((session.send_produce(topic, 0, Acks::Committed, &frames).await, bad));
    }
    let mut next = 0;
    for (correlation, bad) in expected {
        let (answered, response) = session.next_response::<ProduceResponse>().await;
        assert_eq!(answered, correlation);
        match response {
            Ok(stored) => {
                assert!(!bad);
                assert_eq!(stored.base_offset, Offset(next));
                next += 1;
            }
            Err(error) => {
                assert!(bad);
                assert_eq!(error.status, Status::CorruptFrame);
            }
        }
    }
    server.stop().await;
}

/// What comes in one read goes into one append where that can be. Nobody is to see it: neither in an answer, nor in what is stored.
#[tokio::test]
async fn requests_that_came_together_are_answered_as_each_would_be_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 2, TopicConfig::default()).await.unwrap();
    let producer = session.init_producer().await;
    let stamped = |first: u32, count: u32| {
        let frame = |sequence: u32| {
            let first_sequence = Sequence(i32::try_from(sequence).unwrap());
            let stamp = ProducerStamp { id: producer.producer_id, epoch: producer.producer_epoch, first_sequence };
            ProducedFrame { producer: Some(stamp), ..ProducedFrame::message(0, None, &[sequence.to_le_bytes()[0]]) }
                .to_vec()
                .unwrap()
        };
        (first..first + count).flat_map(frame).collect::<Vec<_>>()
    };
    let mut damaged = [message(b"sound"), message(b"x")].concat();
    *damaged.last_mut().unwrap() ^= 1;
    let (gap, large) = (stamped(90, 1), message(&[b'l'; 20_000]));
    let sent = [
        (0, stamped(0, 2), Ok((0, 2, false))),
        (0, stamped(2, 1), Ok((2, 3, false))),
        (0, gap, Err(Status::OutOfOrderSequence)),
        (0, stamped(3, 1), Ok((3, 4, false))),
        (0, stamped(0, 2), Ok((0, 2, true))),
        (0, damaged, Err(Status::CorruptFrame)),
        (0, message(b"4"), Ok((4, 5, false))),
        (1, message(b"0"), Ok((0, 1, false))),
        (9, message(b"0"), Err(Status::UnknownPartition)),
        (0, large, Ok((5, 6, false))),
        (0, stamped(4, 1), Ok((6, 7, false))),
    ];
    let requests: Vec<_> = sent.iter().map(|(partition, frames, _)| (*partition, Acks::Committed, &**frames)).collect();
    let correlations = session.send_together(topic, &requests).await;
    let goodbye = session.request(&GoodbyeRequest).await;
    let mut answers = std::collections::HashMap::new();
    let mut order = Vec::new();
    while answers.len() < sent.len() {
        let (correlation, answer) = session.next_response::<ProduceResponse>().await;
        let told = |stored: ProduceResponse| (stored.base_offset.0, stored.end_offset.0, stored.duplicate);
        answers.insert(correlation, answer.map(told).map_err(|error| error.status));
        order.push(correlation);
    }
    for (correlation, (_, _, expected)) in correlations.iter().zip(&sent) {
        assert_eq!(answers[correlation], *expected);
    }
    let of_first = |correlation: &&CorrelationId| sent[correlations.iter().position(|sent| sent == *correlation).unwrap()].0 == 0;
    assert!(order.iter().filter(of_first).is_sorted_by_key(|correlation| correlation.0), "the order within a partition: {order:?}");
    session.response::<hermit_proto::session::GoodbyeResponse>(goodbye).await.unwrap();

    let mut session = Session::open(&server).await;
    let (id, _) = session.subscribe(topic, 0, 1 << 20).await.unwrap();
    let read = read(&mut session, topic, id, 7).await;
    let heads: Vec<_> = read.iter().map(|(offset, payload)| (*offset, payload[0])).collect();
    assert_eq!(heads, [(0, 0), (1, 1), (2, 2), (3, 3), (4, b'4'), (5, b'l'), (6, 4)]);
    server.stop().await;
}

#[tokio::test]
async fn acks_none_answers_refusals_only() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    session.send_produce(topic, 0, Acks::None, &message(b"x")).await;
    let refused = session.send_produce(topic, 9, Acks::None, &message(b"x")).await;
    let (answered, error) = session.next_response::<ProduceResponse>().await;
    assert_eq!(answered, refused);
    let error = error.unwrap_err();
    assert_eq!((error.status, error.field.as_str(), error.details), (Status::UnknownPartition, "partition", vec![1]));
    let stored = session.produce(topic, 0, &message(b"y")).await.unwrap();
    assert_eq!(stored.base_offset, Offset(1));
    server.stop().await;
}

#[tokio::test]
async fn a_retry_gets_the_same_offset_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    let producer = session.init_producer().await;
    let other = session.init_producer().await;
    assert_ne!(producer.producer_id, other.producer_id);
    let frame = |sequence| {
        let stamp = ProducerStamp { id: producer.producer_id, epoch: producer.producer_epoch, first_sequence: Sequence(sequence) };
        ProducedFrame { producer: Some(stamp), ..ProducedFrame::message(0, None, b"once") }.to_vec().unwrap()
    };
    session.produce(topic, 0, &message(b"before")).await.unwrap();
    let first = session.produce(topic, 0, &frame(0)).await.unwrap();
    let again = session.produce(topic, 0, &frame(0)).await.unwrap();
    assert_eq!((again.base_offset, again.end_offset, again.duplicate), (first.base_offset, first.end_offset, true));
    let gap = session.produce(topic, 0, &frame(5)).await.unwrap_err();
    assert_eq!((gap.status, gap.details), (Status::OutOfOrderSequence, vec![1, 5]));
    server.stop().await;

    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let again = session.produce(topic, 0, &frame(0)).await.unwrap();
    assert_eq!((again.base_offset, again.duplicate), (first.base_offset, true));
    let next = session.produce(topic, 0, &frame(1)).await.unwrap();
    assert_eq!((next.base_offset, next.duplicate), (Offset(2), false));
    let third = session.init_producer().await;
    assert!(third.producer_id > other.producer_id);
    server.stop().await;
}
