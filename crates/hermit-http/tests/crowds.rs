//! What crowds, slow clients and a stop cannot do.

mod support;

use std::sync::Arc;
use std::time::Duration;

use hermit_broker::log::Batch;
use hermit_broker::{AppendContext, Hooks, Rejection};
use hermit_http::HttpConfig;
use parking_lot::Mutex;
use support::{JSON, PASSWORD, PATIENCE, Server, basic, read_until};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;

const OCTETS: &str = "content-type: application/octet-stream";

#[tokio::test]
async fn a_body_that_trickles_is_cut_off() {
    let server =
        Server::configured(HttpConfig { body_timeout: Duration::from_millis(500), min_rate: 1 << 20, ..HttpConfig::default() })
            .await;
    let head = format!("POST /api/v1/topics/t/records HTTP/1.1\r\nhost: localhost\r\n{OCTETS}\r\ncontent-length: 100000\r\n\r\n");
    let mut slow = server.begin(&head).await;
    let trickle = async {
        let mut answer = Vec::new();
        loop {
            // Each byte comes in time.
            let answered = tokio::time::timeout(Duration::from_millis(20), slow.read_buf(&mut answer)).await;
            if answered.is_ok() || slow.write_all(b"x").await.is_err() {
                return String::from_utf8(answer).unwrap();
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, trickle).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn who_may_not_is_told_before_the_body_is_asked_for() {
    let server = Server::with_logins().await;
    let admin = basic("admin", PASSWORD);
    server.send("PUT", "/api/v1/users/anna", &[JSON, &admin], r#"{"password":"a-long-enough-password"}"#).await.good();
    let anna = basic("anna", "a-long-enough-password");
    for (method, path) in [
        ("POST", "/api/v1/topics"),
        ("PATCH", "/api/v1/topics/t"),
        ("POST", "/api/v1/topics/t/records"),
        ("POST", "/api/v1/topics/t/partitions/0/trim"),
        ("POST", "/api/v1/groups/g/seek"),
        ("PUT", "/api/v1/users/anna"),
        ("POST", "/api/v1/users/anna/tokens"),
        ("POST", "/api/v1/rules"),
        ("POST", "/api/v1/rules/delete"),
    ] {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n{anna}\r\n{JSON}\r\ncontent-length: 1000000\r\n\r\n");
        let mut waiting = server.begin(&head).await;
        let mut answer = String::new();
        read_until(&mut waiting, &mut answer, "\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 403 "), "{method} {path}: {answer}");
    }
    let most = server.send("POST", "/api/v1/rules", &[JSON, &admin], vec![b' '; (1 << 20) + 1]).await;
    assert_eq!(most.problem(), (413, "body".into()));
}

#[tokio::test]
async fn neither_idle_connections_nor_streams_shut_out_who_asks_whether_the_broker_lives() {
    let server =
        Server::configured(HttpConfig { max_connections: 8, max_connections_per_address: 8, ..HttpConfig::default() }).await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t"}"#).await.good();
    let request = "GET /api/v1/topics/t/partitions/0/stream HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut streams = Vec::new();
    for number in 0..8 {
        let mut stream = server.begin(request).await;
        let mut answer = String::new();
        if number < 5 {
            read_until(&mut stream, &mut answer, ": here").await;
        } else {
            read_until(&mut stream, &mut answer, "Busy").await;
            assert!(answer.starts_with("HTTP/1.1 503 ") && answer.to_ascii_lowercase().contains("retry-after"), "{answer}");
        }
        streams.push(stream);
    }
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(server.begin("GET /hea").await);
        assert_eq!(server.get("/healthz").await.status, 200);
        assert_eq!(server.get("/readyz").await.status, 200);
    }
    // Who streams is still there.
    server.json("POST", "/api/v1/topics/t/records", r#"{"value":"told"}"#).await.good();
    for stream in streams.iter_mut().take(5) {
        read_until(stream, &mut String::new(), "told").await;
    }
}

#[tokio::test]
async fn a_stop_ends_streams_that_are_behind() {
    let server = Server::start().await;
    let value = vec![b'x'; 1 << 20];
    for _ in 0..32 {
        server.send("POST", "/api/v1/topics/t/records", &[OCTETS], &value).await.good();
    }
    let request = "GET /api/v1/topics/t/partitions/0/stream?offset=0 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut stream = server.begin(request).await;
    read_until(&mut stream, &mut String::new(), ": here").await;
    let broker = server.test.broker().clone();
    // The broker is not closed meanwhile: what ends the stream is that it stops.
    let hold = broker.hold_stop();
    let stopping = tokio::spawn({
        let broker = broker.clone();
        async move { broker.shutdown().await }
    });
    tokio::time::timeout(PATIENCE, broker.stopping()).await.unwrap();
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert!(rest.ends_with(b"0\r\n\r\n") && rest.len() < 32 << 20, "{} bytes", rest.len());
    assert!(!stopping.is_finished());
    drop(hold);
    tokio::time::timeout(PATIENCE, stopping).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_stop_waits_until_an_answer_is_out() {
    let server = Server::start().await;
    for _ in 0..4 {
        server.send("POST", "/api/v1/topics/t/records", &[OCTETS], vec![b'x'; 1 << 20]).await.good();
    }
    let socket = TcpSocket::new_v4().unwrap();
    // The system takes little off the broker's hands.
    socket.set_recv_buffer_size(4096).unwrap();
    let mut slow = socket.connect(server.address).await.unwrap();
    let request =
        "GET /api/v1/topics/t/partitions/0/records?max_bytes=4194304 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    slow.write_all(request.as_bytes()).await.unwrap();
    let mut begun = [0; 1];
    tokio::time::timeout(PATIENCE, slow.read_exact(&mut begun)).await.unwrap().unwrap();
    let broker = server.test.broker().clone();
    let stopping = tokio::spawn({
        let broker = broker.clone();
        async move { broker.shutdown().await }
    });
    assert!(tokio::time::timeout(Duration::from_millis(700), broker.closing()).await.is_err(), "it was closed under a request");
    let mut rest = Vec::new();
    tokio::time::timeout(PATIENCE, slow.read_to_end(&mut rest)).await.unwrap().unwrap();
    assert!(rest.len() > 4 << 20 && rest.ends_with(b"}"), "{} bytes", rest.len());
    tokio::time::timeout(PATIENCE, stopping).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn a_fetch_takes_memory_before_it_reads_and_less_where_there_is_little() {
    let server = Server::start().await;
    for _ in 0..8 {
        server.send("POST", "/api/v1/topics/t/records", &[OCTETS], vec![b'x'; 200 << 10]).await.good();
    }
    let broker = server.test.broker();
    let mut hog = broker.loan();
    assert!(hog.grow(broker.max_loan_bytes() - (1 << 20)));
    let part = server.get("/api/v1/topics/t/partitions/0/records?max_bytes=4000000").await.good();
    let read = part["records"].as_array().unwrap().len();
    assert!((1..8).contains(&read) && part["next_offset"] == read, "{read}");
    assert!(hog.grow(1 << 20));
    assert_eq!(server.get("/api/v1/topics/t/partitions/0/records").await.problem().0, 503);
    drop(hog);
    assert_eq!(server.get("/api/v1/topics/t/partitions/0/records?max_bytes=4000000").await.good()["next_offset"], 8);
    assert_eq!(broker.inflight_bytes(), 0);
}

#[tokio::test]
async fn searches_over_http_wait_for_their_turn_and_others_do_not() {
    let server = Arc::new(Server::start().await);
    server.json("POST", "/api/v1/topics", r#"{"name":"t"}"#).await.good();
    let mut turns = Vec::new();
    while let Ok(turn) = tokio::time::timeout(Duration::from_millis(50), server.test.broker().search_turn()).await {
        turns.push(turn);
    }
    let paths = ["t/partitions/0/offset?time_ms=1", "t/partitions/0/records", "t/partitions/0/stream?time_ms=1"];
    let searches = paths.map(|path| {
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            let request = format!("GET /api/v1/topics/{path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
            read_until(&mut server.begin(&request).await, &mut String::new(), "HTTP/1.1 200 ").await;
        })
    });
    for _ in 0..20 {
        assert_eq!(server.get("/api/v1/topics/t").await.status, 200);
    }
    assert!(searches.iter().all(|search| !search.is_finished()));
    drop(turns);
    for search in searches {
        tokio::time::timeout(PATIENCE, search).await.unwrap().unwrap();
    }
}

/// Notes who writes.
#[derive(Debug, Default)]
struct Writers(Mutex<Vec<(String, String, String)>>);

impl Hooks for Writers {
    fn before_append(&self, context: &AppendContext<'_>, _batch: &Batch) -> Result<(), Rejection> {
        let client = context.client.ok_or_else(|| Rejection::new("nobody"))?;
        self.0.lock().push((client.name.to_owned(), client.user.to_owned(), client.address.to_owned()));
        Ok(())
    }
}

#[tokio::test]
async fn hooks_are_told_who_writes_over_http() {
    let writers = Arc::new(Writers::default());
    let hooks = Arc::clone(&writers);
    let server = Server::start_with(|config| config.hooks = Some(hooks)).await;
    server.send("POST", "/api/v1/topics/t/records", &[JSON, "user-agent: shop/1.0"], r#"{"value":"x"}"#).await.good();
    let told = writers.0.lock().clone();
    assert_eq!((told.len(), told[0].0.as_str(), told[0].1.as_str()), (1, "shop/1.0", ""));
    assert!(told[0].2.starts_with("127.0.0.1:"), "{told:?}");
}
