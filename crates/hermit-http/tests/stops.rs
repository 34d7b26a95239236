//! What a stop waits for, and for how long.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::time::Duration;

use hermit_broker::{Broker, TopicConfig};
use support::{PASSWORD, PATIENCE, Server, basic};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

async fn eventually(is: impl Fn() -> bool) {
    let looked = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looked).await.unwrap();
}

/// Stops the broker, and gives what a client is told meanwhile.
async fn told_at_a_stop(broker: &Broker, client: &mut TcpStream) -> String {
    let stopping = tokio::spawn({
        let broker = broker.clone();
        async move { broker.shutdown().await }
    });
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, client.read_to_end(&mut answer)).await.unwrap().unwrap();
    tokio::time::timeout(PATIENCE, stopping).await.unwrap().unwrap().unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_body_that_does_not_come() {
    let server = Server::start_with(|config| config.limits.drain_timeout = 3 * PATIENCE).await;
    let broker = server.test.broker();
    let head = "POST /api/v1/topics/t/records HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/octet-stream\r\ncontent-length: 100000\r\n\r\nfirst";
    let mut slow = server.begin(head).await;
    eventually(|| broker.inflight_bytes() > 0).await;
    let answer = told_at_a_stop(broker, &mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("ShuttingDown"), "{answer}");
}

#[tokio::test]
async fn a_stop_lets_a_login_be_decided_and_what_it_is_for_be_done() {
    let server = Server::with_logins().await;
    let broker = server.test.broker();
    broker.create_topic("t", 1, &TopicConfig::default()).unwrap();
    let login = basic("admin", PASSWORD);
    let request = format!(
        "POST /api/v1/topics/t/records HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{login}\r\ncontent-type: application/octet-stream\r\ncontent-length: 5\r\n\r\nfirst"
    );
    let mut client = server.begin(&request).await;
    tokio::select! {
        () = eventually(|| !broker.listed_connections(0, 10).0.is_empty()) => {}
        // Whoever looks late on a busy machine finds it answered, and the connection gone.
        answered = client.readable() => answered.unwrap(),
    }
    // It has been read then; to be decided takes longer.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let answer = told_at_a_stop(broker, &mut client).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
