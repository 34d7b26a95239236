//! The SDK over TLS: what goes well as it does without, and what is said where it does not.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "../../hermit-broker/tests/pki/mod.rs"]
mod pki;
mod support;

use std::time::Duration;

use hermit_client::{Error, Fault, Offset, ProducerRecord, Start, Status, TlsConfig, TlsFault};
use pki::{Authority, Pair, file};
use support::proxy::Proxy;
use support::{TestBroker, builder, create, drain, eventually, within};

struct Secured {
    broker: TestBroker,
    files: tempfile::TempDir,
}

impl Secured {
    /// With that certificate.
    async fn with(pair: &Pair, change: impl FnOnce(&mut hermit_broker::TlsConfig)) -> Self {
        Self::with_heartbeats(pair, Duration::from_secs(10), change).await
    }

    async fn with_heartbeats(pair: &Pair, heartbeat: Duration, change: impl FnOnce(&mut hermit_broker::TlsConfig)) -> Self {
        let files = tempfile::tempdir().unwrap();
        let mut tls = shown(&files, pair);
        change(&mut tls);
        let broker = TestBroker::with(|config| {
            config.tls = Some(tls);
            config.limits.heartbeat_interval = heartbeat;
        });
        Self { broker: broker.await, files }
    }

    async fn refuses(&self, tls: TlsConfig) -> Error {
        within(self.broker.builder().tls(tls).connect()).await.unwrap_err()
    }
}

fn shown(files: &tempfile::TempDir, pair: &Pair) -> hermit_broker::TlsConfig {
    hermit_broker::TlsConfig::new(file(files.path(), "cert.pem", &pair.certificate), file(files.path(), "key.pem", &pair.key))
}

fn believes(authority: &Authority) -> TlsConfig {
    TlsConfig::new().ca_pem(authority.pem.as_str())
}

fn fault(error: &Error) -> TlsFault {
    match error {
        Error::Tls { source, .. } => source.clone(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn records_come_once_through_connections_that_break() {
    let authority = Authority::new("ca");
    let secured = Secured::with(&authority.broker(), |_tls| {}).await;
    let proxy = Proxy::start(secured.broker.address).await;
    let client = within(builder(proxy.address).tls(believes(&authority)).connect()).await.unwrap();
    create(&client, "t", 1).await;
    let producer = client.producer().build().unwrap();
    let mut deliveries = Vec::new();
    for number in 0..200 {
        let value = vec![number; 10_000];
        deliveries.push(producer.enqueue("t", ProducerRecord::new(&value)).await.unwrap());
        if number % 50 == 25 {
            proxy.cut();
        }
    }
    for delivery in deliveries {
        within(delivery).await.unwrap();
    }
    within(producer.close()).await.unwrap();
    // One that is as large as they may be.
    let large = vec![9; (50 << 20) - 1000];
    let producer = client.producer().max_buffered_bytes(64 << 20).build().unwrap();
    within(producer.send("t", ProducerRecord::new(&large))).await.unwrap();
    let mut consumer = client.consumer().build().unwrap();
    consumer.assign("t", 0, Start::Earliest).await.unwrap();
    consumer.stop_at_present_end().await.unwrap();
    let records = drain(&mut consumer).await;
    assert_eq!(records.len(), 201);
    for (number, record) in (0..200).zip(&records) {
        assert!(
            record.offset == Offset(number.into()) && record.value.as_deref() == Some(&[number; 10_000][..]),
            "record {number}"
        );
    }
    assert!(records[200].value.as_deref() == Some(&large[..]));
    drop(secured);
}

#[tokio::test]
async fn heartbeats_keep_an_idle_connection() {
    let authority = Authority::new("ca");
    let secured = Secured::with_heartbeats(&authority.broker(), Duration::from_millis(100), |_tls| {}).await;
    let proxy = Proxy::start(secured.broker.address).await;
    let client = within(builder(proxy.address).tls(believes(&authority)).connect()).await.unwrap();
    // The broker closes after three intervals of 100 ms.
    tokio::time::sleep(Duration::from_millis(700)).await;
    within(client.broker()).await.unwrap();
    assert_eq!(proxy.accepted(), 1);
    within(client.close()).await;
    eventually("the goodbye is heard", || secured.broker.broker.connections() == 0).await;
}

#[tokio::test]
async fn certificates_that_do_not_convince_are_named() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    let secured = Secured::with(&authority.broker(), |_tls| {}).await;
    assert_eq!(fault(&secured.refuses(believes(&other)).await), TlsFault::UnknownAuthority);
    let wrong = secured.refuses(believes(&authority).server_name("broker.test")).await;
    assert!(
        matches!(fault(&wrong), TlsFault::WrongName { names } if names.contains("localhost") && !names.contains('"')),
        "{wrong}"
    );
    assert_eq!((wrong.fault(), wrong.is_retryable()), (Fault::Caller, false));

    let dated = |year: i32, until: i32| {
        authority.issue(&["broker.test"], |params| {
            params.not_before = rcgen::date_time_ymd(year, 1, 1);
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
        })
    };
    let tls = || believes(&authority).server_name("broker.test");
    for (pair, expected) in [(dated(2001, 2002), TlsFault::Expired), (dated(2101, 2102), TlsFault::NotValidYet)] {
        let secured = Secured::with(&pair, |_tls| {}).await;
        assert_eq!(fault(&secured.refuses(tls()).await), expected);
    }
    // As `openssl req -x509` makes them.
    let own = authority.issue(&["127.0.0.1"], |params| params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained));
    let secured = Secured::with(&own, |_tls| {}).await;
    assert_eq!(fault(&secured.refuses(believes(&authority)).await), TlsFault::AuthoritysOwn);
    // By another name than its address.
    let secured = Secured::with(&dated(2001, 2101), |_tls| {}).await;
    within(secured.broker.builder().tls(tls()).connect()).await.unwrap();
}

#[tokio::test]
async fn a_side_that_speaks_no_tls_is_named() {
    let authority = Authority::new("ca");
    let plain = TestBroker::start().await;
    let error = within(plain.builder().tls(believes(&authority)).connect()).await.unwrap_err();
    assert_eq!(fault(&error), TlsFault::NotSpoken);

    let secured = Secured::with(&authority.broker(), |tls| tls.required = true).await;
    let error = within(secured.broker.builder().connect()).await.unwrap_err();
    assert_eq!((error.status(), error.fault(), error.is_retryable()), (Some(Status::TlsRequired), Fault::Caller, false));
    assert!(error.to_string().contains("TLS"), "{error}");
    within(secured.broker.builder().tls(believes(&authority)).connect()).await.unwrap();
}

#[tokio::test]
async fn client_certificates_are_shown_and_their_refusal_is_named() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    let files = tempfile::tempdir().unwrap();
    let ca = file(files.path(), "ca.pem", &authority.pem);
    let secured = Secured::with(&authority.broker(), |tls| {
        tls.client_ca = Some(ca.clone());
        tls.require_client_certificate = true;
    })
    .await;
    let (alice, mallory) = (authority.client("alice"), other.client("mallory"));
    let tls = TlsConfig::new()
        .ca_file(&ca)
        .client_certificate_files(file(files.path(), "alice.pem", &alice.certificate), file(files.path(), "alice.key", &alice.key));
    within(secured.broker.builder().tls(tls).connect()).await.unwrap();
    assert_eq!(fault(&secured.refuses(believes(&authority)).await), TlsFault::ClientCertificateRequired);
    let tls = believes(&authority).client_certificate_pem(mallory.certificate, mallory.key);
    let refused = secured.refuses(tls).await;
    assert!(matches!(fault(&refused), TlsFault::ClientCertificateRefused { .. }), "{refused}");
}

