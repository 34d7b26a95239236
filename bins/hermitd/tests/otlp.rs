//! Metrics and log as a collector of OpenTelemetry gets them.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hermit_client::ProducerRecord;
use hermit_client::blocking::Client;
use serde_json::{Value, json};
use support::{Daemon, eventually, hermitd};

/// It answers with a status, or with nothing at all where that is 0, and keeps what it was sent.
struct Collector {
    address: SocketAddr,
    status: Arc<AtomicU16>,
    requests: Arc<Mutex<Vec<Request>>>,
}

#[derive(Clone)]
struct Request {
    path: String,
    headers: BTreeMap<String, String>,
    body: Value,
    status: u16,
}

impl Collector {
    fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (status, requests) = (Arc::new(AtomicU16::new(status)), Arc::new(Mutex::new(Vec::new())));
        let (now, kept) = (Arc::clone(&status), Arc::clone(&requests));
        // Its threads end with the test's process, or with the connections.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (now, kept) = (Arc::clone(&now), Arc::clone(&kept));
                std::thread::spawn(move || serve(stream.unwrap(), &now, &kept));
            }
        });
        Self { address, status, requests }
    }

    /// All that it took.
    fn taken(&self, path: &str) -> Vec<Request> {
        self.requests.lock().unwrap().iter().filter(|request| request.path == path && request.status == 200).cloned().collect()
    }

    fn asked(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// The events of the log, by their messages.
    fn events(&self) -> Vec<Value> {
        let records = |request: Request| {
            let resource = &request.body["resourceLogs"][0];
            assert_eq!(attribute(&resource["resource"], "service.instance.id")["stringValue"], "mq-1");
            resource["scopeLogs"][0]["logRecords"].as_array().unwrap().clone()
        };
        self.taken("/otlp/v1/logs").into_iter().flat_map(records).collect()
    }

    fn event(&self, message: &str) -> Option<Value> {
        self.events().into_iter().find(|event| event["body"]["stringValue"] == message)
    }

    /// The points of a metric in the order in which they came, of all series that have this attribute.
    fn points(&self, name: &str, attributes: &[(&str, &str)]) -> Vec<Value> {
        let mut points = Vec::new();
        for request in self.taken("/otlp/v1/metrics") {
            let resource = &request.body["resourceMetrics"][0];
            assert_eq!(attribute(&resource["resource"], "service.name")["stringValue"], "hermitmq");
            for metric in resource["scopeMetrics"][0]["metrics"].as_array().unwrap().iter().filter(|metric| metric["name"] == name)
            {
                let data = ["sum", "gauge", "histogram"].into_iter().find_map(|kind| metric.get(kind)).unwrap();
                if metric.get("sum").is_some() {
                    assert_eq!((&data["aggregationTemporality"], &data["isMonotonic"]), (&json!(2), &json!(true)));
                }
                let of = data["dataPoints"].as_array().unwrap().iter();
                let is_meant =
                    |point: &&Value| attributes.iter().all(|(key, value)| attribute(point, key)["stringValue"] == *value);
                points.extend(of.filter(is_meant).cloned());
            }
        }
        points
    }
}

fn attribute<'a>(of: &'a Value, key: &str) -> &'a Value {
    &of["attributes"].as_array().unwrap().iter().find(|attribute| attribute["key"] == key).unwrap_or(&Value::Null)["value"]
}

fn serve(stream: TcpStream, status: &AtomicU16, requests: &Mutex<Vec<Request>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.strip_prefix("POST ").unwrap().split(' ').next().unwrap().to_owned();
        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.insert(name.to_owned(), value.to_owned());
        }
        let mut body = vec![0; headers["content-length"].parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let status = status.load(Ordering::SeqCst);
        requests.lock().unwrap().push(Request { path, headers, body: serde_json::from_slice(&body).unwrap(), status });
        if status == 0 {
            // Until the other side has had enough.
            drop(reader.read(&mut [0]));
            return;
        }
        if write!(writer, "HTTP/1.1 {status} \r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}").is_err() {
            return;
        }
    }
}

fn start(dir: &Path, collector: SocketAddr, args: &[&str]) -> Daemon {
    Daemon::start(dir, |command| {
        command.args(["--otlp-endpoint", &format!("http://{collector}/otlp/"), "--otlp-interval", "1s", "--otlp-instance", "mq-1"]);
        command.args(args);
    })
}

fn produce(address: &str, times: usize) {
    let client = Client::builder().server(address).connect().unwrap();
    let producer = client.producer().build().unwrap();
    for _ in 0..times {
        producer.send("orders", ProducerRecord::new(b"hello")).unwrap();
    }
}

fn whole(point: &Value) -> u64 {
    point["asInt"].as_str().unwrap_or_else(|| panic!("{point}")).parse().unwrap()
}

