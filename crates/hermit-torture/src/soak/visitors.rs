//! Connections that come, ask something, and go: some well, some in the middle of a sentence.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use hermit_proto::session::{HelloRequest, ListTopicsRequest};
use hermit_proto::v1::Handshake;
use hermit_proto::{GroupName, PartitionId, TopicName};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::wire::Session;

/// A broker that is away, or does not answer, is no matter to a visitor.
const VISIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Visitors {
    task: JoinHandle<u64>,
    stop: watch::Sender<bool>,
}

impl Visitors {
    pub(super) fn start(address: SocketAddr, rate: f64) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut visits = 0;
            let pause = Duration::from_secs_f64(1.0 / rate.max(0.01));
            loop {
                tokio::select! {
                    _ = stopped.wait_for(|stop| *stop) => return visits,
                    came = timeout(VISIT, visit(address, visits)) => {
                        if let Ok(Err(error)) = came {
                            tracing::debug!(%error, "a visitor was turned away");
                        }
                    }
                }
                visits += 1;
                sleep(pause).await;
            }
        });
        Self { task, stop }
    }

    /// Ends them; gives how many there were.
    pub(super) async fn stop(self) -> Result<u64> {
        self.stop.send_replace(true);
        Ok(self.task.await?)
    }
}

async fn visit(address: SocketAddr, number: u64) -> Result<()> {
    match number % 4 {
        // Asks, and goes.
        0 | 1 => {
            let mut session = Session::open(address).await?;
            session.ask(&ListTopicsRequest { after: String::new(), limit: 0 }).await?;
        }
        // Waits for a topic that never comes, and goes.
        2 => {
            let mut stream = TcpStream::connect(address).await?;
            let (group, topic) = (GroupName::new("visitors")?, TopicName::new("nothing")?);
            let mut bytes = Vec::new();
            Handshake::Consumer { group, topic, partition: PartitionId(0) }.encode(&mut bytes);
            stream.write_all(&bytes).await?;
            sleep(Duration::from_millis(100)).await;
        }
        // Goes in the middle of its greeting.
        _ => {
            use hermit_proto::session::Request;
            let mut bytes = bytes::BytesMut::new();
            HelloRequest::new("visitor").encode(hermit_proto::CorrelationId(1), &mut bytes)?;
            let half = bytes.get(..bytes.len() / 2).unwrap_or_default();
            TcpStream::connect(address).await?.write_all(half).await?;
        }
    }
    Ok(())
}
