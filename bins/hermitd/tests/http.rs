//! HTTP as the program serves it: where it listens, and what becomes of a taken port.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const PATIENCE: Duration = Duration::from_secs(30);
const DEFAULT: &str = "127.0.0.1:15672";

fn hermitd(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermitd"));
    command.env_clear().arg("--data-dir").arg(dir).args(["--listen", "127.0.0.1:0"]).args(args).stdin(Stdio::null());
    command
}

/// Starts it, and gives the line that it says when it is ready.
fn start(mut command: Command) -> (Child, String) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line)
}

fn stop(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success());
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_says_where_and_answers_there_until_it_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let (child, line) = start(hermitd(dir.path(), &["--http", "127.0.0.1:0"]));
    let address = line.trim_end().split(' ').find_map(|word| word.strip_prefix("http=")).unwrap_or_else(|| panic!("{line:?}"));
    for path in ["/healthz", "/readyz", "/metrics", "/api/v1/topics"] {
        let answer = get(address, path);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    assert!(get(address, "/api/v1/settings").contains(r#""http":"\"127.0.0.1:0\"""#), "{}", get(address, "/api/v1/settings"));
    let address = address.to_owned();
    stop(child);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn https_has_the_certificate_of_the_native_port_unless_it_has_its_own_and_a_hangup_reads_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let make = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        std::fs::write(path(&format!("{name}.pem")), made.cert.pem()).unwrap();
        std::fs::write(path(&format!("{name}.key")), made.signing_key.serialize_pem()).unwrap();
        made.cert.pem()
    };
    let with = |args: &[&str]| {
        let mut command = hermitd(&path("data"), &["--http", "127.0.0.1:0", "--config"]);
        command.arg(path("h.toml")).args(args);
        command
    };
    let settings = |own: &str| {
        let (cert, key) = (path("native.pem"), path("native.key"));
        std::fs::write(path("h.toml"), format!("tls_cert = {cert:?}\ntls_key = {key:?}\n{own}")).unwrap();
    };
    make("native");
    settings("");
    let (child, line) = start(with(&[]));
    let https = |line: &str| {
        let word = line.trim_end().split(' ').find_map(|word| word.strip_prefix("https="));
        word.unwrap_or_else(|| panic!("{line:?}")).to_owned()
    };
    let address = https(&line);
    assert!(line.contains(&format!(" http={address} ")), "{line:?}");
    let trusts = |name: &str, address: &str| {
        let mut curl = Command::new("curl");
        curl.args(["-sf", "--noproxy", "*", "--cacert"])
            .arg(path(&format!("{name}.pem")))
            .arg(format!("https://{address}/api/v1/topics"));
        curl.output().unwrap().status.success()
    };
    assert!(trusts("native", &address));
    assert!(get(&address, "/healthz").starts_with("HTTP/1.1 200 "));
    let metrics = get(&address, "/metrics");
    for port in ["native", "http"] {
        // The end of the year 4095, which those have that name none.
        let end = format!("hermit_tls_certificate_expiry_timestamp_seconds{{port=\"{port}\"}} 67090118400\n");
        assert!(metrics.contains(&end), "{end} in {metrics}");
    }

    // Its own, and nothing else any more.
    make("own");
    let (cert, key) = (path("own.pem"), path("own.key"));
    settings(&format!("http_tls = \"required\"\nhttp_tls_cert = {cert:?}\nhttp_tls_key = {key:?}\n"));
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !trusts("own", &address) {
        assert!(Instant::now() < deadline, "the certificate is not read again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!trusts("native", &address) && get(&address, "/metrics").starts_with("HTTP/1.1 403 "));
    stop(child);
    let (child, line) = start(with(&[]));
    assert!(!line.contains(" http=") && trusts("own", &https(&line)), "{line:?}");
    stop(child);

    // A key that belongs to something else refuses the start, by the name of the setting.
    std::fs::copy(path("native.key"), path("own.key")).unwrap();
    let refused = with(&["--check"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("TLS for HTTP") && said.contains("own.key"), "{said}");
}

#[test]
fn partitions_leave_the_metrics_and_come_back_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("h.toml");
    std::fs::write(&file, "metrics_per_partition = false\n").unwrap();
    let (child, line) = start(hermitd(&dir.path().join("data"), &["--http", "127.0.0.1:0", "--config", file.to_str().unwrap()]));
    let address = line.trim_end().split(' ').find_map(|word| word.strip_prefix("http=")).unwrap().to_owned();
    let shows_partitions = || get(&address, "/metrics").contains("\nhermit_partition_log_end_offset{");
    assert!(!shows_partitions());
    std::fs::write(&file, "").unwrap();
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while !shows_partitions() {
        assert!(Instant::now() < deadline, "never shown");
        std::thread::sleep(Duration::from_millis(5));
    }
    stop(child);
}

#[test]
fn a_taken_port_refuses_the_start_if_it_was_asked_for_and_else_http_alone() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = hermitd(dir.path(), &["--http", &address]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains(&address) && said.contains("--http"), "{said}");
    // Somebody else may have the default port already, which is as good.
    let _taken = TcpListener::bind(DEFAULT);
    let (child, line) = start(hermitd(dir.path(), &[]));
    assert!(line.starts_with("ready hermit=") && !line.contains("http="), "{line:?}");
    stop(child);
}

#[test]
fn other_machines_reach_it_only_where_that_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    let refused = hermitd(dir.path(), &["--http", "0.0.0.0:0", "--check"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("`http` is 0.0.0.0:0") && said.contains("--authentication on"), "{said}");
    for meant in [&["--insecure"][..], &["--authentication", "on"]] {
        let accepted = hermitd(dir.path(), &[&["--http", "0.0.0.0:0", "--check"], meant].concat()).output().unwrap();
        assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
    }
}

#[test]
fn health_is_asked_of_the_broker_that_has_the_same_settings() {
    let dir = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (http, everywhere) = (format!("--http=127.0.0.1:{port}"), format!("--http=0.0.0.0:{port}"));
    let health = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_hermitd")).env_clear().arg("health").args(args).output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap())
    };
    let (well, said) = health(&[&http]);
    assert!(!well && said.contains("is not answered"), "{said}");
    let (child, line) = start(hermitd(dir.path(), &[&http]));
    for args in [&[http.as_str()][..], &[&http, "--ready"], &[&everywhere, "--insecure"]] {
        let (well, said) = health(args);
        assert!(well && said.lines().count() == 1, "{args:?}: {said}");
    }
    let native = line.split(' ').find_map(|word| word.strip_prefix("hermit=")).unwrap().trim();
    // Without HTTP there is nobody to ask whether it is alive, and its own port shows whether it serves.
    let listen = format!("--listen={native}");
    for args in [&["--http=off"][..], &["--http=off", "--ready", &listen]] {
        let (well, said) = health(args);
        assert!(well && said.contains("is off") && said.lines().count() == 1, "{args:?}: {said}");
    }
    let (well, said) = health(&["--http=off", "--ready", "--listen=127.0.0.1:1"]);
    assert!(!well && said.contains("127.0.0.1:1"), "{said}");
    for (args, reason) in [("--http=127.0.0.1:0", "name one"), (&format!("--http={native}"), "")] {
        let (well, said) = health(&[args]);
        assert!(!well && said.contains(reason), "{args}: {said}");
    }
    stop(child);
}
