//! SIGHUP with files that keep whoever reads them waiting.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(30);

struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    fn start(dir: &Path, args: &[&str]) -> Self {
        let log = dir.join("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_hermitd"));
        command.env_clear().arg("--data-dir").arg(dir.join("data")).args(["--listen", "127.0.0.1:0", "--http", "off"]).args(args);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(fs::File::create(&log).unwrap()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready "), "{line:?} {}", fs::read_to_string(&log).unwrap());
        Self { child, log }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn waits_for_line(&self, line: &str) -> String {
        wait(|| Some(fs::read_to_string(&self.log).unwrap()).filter(|said| said.contains(line)))
    }

    fn stops(mut self) {
        self.signal(Signal::TERM);
        let status = wait(|| self.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(0));
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "it never comes");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn fifo(path: &Path) {
    mknodat(rustix::fs::CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

/// Opens a pipe for writing once somebody reads it, and only then.
fn reader_has_come(path: &Path) -> Option<fs::File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
    fs::OpenOptions::new().write(true).custom_flags(flags).open(path).ok()
}

#[test]
fn a_settings_file_that_is_no_file_is_read_once_and_never_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("settings");
    fifo(&file);
    let writing = std::thread::spawn({
        let file = file.clone();
        move || fs::write(file, "max_partitions = 3\n").unwrap()
    });
    let daemon = Daemon::start(dir.path(), &["--config", file.to_str().unwrap()]);
    writing.join().unwrap();
    daemon.signal(Signal::HUP);
    let said = daemon.waits_for_line("nothing was changed");
    assert!(said.contains("settings cannot be read: it is no regular file") && said.contains("--config"), "{said}");
    assert!(!said.contains("SIGHUP: changed"), "{said}");
    daemon.stops();
}

#[test]
fn a_stop_does_not_wait_for_settings_that_are_being_read() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let daemon = Daemon::start(dir.path(), &["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    fs::remove_file(&cert).unwrap();
    fifo(&cert);
    daemon.signal(Signal::HUP);
    // It has the file open by now, and waits for what will never be written.
    let _held = wait(|| reader_has_come(&cert));
    daemon.stops();
}
