use std::net::Ipv4Addr;
use std::sync::mpsc;

use axum::Extension;
use axum::routing::get;
use hermit_broker::testing::TestBroker;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;
use crate::answer::Answer;
use crate::blocking::blocking;
use crate::door::Door;

const PATIENCE: Duration = Duration::from_secs(20);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// A connection to a server of this router, over a pipe that takes little.
fn connect(door: &Arc<Door>, router: Router) -> (DuplexStream, watch::Sender<bool>) {
    let (near, far) = tokio::io::duplex(1024);
    let (ending, end) = watch::channel(false);
    let standing = Arc::new(Standing::starting(HttpConfig::default()));
    let address = (Ipv4Addr::LOCALHOST, 1).into();
    let serving = Serving::new(&standing, router, door.enter(Ipv4Addr::LOCALHOST.into()).unwrap());
    let peer = Peer { address, encrypted: false, wants_tls: false };
    tokio::spawn(async move {
        let put_out = serving.place.put_out();
        tokio::select! {
            () = run(near, peer, serving, end) => {}
            () = put_out => {}
        }
    });
    (far, ending)
}

fn door() -> Arc<Door> {
    Door::new(&HttpConfig { max_connections: 2, max_connections_per_address: 2, ..HttpConfig::default() })
}

/// Somebody else comes.
fn newcomer(door: &Arc<Door>) -> Option<Place> {
    door.enter(Ipv4Addr::new(10, 0, 0, 1).into())
}

async fn eventually(is: impl Fn() -> bool) {
    let looked = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looked).await.unwrap();
}

#[tokio::test]
async fn who_takes_an_answer_of_one_piece_slowly_is_not_put_out_meanwhile() {
    const BYTES: usize = 500_000;
    let door = door();
    let (mut client, _ending) = connect(&door, Router::new().route("/", get(async || vec![b'x'; BYTES])));
    client.write_all(REQUEST).await.unwrap();
    let mut answer = vec![0; 1024];
    tokio::time::timeout(PATIENCE, client.read_exact(&mut answer)).await.unwrap().unwrap();
    // Two places: the newcomers put out one another.
    let newcomers: Vec<_> = (0..5).map(|_| newcomer(&door)).collect();
    assert!(newcomers.iter().all(Option::is_some));
    let whole = async {
        while !answer.ends_with(&[b'x'; 100])
            || answer.len() < BYTES + answer.windows(4).position(|at| at == b"\r\n\r\n").unwrap() + 4
        {
            assert!(client.read_buf(&mut answer).await.unwrap() > 0, "{} bytes", answer.len());
        }
    };
    tokio::time::timeout(PATIENCE, whole).await.unwrap();
    // Now it waits as others do.
    let mut rest = Vec::new();
    let mut more = Vec::new();
    let ended = async {
        loop {
            more.push(newcomer(&door));
            if tokio::time::timeout(Duration::from_millis(5), client.read_to_end(&mut rest)).await.is_ok() {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap();
    assert!(rest.is_empty());
}

#[tokio::test]
async fn work_counts_to_its_end_though_its_client_is_gone() {
    let door = door();
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let begun = Arc::new(tokio::sync::Notify::new());
    let begins = Arc::clone(&begun);
    let work = async move || {
        let (wait, begins) = (Arc::clone(&wait), Arc::clone(&begins));
        blocking(move || {
            begins.notify_one();
            let _closed = wait.lock().recv();
            Ok("done")
        })
        .await
    };
    let (mut client, _ending) = connect(&door, Router::new().route("/", get(work)));
    client.write_all(REQUEST).await.unwrap();
    tokio::time::timeout(PATIENCE, begun.notified()).await.unwrap();
    drop(client);
    let other = Arc::new(newcomer(&door).unwrap());
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(other.begin().is_none(), "of two one may ask, and that is still being done");
    go.send(()).unwrap();
    eventually(|| other.begin().is_some()).await;
}

#[tokio::test]
async fn a_large_answer_takes_room_until_it_is_written() {
    let test = TestBroker::start_async().await.unwrap();
    let broker = test.broker().clone();
    let answer = async move |Extension(held): Extension<Arc<Held>>| {
        held.is_of(&broker);
        Answer("x".repeat(100_000))
    };
    let router = Router::new().route("/", get(answer));
    let ask = async || {
        let (mut client, ending) = connect(&door(), router.clone());
        client.write_all(REQUEST).await.unwrap();
        let mut status = [0; 12];
        tokio::time::timeout(PATIENCE, client.read_exact(&mut status)).await.unwrap().unwrap();
        (client, ending, String::from_utf8(status.to_vec()).unwrap())
    };
    let mut hog = test.broker().loan();
    assert!(hog.grow(test.broker().max_loan_bytes()));
    assert_eq!(ask().await.2, "HTTP/1.1 503");
    drop(hog);
    let (mut client, _ending, status) = ask().await;
    assert_eq!(status, "HTTP/1.1 200");
    assert!((100_000..110_000).contains(&test.broker().inflight_bytes()));
    let mut body = vec![0; 100_000];
    tokio::time::timeout(PATIENCE, client.read_exact(&mut body)).await.unwrap().unwrap();
    eventually(|| test.broker().inflight_bytes() == 0).await;
}
