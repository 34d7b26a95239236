//! Every recorded exchange of version 1 replays byte for byte over a real socket, in one piece and one byte at a time.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::path::Path;

use support::{Server, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn vector(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors");
    std::fs::read(dir.join(name)).unwrap()
}

#[derive(Clone, Copy)]
enum Pieces {
    Whole,
    Bytes,
}

async fn replay(server: &Server, name: &str, pieces: Pieces) {
    let (sent, expected) = (vector(&format!("{name}.c2b.bin")), vector(&format!("{name}.b2c.bin")));
    let mut stream = server.connect().await;
    stream.set_nodelay(true).unwrap();
    match pieces {
        Pieces::Whole => stream.write_all(&sent).await.unwrap(),
        Pieces::Bytes => {
            for byte in &sent {
                stream.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
        }
    }
    let mut answered = vec![0; expected.len()];
    within(stream.read_exact(&mut answered)).await.unwrap();
    assert_eq!(answered, expected, "{name}");
}

async fn replay_all(pieces: Pieces) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    for name in [
        "01_producer_raw",
        "02_producer_goclient",
        "03_producer_pipelined_odd",
        "04_consumer_goclient_and_commit",
        "04_consumer_goclient_and_commit.conn2",
        "05_consumer_resume_midbatch",
        "06_commit_raw",
        "07_commit_backwards",
    ] {
        replay(&server, name, pieces).await;
    }
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
