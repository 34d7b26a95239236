//! What streams do not end for: damage, partitions that are down, records that were lost or are too large, and want of memory.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::BytesMut;
use hermit_broker::proto::{PartitionId, ProducedFrame, TopicName};
use support::{Server, read_until};
use tokio::io::AsyncReadExt as _;

async fn topic(server: &Server, partitions: u32) {
    server.json("POST", "/api/v1/topics", &format!(r#"{{"name":"t","partitions":{partitions}}}"#)).await.good();
}

/// Writes as the native port does.
async fn append(server: &Server, frame: &ProducedFrame<'_>) {
    let broker = server.test.broker();
    let id = broker.topic(&TopicName::new("t").unwrap()).unwrap().meta.id;
    let mut batch = broker.parse(BytesMut::from(&frame.to_vec().unwrap()[..])).unwrap();
    let ticket = broker.append(&broker.writable(id, PartitionId(0)).unwrap(), &mut batch).unwrap();
    ticket.committed().await.unwrap();
}

/// The file below a directory that holds these bytes, and where.
fn holds(dir: &Path, wanted: &[u8]) -> Option<(PathBuf, usize)> {
    fs::read_dir(dir).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return holds(&path, wanted);
        }
        let bytes = fs::read(&path).unwrap();
        let at = bytes.windows(wanted.len()).position(|window| window == wanted)?;
        Some((path, at))
    })
}

/// The id that stands before a text.
fn id_before(text: &str, wanted: &str) -> String {
    let before = &text[..text.find(wanted).unwrap()];
    before[before.rfind("id: ").unwrap() + 4..].lines().next().unwrap().to_owned()
}

#[tokio::test]
async fn damage_takes_what_is_damaged_and_no_more() {
    let server = Server::start().await;
    topic(&server, 3).await;
    for number in 0..4 {
        for partition in 0..3 {
            server.write(partition, &format!("p{partition}-{number}-value")).await;
        }
    }
    let (file, at) = holds(server.test.data_dir(), b"p1-2-value").unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[at] ^= 1;
    fs::write(&file, bytes).unwrap();
    // What was read before the damage is told.
    let read = server.get("/api/v1/topics/t/partitions/1/records?offset=0").await.good();
    assert_eq!((read["records"].as_array().unwrap().len(), &read["next_offset"]), (2, &2.into()), "{read}");
    let read = server.get("/api/v1/topics/t/partitions/1/records?offset=2").await;
    assert!(read.status == 500 && read.body.contains("CorruptLog"), "{}", read.body);

    let (mut stream, mut text) = (server.follow("stream?place=earliest", None).await, String::new());
    for wanted in ["p0-3-value", "p2-3-value", "p1-1-value", "p1-3-value"] {
        read_until(&mut stream, &mut text, wanted).await;
    }
    let gap = "event: gap\ndata: {\"partition\":1,\"from\":2,\"next\":3,\"reason\":\"damaged\"}\n\n";
    assert!(text.contains(gap) && !text.contains("event: error"), "{text}");
    // It does not come again.
    let mut stream = server.follow("stream", Some(&id_before(&text, "event: gap"))).await;
    let mut again = String::new();
    read_until(&mut stream, &mut again, "p1-3-value").await;
    assert!(!again.contains("event: "), "{again}");
    let (mut stream, mut text) = (server.follow("partitions/1/stream?offset=0", None).await, String::new());
    read_until(&mut stream, &mut text, "p1-3-value").await;
    assert!(text.contains(&format!("id: 2\n{gap}")), "{text}");
}

#[tokio::test]
async fn a_partition_that_is_down_keeps_no_other_from_being_streamed() {
    let server = Server::start().await;
    topic(&server, 3).await;
    for partition in 0..3 {
        server.write(partition, &format!("p{partition}-value")).await;
    }
    let (mut stream, mut text) = (server.follow("stream?place=earliest", None).await, String::new());
    for partition in 0..3 {
        read_until(&mut stream, &mut text, &format!("p{partition}-value\"}}\n\n")).await;
    }
    let last = text[text.rfind("id: ").unwrap() + 4..].lines().next().unwrap().to_owned();
    let mut test = server.test;
    let restarted = tokio::task::spawn_blocking(move || {
        let dir = holds(test.data_dir(), b"p1-value").unwrap().0.parent().unwrap().to_owned();
        test.stop().unwrap();
        fs::remove_dir_all(&dir).unwrap();
        fs::write(&dir, "no directory").unwrap();
        test.restart().map(|()| test)
    });
    let server = Server::of(restarted.await.unwrap().unwrap()).await;
    let (mut stream, mut text) = (server.follow("stream?place=earliest", None).await, String::new());
    for wanted in ["p0-value", "p2-value", "event: down\ndata: {\"partition\":1,\"problem\":{\"title\":\"ReadOnly\""] {
        read_until(&mut stream, &mut text, wanted).await;
    }
    // While it waits, too.
    server.write(2, "late").await;
    read_until(&mut stream, &mut text, "\"late\"}\n\n").await;
    let unknown = id_before(&text, "data: {\"partition\":2,\"offset\":1");
    assert!(unknown.ends_with(",1,-,2"), "{unknown}");
    for last in [last, unknown] {
        server.write(0, "more").await;
        let (mut stream, mut text) = (server.follow("stream", Some(&last)).await, String::new());
        read_until(&mut stream, &mut text, "\"more\"}\n\n").await;
        read_until(&mut stream, &mut text, "event: down").await;
        assert!(!text.contains("event: error") && !text.contains("p0-value"), "{text}");
    }
    assert_eq!(server.get("/api/v1/topics/t/partitions/1/stream").await.problem().0, 503);
}

