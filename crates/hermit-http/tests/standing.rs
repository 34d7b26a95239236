//! What is told while the broker starts and stops.

mod support;

use hermit_broker::testing::TestBroker;
use hermit_http::{HttpConfig, HttpServer};
use serde_json::json;
use support::{PATIENCE, Server, listen, send};

#[tokio::test]
async fn it_answers_before_the_broker_is_open() {
    let server = HttpServer::new(HttpConfig::default());
    let progress = server.start_progress();
    let (address, serving) = listen(server.clone()).await;
    assert_eq!(send(address, "GET", "/healthz", &[], "").await.status, 200);
    let ready = send(address, "GET", "/readyz", &[], "").await;
    assert_eq!((ready.status, ready.json()), (503, json!({"status": "starting", "recovery": {"partitions": 0, "opened": 0}})));
    assert_eq!(send(address, "GET", "/api/v1/topics", &[], "").await.problem().0, 503);

    let test = tokio::task::spawn_blocking(move || TestBroker::start_with(|config| config.start_progress = Some(progress)))
        .await
        .unwrap()
        .unwrap();
    let broker = test.broker().clone();
    broker.create_topic("t", 3, &hermit_broker::TopicConfig::default()).unwrap();
    server.serves(&broker);
    let ready = send(address, "GET", "/readyz", &[], "").await;
    assert_eq!((ready.status, ready.json()), (200, json!({"status": "serving"})));

    // What is under way holds the stop, and new requests are refused meanwhile.
    let hold = broker.hold_stop();
    let stopping = tokio::spawn({
        let broker = broker.clone();
        async move { broker.shutdown().await }
    });
    tokio::time::timeout(PATIENCE, broker.stopping()).await.unwrap();
    let told = async {
        while send(address, "GET", "/readyz", &[], "").await.json()["status"] != "stopping" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    assert_eq!(send(address, "GET", "/readyz", &[], "").await.status, 503);
    assert_eq!(send(address, "GET", "/healthz", &[], "").await.status, 200);
    assert_eq!(
        send(address, "POST", "/api/v1/topics", &["content-type: application/json"], r#"{"name":"x"}"#).await.problem().0,
        503
    );
    assert!(!stopping.is_finished());
    drop(hold);
    tokio::time::timeout(PATIENCE, stopping).await.unwrap().unwrap().unwrap();
    tokio::time::timeout(PATIENCE, serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_start_tells_how_far_it_is() {
    let mut server = Server::start().await;
    server.json("POST", "/api/v1/topics", r#"{"name":"t","partitions":5}"#).await.good();
    let dir = server.test.data_dir().to_owned();
    let server = tokio::task::spawn_blocking(move || {
        server.test.stop().unwrap();
        server
    });
    let server = server.await.unwrap();
    let progress = std::sync::Arc::new(hermit_broker::StartProgress::default());
    let config = hermit_broker::BrokerConfig {
        start_progress: Some(progress.clone()),
        reserve_bytes: 0,
        ..hermit_broker::BrokerConfig::new(dir)
    };
    let broker = hermit_broker::Broker::open(config).unwrap();
    assert_eq!((progress.partitions(), progress.opened()), (6, 6));
    broker.close().unwrap();
    drop(server);
}
