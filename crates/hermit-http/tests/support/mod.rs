//! A broker with HTTP on a port of its own, and a small client that speaks bytes.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test support, of which each file uses a part"
)]

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hermit_broker::BrokerConfig;
use hermit_broker::testing::TestBroker;
use hermit_http::{HttpConfig, HttpServer};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Long enough for a loaded machine; a test that needs it has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);
pub const JSON: &str = "content-type: application/json";
/// That of `admin`, where people log in.
pub const PASSWORD: &str = "correct-horse-battery-staple";

/// A header that logs in.
pub fn basic(user: &str, password: &str) -> String {
    format!("authorization: Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

pub struct Server {
    pub test: TestBroker,
    pub address: SocketAddr,
    pub serving: JoinHandle<()>,
}

pub async fn listen(server: HttpServer) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (address, tokio::spawn(async move { server.serve(listener).await }))
}

impl Server {
    pub async fn start() -> Self {
        Self::of(TestBroker::start_async().await.unwrap()).await
    }

    /// Of a broker with other settings.
    pub async fn start_with(change: impl FnOnce(&mut BrokerConfig) + Send + 'static) -> Self {
        let started = tokio::task::spawn_blocking(|| TestBroker::start_with(change));
        Self::of(started.await.unwrap().unwrap()).await
    }

    /// Where `admin` logs in with [`PASSWORD`].
    pub async fn with_logins() -> Self {
        let started = tokio::task::spawn_blocking(|| TestBroker::start_with_logins("admin", PASSWORD));
        Self::of(started.await.unwrap().unwrap()).await
    }

    /// With 64 KiB for all that HTTP holds.
    pub async fn narrow() -> Self {
        let server = Self::start_with(|config| {
            config.limits.max_frame_bytes = 64 << 10;
            config.limits.max_request_bytes = 128 << 10;
            config.limits.max_inflight_bytes = 1 << 20;
        });
        let server = server.await;
        assert_eq!(server.test.broker().max_loan_bytes(), 64 << 10);
        server
    }

    pub async fn configured(config: HttpConfig) -> Self {
        Self::with(TestBroker::start_async().await.unwrap(), config).await
    }

    pub async fn of(test: TestBroker) -> Self {
        Self::with(test, HttpConfig::default()).await
    }

    pub async fn with(test: TestBroker, config: HttpConfig) -> Self {
        let server = HttpServer::new(config);
        server.serves(test.broker());
        let (address, serving) = listen(server).await;
        Self { test, address, serving }
    }

    /// A connection on which a request was sent, or a part of one.
    pub async fn begin(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// A live stream of the topic `t`, which goes on behind the event `last`.
    pub async fn follow(&self, path: &str, last: Option<&str>) -> TcpStream {
        let last = last.map(|last| format!("last-event-id: {last}\r\n")).unwrap_or_default();
        self.begin(&format!("GET /api/v1/topics/t/{path} HTTP/1.1\r\nhost: localhost\r\n{last}\r\n")).await
    }

    /// Writes a record to the topic `t`.
    pub async fn write(&self, partition: u32, value: &str) {
        let body = format!(r#"{{"partition":{partition},"value":"{value}"}}"#);
        self.json("POST", "/api/v1/topics/t/records", &body).await.good();
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    pub async fn json(&self, method: &str, path: &str, body: &str) -> Answer {
        self.send(method, path, &[JSON], body).await
    }

    pub async fn send(&self, method: &str, path: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Answer {
        send(self.address, method, path, headers, body).await
    }
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}\n{}", self.head, self.body))
    }

    /// The answer, which is to be a success.
    pub fn good(self) -> Value {
        assert!((200..300).contains(&self.status), "{}\n{}", self.head, self.body);
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Status and field at fault, of what is to be a problem.
    pub fn problem(&self) -> (u16, String) {
        let head = self.head.to_ascii_lowercase();
        assert!(head.contains("content-type: application/problem+json"), "{}\n{}", self.head, self.body);
        let told = self.json();
        assert_eq!(told["status"], self.status);
        assert!(!told["detail"].as_str().unwrap().is_empty() && !told["title"].as_str().unwrap().is_empty());
        (self.status, told["field"].as_str().unwrap_or_default().to_owned())
    }
}

/// One request on a connection of its own.
pub async fn send(address: SocketAddr, method: &str, path: &str, headers: &[&str], body: impl AsRef<[u8]>) -> Answer {
    let body = body.as_ref();
    let host =
        if headers.iter().any(|header| header.starts_with("host:")) { String::new() } else { format!("host: {address}\r\n") };
    let mut request = format!("{method} {path} HTTP/1.1\r\n{host}connection: close\r\n");
    for header in headers {
        request.push_str(&format!("{header}\r\n"));
    }
    if !body.is_empty() || method != "GET" {
        request.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    request.push_str("\r\n");
    let mut stream = TcpStream::connect(address).await.unwrap();
    // Who is refused before its body was read may find the connection closed.
    drop(stream.write_all(&[request.as_bytes(), body].concat()).await);
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.unwrap().ok();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// Reads from a stream until it holds `wanted`.
pub async fn read_until(stream: &mut TcpStream, so_far: &mut String, wanted: &str) {
    let mut bytes = [0; 4096];
    // For all of it: streams tell now and then that they live.
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !so_far.contains(wanted) {
        let read = tokio::time::timeout_at(deadline, stream.read(&mut bytes))
            .await
            .unwrap_or_else(|_| panic!("no {wanted:?} in {so_far:?}"))
            .unwrap();
        assert!(read > 0, "the stream has ended without {wanted:?}: {so_far:?}");
        so_far.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
}
