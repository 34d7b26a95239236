//! The program as tests run it: with nothing from the environment, and with its log in a file.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "each test uses a part of it, fails where it cannot go on, and has the real clock"
)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Long enough for a loaded machine; a test that needs it has failed.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn hermitd() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermitd"));
    // Others of its kind run at the same time, and there is one default port.
    command.env_clear().env("HERMITD_HTTP", "off").stdin(Stdio::null());
    command
}

/// A broker that serves, with `data` and `log` in a directory of the test's.
pub struct Daemon {
    pub child: Child,
    pub address: String,
    log: PathBuf,
}

impl Daemon {
    /// Started as `change` says, and ready.
    pub fn start(dir: &Path, change: impl FnOnce(&mut Command)) -> Self {
        let log = dir.join("log");
        let mut command = hermitd();
        command.arg("--data-dir").arg(dir.join("data")).args(["--listen", "127.0.0.1:0"]);
        change(&mut command);
        command.stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut daemon = Self { child, address: String::new(), log };
        let address = line.trim_end().strip_prefix("ready hermit=");
        daemon.address = address.unwrap_or_else(|| panic!("not ready: {line:?} {}", daemon.said())).to_owned();
        daemon
    }

    /// All that it has logged.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops it gracefully; gives all that it has logged.
    pub fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        let status = wait("its end", || self.child.try_wait().unwrap());
        assert!(status.success(), "{}", self.said());
        self.said()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // After a stop there is nothing left to end.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Looks until there is something.
pub fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a condition that something else brings about.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    wait(what, || holds().then_some(()));
}
