//! The unit of systemd: that it is understood, that it leaves little open, and that the broker needs nothing that it forbids.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use support::{Broker, PATIENCE, binaries, eventually, good, is_there, root, unit};

/// Tenths of what systemd calls exposure: 0 is none, 100 all. What is left is the network, which a broker is for.
const MOST_EXPOSURE: &str = "15";

/// The unit as it is shipped, with the broker where it is here.
fn unit_file(folder: &Path) -> PathBuf {
    let text = fs::read_to_string(root().join("packaging/systemd/hermitmq.service")).unwrap();
    let file = folder.join("hermitmq.service");
    fs::write(&file, text.replace("/usr/bin/hermitd", binaries().join("hermitd").to_str().unwrap())).unwrap();
    file
}

#[test]
fn systemd_understands_the_unit() {
    if !is_there("systemd-analyze", "systemd") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut verify = Command::new("systemd-analyze");
    let output = verify.args(["verify", "--man=no"]).arg(unit_file(folder.path())).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    // Before 253 it knows one of the two types, and keeps to that.
    let of_its_age = |line: &&str| line.contains("Failed to parse service type, ignoring: notify-reload");
    let said: Vec<_> = said.lines().filter(|line| !of_its_age(line)).filter(|line| line.contains("hermitmq")).collect();
    assert!(output.status.success() && said.is_empty(), "{said:?}");
}

#[test]
fn systemd_finds_little_open() {
    if !is_there("systemd-analyze", "systemd") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--no-pager", &format!("--threshold={MOST_EXPOSURE}")]);
    good(security.arg(unit_file(folder.path())));
}

/// The settings of a unit by its sections: `[Service]ReadWritePaths` and the value.
fn drop_in(text: &str) -> Vec<(String, String)> {
    let mut section = "";
    let mut settings = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        match line.split_once('=') {
            Some((key, value)) => settings.push((format!("{section}{key}"), value.to_owned())),
            None if line.starts_with('[') => section = line,
            None => {}
        }
    }
    settings
}

/// A broker that starts before its disk is there would find no messages, and begin anew.
#[test]
fn data_on_another_disk_are_waited_for() {
    let manual = fs::read_to_string(root().join("docs/installing.md")).unwrap();
    let blocks = manual.split("```ini\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let with_paths: Vec<_> = blocks.filter(|block| block.contains("ReadWritePaths=")).collect();
    assert_eq!(with_paths.len(), 1);
    let settings = drop_in(with_paths[0]);
    let of = |name: &str| settings.iter().filter(|(key, _)| key == name).map(|(_, value)| value).collect::<Vec<_>>();
    let paths = of("[Service]ReadWritePaths");
    assert!(!paths.is_empty() && of("[Unit]RequiresMountsFor") == paths, "{settings:?}");
    for path in paths {
        assert!(manual.contains(&format!("\nsudo chown hermitmq: {path}\n")), "{path} is not given to the broker");
    }
    if !is_there("systemd-analyze", "systemd") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = unit_file(folder.path());
    fs::write(&file, format!("{}\n{}", fs::read_to_string(&file).unwrap(), with_paths[0])).unwrap();
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !said.contains("Unknown"), "{said}");
}

/// What is no mistake in the settings is tried again for as long as it takes, and what a crash leaves holds no secrets.
#[test]
fn a_broker_that_ends_is_tried_again_and_leaves_no_core() {
    let unit = unit();
    for (key, value) in [
        ("Restart", "on-failure"),
        ("RestartPreventExitStatus", "78"),
        ("StartLimitIntervalSec", "0"),
        ("LimitCORE", "0"),
        ("UMask", "0077"),
    ] {
        assert_eq!(unit[key], [value], "{key}");
    }
    assert!(!unit.contains_key("StartLimitBurst"));

    // What that status is, the broker has to mean by it: wrong settings, and nothing that may come right by itself.
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let status = |args: &[&str]| {
        let mut broker = Command::new(binaries().join("hermitd"));
        broker.args(["--http=off", "--data-dir"]).arg(folder.path().join("data")).args(args).env_clear();
        broker.output().unwrap().status.code().unwrap()
    };
    assert_eq!(status(&["--max-connections=many"]).to_string(), unit["RestartPreventExitStatus"][0]);
    assert_eq!(status(&["--listen", &listen]), 1);
}

/// What the filter lets pass: each line of it adds to what was before, or, behind `~`, takes away.
fn allowed() -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for line in &unit()["SystemCallFilter"] {
        let (takes, names) = line.strip_prefix('~').map_or((false, line.as_str()), |names| (true, names));
        for call in names.split_whitespace().flat_map(calls) {
            if takes {
                allowed.remove(&call);
            } else {
                allowed.insert(call);
            }
        }
    }
    // Not part of any list that a unit would name: always let pass.
    allowed.extend(calls("@default"));
    allowed
}

/// The calls of a group, with those of the groups in it; a call's name stands for itself.
fn calls(name: &str) -> Vec<String> {
    if !name.starts_with('@') {
        return vec![name.to_owned()];
    }
    let list = good(Command::new("systemd-analyze").args(["--no-pager", "syscall-filter", name]));
    let names = list.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    names.flat_map(calls).collect()
}

/// A call of the trace that has ended or is under way: its name, and the line.
fn call(line: &str) -> Option<(&str, &str)> {
    let (_process, event) = line.split_once(' ')?;
    let event = event.trim_start();
    let (name, _) = event.split_once('(')?;
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some((name, event))
}

