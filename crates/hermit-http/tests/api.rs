//! Topics, records, groups: what the API does.

mod support;

use serde_json::json;
use support::{PATIENCE, Server, read_until};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_topic_from_its_creation_to_its_end() {
    let server = Server::start().await;
    let made =
        server.json("POST", "/api/v1/topics", r#"{"name":"orders","partitions":2,"settings":{"retention_age_ms":5000}}"#).await;
    assert_eq!(made.status, 201);
    let made = made.good();
    assert_eq!(
        (&made["partition_count"], &made["settings"]["retention_age_ms"], &made["settings"]["durability"]),
        (&json!(2), &json!(5000), &json!("sync"))
    );
    server.json("POST", "/api/v1/topics", r#"{"name":"a/b"}"#).await.good();
    let page = server.get("/api/v1/topics?limit=1").await.good();
    assert_eq!((&page["topics"][0]["name"], &page["more"]), (&json!("__consumer_offsets"), &json!(true)));
    let page = server.get("/api/v1/topics?after=a%2Fb").await.good();
    assert_eq!(
        (page["topics"].as_array().unwrap().len(), &page["topics"][0]["name"], &page["more"]),
        (1, &json!("orders"), &json!(false))
    );
    assert_eq!(server.get("/api/v1/topics/a%2Fb").await.good()["name"], "a/b");

    let altered = server.json("PATCH", "/api/v1/topics/orders", r#"{"partitions":3,"settings":{"durability":"os"}}"#).await.good();
    assert_eq!(
        (&altered["partition_count"], &altered["settings"]["durability"], &altered["settings"]["retention_age_ms"]),
        (&json!(3), &json!("os"), &json!(5000))
    );
    assert_eq!(server.json("PATCH", "/api/v1/topics/orders", r#"{"partitions":1}"#).await.problem(), (400, "partitions".into()));
    assert_eq!(server.json("POST", "/api/v1/topics", r#"{"name":"orders"}"#).await.problem(), (409, "topic".into()));

    let batch = r#"{"records":[{"partition":1,"value":"a"},{"partition":1,"value":"b"}]}"#;
    server.json("POST", "/api/v1/topics/orders/records", batch).await.good();
    let trimmed = server.json("POST", "/api/v1/topics/orders/partitions/1/trim", r#"{"before":1}"#).await.good();
    assert_eq!(trimmed["log_start"], 1);
    let partition = server.get("/api/v1/topics/orders/partitions/1").await.good();
    assert_eq!((&partition["log_start"], &partition["high_watermark"]), (&json!(1), &json!(2)));
    assert_eq!(server.get("/api/v1/topics/orders/partitions/1/records?offset=0").await.problem(), (416, "offset".into()));
    assert_eq!(server.get("/api/v1/topics/orders/partitions/9").await.problem(), (404, "partition".into()));

    assert_eq!(server.send("DELETE", "/api/v1/topics/orders", &[], "").await.status, 204);
    assert_eq!(server.get("/api/v1/topics/orders").await.problem(), (404, "topic".into()));
    assert_eq!(server.send("DELETE", "/api/v1/topics/__consumer_offsets", &[], "").await.problem(), (403, "topic".into()));
}

#[tokio::test]
async fn what_is_written_is_read_as_it_was() {
    let server = Server::start().await;
    let records = json!({"records": [
        {"key": "k", "value": "text ä", "timestamp_ms": 1_700_000_000_123u64, "headers": [{"name": "h", "value": "1"}, {"name": "n"}]},
        {"key": "k", "value_base64": "/wA=", "key_base64": null},
        {"key": "k", "value_json": {"a": [1, 2.50]}},
        {"key": "k"},
        {"key": "k", "value": ""},
    ]});
    let stored = server.json("POST", "/api/v1/topics/t/records", &records.to_string()).await.good();
    assert_eq!(stored, json!({"partitions": [{"partition": 0, "base_offset": 0, "next_offset": 5}]}));
    let raw = server
        .send(
            "POST",
            "/api/v1/topics/t/records?key=r",
            &["content-type: application/octet-stream", "hermit-header-colour: red"],
            b"\x00raw",
        )
        .await;
    assert_eq!(raw.good()["partitions"][0]["base_offset"], 5);
    let one = server.json("POST", "/api/v1/topics/t/records", r#"{"value":"alone"}"#).await.good();
    assert_eq!(one["partitions"][0]["base_offset"], 6);

    let read = server.get("/api/v1/topics/t/partitions/0/records").await.good();
    let of = |index: usize| read["records"][index].clone();
    assert_eq!((&read["next_offset"], &read["high_watermark"]), (&json!(7), &json!(7)));
    assert_eq!(
        of(0),
        json!({"offset": 0, "timestamp_ms": 1_700_000_000_123u64, "key": "k", "value": "text ä", "headers": [{"name": "h", "value": "1"}, {"name": "n"}]})
    );
    assert_eq!((&of(1)["value_base64"], of(1).get("value")), (&json!("/wA="), None));
    assert_eq!(of(2)["value"], r#"{"a":[1,2.5]}"#);
    assert_eq!((of(3).get("value"), of(3).get("value_base64")), (None, None));
    assert_eq!(of(4)["value"], "");
    assert_eq!((&of(5)["value"], &of(5)["headers"]), (&json!("\0raw"), &json!([{"name": "colour", "value": "red"}])));

    let as_json = server.get("/api/v1/topics/t/partitions/0/records?form=json&offset=2&max_records=1").await.good();
    assert_eq!((&as_json["records"][0]["value_json"], &as_json["next_offset"]), (&json!({"a": [1, 2.5]}), &json!(3)));
    let base64 = server.get("/api/v1/topics/t/partitions/0/records?form=base64&offset=4&max_records=1").await.good();
    assert_eq!((&base64["records"][0]["value_base64"], &base64["records"][0]["key_base64"]), (&json!(""), &json!("aw==")));
    let small = server.get("/api/v1/topics/t/partitions/0/records?max_bytes=1").await.good();
    assert_eq!(small["records"].as_array().unwrap().len(), 1);
    let late = server.get("/api/v1/topics/t/partitions/0/offset?time_ms=99999999999999").await.good();
    assert_eq!(late["offset"], 7);
}

#[tokio::test]
async fn keys_go_where_the_native_clients_put_them_and_a_compacted_topic_takes_single_records() {
    let server = Server::start().await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t","partitions":8}"#).await.good();
    let stored = server.json("POST", "/api/v1/topics/t/records", r#"{"key":"foobar","value":"x"}"#).await.good();
    assert_eq!(stored["partitions"][0]["partition"], 6);
    server.json("POST", "/api/v1/topics", r#"{"name":"c","settings":{"compaction":true}}"#).await.good();
    let batch = r#"{"records":[{"key":"a","value":"1"},{"key":"b","value":"2"},{"key":"a"}]}"#;
    assert_eq!(server.json("POST", "/api/v1/topics/c/records", batch).await.good()["partitions"][0]["next_offset"], 3);
    assert_eq!(server.json("POST", "/api/v1/topics/c/records", r#"{"value":"1"}"#).await.problem().0, 400);
}

#[tokio::test]
async fn a_fetch_waits_for_what_comes() {
    let server = Server::start().await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t"}"#).await.good();
    let nothing = server.get("/api/v1/topics/t/partitions/0/records").await.good();
    assert_eq!((&nothing["records"], &nothing["next_offset"]), (&json!([]), &json!(0)));
    let waiting = server.get("/api/v1/topics/t/partitions/0/records?wait_ms=60000");
    let producing = async {
        let topic = server.test.broker().topic(&"t".parse().unwrap()).unwrap();
        // Once somebody waits.
        while topic.partitions()[0].waiters() == 0 {
            tokio::task::yield_now().await;
        }
        server.json("POST", "/api/v1/topics/t/records", r#"{"value":"x"}"#).await.good();
    };
    let (waited, ()) = tokio::time::timeout(PATIENCE, async { tokio::join!(waiting, producing) }).await.unwrap();
    assert_eq!(waited.good()["records"][0]["value"], "x");
}

#[tokio::test]
async fn a_stream_goes_on_where_it_was_cut_and_ends_with_the_broker() {
    let mut server = Server::start().await;
    server.json("POST", "/api/v1/topics/t/records", r#"{"records":[{"value":"a"},{"value":"b"}]}"#).await.good();
    let open = async |address, header: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let path = "/api/v1/topics/t/partitions/0/stream?offset=0&form=json";
        stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n").as_bytes()).await.unwrap();
        stream
    };
    let (mut stream, mut text) = (open(server.address, "").await, String::new());
    read_until(&mut stream, &mut text, "\"b\"").await;
    assert!(
        text.contains("text/event-stream") && text.contains("id: 0\ndata: {\"offset\":0,") && text.contains("id: 1\ndata: "),
        "{text}"
    );
    // JSON is told as it was stored, and may have lines.
    server.send("POST", "/api/v1/topics/t/records", &["content-type: application/octet-stream"], "{\n\"c\":1}").await.good();
    read_until(&mut stream, &mut text, "\"c\":1}").await;
    assert!(text.contains("id: 2\ndata: ") && text.contains("{\ndata: \"c\":1}"), "{text}");
    drop(stream);
    let (mut stream, mut text) = (open(server.address, "last-event-id: 1\r\n").await, String::new());
    read_until(&mut stream, &mut text, "id: 2\n").await;
    assert!(!text.contains("id: 1\n"), "{text}");
    let bad = server.send("GET", "/api/v1/topics/t/partitions/0/stream", &["last-event-id: x"], "").await;
    assert_eq!(bad.problem(), (400, "last-event-id".into()));

    let stopped = tokio::task::spawn_blocking(move || {
        let stopped = server.test.stop();
        (server, stopped)
    });
    read_until(&mut stream, &mut text, "0\r\n\r\n").await;
    let (server, stopped) = stopped.await.unwrap();
    stopped.unwrap();
    tokio::time::timeout(PATIENCE, server.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn groups_are_listed_moved_and_deleted() {
    let server = Server::start().await;
    server.json("POST", "/api/v1/topics/t/records", r#"{"records":[{"value":"a"},{"value":"b"},{"value":"c"}]}"#).await.good();
    assert_eq!(server.get("/api/v1/groups/g").await.problem(), (404, "group".into()));
    let sought = server.json("POST", "/api/v1/groups/g/seek", r#"{"topic":"t","offset":1}"#).await.good();
    assert_eq!(sought, json!({"positions": {"0": 1}}));
    let group = server.get("/api/v1/groups/g").await.good();
    assert_eq!((&group["state"], &group["lag"], &group["partitions"][0]["committed"]), (&json!("empty"), &json!(2), &json!(1)));
    for (place, offset) in [(r#""place":"latest""#, 3), (r#""place":"earliest""#, 0), (r#""time_ms":99999999999999"#, 3)] {
        let sought =
            server.json("POST", "/api/v1/groups/g/seek", &format!(r#"{{"topic":"t","partition":0,{place}}}"#)).await.good();
        assert_eq!(sought["positions"]["0"], offset, "{place}");
    }
    assert_eq!(server.json("POST", "/api/v1/groups/g/seek", r#"{"topic":"t","offset":9}"#).await.problem(), (409, "offset".into()));
    assert_eq!(server.json("POST", "/api/v1/groups/g/seek", r#"{"topic":"t"}"#).await.problem(), (400, "offset".into()));
    let listed = server.get("/api/v1/groups").await.good();
    assert_eq!(listed["groups"], json!([{"name": "g", "state": "empty", "members": 0, "partitions": 1}]));
    assert_eq!(server.send("DELETE", "/api/v1/groups/g", &[], "").await.status, 204);
    assert_eq!(server.get("/api/v1/groups").await.good()["groups"], json!([]));
}

#[tokio::test]
async fn the_broker_tells_of_itself() {
    let server = Server::start().await;
    let told = server.get("/api/v1/broker").await.good();
    assert!(told["broker"].as_str().unwrap().starts_with("hermitmq ") && told["topics"] == 0);
    assert_eq!(server.get("/api/v1/connections").await.good()["open"], 0);
    assert!(server.get("/api/v1/settings").await.good()["settings"].is_object());
    assert_eq!(server.get("/api/v1/whoami").await.good(), json!({"user": "", "login": "anonymous"}));
    let metrics = server.get("/metrics").await;
    assert!(metrics.status == 200 && metrics.body.contains("\nhermit_connections{state=\"open\"} 0\n"), "{}", metrics.body);
    let page = server.get("/api/v1").await;
    assert!(page.status == 200 && page.head.contains("text/html") && !page.body.contains("//"), "{}", page.head);
    let root = server.get("/").await;
    assert!(root.status == 307 && root.head.contains("location: /api/v1\r\n"), "{}", root.head);
    assert_eq!(server.get("/nowhere").await.problem(), (404, "path".into()));
    assert_eq!(server.send("DELETE", "/healthz", &[], "").await.problem(), (405, "method".into()));
}
