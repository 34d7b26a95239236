//! The program itself: what it prints, what it survives, what it refuses.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use support::hermitd;

const PATIENCE: Duration = Duration::from_secs(20);

struct Daemon {
    child: Child,
    address: String,
}

impl Daemon {
    fn start(dir: &Path) -> Self {
        let mut command = hermitd();
        command.arg("--data-dir").arg(dir).args(["--listen", "127.0.0.1:0"]);
        Self::spawn(command)
    }

    fn spawn(command: Command) -> Self {
        Self::spawn_with(command, Stdio::null())
    }

    fn spawn_with(mut command: Command, stderr: Stdio) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("ready hermit=").unwrap_or_else(|| panic!("not ready: {line:?}")).to_owned();
        Self { child, address }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn wait(mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn stop(self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), Some(0));
    }

    fn kill(self) {
        self.signal(Signal::KILL);
        assert_eq!(self.wait(), None);
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Stores one message as a version-1 producer; gives its offset.
    fn produce(&self, payload: &[u8]) -> u64 {
        let mut stream = self.connect();
        stream.write_all(b"\x01\x01t\0\0\0\0").unwrap();
        stream.write_all(&v1_frame(payload)).unwrap();
        answer(&mut stream).unwrap()
    }

    /// Reads `count` messages as a version-1 consumer.
    fn consume(&self, count: usize) -> Vec<Vec<u8>> {
        let mut stream = self.connect();
        stream.write_all(b"\x02\x01g\x01t\0\0\0\0").unwrap();
        (0..count)
            .map(|offset| {
                let mut header = [0; 29];
                stream.read_exact(&mut header).unwrap();
                assert_eq!(header[9..17], (offset as u64).to_be_bytes());
                let mut payload = vec![0; u32::from_be_bytes(header[21..25].try_into().unwrap()) as usize];
                stream.read_exact(&mut payload).unwrap();
                payload
            })
            .collect()
    }
}

fn v1_frame(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![1];
    frame.extend_from_slice(&[0; 20]);
    frame.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(&1u32.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn answer(stream: &mut TcpStream) -> std::io::Result<u64> {
    let mut answer = [0; 9];
    stream.read_exact(&mut answer)?;
    assert_eq!(answer[0], 0);
    Ok(u64::from_be_bytes(answer[1..].try_into().unwrap()))
}

fn refused(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(!status.success());
    assert_eq!(stdout, b"");
    String::from_utf8(stderr).unwrap()
}

#[test]
fn what_was_answered_survives_kills_and_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..4u64 {
        let daemon = Daemon::start(dir.path());
        for message in 0..5 {
            let at = round * 5 + message;
            assert_eq!(daemon.produce(at.to_string().as_bytes()), at);
        }
        if round == 2 { daemon.stop() } else { daemon.kill() }
    }
    let daemon = Daemon::start(dir.path());
    let expected: Vec<_> = (0..20).map(|at| at.to_string().into_bytes()).collect();
    assert_eq!(daemon.consume(20), expected);
    daemon.stop();
    assert!(dir.path().join("clean").exists());
}

#[test]
fn a_second_broker_on_the_directory_is_told_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    let message = refused(hermitd().arg("--data-dir").arg(dir.path()).args(["--listen", "127.0.0.1:0"]));
    let pid = daemon.child.id().to_string();
    assert!(message.contains(&pid) && message.contains(dir.path().to_str().unwrap()), "{message}");
    assert_eq!(daemon.produce(b"still served"), 0);
    daemon.stop();
}

#[test]
fn a_stop_under_load_loses_nothing_that_was_answered() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    let producers: Vec<_> = (0..4u8)
        .map(|number| {
            let mut stream = daemon.connect();
            std::thread::spawn(move || {
                stream.write_all(b"\x01\x01t\0\0\0\0").unwrap();
                let mut answered = Vec::new();
                for message in 0u32.. {
                    let payload = [&[number][..], &message.to_be_bytes()].concat();
                    if stream.write_all(&v1_frame(&payload)).is_err() {
                        break;
                    }
                    match answer(&mut stream) {
                        Ok(offset) => answered.push((offset, payload)),
                        Err(_stopped) => break,
                    }
                }
                answered
            })
        })
        .collect();
    while daemon.produce(b"x") < 200 {}
    daemon.stop();
    let answered: Vec<_> = producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect();
    assert!(answered.len() > 10);
    let daemon = Daemon::start(dir.path());
    let last = answered.iter().map(|(offset, _)| *offset).max().unwrap();
    let read = daemon.consume(usize::try_from(last).unwrap() + 1);
    for (offset, payload) in answered {
        assert_eq!(read[usize::try_from(offset).unwrap()], payload);
    }
    daemon.stop();
}

#[test]
fn an_interrupt_stops_it_and_a_second_signal_forces() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path());
    daemon.signal(Signal::INT);
    assert_eq!(daemon.wait(), Some(0));

    let mut command = hermitd();
    command.arg("--data-dir").arg(dir.path()).args(["--listen", "127.0.0.1:0", "--drain-timeout", "60s"]);
    let daemon = Daemon::spawn(command);
    // A frame larger than what sockets buffer is on its way to a consumer that does not read it: the drain has something to wait for.
    daemon.produce(&vec![7; 45 << 20]);
    let mut consumer = daemon.connect();
    consumer.write_all(b"\x02\x01g\x01t\0\0\0\0").unwrap();
    consumer.read_exact(&mut [0; 29]).unwrap();
    daemon.signal(Signal::TERM);
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(&daemon.address).is_ok() {
        assert!(Instant::now() < deadline, "it still accepts");
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon.signal(Signal::INT);
    assert_eq!(daemon.wait(), Some(1));
}

