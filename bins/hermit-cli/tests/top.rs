//! `status` and `top`, as processes.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;
use support::{TestBroker, eventually, run, signal};

#[test]
fn status_is_one_screen_and_its_exit_status_says_whether_to_act() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "orders", "--partitions", "2"], b"");
    broker.ok(&["produce", "orders"], b"one\ntwo\n");
    broker.ok(&["consume", "orders", "--group", "billing", "--count", "1"], b"");
    let shown = broker.ok(&["status"], b"");
    assert!(shown.lines().count() < 24 && shown.lines().all(|line| line.chars().count() <= 120), "{shown}");
    for part in
        ["hermitmq", "1 with 2 partitions", "billing  empty", "warning: group billing has no members", "nothing needs acting on"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let late = broker.run(&["status", "--max-lag", "0ms", "--output", "json"], b"");
    let told: Value = serde_json::from_slice(&late.stdout).unwrap();
    assert_eq!((late.status, &told["healthy"], &told["problems"][0]["kind"]), (1, &Value::from(false), &Value::from("group_lag")));
    let error: Value = serde_json::from_str(&late.stderr).unwrap();
    assert_eq!(error["error"]["kind"], "unhealthy");
    let described: Value = serde_json::from_str(&broker.ok(&["broker", "describe", "--output", "json"], b"")).unwrap();
    let figures = &described["figures"];
    assert!(figures["appended_records"].as_u64() >= Some(2) && figures["delivered_records"].as_u64() >= Some(1), "{figures}");
    assert_eq!(figures["scrub"]["damaged_ranges"], 0);
}

#[test]
fn without_a_terminal_top_prints_one_view_if_it_is_asked_to() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "orders"], b"");
    let refused = broker.run(&["top"], b"");
    assert!(refused.status == 1 && refused.stderr.contains("--once"), "{}", refused.stderr);
    let mut command = broker.command(&["top", "--once", "--interval", "100ms"]);
    command.env("COLUMNS", "80");
    let once = run(command, b"");
    let shown = String::from_utf8(once.stdout).unwrap();
    assert_eq!((once.status, once.stderr.as_str()), (0, ""));
    assert!(shown.lines().any(|line| line.starts_with("orders ")) && !shown.contains('\u{1b}'), "{shown}");
    // It runs until somebody ends it.
    let mut running = broker.command(&["top", "--output", "json", "--interval", "100ms"]).spawn().unwrap();
    let first = support::read_exactly(&mut running, 1);
    signal(&running, "TERM");
    assert_eq!((first.as_slice(), running.wait().unwrap().code()), (&b"{"[..], Some(143)));
}

#[test]
fn without_its_groups_the_rest_of_a_broker_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut broker = TestBroker::start_in(dir.path());
    broker.ok(&["topic", "create", "orders"], b"");
    broker.ok(&["produce", "orders"], b"one\n");
    broker.ok(&["consume", "orders", "--group", "billing", "--count", "1"], b"");
    let positions: Value =
        serde_json::from_str(&broker.ok(&["topic", "describe", "__consumer_offsets", "--output", "json"], b"")).unwrap();
    broker.stop();
    drop(broker);
    let partition = format!("{}-0", positions["id"].as_str().unwrap());
    std::fs::remove_dir_all(dir.path().join("partitions").join(partition)).unwrap();
    let broker = TestBroker::start_in(dir.path());
    let told = broker.run(&["status", "--output", "json"], b"");
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let kinds: Vec<_> = told["problems"].as_array().unwrap().iter().map(|problem| problem["kind"].as_str().unwrap()).collect();
    assert_eq!((kinds, &told["topics"]), (vec!["unhealthy_partitions", "groups_unknown"], &1.into()), "{told}");
    assert_eq!(told["unhealthy_partitions"][0]["status"], "read_only", "spelled as the kinds of errors are");
    let once = broker.ok(&["top", "--once", "--interval", "100ms"], b"");
    assert!(once.contains("orders ") && once.contains("could not tell of the groups"), "{once}");
}

