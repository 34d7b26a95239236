//! The log as programs read it.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

#[test]
fn each_event_is_one_line_of_json() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermitd"));
    command.env_clear().arg("--data-dir").arg(dir.path().join("a\n\"b")).args(["--listen", "127.0.0.1:0", "--http", "off"]);
    command.args(["--log-format", "json", "--log", "debug", "--authentication", "on"]).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut ready = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    let events: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect();
    for event in &events {
        for field in ["timestamp", "level", "message", "target"] {
            assert!(event[field].is_string(), "{field}: {event}");
        }
    }
    let of = |message: &str| events.iter().find(|event| event["message"] == message).unwrap_or_else(|| panic!("{said}"));
    assert_eq!(ready, format!("ready hermit={}\n", of("ready")["address"].as_str().unwrap()));
    assert_eq!((&of("ready")["level"], &of("closed the data directory")["clean"]), (&"INFO".into(), &true.into()));
    assert!(events.iter().any(|event| event["path"].as_str().is_some_and(|path| path.contains("a\n\"b"))), "{said}");
}
