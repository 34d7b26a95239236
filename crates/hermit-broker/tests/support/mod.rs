//! A broker on a temporary directory that is served on a port of its own, and small clients that speak bytes.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test support, of which each file uses a part"
)]

pub mod v1;
pub mod v2;

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use hermit_broker::{Broker, BrokerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Long enough for a loaded machine; a test that needs it has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A served broker.
pub struct Server {
    pub broker: Broker,
    pub address: SocketAddr,
    serving: JoinHandle<()>,
}

pub fn config(dir: &Path) -> BrokerConfig {
    let mut config = BrokerConfig::new(dir);
    config.reserve_bytes = 0;
    config
}

impl Server {
    pub async fn start(dir: &Path) -> Self {
        Self::with(config(dir)).await
    }

    pub async fn with(config: BrokerConfig) -> Self {
        Self::serve(Broker::open(config).unwrap()).await
    }

    pub async fn serve(broker: Broker) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let served = broker.clone();
        let serving = tokio::spawn(async move { served.serve(listener).await });
        Self { broker, address, serving }
    }

    pub async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.unwrap();
        // A request behind another one that is not answered yet must not wait for the delayed acknowledgement.
        stream.set_nodelay(true).unwrap();
        stream
    }

    pub async fn stop(self) {
        self.broker.shutdown().await.unwrap();
        self.serving.await.unwrap();
    }
}

/// Fails the test when it takes too long.
pub async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("this takes too long")
}

/// Waits for a condition that something else brings about.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
