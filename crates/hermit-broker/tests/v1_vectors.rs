//! Every recorded exchange of version 1 replays byte for byte over a real socket, in one piece and one byte at a time.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;
#[path = "support/vectors.rs"]
mod vectors;

use support::{Server, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use vectors::{Pieces, replay, vector};

async fn replay_all(pieces: Pieces) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    vectors::replay_all(&server, pieces).await;
    server.stop().await;
    let server = Server::start(dir.path()).await;
    assert!(server.broker.report().clean);
    replay(&server, "08_consumer_after_restart", pieces).await;
    // What was committed before the restart holds: offset 1 for `grp`, whose stream therefore lacks the first frame.
    let mut stream = server.connect().await;
    stream.write_all(&vector("05_consumer_resume_midbatch.c2b.bin")).await.unwrap();
    let expected = &vector("08_consumer_after_restart.b2c.bin")[39..];
    let mut answered = vec![0; expected.len()];
    within(stream.read_exact(&mut answered)).await.unwrap();
    assert_eq!(answered, expected);
    server.stop().await;
}

#[tokio::test]
async fn every_exchange_replays() {
    replay_all(Pieces::Whole).await;
}

#[tokio::test]
async fn every_exchange_replays_one_byte_at_a_time() {
    replay_all(Pieces::Bytes).await;
}
