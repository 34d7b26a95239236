//! What systemd is told: how far the start is, when it serves, that it gets on, when settings are read again, and when it stops.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(30);

/// What is told until a message that begins like this comes, that one included.
fn told_until(socket: &UnixDatagram, begin: &str) -> Vec<String> {
    let (mut told, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    loop {
        let mut message = [0; 1024];
        let length = socket.recv(&mut message).unwrap_or_else(|error| panic!("{begin}: {error} behind {told:?}"));
        told.push(String::from_utf8(message[..length].to_vec()).unwrap());
        if told.last().unwrap().starts_with(begin) {
            return told;
        }
        assert!(Instant::now() < deadline, "never {begin}: {told:?}");
    }
}

#[test]
fn the_service_manager_hears_what_it_has_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermitd"));
    command.env_clear().env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "300000");
    let file = dir.path().join("hermitd.toml");
    std::fs::write(&file, "").unwrap();
    command.arg("--config").arg(&file).arg("--data-dir").arg(dir.path().join("data"));
    command.args(["--listen", "127.0.0.1:0", "--http", "off", "--drain-timeout", "7s"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let starting = told_until(&socket, "READY=1\nSTATUS=Serving at 127.0.0.1:");
    assert!(starting[..starting.len() - 1].iter().all(|told| told.starts_with("STATUS=Starting: ")), "{starting:?}");
    for _ in 0..3 {
        told_until(&socket, "WATCHDOG=1");
    }
    let signal = |signal| kill_process(Pid::from_child(&child), signal).unwrap();
    signal(Signal::HUP);
    let reloading = told_until(&socket, "RELOADING=1\nMONOTONIC_USEC=").pop().unwrap();
    let at: u64 = reloading.split(['=', '\n']).nth(3).unwrap().parse().unwrap();
    assert!(at > 0);
    let serving = told_until(&socket, "READY=1\n").pop().unwrap();
    assert!(!serving.contains(';'), "{serving}");
    // What could not be done shows.
    std::fs::write(&file, "max_partitions = 0\nloq = \"info\"\n").unwrap();
    signal(Signal::HUP);
    let serving = told_until(&socket, "READY=1\n").pop().unwrap();
    assert!(serving.ends_with("; settings NOT changed: 2 mistakes, which the log names"), "{serving}");
    signal(Signal::TERM);
    // All that the stop may take, whatever the unit allows.
    let stopping = told_until(&socket, "STOPPING=1\n").pop().unwrap();
    assert!(stopping.ends_with("\nEXTEND_TIMEOUT_USEC=87000000"), "{stopping}");
    let closing = told_until(&socket, "STATUS=Stopping: closing").pop().unwrap();
    assert!(closing.ends_with("\nEXTEND_TIMEOUT_USEC=80000000"), "{closing}");
    assert!(child.wait().unwrap().success());
}
