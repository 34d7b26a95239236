//! Handshakes that do not come about.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use hermit_proto::session::{HelloRequest, Status};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ClientConnection;

use crate::clients::{BOTH, client, connect, name, secured};
use crate::pki::Authority;
use crate::support::v2::Session;
use crate::support::{Server, config, eventually, v1, within};

/// The first words of a client.
fn client_hello(authority: &Authority) -> Vec<u8> {
    let mut connection = ClientConnection::new(client(authority, None, &BOTH), name()).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    hello
}

async fn rest(mut stream: TcpStream) -> Vec<u8> {
    let mut rest = Vec::new();
    let _closed_or_reset = within(stream.read_to_end(&mut rest)).await;
    rest
}

#[tokio::test]
async fn the_handshake_is_within_the_one_deadline() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let mut config = secured(dir.path(), &authority);
    config.limits.handshake_timeout = Duration::from_millis(400);
    let server = Server::with(config).await;
    let began = tokio::time::Instant::now();
    let mut slow = server.connect().await;
    for byte in client_hello(&authority) {
        // A byte now and then does not help.
        if slow.write_all(&[byte]).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rest(slow).await;
    // Nor does having it behind oneself: the session's hello is due by the same time.
    let mut silent = connect(&server, &client(&authority, None, &BOTH)).await;
    let (said, _) = crate::clients::end(&mut silent).await;
    assert!(said.is_empty(), "{said:?}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    eventually("both are gone", || server.broker.connections() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn garbage_and_cut_hellos_end_their_connection_alone() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(secured(dir.path(), &authority)).await;
    let hello = client_hello(&authority);
    let mut garbage: Vec<Vec<u8>> =
        vec![b"\x16".repeat(1000), b"\x16\x03\x01\xff\xff".to_vec(), b"\x16\x03\x01\x00\x05\xff\xff\xff\xff\xff".to_vec()];
    for at in (0..hello.len()).step_by(7) {
        let mut changed = hello.clone();
        changed[at] ^= 0x55;
        garbage.push(changed);
        garbage.push(hello[..at].to_vec());
    }
    for bytes in garbage.into_iter().filter(|bytes| bytes.first() == Some(&0x16)) {
        let mut stream = server.connect().await;
        stream.write_all(&bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        // What it may say to that is TLS: an alert, or its part of the handshake.
        let said = rest(stream).await;
        assert!(said.is_empty() || said[0] == 0x15 || said[0] == 0x16, "{said:?}");
    }
    eventually("all are gone", || server.broker.connections() == 0 && server.broker.inflight_bytes() == 0).await;
    connect(&server, &client(&authority, None, &BOTH)).await;
    server.stop().await;
}

#[tokio::test]
async fn a_hello_without_end_is_ended() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(secured(dir.path(), &authority)).await;
    let mut stream = server.connect().await;
    // A message of 60,000 bytes, in records of 1,000.
    let mut record = vec![0x16, 3, 1, 3, 0xe8];
    record.extend([1, 0, 0xea, 0x60]);
    record.resize(1005, 0);
    stream.write_all(&record).await.unwrap();
    eventually("what came is counted", || server.broker.inflight_bytes() > 0).await;
    for _ in 0..60 {
        record[5..9].fill(0);
        if stream.write_all(&record).await.is_err() {
            break;
        }
    }
    rest(stream).await;
    eventually("it is given back", || server.broker.connections() == 0 && server.broker.inflight_bytes() == 0).await;
    server.stop().await;
}

#[tokio::test]
async fn a_client_without_tls_is_told_where_it_is_required() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let mut config = secured(dir.path(), &authority);
    config.tls.as_mut().unwrap().required = true;
    let server = Server::with(config).await;
    let mut session = Session::raw(&server).await;
    session.request(&HelloRequest::new("plain")).await;
    let unit = session.read_unit().await.unwrap();
    let refusal = hermit_proto::session::WireError::decode(unit.header(), unit.payload()).unwrap();
    assert_eq!((unit.correlation().0, refusal.status), (0, Status::TlsRequired));
    assert!(session.read_unit().await.is_none());
    // Version 1 has no words for it.
    assert!(rest(v1::producer(&server, "t").await).await.is_empty());
    assert!(rest(v1::consumer(&server, "g", "t").await).await.is_empty());
    assert!(server.broker.topics().iter().all(|topic| topic.meta.name.as_str() != "t"));
    let mut secure = connect(&server, &client(&authority, None, &BOTH)).await;
    secure.write_all(b"\x01\x01t\0\0\0\0").await.unwrap();
    eventually("the producer's topic is there", || server.broker.topics().iter().any(|topic| topic.meta.name.as_str() == "t"))
        .await;
    server.stop().await;
}

#[tokio::test]
async fn tls_where_it_is_off_and_tls_within_tls_are_refused() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(config(dir.path())).await;
    let mut stream = server.connect().await;
    stream.write_all(&client_hello(&authority)).await.unwrap();
    assert!(rest(stream).await.is_empty());
    server.stop().await;

    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(secured(dir.path(), &authority)).await;
    let mut outer = connect(&server, &client(&authority, None, &BOTH)).await;
    outer.write_all(&client_hello(&authority)).await.unwrap();
    let (said, _) = crate::clients::end(&mut outer).await;
    assert!(said.is_empty(), "{said:?}");
    server.stop().await;
}

/// While many clients shake hands, a session that is there gets its answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_handshakes_is_borne() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let mut config = secured(dir.path(), &authority);
    config.limits.handshake_timeout = Duration::from_secs(20);
    let server = Arc::new(Server::with(config).await);
    let hello = Arc::new(client_hello(&authority));
    let storm: Vec<_> = (0..100)
        .map(|_| {
            let (address, hello) = (server.address, Arc::clone(&hello));
            tokio::task::spawn_blocking(move || {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                std::io::Write::write_all(&mut stream, &hello).unwrap();
                stream.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
                // The broker's signature has been made once this comes.
                stream.read_exact(&mut [0; 400]).unwrap();
            })
        })
        .collect();
    let mut session = Session::open(&server).await;
    while !storm.iter().all(tokio::task::JoinHandle::is_finished) {
        session.call(&hermit_proto::session::HeartbeatRequest).await.unwrap();
    }
    for client in storm {
        client.await.unwrap();
    }
    Arc::into_inner(server).unwrap().stop().await;
}
