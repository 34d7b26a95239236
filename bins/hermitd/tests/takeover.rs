//! The data and the settings of an older HermitMQ: taken over once, served byte for byte, and left as they were.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::hermitd;

const PATIENCE: Duration = Duration::from_secs(20);

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/hermit-broker/tests/data/vectors")
}

fn vector(name: &str) -> Vec<u8> {
    std::fs::read(vectors().join(name)).unwrap()
}

/// A copy of a recorded data directory.
fn recorded(name: &str, to: &Path) {
    for partition in std::fs::read_dir(vectors().join(name)).unwrap().map(|entry| entry.unwrap().path()) {
        let to = to.join(partition.file_name().unwrap());
        std::fs::create_dir_all(&to).unwrap();
        for file in std::fs::read_dir(&partition).unwrap().map(|entry| entry.unwrap().path()) {
            std::fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
        }
    }
}

/// All files of the old layout with their bytes.
fn originals(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let partitions = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let old = partitions.filter(|path| path.is_dir() && !path.ends_with("partitions"));
    let files = old.flat_map(|dir| std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()));
    files.map(|file| (file.clone(), std::fs::read(&file).unwrap())).collect()
}

fn on(dir: &Path) -> Command {
    let mut command = hermitd();
    command.arg("--data-dir").arg(dir).args(["--listen", "127.0.0.1:0"]);
    command
}

fn refused(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(!status.success());
    assert_eq!(stdout, b"");
    String::from_utf8(stderr).unwrap()
}

struct Daemon {
    child: Child,
    address: String,
}

impl Daemon {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Some(address) = line.trim_end().strip_prefix("ready hermit=").map(str::to_owned) else {
            let mut log = String::new();
            child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
            child.wait().unwrap();
            panic!("not ready: {line:?}\n{log}")
        };
        Self { child, address }
    }

    /// Sends `sent` on a connection of its own, and checks what comes back.
    fn exchange(&self, sent: &[u8], expected: &[u8]) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(sent).unwrap();
        let mut answered = vec![0; expected.len()];
        stream.read_exact(&mut answered).unwrap();
        assert!(answered == expected, "other bytes came");
    }

    /// Stops it gracefully; gives what it has logged.
    fn stop(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{log}");
        log
    }
}

#[test]
fn a_recorded_directory_is_taken_over_once_and_version_1_clients_go_on() {
    let dir = tempfile::tempdir().unwrap();
    recorded("data_after_clean_stop", dir.path());
    let before = originals(dir.path());
    let all = vector("08_consumer_after_restart.b2c.bin");
    for round in 0..3 {
        let daemon = Daemon::start(on(dir.path()));
        daemon.exchange(&vector("08_consumer_after_restart.c2b.bin"), &all);
        // The group has committed offset 1; a commit after the import holds as well.
        daemon.exchange(&vector("05_consumer_resume_midbatch.c2b.bin"), &all[39..]);
        if round == 1 {
            daemon.exchange(&vector("07_commit_backwards.c2b.bin"), &vector("07_commit_backwards.b2c.bin"));
        }
        let log = daemon.stop();
        let imported = log.contains("were taken over");
        assert_eq!(imported, round == 0, "round {round}: {log}");
        if imported {
            for part in ["frames=8", "committed_positions=2", "findings=0", "remove them once you are content"] {
                assert!(log.contains(part), "{part}: {log}");
            }
        }
    }
    assert!(originals(dir.path()) == before, "an old file changed");
}

#[test]
fn a_torn_directory_is_taken_over_up_to_its_last_whole_frame() {
    let dir = tempfile::tempdir().unwrap();
    recorded("data_torn_before", dir.path());
    let before = originals(dir.path());
    let all = vector("08_consumer_after_restart.b2c.bin");
    let daemon = Daemon::start(on(dir.path()));
    daemon.exchange(&vector("08_consumer_after_restart.c2b.bin"), &all[..241]);
    // The next frame gets offset 9.
    let frame = [&[1][..], &[0; 23], &[1], &[0; 3], &[1], b"x"].concat();
    daemon.exchange(&[b"\x01\x06golden\0\0\0\0", &frame[..]].concat(), &[0, 0, 0, 0, 0, 0, 0, 0, 9]);
    let log = daemon.stop();
    assert!(log.contains("the last 32 bytes are no whole frame") && log.contains("offset 9 comes next"), "{log}");
    assert!(originals(dir.path()) == before, "an old file changed");
}

