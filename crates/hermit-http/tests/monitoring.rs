//! What stands in `docs/monitoring/` is true of a broker that runs.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::proto::session::TopicConfig;
use hermit_broker::proto::{PartitionId, ProducedFrame};
use hermit_broker::{Broker, BrokerConfig};
use hermit_http::HttpConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

fn pages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/monitoring")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(pages().join(name)).unwrap()
}

/// All metrics that a text names: what begins with `hermit_` or `process_`.
fn named_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words.filter(|word| ["hermit_", "process_"].iter().any(|begin| word.starts_with(begin))).collect()
}

/// Head and body of the answer to a scrape.
async fn scrape(address: std::net::SocketAddr, accept: &str) -> (String, String) {
    let asked = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // Version 1.0: the body comes as it is, and ends with the connection.
        stream.write_all(format!("GET /metrics HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_ascii_lowercase(), body.to_owned())
    };
    tokio::time::timeout(Duration::from_secs(20), asked).await.expect("a scrape takes too long")
}

#[tokio::test]
async fn a_running_broker_exports_all_that_dashboard_and_rules_name() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::open(BrokerConfig { reserve_bytes: 0, ..BrokerConfig::new(dir.path()) }).unwrap();
    let topic = broker.create_topic("orders", 2, &TopicConfig::default()).unwrap().meta.id;
    let mut batch = broker.parse(BytesMut::from(&*ProducedFrame::message(7, None, b"x").to_vec().unwrap())).unwrap();
    broker.append(&broker.writable(topic, PartitionId(0)).unwrap(), &mut batch).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = broker.clone();
    let serving = tokio::spawn(async move { hermit_http::serve(listener, &served, HttpConfig::default()).await });

    let (head, body) = scrape(address, "application/openmetrics-text; version=1.0.0, text/plain;q=0.5").await;
    assert!(head.contains(" 200") && head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.ends_with("# EOF\n") && body.contains("hermit_topic_received_messages_total{topic=\"orders\"} 1\n"), "{body}");
    let (head, body) = scrape(address, "*/*").await;
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");

    let mut exported = BTreeSet::new();
    for (name, kind) in body.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
        let ends: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        exported.extend(ends.iter().map(|end| format!("{name}{end}")));
    }
    for name in ["dashboard.json", "alerts.yml", "alerts.test.yml"] {
        let page = page(name);
        let named = named_in(&page);
        assert!(named.len() > 10, "{name}");
        let unknown: Vec<_> = named.iter().filter(|name| !exported.contains(**name)).collect();
        assert!(unknown.is_empty(), "{name} names what is not exported: {unknown:?}");
    }
    assert_eq!(exported, hermit_http::metrics::names().into_iter().collect());
    broker.shutdown().await.unwrap();
    serving.await.unwrap();
}

#[test]
fn the_manual_has_the_table_of_the_code() {
    const HEAD: &str = "## All metrics\n";
    let readme = page("README.md");
    let (before, rest) = readme.split_once(HEAD).unwrap();
    let made_by = rest.trim_start().lines().next().unwrap();
    let expected = format!("{before}{HEAD}\n{made_by}\n\n{}", hermit_http::metrics::manual());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(pages().join("README.md"), &expected).unwrap();
        return;
    }
    assert!(readme == expected, "the table is not that of the code: UPDATE_DOCS=1 cargo test -p hermit-http --test monitoring");
}

/// Debian's package `prometheus` has it. With `CI` set it has to be there.
fn promtool(args: &[&str]) {
    let said = match Command::new("promtool").args(args).current_dir(pages()).output() {
        Ok(said) => said,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "promtool is missing, install the package `prometheus`: {error}");
            #[expect(clippy::print_stderr, reason = "whoever runs the tests should see it")]
            {
                eprintln!("SKIPPED: promtool is missing, install the package `prometheus`: {error}");
            }
            return;
        }
    };
    let words = [said.stdout, said.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(said.status.success(), "{words}");
}

#[test]
fn the_rules_are_right_and_fire_when_they_should() {
    promtool(&["check", "rules", "alerts.yml"]);
    promtool(&["test", "rules", "alerts.test.yml"]);
    let (rules, tests) = (page("alerts.yml"), page("alerts.test.yml"));
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        let (fires, rests) = (format!("alertname: {alert}\n"), format!("alertname: {alert}, exp_alerts: []"));
        assert!(tests.contains(&fires) && tests.contains(&rests), "{alert} is not tested both ways");
    }
}

/// A collector is not at hand: what it gives to Prometheus' own code can be checked by that.
#[test]
fn the_collector_scrapes_as_prometheus_would() {
    let page = page("otel-collector.yml");
    let (_, rest) = page.split_once("    config:\n").unwrap();
    let config: Vec<_> = rest.lines().map_while(|line| line.strip_prefix("      ")).collect();
    assert!(config.len() >= 5 && page.contains("receivers: [prometheus]"), "{config:?}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("prometheus.yml");
    std::fs::write(&path, config.join("\n")).unwrap();
    promtool(&["check", "config", path.to_str().unwrap()]);
}

#[test]
fn the_dashboard_is_json_and_each_panel_asks_for_something() {
    let dashboard: serde_json::Value = serde_json::from_str(&page("dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let kinds: BTreeSet<_> = panels.iter().map(|panel| panel["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["heatmap", "row", "stat", "timeseries"].into_iter().collect());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap();
        let asks = |target: &serde_json::Value| {
            let query = target["expr"].as_str().unwrap();
            !named_in(query).is_empty() || query.contains("up{")
        };
        assert!(!targets.is_empty() && targets.iter().all(asks), "{}", panel["title"]);
    }
}
