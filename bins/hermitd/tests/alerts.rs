//! The rules of `docs/monitoring` in a real Prometheus, which scrapes a real broker.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hermit_client::ProducerRecord;
use hermit_client::blocking::Client;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
const ALERT: &str = "HermitLagGrowing";

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn hermitd(dir: &Path) -> (Process, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hermitd"));
    command.env_clear().arg("--data-dir").arg(dir.join("data")).args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    let mut child = Process(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let word = |name: &str| line.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap().to_owned();
    (child, word("hermit="), word("http="))
}

/// Prometheus, and where it answers; `None` where it is not installed. With `CI` set it has to be.
fn prometheus(dir: &Path) -> Option<(Process, String)> {
    let mut command = Command::new("prometheus");
    command.arg("--config.file=prometheus.yml").arg("--storage.tsdb.path=series").arg("--web.listen-address=127.0.0.1:0");
    command.current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => Process(child),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "prometheus is missing, install the package `prometheus`: {error}");
            #[expect(clippy::print_stderr, reason = "whoever runs the tests should see it")]
            {
                eprintln!("SKIPPED: prometheus is missing, install the package `prometheus`: {error}");
            }
            return None;
        }
    };
    let mut lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let mut said = String::new();
    let address = lines.by_ref().map(Result::unwrap).find_map(|line| {
        said.push_str(&line);
        line.contains("msg=\"Listening on\"").then(|| line.rsplit_once("address=").unwrap().1.trim().to_owned())
    });
    let address = address.unwrap_or_else(|| panic!("it does not listen: {said}"));
    // What it says later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    Some((child, address))
}

/// The answer to a request, if there is one by now.
fn get(address: &str, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Version 1.0: the body comes as it is.
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The rule about growing lag, with seconds where it has minutes: nobody waits for it so long here. Nothing else is changed.
fn hurried() -> String {
    let rules = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring/alerts.yml")).unwrap();
    let (before, rule) = rules.split_once(&format!("      - alert: {ALERT}\n")).unwrap();
    let rule = rule.split("\n\n").next().unwrap();
    let mut hurried = rule.to_owned();
    for (slow, fast) in
        [("[5m]", "[6s]"), ("hermit_group_lag_seconds > 60", "hermit_group_lag_seconds > 1"), ("for: 5m", "for: 2s")]
    {
        assert_eq!(rule.matches(slow).count(), 1, "{slow}: {rule}");
        hurried = hurried.replace(slow, fast);
    }
    let head = before.split("      - alert:").next().unwrap();
    format!("{head}      - alert: {ALERT}\n{hurried}\n")
}

/// The states of the alert by group.
fn states(prometheus: &str) -> Option<Vec<(String, String)>> {
    let answer = get(prometheus, "/api/v1/alerts")?;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let alerts = answer["data"]["alerts"].as_array()?.iter().filter(|alert| alert["labels"]["alertname"] == ALERT);
    Some(alerts.map(|alert| (text(&alert["labels"]["group"]), text(&alert["state"]))).collect())
}

#[test]
fn a_group_that_stops_is_told_of_and_one_that_keeps_up_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (_broker, address, http) = hermitd(dir.path());
    fs::write(dir.path().join("alerts.yml"), hurried()).unwrap();
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 500ms}}\nrule_files: [alerts.yml]\n\
         scrape_configs:\n  - job_name: hermitmq\n    static_configs: [{{targets: [\"{http}\"]}}]\n"
    );
    fs::write(dir.path().join("prometheus.yml"), config).unwrap();
    let Some((_prometheus, prometheus)) = prometheus(dir.path()) else { return };

    let over = AtomicBool::new(false);
    let is_stopped = AtomicBool::new(false);
    let client = || Client::builder().server(&address).request_timeout(PATIENCE).connect().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (client, mut sent) = (client(), 0_u64);
            let producer = client.producer().build().unwrap();
            while !over.load(Ordering::Relaxed) {
                producer.send("orders", ProducerRecord::new(&format!("{sent}"))).unwrap();
                sent += 1;
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        for group in ["stops", "keeps-up"] {
            let (over, is_stopped, client) = (&over, &is_stopped, &client);
            scope.spawn(move || {
                let client = client();
                let mut consumer = client.consumer().group(group).build().unwrap();
                consumer.subscribe("orders").unwrap();
                let ends = || over.load(Ordering::Relaxed) || (group == "stops" && is_stopped.load(Ordering::Relaxed));
                while !ends() {
                    if let Some(record) = consumer.recv_timeout(Duration::from_millis(50)).unwrap() {
                        consumer.commit_through(&record).unwrap();
                    }
                }
                consumer.close().unwrap();
            });
        }
        // Whatever fails below, the threads must end.
        let watched = std::panic::catch_unwind(|| {
            let lag = "/api/v1/query?query=hermit_group_lag_messages";
            wait("both groups are seen, and nothing is wrong", || {
                let seen = get(&prometheus, lag)?["data"]["result"].as_array()?.len();
                (seen == 2 && states(&prometheus)?.is_empty()).then_some(())
            });
            is_stopped.store(true, Ordering::Relaxed);
            wait("the alert of the group that has stopped", || {
                let states = states(&prometheus)?;
                assert!(states.iter().all(|(group, state)| group == "stops" || state != "firing"), "{states:?}");
                states.contains(&("stops".to_owned(), "firing".to_owned())).then_some(())
            });
        });
        over.store(true, Ordering::Relaxed);
        if let Err(panic) = watched {
            std::panic::resume_unwind(panic);
        }
    });
}
