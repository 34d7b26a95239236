//! HTTPS on the port of HTTP.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "../../hermit-broker/tests/pki/mod.rs"]
mod pki;
mod support;

use std::sync::Arc;
use std::time::Duration;

use hermit_broker::TlsConfig;
use hermit_broker::testing::TestBroker;
use hermit_http::{HttpConfig, HttpServer};
use pki::{Authority, Pair, file};
use support::{PATIENCE, Server, listen};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

struct Secured {
    server: Server,
    http: HttpServer,
    dir: tempfile::TempDir,
    required: bool,
}

impl Secured {
    async fn start(pair: &Pair, required: bool, config: HttpConfig) -> Self {
        let test = TestBroker::start_async().await.unwrap();
        let http = HttpServer::new(config);
        http.serves(test.broker());
        let (address, serving) = listen(http.clone()).await;
        let dir = tempfile::tempdir().unwrap();
        let secured = Self { server: Server { test, address, serving }, http, dir, required };
        secured.show(pair);
        secured
    }

    fn show(&self, pair: &Pair) {
        let dir = self.dir.path();
        let files = (file(dir, "c.pem", &pair.certificate), file(dir, "k.pem", &pair.key));
        self.http.reload_tls(&TlsConfig { required: self.required, ..TlsConfig::new(files.0, files.1) }).unwrap();
    }

    async fn connect(&self, ca: &Authority) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.pem.as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots).with_no_client_auth();
        let socket = TcpStream::connect(self.server.address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), socket).await
    }

    async fn get(&self, ca: &Authority, path: &str) -> String {
        let mut stream = self.connect(ca).await.unwrap();
        exchange(&mut stream, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")).await
    }
}

async fn exchange(stream: &mut TlsStream<TcpStream>, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    // To the end that TLS says: nothing is cut off.
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn both_are_served_on_one_port_and_the_certificate_can_be_changed() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let secured = Secured::start(&old.broker(), false, HttpConfig::default()).await;
    assert!(secured.get(&old, "/readyz").await.starts_with("HTTP/1.1 200 "));
    assert_eq!(secured.server.get("/api/v1/topics").await.status, 200);
    // More than one record of TLS, in both directions.
    let mut stream = secured.connect(&old).await.unwrap();
    let value = "x".repeat(300_000);
    let head = format!(
        "POST /api/v1/topics/t/records HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        value.len()
    );
    let stored = exchange(&mut stream, &(head + &value)).await;
    assert!(stored.starts_with("HTTP/1.1 200 "), "{stored}");
    let read = secured.get(&old, "/api/v1/topics/t/partitions/0/records").await;
    assert!(read.contains(&value) && read.ends_with('}'), "{} bytes", read.len());
    // One that is there goes on with the certificate that it began with.
    let mut there = secured.connect(&old).await.unwrap();
    secured.show(&new.broker());
    let answer = exchange(&mut there, "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(secured.connect(&old).await.is_err());
    assert!(secured.get(&new, "/healthz").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn where_it_is_required_others_learn_only_whether_the_broker_lives() {
    let ca = Authority::new("ca");
    let secured = Secured::start(&ca.broker(), true, HttpConfig::default()).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(secured.server.get(path).await.status, 200);
    }
    for path in ["/metrics", "/api/v1", "/api/v1/topics", "/healthz/x"] {
        let refused = secured.server.get(path).await;
        assert_eq!(refused.problem().0, 403, "{path}");
        assert!(refused.body.contains("https://"), "{}", refused.body);
    }
    let made = secured.server.json("POST", "/api/v1/topics", r#"{"name":"t"}"#).await;
    assert_eq!((made.status, secured.server.test.broker().topics().len()), (403, 1));
    assert!(secured.get(&ca, "/api/v1/topics").await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn who_does_not_shake_hands_is_cut_and_holds_nobody_up() {
    let ca = Authority::new("ca");
    let config = HttpConfig { handshake_timeout: Duration::from_millis(300), max_handshakes: 1, ..HttpConfig::default() };
    let secured = Secured::start(&ca.broker(), false, config).await;
    let mut silent = TcpStream::connect(secured.server.address).await.unwrap();
    silent.write_all(b"\x16\x03\x01").await.unwrap();
    let mut end = Vec::new();
    tokio::time::timeout(PATIENCE, silent.read_to_end(&mut end)).await.unwrap().ok();
    assert_eq!(end, b"");
    let mut nonsense = TcpStream::connect(secured.server.address).await.unwrap();
    nonsense.write_all(&[b"\x16\x03\x01\x40\x00", &[7; 70_000][..]].concat()).await.ok();
    tokio::time::timeout(PATIENCE, nonsense.read_to_end(&mut end)).await.unwrap().ok();
    assert!(secured.get(&ca, "/healthz").await.starts_with("HTTP/1.1 200 "));
}
