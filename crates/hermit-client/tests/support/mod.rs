//! A real broker in this process, a proxy that can misbehave, and a fake broker that says what it is told to.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test support, of which each file uses a part"
)]

pub mod fake;
pub mod group;
pub mod proxy;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hermit_broker::{Broker, BrokerConfig};
use hermit_client::{BackoffConfig, Client, ClientBuilder, Consumer, Record, TopicConfig};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Long enough for a loaded machine; a test that needs it has failed.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct TestBroker {
    pub broker: Broker,
    pub address: SocketAddr,
    serving: JoinHandle<()>,
    dir: tempfile::TempDir,
}

fn config(dir: &Path) -> BrokerConfig {
    let mut config = BrokerConfig::new(dir);
    config.reserve_bytes = 0;
    config.limits.disk_low_bytes = 0;
    config.limits.disk_high_bytes = 0;
    config
}

impl TestBroker {
    pub async fn start() -> Self {
        Self::with(|_config| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut BrokerConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        change(&mut config);
        Self::serve(dir, config).await
    }

    async fn serve(dir: tempfile::TempDir, config: BrokerConfig) -> Self {
        let broker = Broker::open(config).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = broker.clone();
        let serving = tokio::spawn(async move { served.serve(listener).await });
        Self { broker, address, serving, dir }
    }

    /// Stops gracefully and starts again on the same directory, at another address.
    pub async fn restart(self) -> Self {
        self.broker.shutdown().await.unwrap();
        self.serving.await.unwrap();
        drop(self.broker);
        let config = config(self.dir.path());
        Self::serve(self.dir, config).await
    }

    /// A client with short waits.
    pub fn builder(&self) -> ClientBuilder {
        builder(self.address)
    }

    pub async fn client(&self) -> Client {
        self.builder().connect().await.unwrap()
    }

    /// The end of what consumers see.
    pub fn end_of(&self, topic: &str, partition: usize) -> u64 {
        let topic = self.broker.topic(&topic.parse().unwrap()).unwrap();
        topic.partitions()[partition].bounds().unwrap().high_watermark.0
    }
}

pub fn builder(address: SocketAddr) -> ClientBuilder {
    let backoff = BackoffConfig { min: Duration::from_millis(5), max: Duration::from_millis(50) };
    Client::builder().server(address.to_string()).backoff(backoff).request_timeout(PATIENCE)
}

pub async fn create(client: &Client, topic: &str, partitions: u32) {
    client.admin().create_topic(topic, partitions, TopicConfig::default()).await.unwrap();
}

/// Fails the test when it takes too long.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this takes too long")
}

/// Waits for a condition.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !condition() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// All records up to the end that the consumer was given.
pub async fn drain(consumer: &mut Consumer) -> Vec<Record> {
    let mut records = Vec::new();
    within(async {
        while let Some(record) = consumer.recv().await.unwrap() {
            records.push(record);
        }
    })
    .await;
    records
}

pub fn text(bytes: Option<&bytes::Bytes>) -> Option<String> {
    bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
}

pub fn values(records: &[Record]) -> Vec<String> {
    records.iter().map(|record| text(record.value.as_ref()).unwrap()).collect()
}
