//! What the connection makes of brokers that lie, hang up and fall silent: a fake one says what it is told to.

mod support;

use std::time::Duration;

use bytes::BytesMut;
use hermit_client::{Client, Error, Fault, Offset, OffsetQuery, ProtocolFault, Status, WireError};
use hermit_proto::session::{DeliveryHead, Operation};
use hermit_proto::{CorrelationId, Header, magic};
use support::fake::{Fake, connected, prompt, response_header, send};
use support::{builder, within};

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
