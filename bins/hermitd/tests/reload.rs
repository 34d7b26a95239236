//! SIGHUP with files that keep whoever reads them waiting.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::fs;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, mknodat};
use rustix::process::Signal;
use support::{Daemon, wait};

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
    let daemon = Daemon::start(dir.path(), |command| {
        command.arg("--config").arg(&file);
    });
    writing.join().unwrap();
    daemon.signal(Signal::HUP);
    let said = wait("the word", || Some(daemon.said()).filter(|said| said.contains("nothing was changed")));
    assert!(said.contains("settings cannot be read: it is no regular file") && said.contains("--config"), "{said}");
    assert!(!said.contains("SIGHUP: changed"), "{said}");
    daemon.stop();
}

#[test]
fn a_stop_does_not_wait_for_settings_that_are_being_read() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    fs::write(&cert, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let daemon = Daemon::start(dir.path(), |command| {
        command.arg("--tls-cert").arg(&cert).arg("--tls-key").arg(&key);
    });
    fs::remove_file(&cert).unwrap();
    fifo(&cert);
    daemon.signal(Signal::HUP);
    // It has the file open by now, and waits for what will never be written.
    let _held = wait("a reader", || reader_has_come(&cert));
    daemon.stop();
}