#[test]
fn a_standard_error_that_takes_nothing_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (closed, writer) = std::io::pipe().unwrap();
    drop(closed);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (number, stderr) in [Stdio::from(full), Stdio::from(writer)].into_iter().enumerate() {
        let mut command = hermitd();
        command.arg("--data-dir").arg(dir.path()).args(["--listen", "127.0.0.1:0", "--log", "trace"]);
        let daemon = Daemon::spawn_with(command, stderr);
        assert_eq!(daemon.produce(b"served"), number as u64);
        daemon.stop();
        assert!(dir.path().join("clean").exists());
    }
}

#[test]
fn the_same_signal_at_once_is_one_and_later_it_forces() {
    let dir = tempfile::tempdir().unwrap();
    let start = |drain: &str| {
        let mut command = hermitd();
        command.arg("--data-dir").arg(dir.path()).args(["--listen", "127.0.0.1:0", "--drain-timeout", drain]);
        Daemon::spawn(command)
    };
    let hold = |daemon: &Daemon| {
        let mut consumer = daemon.connect();
        consumer.write_all(b"\x02\x01g\x01t\0\0\0\0").unwrap();
        consumer.read_exact(&mut [0; 29]).unwrap();
        consumer
    };
    let daemon = start("2s");
    // Longer than what sockets buffer, for a consumer that does not read it: the drain lasts until its timeout.
    daemon.produce(&vec![7; 45 << 20]);
    let consumer = hold(&daemon);
    daemon.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(50));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(0));
    drop(consumer);

    let daemon = start("60s");
    let _consumer = hold(&daemon);
    daemon.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(800));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(1));
}

/// Signals are heard before anything is read; one wish to stop is done without an error, however far the start is.
#[test]
fn a_start_that_hangs_is_stopped_by_one_signal_and_by_no_hangup() {
    const TERM_AND_HUP: u64 = 1 << 14 | 1;
    let dir = tempfile::tempdir().unwrap();
    // Nobody ever writes to it.
    let settings = dir.path().join("settings");
    rustix::fs::mkfifoat(rustix::fs::CWD, &settings, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let mut command = hermitd();
    command.arg("--config").arg(&settings).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let daemon = Daemon { child, address: String::new() };
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = std::fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
        if u64::from_str_radix(caught, 16).unwrap() & TERM_AND_HUP == TERM_AND_HUP {
            break;
        }
        assert!(Instant::now() < deadline, "signals are not heard: {caught}");
        std::thread::sleep(Duration::from_millis(5));
    }
    daemon.signal(Signal::HUP);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), Some(0));
}

/// What another start would not change is told from what it might, for whoever starts it again.
#[test]
fn mistakes_in_settings_have_an_exit_status_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let status = |change: &dyn Fn(&mut Command)| {
        let mut command = hermitd();
        command.arg("--data-dir").arg(dir.path().join("data")).stdout(Stdio::null());
        change(&mut command);
        command.stderr(Stdio::null()).status().unwrap().code()
    };
    let wrong: &dyn Fn(&mut Command) = &|command| {
        command.args(["--max-partitions", "no"]);
    };
    assert_eq!(status(wrong), Some(78));
    let checked: &dyn Fn(&mut Command) = &|command| {
        command.args(["--check", "--max-partitions", "no"]);
    };
    assert_eq!(status(checked), Some(1));
    let nobody: &dyn Fn(&mut Command) = &|command| {
        command.args(["--authentication", "on"]).env("HERMITD_ADMIN_PASSWORD_FILE", "/nowhere/password");
    };
    assert_eq!(status(nobody), Some(78));
    // The port may be free a moment later.
    let holder = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let on_a_taken_port: &dyn Fn(&mut Command) = &|command| {
        command.args(["--listen", &taken.to_string()]);
    };
    assert_eq!(status(on_a_taken_port), Some(1));
    drop(holder);
}

#[test]
fn a_port_that_is_taken_is_told_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let message = refused(hermitd().arg("--data-dir").arg(dir.path()).args(["--log", "off", "--listen", &address]));
    assert!(message.contains(&address) && message.contains("stop that one") && message.contains("--listen"), "{message}");
}

#[test]
fn help_is_shown_whatever_the_environment_has() {
    let output = hermitd().env("HERMITD_FOO", "1").arg("--help").output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("--data-dir"));
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("h.toml");
    let [from_file, from_environment, from_flag] = ["file", "environment", "flag"].map(|name| dir.path().join(name));
    std::fs::write(&file, format!("data_dir = {from_file:?}\nlisten = \"127.0.0.1:0\"\n")).unwrap();
    let start = |with_environment: bool, with_flag: bool| {
        let mut command = hermitd();
        command.arg("--config").arg(&file);
        if with_environment {
            command.env("HERMITD_DATA_DIR", &from_environment);
        }
        if with_flag {
            command.arg("--data-dir").arg(&from_flag);
        }
        Daemon::spawn(command).stop();
    };
    start(false, false);
    assert!(from_file.exists() && !from_environment.exists());
    start(true, false);
    assert!(from_environment.exists() && !from_flag.exists());
    start(true, true);
    assert!(from_flag.exists());
}

#[test]
fn check_checks_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("data");
    let output = hermitd().arg("--data-dir").arg(&data_dir).arg("--check").output().unwrap();
    assert!(output.status.success());
    assert_eq!(output.stdout, b"the settings are valid\n");
    assert!(!data_dir.exists());
}

#[test]
fn directories_and_files_are_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let data_dir = dir.path().join("data");
    let daemon = Daemon::start(&data_dir);
    daemon.produce(b"secret");
    daemon.stop();
    let mut left = vec![data_dir];
    while let Some(path) = left.pop() {
        let metadata = std::fs::metadata(&path).unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        assert_eq!(mode, if metadata.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
        if metadata.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}
