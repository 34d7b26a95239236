//! What is refused: bad input, foreign pages, too much of anything.

mod support;

use std::time::Duration;

use hermit_http::HttpConfig;
use support::{JSON, PATIENCE, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

#[tokio::test]
async fn bad_input_is_told_with_the_field_at_fault() {
    let server = Server::start().await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t"}"#).await.good();
    let cases = [
        ("POST", "/api/v1/topics", "", 400, "body"),
        ("POST", "/api/v1/topics", r#"{"name":"x""#, 400, "body"),
        ("POST", "/api/v1/topics", r#"{"name":"x","colour":1}"#, 400, "colour"),
        ("POST", "/api/v1/topics", r#"{"name":"x","settings":{"retention":1}}"#, 400, "settings.retention"),
        ("POST", "/api/v1/topics", r#"{"name":"x","settings":{"segment_bytes":1}}"#, 400, "segment_bytes"),
        ("POST", "/api/v1/topics", r#"{"name":"x","partitions":-1}"#, 400, "partitions"),
        ("POST", "/api/v1/topics", r#"{"name":"x","partitions":1000000}"#, 400, "partitions"),
        ("POST", "/api/v1/topics", r#"{"name":""}"#, 400, "topic"),
        ("POST", "/api/v1/topics", "{\"name\":\"\\u0000\"}", 400, "topic"),
        ("POST", "/api/v1/topics/t/records", "[]", 400, "body"),
        ("POST", "/api/v1/topics/t/records", r#"{"records":[]}"#, 400, "records"),
        ("POST", "/api/v1/topics/t/records", r#"{"records":[{"value":"a"},{"valu":"b"}]}"#, 400, "records[1].valu"),
        ("POST", "/api/v1/topics/t/records", r#"{"records":[{"value":"a"}],"value":"b"}"#, 400, "value"),
        ("POST", "/api/v1/topics/t/records", r#"{"records":[{"value":"a","value_base64":"YQ=="}]}"#, 400, "records[0].value"),
        ("POST", "/api/v1/topics/t/records", r#"{"records":[{"value_base64":"!"}]}"#, 400, "records[0].value_base64"),
        ("POST", "/api/v1/topics/t/records", r#"{"partition":7,"value":"a"}"#, 404, "records[0].partition"),
        ("POST", "/api/v1/topics/t/records", r#"{"timestamp_ms":18446744073709551615,"value":"a"}"#, 400, "timestamp_ms"),
        ("POST", "/api/v1/topics/t/records?key=k", r#"{"value":"a"}"#, 400, "query"),
        ("POST", "/api/v1/topics/__consumer_offsets/records", r#"{"value":"a"}"#, 403, "topic"),
        ("POST", "/api/v1/topics/t/partitions/x/trim", "{}", 400, "path"),
        ("POST", "/api/v1/topics/t/partitions/0/trim", r#"{"before":5}"#, 416, "offset"),
        ("GET", "/api/v1/topics?limit=x", "", 400, "query"),
        ("GET", "/api/v1/topics?foo=1", "", 400, "query"),
        ("GET", "/api/v1/topics/t/partitions/0/records?max_bytes=0", "", 400, "max_bytes"),
        ("GET", "/api/v1/topics/t/partitions/0/records?wait_ms=60001", "", 400, "wait_ms"),
        ("GET", "/api/v1/topics/t/partitions/0/records?offset=1&time_ms=1", "", 400, "time_ms"),
        ("GET", "/api/v1/topics/t/partitions/0/records?offset=18446744073709551615", "", 416, "offset"),
        ("GET", "/api/v1/topics/%FF", "", 400, "path"),
        ("PUT", "/api/v1/users/anna", r#"{"password":"x","remove_password":true}"#, 400, "remove_password"),
        (
            "POST",
            "/api/v1/rules",
            r#"{"rules":[{"principal":"a","resource":"broker","name":"x","operations":["administer"]}]}"#,
            400,
            "name",
        ),
        ("POST", "/api/v1/rules", r#"{"rules":[{"principal":"a","resource":"queue","operations":[]}]}"#, 400, "rules[0].resource"),
    ];
    for (method, path, body, status, field) in cases {
        let answer = server.json(method, path, body).await;
        assert_eq!(answer.problem(), (status, field.to_owned()), "{method} {path} {body}: {}", answer.body);
    }
    let deep = format!("{{\"value_json\":{}", "[".repeat(100_000));
    assert_eq!(server.json("POST", "/api/v1/topics/t/records", &deep).await.problem().0, 400);
    assert_eq!(server.test.broker().topics().len(), 2);
}

#[tokio::test]
async fn pages_of_other_sites_change_and_learn_nothing() {
    let server = Server::start().await;
    let one = r#"{"value":"a"}"#;
    // What a page may send without asking.
    for types in [
        "",
        "content-type: text/plain",
        "content-type: application/x-www-form-urlencoded",
        "content-type: Multipart/Form-Data; boundary=x",
    ] {
        let types: Vec<_> = [types].into_iter().filter(|types| !types.is_empty()).collect();
        assert_eq!(server.send("POST", "/api/v1/topics/t/records", &types, one).await.problem(), (415, "content-type".into()));
        assert_eq!(server.send("POST", "/api/v1/topics", &types, r#"{"name":"x"}"#).await.problem(), (415, "content-type".into()));
    }
    for origin in ["http://evil.example", "null", "https://127.0.0.1.evil.example"] {
        let origin = format!("origin: {origin}");
        assert_eq!(
            server.send("POST", "/api/v1/topics", &[JSON, &origin], r#"{"name":"x"}"#).await.problem(),
            (403, "origin".into())
        );
    }
    // The page's own name, which it has pointed here.
    for host in ["host: evil.example", "host: evil.example:15672"] {
        assert_eq!(server.send("GET", "/api/v1/topics", &[host], "").await.problem(), (403, "host".into()));
    }
    assert_eq!(server.test.broker().topics().len(), 1);
    let own = format!("origin: http://{}", server.address);
    assert_eq!(server.send("POST", "/api/v1/topics", &[JSON, &own], r#"{"name":"x"}"#).await.status, 201);
    assert_eq!(server.send("GET", "/api/v1/topics", &["host: localhost:1"], "").await.status, 200);
    let asked =
        server.send("OPTIONS", "/api/v1/topics", &["origin: http://evil.example", "access-control-request-method: POST"], "").await;
    assert!(asked.status == 405 && !asked.head.to_ascii_lowercase().contains("access-control-allow"), "{}", asked.head);
}

#[tokio::test]
async fn bodies_are_bounded_and_give_their_room_back() {
    let server = Server::narrow().await;
    let broker = server.test.broker();
    let most = usize::try_from(broker.max_loan_bytes() / 4).unwrap();
    assert_eq!(most, 16 << 10);
    let octets = ["content-type: application/octet-stream"];
    assert_eq!(
        server.send("POST", "/api/v1/topics/t/records", &octets, vec![b'x'; most + 1]).await.problem(),
        (413, "body".into())
    );
    server.send("POST", "/api/v1/topics/t/records", &octets, vec![b'x'; most]).await.good();
    // Without a length, and without an end.
    let head = "POST /api/v1/topics/t/records HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/octet-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut stream = server.begin(head).await;
    let chunk = [b"1000\r\n", &[b'x'; 0x1000][..], b"\r\n"].concat();
    let mut answer = [0; 12];
    let flood = async {
        while stream.write_all(&chunk).await.is_ok() {
            tokio::task::yield_now().await;
            if let Ok(Ok(_)) = tokio::time::timeout(Duration::from_millis(1), stream.peek(&mut answer)).await {
                break;
            }
        }
        stream.read_exact(&mut answer).await
    };
    tokio::time::timeout(PATIENCE, flood).await.unwrap().unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
    // While somebody holds all there is, or leaves room for a body but not for what is made of it, others are asked to come again.
    for (left, body) in [(0, vec![b'x']), (3 * most as u64, vec![b'x'; most])] {
        let (mut hog, held) = (broker.loan(), broker.max_loan_bytes() - left);
        assert!(hog.grow(held));
        let refused = server.send("POST", "/api/v1/topics/t/records", &octets, body).await;
        assert_eq!(refused.problem().0, 503, "{left}");
        assert!(refused.head.to_ascii_lowercase().contains("retry-after"), "{}", refused.head);
        assert_eq!(broker.inflight_bytes(), held, "{left}");
    }
    server.send("POST", "/api/v1/topics/t/records", &octets, "x").await.good();
    assert_eq!(broker.inflight_bytes(), 0);
}

#[tokio::test]
async fn who_is_slow_is_cut_and_who_is_one_too_many_waits() {
    let short = Duration::from_millis(200);
    let config = HttpConfig { header_timeout: short, body_timeout: short, max_connections: 1, ..HttpConfig::default() };
    let server = Server::configured(config).await;
    let ends = async |request: &str| {
        let mut stream = server.begin(request).await;
        let mut answer = String::new();
        drop(tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap());
        answer
    };
    ends("GET /healthz HTT").await;
    let late = ends("POST /api/v1/topics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{").await;
    assert!(late.starts_with("HTTP/1.1 408"), "{late}");
    // One that holds the only place, until it is cut; the next one is answered then.
    let _idle = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(server.get("/healthz").await.status, 200);
    let long = format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(64 << 10));
    let too_long = ends(&long).await;
    assert!(too_long.is_empty() || too_long.starts_with("HTTP/1.1 431"), "{too_long}");
}

#[tokio::test]
async fn what_takes_more_memory_than_it_says_is_refused_early() {
    let server = Server::start().await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t"}"#).await.good();
    let batch = |count: usize, one: &str| format!("{{\"records\":[{}]}}", vec![one; count].join(","));
    server.json("POST", "/api/v1/topics/t/records", &batch(10_000, "{}")).await.good();
    let refused = server.json("POST", "/api/v1/topics/t/records", &batch(10_001, "{}")).await;
    assert_eq!(refused.problem(), (400, "records".into()), "{}", refused.body);
    assert!(refused.body.contains("10000"), "{}", refused.body);
    let headers = vec![r#"{"name":"a"}"#; 10_001].join(",");
    let refused = server.json("POST", "/api/v1/topics/t/records", &format!("{{\"headers\":[{headers}]}}")).await;
    assert_eq!(refused.problem(), (400, "headers".into()), "{}", refused.body);
    // A refusal does not repeat what was sent.
    let refused = server.json("POST", "/api/v1/topics/t/records", &format!("{{\"{}\":1}}", "x".repeat(1 << 20))).await;
    assert!(refused.status == 400 && refused.body.len() < 10_000, "{} {}", refused.status, refused.body.len());
}