#[test]
fn the_broker_needs_nothing_that_the_unit_forbids() {
    if !is_there("systemd-analyze", "systemd") || !is_there("strace", "strace") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let told = Told::listen(&folder.path().join("notify"));
    // Twice, as a start after a kill does more than the first one.
    for how in ["KILL", "TERM"] {
        let broker = Broker::start(traced(&trace, folder.path()), &binaries().join("hermit-cli"));
        let process = child_of(broker.id());
        load(&broker, process, how == "KILL");
        if how == "KILL" {
            broker.signal("KILL", process);
            drop(broker);
        } else {
            broker.stop_as(process);
        }
    }

    for state in ["READY=1", "WATCHDOG=1", "RELOADING=1", "STOPPING=1"] {
        told.waits_for(state);
    }

    let trace = fs::read_to_string(&trace).unwrap();
    let seen: BTreeSet<_> = trace.lines().filter_map(call).map(|(name, _)| name).collect();
    for expected in ["sendfile", "fdatasync", "mmap", "pwrite64", "epoll_wait", "flock"] {
        assert!(seen.contains(expected), "the load does not reach `{expected}`: {seen:?}");
    }
    let allowed = allowed();
    let forbidden: Vec<_> = seen.iter().filter(|name| !allowed.contains(**name)).collect();
    assert!(forbidden.is_empty(), "the unit forbids {forbidden:?}");

    for (name, event) in trace.lines().filter_map(call) {
        // MemoryDenyWriteExecute: nothing is made executable, and nothing can be both.
        let is_code = event.contains("PROT_EXEC");
        assert!(!(is_code && (event.contains("PROT_WRITE") || name == "mprotect")), "{event}");
        // RestrictAddressFamilies.
        let is_family = ["AF_INET", "AF_INET6", "AF_UNIX"].iter().any(|family| event.contains(&format!("({family},")));
        assert!(name != "socket" || is_family, "{event}");
    }
}

fn traced(trace: &Path, folder: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["--follow-forks", "-qq", "--string-limit=0", "-A", "--output"]).arg(trace);
    command
        .arg(binaries().join("hermitd"))
        .args(["--listen=127.0.0.1:0", "--http=127.0.0.1:0", "--log=error"])
        .arg("--data-dir")
        .arg(folder.join("data"));
    // As the unit has it told, only more often.
    command.env("NOTIFY_SOCKET", folder.join("notify")).env("WATCHDOG_USEC", "1500000");
    // Segments are left behind soon, so that their indexes are mapped; retention and scrub come by within the run.
    command.args(["--maintenance-interval=1s", "--scrub-interval=1s", "--disk-low-bytes=0", "--disk-high-bytes=0"]);
    command
}

/// What a service tells systemd.
struct Told(Receiver<String>);

impl Told {
    /// Takes all of it, so that nobody waits to tell more.
    fn listen(path: &Path) -> Self {
        let (socket, (sender, told)) = (UnixDatagram::bind(path).unwrap(), channel());
        std::thread::spawn(move || {
            let mut state = [0; 4096];
            while let Ok(length) = socket.recv(&mut state) {
                if sender.send(String::from_utf8_lossy(&state[..length]).into_owned()).is_err() {
                    return;
                }
            }
        });
        Self(told)
    }

    fn waits_for(&self, state: &str) {
        let mut before = Vec::new();
        while !before.last().is_some_and(|told: &String| told.lines().any(|line| line == state)) {
            before.push(self.0.recv_timeout(PATIENCE).unwrap_or_else(|_late| panic!("{state} is not told behind {before:?}")));
        }
    }
}

/// The process that `strace` has started.
fn child_of(process: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    children.trim().parse().unwrap()
}

/// A little of everything that a broker does.
fn load(broker: &Broker, process: u32, is_first: bool) {
    if is_first {
        broker.cli(&["topic", "create", "many", "--partitions", "24"]);
        broker.cli(&["topic", "create", "large", "--segment-bytes", "65536", "--retention-bytes", "131072"]);
        broker.cli(&["topic", "create", "unsynced", "--durability", "os"]);
        broker.cli(&["topic", "create", "compacted", "--compaction"]);
    }
    let lines: String = (0..4000).map(|line| format!("{line},{}\n", "x".repeat(60))).collect();
    for topic in ["many", "large", "unsynced"] {
        broker.cli_with(&["produce", topic], lines.as_bytes());
    }
    for topic in ["many", "compacted"] {
        broker.cli_with(&["produce", topic, "--key-column", "1"], lines.as_bytes());
    }
    broker.cli(&["consume", "large", "--from", "1h", "--until", "end"]);
    broker.cli(&["consume", "many", "--group", "g", "--until", "end"]);
    broker.cli(&["topic", "alter", "many", "--retention-age", "1h"]);
    broker.cli(&["topic", "trim", "large", "--before", "latest"]);
    if !is_first {
        broker.cli(&["topic", "delete", "unsynced"]);
    }
    for path in ["/metrics", "/readyz", "/api/v1/topics"] {
        get(&broker.http, path);
    }
    // The settings are read again before what comes behind the signal is answered for long.
    reload(process);
    eventually("the broker answers", || !broker.cli(&["topic", "list"]).is_empty());
}

/// As the unit does it, also where systemd knows no `notify-reload`.
fn reload(process: u32) {
    let unit = unit();
    let [command] = unit["ExecReload"].as_slice() else { panic!("{unit:?}") };
    let (program, script) = command.split_once(" -c ").unwrap();
    let script = script.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')).unwrap();
    good(Command::new(program).args(["-c", script]).env_clear().env("MAINPID", process.to_string()));
}

fn get(address: &str, path: &str) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}
