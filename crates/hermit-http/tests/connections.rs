//! The list of connections, and closing one.
#![expect(clippy::unwrap_used, reason = "a test")]

mod support;

use std::time::Duration;

use serde_json::Value;
use support::{PATIENCE, Server, read_until};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

async fn listed(server: &Server, query: &str) -> Value {
    server.get(&format!("/api/v1/connections{query}")).await.good()
}

/// The entry of a connection, once it says so.
async fn entry(server: &Server, of: &TcpStream, protocol: &str) -> Value {
    let peer = of.local_addr().unwrap().to_string();
    let found = async {
        loop {
            let all = listed(server, "").await;
            let mut entries = all["connections"].as_array().unwrap().iter();
            if let Some(entry) = entries.find(|entry| entry["peer"] == *peer && entry["protocol"] == protocol) {
                return entry.clone();
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.unwrap()
}

#[tokio::test]
async fn connections_of_all_protocols_are_listed_and_can_be_closed() {
    let server = Server::start().await;
    let broker = server.test.broker();
    server.json("POST", "/api/v1/topics", r#"{"name":"t"}"#).await.good();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let native_address = listener.local_addr().unwrap();
    tokio::spawn({
        let broker = broker.clone();
        async move { broker.serve(listener).await }
    });
    let mut native = TcpStream::connect(native_address).await.unwrap();
    let shaking = entry(&server, &native, "handshake").await;
    let request = "GET /api/v1/topics/t/partitions/0/stream HTTP/1.1\r\nhost: localhost\r\nuser-agent: watcher/2.1\r\n\r\n";
    let mut http = server.begin(request).await;
    read_until(&mut http, &mut String::new(), ": here").await;
    let streaming = entry(&server, &http, "http").await;
    assert_eq!((&streaming["client"], &streaming["tls"]), (&Value::from("watcher/2.1"), &Value::from(false)));
    assert!(streaming["id"].as_u64() > shaking["id"].as_u64() && streaming["since_ns"].as_u64() >= shaking["since_ns"].as_u64());

    // By pages.
    let first = listed(&server, "?limit=1").await;
    assert_eq!((first["connections"].as_array().unwrap().len(), &first["more"]), (1, &Value::from(true)));
    let behind = listed(&server, &format!("?after={}", shaking["id"])).await;
    assert!(behind["connections"].as_array().unwrap().iter().all(|entry| entry["id"].as_u64() > shaking["id"].as_u64()));

    // In the midst of what they do.
    for (entry, stream) in [(&shaking, &mut native), (&streaming, &mut http)] {
        let path = format!("/api/v1/connections/{}", entry["id"]);
        assert_eq!(server.send("DELETE", &path, &[], "").await.status, 204);
        let mut rest = Vec::new();
        drop(tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap());
        let gone = async {
            while server.send("DELETE", &path, &[], "").await.status != 404 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.unwrap();
        assert_eq!(server.send("DELETE", &path, &[], "").await.problem(), (404, "id".into()));
    }
    assert_eq!(server.send("DELETE", "/api/v1/connections/x", &[], "").await.problem(), (400, "path".into()));

    // The limit is the one in force.
    let mut wanted = broker.config().clone();
    wanted.limits.max_connections = 77;
    broker.reconfigure(&wanted).unwrap();
    assert_eq!(listed(&server, "").await["max"], 77);
    // Nothing is left of those that have gone.
    let few = async {
        while broker.listed_connections(0, 100).0.len() > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, few).await.unwrap();
}
