//! The recorded exchanges of version 1, and how they are replayed.

use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Server, within};

pub(crate) fn vector(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vectors");
    std::fs::read(dir.join(name)).unwrap()
}

#[derive(Clone, Copy)]
pub(crate) enum Pieces {
    Whole,
    Bytes,
}

pub(crate) async fn replay(server: &Server, name: &str, pieces: Pieces) {
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

/// All that build on each other, in their order.
pub(crate) async fn replay_all(server: &Server, pieces: Pieces) {
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
        replay(server, name, pieces).await;
    }
}
