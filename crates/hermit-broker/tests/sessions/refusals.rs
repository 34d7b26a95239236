//! What is refused is told by status and field, and what is no request hurts nobody.

use bytes::BytesMut;
use hermit_proto::session::{
    DeleteTopicRequest, GoodbyeRequest, HeartbeatRequest, HelloRequest, MetadataRequest, Request, Status, TopicConfig,
    TopicSelection, WireError,
};
use hermit_proto::{Codec, CorrelationId, Header, ProducedFrame, TopicId, magic};

use crate::support::v2::{Session, message};
use crate::support::{Server, config, eventually, within};

async fn produce_error(session: &mut Session, topic: TopicId, frames: &[u8]) -> WireError {
    session.produce(topic, 0, frames).await.unwrap_err()
}

#[tokio::test]
async fn what_is_refused_is_told_by_status_and_field_and_the_session_lives() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.limits.max_frame_bytes = 2000;
    config.limits.max_request_bytes = 4000;
    let server = Server::with(config).await;
    let mut session = Session::open(&server).await;
    let plain = session.create("plain", 1, TopicConfig::default()).await.unwrap();
    let compaction = TopicConfig { compaction: Some(true), ..TopicConfig::default() };
    let compacted = session.create("compacted", 1, compaction).await.unwrap();

    let error = produce_error(&mut session, plain, &message(&[0; 2001])).await;
    assert_eq!((error.status, error.field.as_str(), error.details), (Status::TooLarge, "frame", vec![2000, 2001]));
    let error = produce_error(&mut session, plain, &message(&[0; 5000])).await;
    assert_eq!((error.status, error.details.first()), (Status::TooLarge, Some(&4000)));
    let many = ProducedFrame { record_count: 2_000_000, ..ProducedFrame::message(0, None, b"x") }.to_vec().unwrap();
    assert_eq!(produce_error(&mut session, plain, &many).await.status, Status::TooManyRecords);
    let lies = ProducedFrame::record_set(0, Codec::None, 1000, b"").to_vec().unwrap();
    assert_eq!(produce_error(&mut session, plain, &lies).await.status, Status::Malformed);
    assert_eq!(produce_error(&mut session, plain, &message(b"abc")[..71]).await.status, Status::Malformed);
    assert_eq!(produce_error(&mut session, compacted, &message(b"x")).await.status, Status::KeyRequired);
    let set = ProducedFrame::record_set(0, Codec::Zstd, 2, b"whatever").to_vec().unwrap();
    assert_eq!(produce_error(&mut session, compacted, &set).await.status, Status::RecordSetNotAllowed);
    assert_eq!(produce_error(&mut session, TopicId(1), &message(b"x")).await.status, Status::UnknownTopic);
    let offsets = server.broker.topics().iter().find(|topic| topic.meta.name.is_internal()).unwrap().meta.id;
    assert_eq!(produce_error(&mut session, offsets, &message(b"x")).await.status, Status::InternalTopic);

    assert_eq!(session.create("plain", 1, TopicConfig::default()).await.unwrap_err().status, Status::TopicExists);
    assert_eq!(session.create("__mine", 1, TopicConfig::default()).await.unwrap_err().status, Status::InvalidName);
    assert_eq!(session.create("x", 1_000_000, TopicConfig::default()).await.unwrap_err().status, Status::InvalidConfig);
    let tiny = TopicConfig { segment_bytes: Some(1), ..TopicConfig::default() };
    let error = session.create("x", 1, tiny).await.unwrap_err();
    assert_eq!((error.status, error.field.as_str()), (Status::InvalidConfig, "segment_bytes"));
    let error = session.call(&DeleteTopicRequest { name: "__consumer_offsets".into() }).await.unwrap_err();
    assert_eq!(error.status, Status::InternalTopic);

    let error = session.subscribe(plain, 1, 1).await.unwrap_err();
    assert_eq!((error.status, error.details), (Status::OffsetOutOfRange, vec![0, 0]));
    session.produce(plain, 0, &message(b"still here")).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn requests_cut_at_every_byte_and_bytes_of_all_kinds_never_hurt_the_broker() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let mut whole = BytesMut::new();
    HelloRequest::new("cut").encode(CorrelationId(1), &mut whole).unwrap();
    MetadataRequest { topics: TopicSelection::All, create_missing: false }.encode(CorrelationId(2), &mut whole).unwrap();
    for cut in 0..whole.len() {
        let mut session = Session::raw(&server).await;
        session.send(&whole[..cut]).await;
        drop(session);
    }
    for operation in 0..100 {
        for payload_size in [0u32, 1, 7, 30] {
            let mut session = Session::open(&server).await;
            let header =
                Header { magic: magic::REQUEST, timestamp: 0, offset: 9, key_size: 0, payload_size, record_count: operation };
            let bytes = [&header.encode()[..], &vec![0xFF; payload_size as usize]].concat();
            session.send(&bytes).await;
            let goodbye = session.request(&GoodbyeRequest).await;
            let mut last = None;
            while let Some(unit) = session.read_unit().await {
                last = Some(unit.correlation());
            }
            assert!(last == Some(goodbye) || last == Some(CorrelationId(9)) || last == Some(CorrelationId(0)), "{operation}");
        }
    }
    let mut session = Session::open(&server).await;
    session.call(&HeartbeatRequest).await.unwrap();
    drop(session);
    within(async { eventually("all are gone", || server.broker.connections() == 0).await }).await;
    server.stop().await;
}