#[test]
fn a_collector_gets_metrics_and_log_to_the_last() {
    const ORDERS: &[(&str, &str)] = &[("topic", "orders")];
    let dir = tempfile::tempdir().unwrap();
    let headers = dir.path().join("headers");
    std::fs::write(&headers, "authorization: Bearer s3cret\n").unwrap();
    let collector = Collector::start(200);
    let daemon = start(dir.path(), collector.address, &["--log", "debug", "--otlp-headers-file", headers.to_str().unwrap()]);
    eventually("metrics", || !collector.points("hermit_build_info", &[]).is_empty());
    produce(&daemon.address, 5);
    let received = || collector.points("hermit_topic_received_messages", ORDERS);
    eventually("what was produced", || received().iter().any(|point| whole(point) == 5));
    let rounds = received().len();
    eventually("another round", || received().len() > rounds);
    produce(&daemon.address, 2);
    let address = daemon.address.clone();
    let said = daemon.stop();
    // What came last is there, too: the stop has sent it.
    let points = received();
    let values: Vec<_> = points.iter().map(whole).collect();
    assert!(values.is_sorted() && values.last() == Some(&7), "{values:?}");
    let times: Vec<u64> = points.iter().map(|point| point["timeUnixNano"].as_str().unwrap().parse().unwrap()).collect();
    let since: Vec<u64> = points.iter().map(|point| point["startTimeUnixNano"].as_str().unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted_by(|a, b| a < b) && since.iter().all(|at| *at == since[0] && *at < times[0]), "{times:?} {since:?}");
    let flushes = collector.points("hermit_flush_duration_seconds", &[]).pop().unwrap();
    let counts = flushes["bucketCounts"].as_array().unwrap();
    let sum: u64 = counts.iter().map(|count| count.as_str().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(
        (sum.to_string().as_str(), counts.len()),
        (flushes["count"].as_str().unwrap(), flushes["explicitBounds"].as_array().unwrap().len() + 1)
    );

    let ready = collector.event("ready").unwrap();
    assert_eq!((&ready["severityNumber"], &ready["severityText"]), (&json!(9), &json!("INFO")));
    assert_eq!(
        (attribute(&ready, "address")["stringValue"].as_str(), attribute(&ready, "target")["stringValue"].as_str()),
        (Some(&*address), Some("hermitd::run"))
    );
    assert!(ready["timeUnixNano"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    let closed = collector.event("closed the data directory").unwrap_or_else(|| panic!("{said}"));
    assert_eq!(attribute(&closed, "clean"), &json!({ "boolValue": true }));
    // Each line is sent once, and sending makes none: with `debug` there are a few for each connection, and none of the exporter's.
    let events = collector.events();
    assert_eq!(events.len(), said.lines().count(), "{said}");
    assert!(!said.contains("hermitd::otlp") && !said.contains("s3cret"), "{said}");
    for request in collector.requests.lock().unwrap().iter() {
        assert_eq!((&*request.headers["authorization"], &*request.headers["content-type"]), ("Bearer s3cret", "application/json"));
        assert!(!request.body.to_string().contains("s3cret"));
    }
}

#[test]
fn a_collector_that_is_busy_gets_it_later_and_is_told_of_once() {
    let dir = tempfile::tempdir().unwrap();
    let collector = Collector::start(503);
    let daemon = start(dir.path(), collector.address, &[]);
    eventually("several attempts", || collector.asked() >= 4);
    produce(&daemon.address, 1);
    collector.status.store(200, Ordering::SeqCst);
    eventually("the log", || collector.event("ready").is_some());
    eventually("the metrics", || !collector.points("hermit_topic_received_messages", &[("topic", "orders")]).is_empty());
    let said = daemon.stop();
    let times = |words: &str| said.matches(words).count();
    assert_eq!(times("the collector cannot be sent anything now; it is tried again"), 2, "{said}");
    assert_eq!(times("the collector takes what is sent again"), 2, "{said}");
    assert_eq!(collector.events().iter().filter(|event| event["body"]["stringValue"] == "ready").count(), 1);
    assert!(collector.events().iter().all(|event| !event["body"]["stringValue"].as_str().unwrap().starts_with("OpenTelemetry")));
}

#[test]
fn a_collector_that_is_down_or_silent_holds_nothing_up() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = Collector::start(0);
    for (address, is_silent) in [(gone, false), (silent.address, true)] {
        let dir = tempfile::tempdir().unwrap();
        let daemon = start(dir.path(), address, &[]);
        produce(&daemon.address, 3);
        if is_silent {
            eventually("both are waited for", || silent.asked() >= 2);
        } else {
            eventually("the word", || daemon.said().matches("cannot be sent anything now").count() == 2);
        }
        let began = Instant::now();
        let said = daemon.stop();
        let took = began.elapsed();
        // Two seconds, and what the stop itself takes on a busy machine; an attempt would take ten.
        assert!(took < Duration::from_secs(8), "{took:?}");
        assert!(said.contains("the stop came before all events of the log were sent"), "{said}");
        assert!(said.contains("clean=true"), "{said}");
    }
}

#[test]
fn settings_that_cannot_be_used_are_told_before_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let check = |args: &[&str]| {
        let output = hermitd().arg("--data-dir").arg(dir.path()).arg("--check").args(args).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (is_good, said) = check(&["--otlp-endpoint", "https://user:s3cret@collector"]);
    assert!(
        !is_good && said.contains("--otlp-endpoint: `otlp_endpoint`: a login does not belong") && !said.contains("s3cret"),
        "{said}"
    );
    let (is_good, said) = check(&["--otlp-endpoint", "http://collector:4318", "--otlp-headers-file", "/nowhere"]);
    assert!(!is_good && said.contains("--otlp-headers-file: `otlp_headers_file`: /nowhere cannot be read"), "{said}");
    let headers = dir.path().join("headers");
    std::fs::write(&headers, "a: b").unwrap();
    let (is_good, said) = check(&["--otlp-endpoint", "http://collector:4318", "--otlp-headers-file", headers.to_str().unwrap()]);
    assert!(is_good && said.contains("whoever reads along"), "{said}");
}
