//! Live streams of a whole topic.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use serde_json::Value;
use support::{Server, read_until};
use tokio::net::TcpStream;

/// Ids and records of the events so far.
fn events(text: &str) -> Vec<(Option<String>, Value)> {
    let blocks = text.split("\n\n").map(|block| block.rsplit("\r\n").next().unwrap());
    let told = blocks.filter_map(|block| {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        let data = serde_json::from_str(field("data: ")?).ok()?;
        Some((field("id: ").map(str::to_owned), data))
    });
    told.collect()
}

/// So many events that come next.
async fn read_events(stream: &mut TcpStream, count: usize) -> Vec<(Option<String>, Value)> {
    let mut text = String::new();
    while events(&text).len() < count {
        let mut more = String::new();
        read_until(stream, &mut more, "\n\n").await;
        text.push_str(&more);
    }
    events(&text)
}

#[tokio::test]
async fn all_partitions_come_in_one_stream_that_goes_on_where_it_was_cut() {
    let server = Server::start().await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t","partitions":3}"#).await.good();
    for number in 0..9 {
        server.write(number % 3, &format!("v{number}")).await;
    }
    let mut stream = server.follow("stream?place=earliest", None).await;
    let mut text = String::new();
    for number in 0..9 {
        read_until(&mut stream, &mut text, &format!("\"v{number}\"")).await;
    }
    read_until(&mut stream, &mut text, "\n\n").await;
    server.write(1, "late").await;
    read_until(&mut stream, &mut text, "\"late\"}\n\n").await;
    let all = events(&text);
    let values = |events: &[(Option<String>, Value)]| {
        let mut values: Vec<_> =
            events.iter().map(|(_, told)| (told["partition"].as_u64().unwrap(), told["offset"].as_u64().unwrap())).collect();
        values.sort_unstable();
        values
    };
    let mut expected: Vec<_> = (0..9).map(|number| (number % 3, number / 3)).chain([(1, 3)]).collect();
    expected.sort_unstable();
    assert_eq!(values(&all), expected, "{text}");
    // From every event on, exactly the others come.
    for cut in [0, 3, 5, 8] {
        let mut stream = server.follow("stream", all[cut].0.as_deref()).await;
        let rest = read_events(&mut stream, expected.len() - cut - 1).await;
        assert_eq!(values(&[&all[..=cut], &rest].concat()), expected, "cut behind {cut}: {rest:?}");
    }
    // Partitions that are added are followed, and another topic of the same name is all new.
    server.json("PATCH", "/api/v1/topics/t", r#"{"partitions":4}"#).await.good();
    server.write(3, "grown").await;
    server.write(0, "wakes").await;
    read_until(&mut stream, &mut text, "\"grown\"").await;
    let last = events(&text).last().unwrap().0.clone();
    server.send("DELETE", "/api/v1/topics/t", &[], "").await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t","partitions":3}"#).await.good();
    server.write(2, "anew").await;
    let mut stream = server.follow("stream", last.as_deref()).await;
    read_until(&mut stream, &mut String::new(), "\"anew\"").await;
}

#[tokio::test]
async fn what_cannot_be_streamed_is_told() {
    let server = Server::start().await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t","partitions":2}"#).await.good();
    server.json("POST", "/api/v1/topics", r#"{"name":"wide","partitions":257}"#).await.good();
    assert_eq!(server.get("/api/v1/topics/wide/stream").await.problem(), (400, "topic".into()));
    assert_eq!(server.get("/api/v1/topics/none/stream").await.problem(), (404, "topic".into()));
    assert_eq!(server.get("/api/v1/topics/t/stream?place=latest&time_ms=1").await.problem(), (400, "time_ms".into()));
    for bad in ["last-event-id: 7", "last-event-id: ", "last-event-id: x"] {
        assert_eq!(
            server.send("GET", "/api/v1/topics/t/stream", &[bad], "").await.problem(),
            (400, "last-event-id".into()),
            "{bad}"
        );
    }
    // What retention has deleted is told, and the others go on.
    for value in ["gone", "gone", "kept"] {
        server.write(0, value).await;
    }
    let mut stream = server.follow("stream?place=earliest", None).await;
    let mut text = String::new();
    read_until(&mut stream, &mut text, "\"kept\"").await;
    let first = events(&text)[0].0.clone();
    server.json("POST", "/api/v1/topics/t/partitions/0/trim", r#"{"before":2}"#).await.good();
    let mut stream = server.follow("stream", first.as_deref()).await;
    let mut text = String::new();
    read_until(&mut stream, &mut text, "\"kept\"").await;
    assert!(text.contains("event: gap\ndata: {\"partition\":0,\"from\":1,\"next\":2,\"reason\":\"deleted\"}\n\n"), "{text}");
}
