//! A broker in this process, and the command line as a process of its own.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod copy;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hermit_broker::{Broker, BrokerConfig};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub struct TestBroker {
    runtime: Runtime,
    pub broker: Broker,
    pub address: SocketAddr,
    _dir: Option<tempfile::TempDir>,
}

/// What a run of the command came to.
pub struct Run {
    pub status: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Run {
    /// What was printed.
    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }
}

impl TestBroker {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let started = Self::start_in(dir.path());
        Self { _dir: Some(dir), ..started }
    }

    pub fn start_in(dir: &Path) -> Self {
        Self::start_with(dir, |_config| {})
    }

    pub fn start_with(dir: &Path, change: impl FnOnce(&mut BrokerConfig)) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let mut config = BrokerConfig::new(dir);
        config.reserve_bytes = 0;
        config.limits.disk_low_bytes = 0;
        config.limits.disk_high_bytes = 0;
        change(&mut config);
        let (broker, address) = runtime.block_on(async {
            let broker = Broker::open(config).unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let served = broker.clone();
            tokio::spawn(async move { served.serve(listener).await });
            (broker, address)
        });
        Self { runtime, broker, address, _dir: None }
    }

    /// Stops cleanly; the directory can be used then.
    pub fn stop(&mut self) {
        self.runtime.block_on(self.broker.shutdown()).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        command(&self.address.to_string(), arguments)
    }

    /// Runs to the end.
    pub fn run(&self, arguments: &[&str], input: &[u8]) -> Run {
        run(self.command(arguments), input)
    }

    /// Runs to the end, which has to be a good one; gives what was printed.
    pub fn ok(&self, arguments: &[&str], input: &[u8]) -> String {
        let run = self.run(arguments, input);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{arguments:?}");
        String::from_utf8(run.stdout).unwrap()
    }
}

/// Puts a recorded data directory of the older program there.
pub fn older_data(to: &Path) {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/hermit-broker/tests/data/vectors");
    copy::copy(&vectors.join("data_torn_before"), to);
}

pub fn command(server: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermit-cli"));
    command.args(arguments).env("HERMIT_SERVER", server).env("HERMIT_CONFIG", "/dev/null");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn run(mut command: Command, input: &[u8]) -> Run {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A command that ends early does not read its input to the end.
    let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    writing.join().unwrap();
    Run { status: status.code().unwrap(), stdout, stderr: String::from_utf8(stderr).unwrap() }
}

/// Reads exactly so many bytes of what a running command prints.
pub fn read_exactly(child: &mut Child, size: usize) -> Vec<u8> {
    let mut read = vec![0; size];
    child.stdout.as_mut().unwrap().read_exact(&mut read).unwrap();
    read
}

pub fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits for a condition.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    #[expect(clippy::disallowed_methods, reason = "a deadline for a test")]
    let now = Instant::now;
    let deadline = now() + Duration::from_secs(30);
    while !condition() {
        assert!(now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
