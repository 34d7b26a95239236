//! Both protocols come through TLS as they come without.

use hermit_proto::session::{HelloRequest, HelloResponse};
use hermit_proto::{FrameLimits, FrameView, ProducedFrame};
use tokio::io::AsyncWriteExt as _;

use crate::clients::{BOTH, bridge, client, secured};
use crate::pki::Authority;
use crate::support::v2::Session;
use crate::support::{Server, v1, within};
use crate::vectors::{Pieces, replay_all};

#[tokio::test]
async fn every_exchange_of_version_1_replays() {
    let authority = Authority::new("ca");
    for version in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::with(secured(dir.path(), &authority)).await;
        bridge(&mut server, client(&authority, None, &[version])).await;
        replay_all(&server, Pieces::Whole).await;
        server.stop().await;
    }
}

#[tokio::test]
async fn every_exchange_of_version_1_replays_one_byte_at_a_time() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::with(secured(dir.path(), &authority)).await;
    bridge(&mut server, client(&authority, None, &BOTH)).await;
    replay_all(&server, Pieces::Bytes).await;
    server.stop().await;
}

fn frame(payload: &[u8]) -> Vec<u8> {
    ProducedFrame::message(1, None, payload).to_vec().unwrap()
}

/// What begins anew at no power of two.
fn payload(seed: u8, bytes: usize) -> Vec<u8> {
    let pattern: Vec<_> = (0..251).map(|at: u8| at ^ seed).collect();
    let mut payload = pattern.repeat(bytes / pattern.len() + 1);
    payload.truncate(bytes);
    payload
}

/// Sizes around what is copied at a time, and the largest, which takes its time.
const SIZES: [usize; 9] = [0, 1, 16 << 10, (64 << 10) - 109, 64 << 10, (64 << 10) + 1, 100_000, 1 << 20, (50 << 20) - 1];

#[tokio::test]
async fn frames_of_all_sizes_go_both_ways_in_both_versions_of_both() {
    let authority = Authority::new("ca");
    for (version, sizes) in BOTH.into_iter().zip([&SIZES[..], &SIZES[..8]]) {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::with(secured(dir.path(), &authority)).await;
        bridge(&mut server, client(&authority, None, &[version])).await;

        let mut session = Session::open(&server).await;
        let topic = session.create("t", 1, Default::default()).await.unwrap();
        for (seed, size) in (0..).zip(sizes.iter().copied()) {
            let stored = session.produce(topic, 0, &frame(&payload(seed, size))).await.unwrap();
            assert_eq!(stored.base_offset.0, u64::from(seed));
        }
        let (id, _) = session.subscribe(topic, 0, 1 << 30).await.unwrap();
        let limits = FrameLimits { max_body_bytes: 50 << 20, max_record_count: 1 };
        let mut next = 0;
        while usize::from(next) < sizes.len() {
            let (_, delivery) = session.delivery(id).await;
            let mut rest = delivery.payload();
            while !rest.is_empty() {
                let (view, behind) = FrameView::split(rest, &limits).unwrap();
                view.verify_body().unwrap();
                assert!(view.payload() == payload(next, sizes[usize::from(next)]), "frame {next}");
                (next, rest) = (next + 1, behind);
            }
        }

        let mut producer = v1::producer(&server, "one").await;
        let mut consumer = v1::consumer(&server, "g", "one").await;
        for (seed, size) in (0..).zip(sizes.iter().copied()) {
            let sent = v1::frame(u64::from(seed), b"k", &payload(seed, size), 1);
            within(producer.write_all(&sent)).await.unwrap();
            assert_eq!(v1::answer(&mut producer).await, (0, seed.into()));
            let (header, key, got) = v1::next_frame(&mut consumer).await;
            assert_eq!((header.offset, header.timestamp, &key[..]), (seed.into(), seed.into(), &b"k"[..]));
            assert!(got == payload(seed, size), "frame {seed}");
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn what_comes_with_the_handshake_is_not_lost() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(secured(dir.path(), &authority)).await;
    let mut secure = crate::clients::connect(&server, &client(&authority, None, &BOTH)).await;
    // The client's last words of the handshake and its first request leave together.
    let mut hello = bytes::BytesMut::new();
    hermit_proto::session::Request::encode(&HelloRequest::new("t"), hermit_proto::CorrelationId(1), &mut hello).unwrap();
    secure.write_all(&hello).await.unwrap();
    let mut answer = [0; 29];
    within(tokio::io::AsyncReadExt::read_exact(&mut secure, &mut answer)).await.unwrap();
    assert_eq!(answer[0], hermit_proto::magic::RESPONSE);
    drop(secure);
    let mut plain = Session::raw(&server).await;
    let _hello: HelloResponse = plain.call(&HelloRequest::new("without TLS, as it is not required")).await.unwrap();
    server.stop().await;
}
