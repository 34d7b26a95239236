//! Streams that end, or break, in odd ways; and peers that take nothing.

use std::sync::Arc;
use std::time::Duration;

use hermit_broker::{BrokerConfig, Event, Hooks};
use hermit_proto::session::{HelloRequest, Request as _};
use hermit_proto::{CorrelationId, ProducedFrame};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::clients::{BOTH, bridge, client, connect, end, secured};
use crate::pki::Authority;
use crate::support::v2::Session;
use crate::support::{Server, eventually, within};

/// Notes why connections end.
#[derive(Debug, Default)]
struct Ends(Mutex<Vec<String>>);

impl Hooks for Ends {
    fn on_event(&self, event: &Event) {
        if let Event::ConnectionClosed { reason, .. } = event {
            self.0.lock().push(reason.clone());
        }
    }
}

fn watched(config: BrokerConfig) -> (BrokerConfig, Arc<Ends>) {
    let ends = Arc::new(Ends::default());
    (BrokerConfig { hooks: Some(Arc::<Ends>::clone(&ends)), ..config }, ends)
}

async fn next_end(ends: &Ends) -> String {
    eventually("a connection ends", || !ends.0.lock().is_empty()).await;
    ends.0.lock().remove(0)
}

fn hello() -> bytes::BytesMut {
    let mut hello = bytes::BytesMut::new();
    HelloRequest::new("t").encode(CorrelationId(1), &mut hello).unwrap();
    hello
}

#[tokio::test]
async fn an_end_is_told_from_a_cut() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let (config, ends) = watched(secured(dir.path(), &authority));
    let server = Server::with(config).await;
    let tls = client(&authority, None, &BOTH);

    let mut polite = connect(&server, &tls).await;
    polite.write_all(&hello()).await.unwrap();
    polite.shutdown().await.unwrap();
    let (said, ended) = end(&mut polite).await;
    assert!(!said.is_empty(), "what was asked before the end is answered");
    ended.expect("the broker says that it ends, too");
    assert_eq!(next_end(&ends).await, "closed by the peer");

    // Without close_notify, between requests.
    let mut rude = connect(&server, &tls).await;
    rude.write_all(&hello()).await.unwrap();
    rude.read_exact(&mut [0; 29]).await.unwrap();
    let (socket, _) = rude.get_mut();
    socket.shutdown().await.unwrap();
    assert!(next_end(&ends).await.contains("TLS was cut off"));

    // Within a record.
    let mut cut = connect(&server, &tls).await;
    let (socket, connection) = cut.get_mut();
    std::io::Write::write_all(&mut connection.writer(), &hello()).unwrap();
    let mut record = Vec::new();
    connection.write_tls(&mut record).unwrap();
    socket.write_all(&record[..record.len() - 1]).await.unwrap();
    socket.shutdown().await.unwrap();
    assert!(next_end(&ends).await.contains("TLS was cut off"));

    // One bit.
    let mut changed = connect(&server, &tls).await;
    let (socket, connection) = changed.get_mut();
    std::io::Write::write_all(&mut connection.writer(), &hello()).unwrap();
    let mut record = Vec::new();
    connection.write_tls(&mut record).unwrap();
    *record.last_mut().unwrap() ^= 1;
    socket.write_all(&record).await.unwrap();
    let (said, ended) = end(&mut changed).await;
    assert!(said.is_empty());
    assert!(ended.unwrap_err().to_string().contains("BadRecordMac"));
    let reason = next_end(&ends).await;
    assert!(reason.contains("decrypt"), "{reason}");
    server.stop().await;
}

#[tokio::test]
async fn a_consumer_that_takes_nothing_is_closed_and_one_that_takes_little_is_not() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let (mut config, ends) = watched(secured(dir.path(), &authority));
    config.limits.write_timeout = Duration::from_millis(700);
    let mut server = Server::with(config).await;
    bridge(&mut server, client(&authority, None, &BOTH)).await;
    let mut session = Session::open(&server).await;
    let topic = session.create("t", 1, Default::default()).await.unwrap();
    let frame = ProducedFrame::message(1, None, &[7; 1 << 20]).to_vec().unwrap();
    // More than the buffers of the sockets on the way may take.
    for _ in 0..64 {
        session.produce(topic, 0, &frame).await.unwrap();
    }
    // Takes 128 KiB now and then, for longer than the timeout: the bytes that the socket took count, not the records.
    let mut slow = Session::open(&server).await;
    slow.subscribe(topic, 0, 1 << 30).await.unwrap();
    let until = tokio::time::Instant::now() + Duration::from_millis(1500);
    let mut taken = vec![0; 512 << 10];
    while tokio::time::Instant::now() < until {
        within(slow.stream.read_exact(&mut taken)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(ends.0.lock().is_empty(), "{:?}", ends.0.lock());
    // And then nothing.
    assert_eq!(next_end(&ends).await, "no reading by the client in time");
    session.call(&hermit_proto::session::HeartbeatRequest).await.unwrap();
    drop((slow, session));
    server.stop().await;
}

#[tokio::test]
async fn a_stop_says_goodbye_and_ends_tls() {
    let authority = Authority::new("ca");
    let dir = tempfile::tempdir().unwrap();
    let server = Server::with(secured(dir.path(), &authority)).await;
    let mut stream = connect(&server, &client(&authority, None, &BOTH)).await;
    stream.write_all(&hello()).await.unwrap();
    stream.read_exact(&mut [0; 29]).await.unwrap();
    let (stopped, (said, ended)) = tokio::join!(server.stop(), end(&mut stream));
    let () = stopped;
    ended.expect("close_notify");
    assert!(said.len() > 29, "that it is shutting down");
}