/// A port before a broker's that can be made to answer nothing more, and that tells when it has held an answer back.
fn stalling(to: SocketAddr) -> (SocketAddr, Arc<AtomicBool>, Arc<AtomicBool>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stalled, held) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (stalls, holds) = (Arc::clone(&stalled), Arc::clone(&held));
    // It ends with the process of this test.
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(to).unwrap());
            let (stalls, holds) = (Arc::clone(&stalls), Arc::clone(&holds));
            let (mut asks, mut asked) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut asks, &mut asked));
            std::thread::spawn(move || {
                let (mut client, mut server, mut buffer) = (client, server, [0; 4096]);
                while let Ok(read @ 1..) = server.read(&mut buffer) {
                    if stalls.load(Ordering::SeqCst) {
                        holds.store(true, Ordering::SeqCst);
                    } else if client.write_all(&buffer[..read]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, stalled, held)
}

#[test]
fn who_waits_for_a_broker_that_does_not_answer_can_be_ended() {
    let broker = TestBroker::start();
    let (address, stalled, held) = stalling(broker.address);
    let server = address.to_string();
    let mut running = support::command(&server, &["top", "--output", "json", "--interval", "100ms"]).spawn().unwrap();
    support::read_exactly(&mut running, 1);
    stalled.store(true, Ordering::SeqCst);
    let printed = running.stdout.take().unwrap();
    let rest = std::thread::spawn(move || drop(std::io::copy(&mut { printed }, &mut std::io::sink())));
    eventually("an answer is held back", || held.load(Ordering::SeqCst));
    signal(&running, "TERM");
    let mut code = None;
    eventually("it ends", || {
        code = running.try_wait().unwrap();
        code.is_some()
    });
    rest.join().unwrap();
    assert_eq!(code.unwrap().code(), Some(143));
}

/// A terminal of 80 × 24, and a process on it.
struct OnTerminal {
    child: Child,
    terminal: File,
    /// Kept open, so that the terminal's modes can be looked at when the process is gone.
    other_end: File,
    shown: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl OnTerminal {
    fn start(mut command: Command) -> Self {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let other_end: File = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap().into();
        tcsetwinsize(&terminal, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let end = || Stdio::from(other_end.try_clone().unwrap());
        let child = command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let (terminal, shown): (File, _) = (terminal.into(), Arc::new(Mutex::new(Vec::new())));
        let (mut from, into) = (terminal.try_clone().unwrap(), Arc::clone(&shown));
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..read]);
            }
        });
        Self { child, terminal, other_end, shown, reader }
    }

    fn has_shown(&self, text: &str) -> bool {
        let shown = self.shown.lock().unwrap();
        shown.windows(text.len()).any(|window| window == text.as_bytes())
    }

    fn press(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for the end; the status, once the terminal is as it was.
    fn end(mut self) -> Option<i32> {
        let status = self.child.wait().unwrap().code();
        let modes = tcgetattr(&self.other_end).unwrap();
        assert!(modes.local_modes.contains(LocalModes::ECHO | LocalModes::ICANON), "the terminal was not given back");
        // What leaves the other screen.
        eventually("the first screen is back", || self.has_shown("\u{1b}[?1049l"));
        let Self { other_end, reader, .. } = self;
        drop(other_end);
        reader.join().unwrap();
        status
    }
}

#[test]
fn on_a_terminal_top_is_live_and_gives_the_terminal_back() {
    let broker = TestBroker::start();
    broker.ok(&["topic", "create", "orders"], b"");
    let start = || OnTerminal::start(broker.command(&["top", "--interval", "100ms"]));
    let mut top = start();
    eventually("a topic is shown", || top.has_shown("orders"));
    assert!(top.has_shown("\u{1b}[?1049h"));
    broker.ok(&["topic", "create", "invoices"], b"");
    eventually("what is new is shown", || top.has_shown("invoices"));
    top.press("?");
    eventually("the help is shown", || top.has_shown("scrolls"));
    top.press("x");
    top.press("q");
    assert_eq!(top.end(), Some(0));

    // Ctrl-C is a key there, and a signal from outside one.
    let mut top = start();
    eventually("a topic is shown", || top.has_shown("orders"));
    top.press("\u{3}");
    assert_eq!(top.end(), Some(130));
    let top = start();
    eventually("a topic is shown", || top.has_shown("orders"));
    signal(&top.child, "TERM");
    assert_eq!(top.end(), Some(143));
}