#[tokio::test]
async fn a_certificate_that_is_changed_is_looked_at_when_the_connection_is_made_again() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    let secured = Secured::with(&authority.broker(), |_tls| {}).await;
    let proxy = Proxy::start(secured.broker.address).await;
    let tls = believes(&authority);
    let client = builder(proxy.address).tls(tls).request_timeout(Duration::from_millis(500)).connect();
    let client = within(client).await.unwrap();
    secured.broker.broker.reload_tls(&shown(&secured.files, &other.broker())).unwrap();
    within(client.admin().list_topics()).await.unwrap();
    proxy.cut();
    // The first call may tell of the connection that it lost.
    within(client.admin().list_topics()).await.unwrap_err();
    let error = within(client.admin().list_topics()).await.unwrap_err();
    assert!(error.to_string().contains("not believed here"), "{error}");
    secured.broker.broker.reload_tls(&shown(&secured.files, &authority.broker())).unwrap();
    let listed = async {
        while client.admin().list_topics().await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(listed).await;
}

#[tokio::test]
async fn what_is_wrong_with_the_settings_is_said_at_the_start() {
    let authority = Authority::new("ca");
    let (alice, bob) = (authority.client("alice"), authority.client("bob"));
    let cases = [
        (TlsConfig::new().ca_file("/nowhere/ca.pem"), "tls_ca", "/nowhere/ca.pem"),
        (TlsConfig::new().ca_pem("no PEM"), "tls_ca", "no certificate in it"),
        (believes(&authority).client_certificate_pem(alice.certificate.clone(), bob.key.clone()), "tls_key", "does not belong"),
        (believes(&authority).client_certificate_pem("", bob.key.clone()), "tls_cert", "no certificate in it"),
        (
            believes(&authority).client_certificate_pem(alice.certificate.clone(), alice.certificate.clone()),
            "tls_key",
            "no private key",
        ),
        (believes(&authority).server_name("not a name"), "tls_server_name", "not a name"),
    ];
    for (tls, expected, says) in cases {
        assert!(!format!("{tls:?}").contains("BEGIN"), "{tls:?}");
        let error = builder(([127, 0, 0, 1], 1).into()).tls(tls).start().unwrap_err();
        assert!(matches!(&error, Error::Config { setting, problem } if *setting == expected && problem.contains(says)), "{error}");
    }
}