#[test]
fn what_cannot_be_taken_over_refuses_the_start_and_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    recorded("data_after_clean_stop", dir.path());
    let left = || std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let untouched = || left().all(|name| name == "lock" || name.ends_with("_0") || name.ends_with("_3"));

    let message = refused(on(dir.path()).args(["--disk-high-bytes", "9000000000000000000"]));
    assert!(message.contains("free bytes") && message.contains("hermit-cli log import"), "{message}");
    assert!(untouched(), "{:?}", left().collect::<Vec<_>>());

    let message = refused(on(dir.path()).args(["--import", "never"]));
    assert!(message.contains("`import` is `never`") && message.contains("hermit-cli log import"), "{message}");

    std::fs::create_dir(dir.path().join("orders_3")).unwrap();
    let message = refused(&mut on(dir.path()));
    assert!(message.contains("orders_0") && message.contains("no broker was started"), "{message}");
    assert!(untouched(), "{:?}", left().collect::<Vec<_>>());

    std::fs::remove_dir(dir.path().join("orders_3")).unwrap();
    let daemon = Daemon::start(on(dir.path()));
    daemon.exchange(&vector("08_consumer_after_restart.c2b.bin"), &vector("08_consumer_after_restart.b2c.bin"));
    daemon.stop();
}

/// An old settings file for a data directory.
fn settings(dir: &Path) -> PathBuf {
    let path = dir.join("hermitmq.json");
    let text = format!(
        r#"{{
  "server": {{"host": "127.0.0.1", "port": 0, "handshake_timeout_sec": 5}},
  "storage": {{
    "data_dir": "{}",
    "max_segment_mb": 64,
    "retention_hours": 168,
    "cleanup_interval_min": 10,
    "buffer_pool_size_kb": 64,
    "max_buffer_return_kb": 256,
    "flush_interval_ms": 250
  }},
  "security": {{"max_payload_mb": 10}}
}}
"#,
        dir.join("data").display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_old_settings_file_is_taken_and_what_it_means_is_told_loudly() {
    let dir = tempfile::tempdir().unwrap();
    let config = settings(dir.path());
    recorded("data_after_clean_stop", &dir.path().join("data"));
    let with_config = || {
        let mut command = hermitd();
        command.arg("--config").arg(&config);
        command
    };
    let Output { status, stdout, stderr } = with_config().arg("--check").output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success() && stdout == "the settings are valid\n", "{stdout}{stderr}");
    for part in ["`storage.buffer_pool_size_kb` has no meaning any more", "max_buffer_return_kb", "loses those of the last 250ms"] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    assert!(!dir.path().join("data/manifest").exists(), "a check changes nothing");

    // A flag wins, and with it the warning goes.
    let daemon = Daemon::start({
        let mut command = with_config();
        command.args(["--durability", "sync"]);
        command
    });
    daemon.exchange(&vector("08_consumer_after_restart.c2b.bin"), &vector("08_consumer_after_restart.b2c.bin"));
    let log = daemon.stop();
    assert!(log.contains("durability=Sync") && !log.contains("loses those"), "{log}");
    let log = Daemon::start(with_config()).stop();
    assert!(log.contains("durability=Os") && log.contains("loses those of the last 250ms"), "{log}");
}

#[test]
fn a_mistake_in_the_old_settings_file_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let config = settings(dir.path());
    let text = std::fs::read_to_string(&config).unwrap();
    for (from, to, expected) in [
        ("retention_hours", "retention_hour", "`storage.retention_hour` is no setting; did you mean `retention_hours`?"),
        ("64,", "0,", "`storage.max_segment_mb` is 0: give a whole number from 1 to 2048"),
    ] {
        std::fs::write(&config, text.replacen(from, to, 1)).unwrap();
        for check in [&["--check"][..], &[]] {
            let message = refused(hermitd().arg("--config").arg(&config).args(check));
            assert!(message.contains(expected) && message.contains("hermitmq.json:"), "{message}");
        }
    }
}
