//! What is done over HTTP counts in the metrics as what is done over the native port.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::time::Duration;

use hermit_broker::metrics::{BrokerMetrics, ByName};
use hermit_http::HttpConfig;
use support::{PASSWORD, PATIENCE, Server, basic, read_until};

fn count(counts: &ByName, name: &str) -> u64 {
    counts.iter().find(|(other, _)| *other == name).unwrap().1
}

#[tokio::test]
async fn logins_count_good_or_not() {
    let server = Server::with_logins().await;
    assert_eq!(server.send("GET", "/api/v1/whoami", &[&basic("admin", PASSWORD)], "").await.status, 200);
    assert_eq!(server.send("GET", "/api/v1/whoami", &[&basic("admin", "a-wrong-password")], "").await.status, 401);
    // Who shows nothing is asked for a login, and has not failed.
    assert_eq!(server.get("/api/v1/whoami").await.status, 401);
    let BrokerMetrics { logins, failed_logins, .. } = server.test.broker().metrics();
    assert_eq!((count(&logins, "password"), count(&failed_logins, "wrong")), (1, 1));
    assert_eq!(failed_logins.iter().map(|(_, count)| count).sum::<u64>(), 1);
}

#[tokio::test]
async fn what_is_read_counts_as_delivered() {
    let server = Server::start().await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t"}"#).await.good();
    for value in ["a", "b", "c"] {
        server.json("POST", "/api/v1/topics/t/records", &format!(r#"{{"value":"{value}"}}"#)).await.good();
    }
    let figures = || {
        let metrics = server.test.broker().metrics();
        let topic = metrics.topics.iter().find(|topic| topic.topic.meta.name.as_str() == "t").unwrap();
        let partition = topic.partitions[0];
        (partition.delivered_records, partition.delivered_bytes, partition.log.size_bytes)
    };
    assert_eq!((figures().0, figures().1), (0, 0));
    server.get("/api/v1/topics/t/partitions/0/records").await.good();
    let (records, bytes, size) = figures();
    assert_eq!((records, bytes), (3, size));
    server.get("/api/v1/topics/t/partitions/0/records?offset=2").await.good();
    let (records, again, _) = figures();
    assert!(records == 4 && again > bytes && again < 2 * bytes, "{records} {again}");
}

#[tokio::test]
async fn answers_count_by_their_status() {
    let server = Server::start().await;
    assert_eq!(server.get("/api/v1/topics/nowhere").await.status, 404);
    assert_eq!(server.get("/nowhere").await.status, 404);
    assert_eq!(server.get("/healthz").await.status, 200);
    let shown = server.get("/metrics").await;
    for series in ["hermit_http_responses_total{code=\"404\"} 2\n", "hermit_http_responses_total{code=\"200\"} 1\n"] {
        assert!(shown.body.contains(series), "{series}");
    }
}

#[tokio::test]
async fn what_is_refused_for_want_of_a_place_counts_too() {
    let server = Server::configured(HttpConfig { max_connections_per_address: 2, ..HttpConfig::default() }).await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t"}"#).await.good();
    let mut stream = server.follow("partitions/0/stream", None).await;
    read_until(&mut stream, &mut String::new(), ": here").await;
    let refused = server.get("/api/v1/topics").await;
    assert_eq!(refused.problem().0, 503);
    assert!(refused.head.to_ascii_lowercase().contains("x-content-type-options: nosniff"), "{}", refused.head);
    drop(stream);
    let mut count = 1;
    let given_back = async {
        loop {
            let shown = server.get("/metrics").await;
            if shown.status == 200 {
                break shown;
            }
            count += 1;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let shown = tokio::time::timeout(PATIENCE, given_back).await.unwrap();
    assert!(shown.body.contains(&format!("hermit_http_responses_total{{code=\"503\"}} {count}\n")), "{count}");
}

#[tokio::test]
async fn an_answer_that_finds_no_memory_counts_as_refused_and_not_as_good() {
    let server = Server::start().await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t","partitions":1000}"#).await.good();
    let broker = server.test.broker();
    let mut hog = broker.loan();
    assert!(hog.grow(broker.max_loan_bytes()));
    assert_eq!(server.get("/api/v1/topics/t").await.problem().0, 503);
    // Scrapes take no room.
    let shown = server.get("/metrics").await.body;
    assert!(shown.contains("hermit_http_responses_total{code=\"503\"} 1\n"), "{shown}");
    assert!(!shown.contains("hermit_http_responses_total{code=\"200\"}"), "{shown}");
    drop(hog);
    // Nothing else was wrong with it, and it was large enough to be lent room.
    let answer = server.get("/api/v1/topics/t").await;
    assert!(answer.status == 200 && answer.body.len() > 64 << 10, "{} bytes", answer.body.len());
}