#[tokio::test]
async fn who_knows_more_than_there_is_goes_on_at_the_end() {
    let server = Server::start().await;
    topic(&server, 1).await;
    for value in ["a", "b", "c"] {
        server.write(0, value).await;
    }
    let (mut all, mut text) = (server.follow("stream?place=earliest", None).await, String::new());
    read_until(&mut all, &mut text, "\"c\"").await;
    let id = id_before(&text, "\"c\"").replace(",3", ",51");
    let mut one = server.follow("partitions/0/stream", Some("50")).await;
    let mut all = server.follow("stream", Some(&id)).await;
    let gap = "event: gap\ndata: {\"partition\":0,\"from\":51,\"next\":3,\"reason\":\"lost\"}\n\n";
    let (mut text, mut texts) = (String::new(), String::new());
    read_until(&mut one, &mut text, &format!("id: 2\n{gap}")).await;
    read_until(&mut all, &mut texts, gap).await;
    server.write(0, "new").await;
    read_until(&mut one, &mut text, "\"new\"").await;
    read_until(&mut all, &mut texts, "\"new\"").await;
}

#[tokio::test]
async fn a_record_of_several_offsets_does_not_come_again() {
    let server = Server::start().await;
    topic(&server, 1).await;
    append(&server, &ProducedFrame { record_count: 5, ..ProducedFrame::message(1, None, b"five") }).await;
    append(&server, &ProducedFrame::message(2, None, b"behind")).await;
    for path in ["partitions/0/stream?offset=0", "stream?place=earliest"] {
        let (mut stream, mut text) = (server.follow(path, None).await, String::new());
        read_until(&mut stream, &mut text, "\"behind\"").await;
        let id = id_before(&text, "\"five\"");
        let (mut stream, mut text) = (server.follow(path, Some(&id)).await, String::new());
        read_until(&mut stream, &mut text, "\"behind\"").await;
        assert!(!text.contains("\"five\""), "{path}: {text}");
    }
}

#[tokio::test]
async fn a_topic_that_grows_too_wide_is_told_at_once() {
    let server = Server::start().await;
    topic(&server, 2).await;
    let (mut stream, mut text) = (server.follow("stream", None).await, String::new());
    read_until(&mut stream, &mut text, ": here").await;
    server.json("PATCH", "/api/v1/topics/t", r#"{"partitions":257}"#).await.good();
    server.write(0, "wakes").await;
    read_until(&mut stream, &mut text, "\"wakes\"").await;
    read_until(&mut stream, &mut text, "event: error\ndata: {\"title\":\"BadRequest\"").await;
    read_until(&mut stream, &mut text, "256").await;
}

#[tokio::test]
async fn what_takes_more_memory_than_there_is_is_refused_and_streams_go_on_behind_it() {
    let server = Server::narrow().await;
    topic(&server, 1).await;
    append(&server, &ProducedFrame::message(1, None, &[1; 60 << 10])).await;
    append(&server, &ProducedFrame::message(1, None, &[1; 12 << 10])).await;
    for _ in 0..20 {
        append(&server, &ProducedFrame::message(1, None, &[1; 3 << 10])).await;
    }
    append(&server, &ProducedFrame::message(1, None, b"small")).await;
    for offset in [0, 1] {
        let refused = server.get(&format!("/api/v1/topics/t/partitions/0/records?offset={offset}")).await;
        assert_eq!(refused.problem(), (413, "offset".into()), "{offset}: {} bytes", refused.body.len());
    }
    // What is written with escapes counts as it is written, and an answer is never more than there is.
    let (mut next, mut read) = (2, 0);
    while next < 23 {
        let answer = server.get(&format!("/api/v1/topics/t/partitions/0/records?offset={next}")).await;
        assert!(answer.body.len() <= 64 << 10, "{} bytes", answer.body.len());
        let told = answer.good();
        read += told["records"].as_array().unwrap().len();
        next = told["next_offset"].as_u64().unwrap();
    }
    assert_eq!(read, 21);
    // Streams have a piece that need not be lent, and 64 KiB more.
    for path in ["partitions/0/stream?offset=0", "stream?place=earliest"] {
        let (mut stream, mut text) = (server.follow(path, None).await, String::new());
        read_until(&mut stream, &mut text, "\"small\"").await;
        assert!(text.contains("{\"partition\":0,\"from\":0,\"next\":1,\"reason\":\"too_large\"}"), "{path}");
        assert_eq!(text.matches("data: {").count(), 23, "{path}");
        drop(stream);
    }
}

#[tokio::test]
async fn a_stream_waits_for_memory() {
    let server = Server::start().await;
    topic(&server, 2).await;
    let broker = server.test.broker();
    let mut hog = broker.loan();
    assert!(hog.grow(broker.max_loan_bytes()));
    let large = [vec![b'x'; 40 << 10], b"end".to_vec()].concat();
    append(&server, &ProducedFrame::message(1, None, &large)).await;
    let (mut stream, mut text) = (server.follow("stream?place=earliest", None).await, String::new());
    read_until(&mut stream, &mut text, ": here\n\n").await;
    let early = tokio::time::timeout(Duration::from_millis(400), stream.read(&mut [0; 64])).await;
    assert!(early.is_err() || text.contains("event: error"), "{early:?}");
    drop(hog);
    read_until(&mut stream, &mut text, "xend\"").await;
    assert!(!text.contains("event: error"), "{text}");
}
