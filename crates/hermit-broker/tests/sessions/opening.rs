//! How a session begins, and how it ends.

use hermit_proto::session::{Acks, GoodbyeRequest, HeartbeatRequest, HelloRequest, Status, TopicConfig};
use hermit_proto::{CorrelationId, Header, magic};

use crate::support::Server;
use crate::support::v2::{Session, message};

#[tokio::test]
async fn a_session_begins_with_hello_and_only_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::raw(&server).await;
    let error = session.call(&HeartbeatRequest).await.unwrap_err();
    assert_eq!(error.status, Status::BadSessionState);
    assert!(session.read_unit().await.is_none());

    let mut session = Session::open(&server).await;
    assert_eq!(session.call(&HelloRequest::new("again")).await.unwrap_err().status, Status::BadSessionState);
    assert!(session.read_unit().await.is_none());

    let mut session = Session::raw(&server).await;
    let hello = HelloRequest { min_version: 7, max_version: 9, ..HelloRequest::new("new") };
    let error = session.call(&hello).await.unwrap_err();
    assert_eq!((error.status, error.details), (Status::UnsupportedVersion, vec![1, 1]));
    assert!(session.read_unit().await.is_none());

    let mut session = Session::open(&server).await;
    session.send(&[0x02; 40]).await;
    let unit = session.read_unit().await.unwrap();
    assert_eq!((unit.correlation(), unit.header().record_count), (CorrelationId(0), Status::Malformed.code()));
    assert!(session.read_unit().await.is_none());

    let mut session = Session::open(&server).await;
    let unknown = Header { magic: magic::REQUEST, timestamp: 0, offset: 5, key_size: 0, payload_size: 0, record_count: 9999 };
    session.send(&unknown.encode()).await;
    let unit = session.read_unit().await.unwrap();
    assert_eq!((unit.correlation(), unit.header().record_count), (CorrelationId(5), Status::UnknownOperation.code()));
    session.call(&HeartbeatRequest).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn goodbye_comes_behind_everything_that_was_asked_before() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, TopicConfig::default()).await.unwrap();
    session.subscribe(topic, 0, 1 << 20).await.unwrap();
    let produced = session.send_produce(topic, 0, Acks::Committed, &message(b"x")).await;
    let goodbye = session.request(&GoodbyeRequest).await;
    let mut order = Vec::new();
    while let Some(unit) = session.read_unit().await {
        if unit.header().magic == magic::RESPONSE {
            assert_eq!(unit.header().record_count, 0);
            order.push(unit.correlation());
        }
    }
    assert_eq!(order, [produced, goodbye]);
    server.stop().await;
}
