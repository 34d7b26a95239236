//! What is told when there is no broker, or something else than a broker.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;
use support::{TestBroker, command, run};

/// A server that says the same to everybody, and closes.
struct Fake {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    fn saying(answer: &'static [u8]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while let Ok((mut socket, _)) = listener.accept() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                // What was asked first, or closing would reset what is said.
                drop(socket.read(&mut [0; 4096]));
                drop(socket.write_all(answer));
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        self.thread.take().unwrap().join().unwrap();
    }
}

fn told(server: SocketAddr, options: &[&str]) -> String {
    let run = run(command(&server.to_string(), &[&["topic", "list"], options].concat()), b"");
    assert_eq!((run.status, run.stderr.lines().count()), (1, 1), "{}", run.stderr);
    run.stderr
}

const HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
/// An alert of TLS 1.2: unexpected message.
const ALERT: &[u8] = &[0x15, 3, 3, 0, 2, 2, 10];

#[test]
fn each_way_to_find_no_broker_is_told_with_what_to_do() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (said, words) in [
        (told(closed, &[]), ["connection refused", "is hermitd running? Start it with `hermitd`"]),
        (told(Fake::saying(HTTP).address, &[]), ["does not speak HermitMQ's native protocol", "it answers HTTP"]),
        (told(Fake::saying(b"").address, &[]), ["broke", "If it speaks TLS only, add --tls"]),
    ] {
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    for answer in [ALERT, b"-ERR unknown command\r\n-ERR unknown command\r\n"] {
        let fake = Fake::saying(answer);
        let said = told(fake.address, &[]);
        let word = if answer == ALERT { "--tls" } else { "another server's port" };
        assert!(said.contains(word), "{said}");
    }
    let http = Fake::saying(HTTP);
    assert!(told(http.address, &["--tls"]).contains("leave --tls"));
    // And where TLS is asked of a broker that has none.
    let broker = TestBroker::start();
    assert!(told(broker.address, &["--tls"]).contains("leave --tls"));
}

#[test]
fn programs_are_told_the_kind() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let line = told(closed, &["--output", "json"]);
    let error: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(error["error"]["kind"], "unreachable");
    assert!(error["error"]["hint"].as_str().unwrap().contains("hermitd"), "{line}");
    let run = run(command(&closed.to_string(), &["topic", "lsit", "--output", "json"]), b"");
    let error: Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!((run.status, &error["error"]["kind"]), (2, &Value::from("usage")));
}
