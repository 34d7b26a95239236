//! More connections than descriptors: the broker waits, recovers, and its storage keeps what it needs.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

/// Ends the broker also when the test fails.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream
}

/// Stores one message; `None` where the broker does not answer, or closes.
fn produce(address: &str, topic: u8) -> Option<u64> {
    let mut stream = connect(address);
    stream.write_all(&[1, 1, topic, 0, 0, 0, 0]).ok()?;
    let mut frame = [0; 30];
    frame[0] = 1;
    frame[24] = 1;
    frame[29] = b'x';
    stream.write_all(&frame).ok()?;
    let mut answer = [0; 9];
    stream.read_exact(&mut answer).ok()?;
    let (status, offset) = answer.split_first()?;
    (*status == 0).then(|| u64::from_be_bytes(offset.try_into().unwrap()))
}

#[test]
fn a_broker_out_of_descriptors_recovers_and_goes_on_storing() {
    let dir = tempfile::tempdir().unwrap();
    // Soft and hard limit: the broker cannot raise it.
    let script = r#"ulimit -n 64; exec "$0" --data-dir "$1" --listen 127.0.0.1:0 --http off"#;
    let mut child = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_hermitd")])
        .arg(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let broker = Broker(child);
    let address = line.trim_end().strip_prefix("ready hermit=").unwrap().to_owned();

    assert_eq!(produce(&address, b'a'), Some(0));
    // The kernel completes these connections, whether or not the broker can take them in.
    let crowd: Vec<TcpStream> = (0..100).map(|_| connect(&address)).collect();
    drop(crowd);
    let deadline = Instant::now() + PATIENCE;
    while produce(&address, b'a').is_none() {
        assert!(Instant::now() < deadline, "it takes in nobody any more");
    }
    // More logs than descriptors: the least recently used are closed.
    for topic in b'b'..=b'z' {
        assert_eq!(produce(&address, topic), Some(0), "topic {}", char::from(topic));
    }
    let pid = rustix::process::Pid::from_child(&broker.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let mut broker = broker;
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = broker.0.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success());
}
