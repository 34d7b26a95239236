//! Two members of a group share the partitions of a topic, each with several handlers at a time; one leaves, and the other goes on.
//!
//! `cargo run -p hermit-client --example group [HOST:PORT]`; otherwise `HERMIT_SERVER`, otherwise 127.0.0.1:9092.
//! It creates the topic `rides`, with four partitions, and ends by itself.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hermit_client::{
    Assigned, Client, Error, Parallel, ProducerRecord, RebalanceListener, Record, Revoked, Status, TopicConfig, TopicPartition,
};

const RIDES: u32 = 400;

#[tokio::main]
async fn main() -> hermit_client::Result<()> {
    let server = std::env::args().nth(1).or_else(|| std::env::var("HERMIT_SERVER").ok());
    run(server.as_deref().unwrap_or("127.0.0.1:9092")).await
}

pub(crate) async fn run(server: &str) -> hermit_client::Result<()> {
    let client = Client::connect(server).await?;
    match client.admin().create_topic("rides", 4, TopicConfig::default()).await {
        Ok(_created) => {}
        Err(Error::Refused { source, .. }) if source.status == Status::TopicExists => {}
        Err(error) => return Err(error),
    }
    let done = Arc::new(AtomicU32::new(0));
    let (early, late) = (member(&client, "early", &done, RIDES / 4), member(&client, "late", &done, RIDES));
    let (early, late, produced) = tokio::join!(early, late, produce(&client));
    early.and(late).and(produced)?;
    println!("{} rides", done.load(Ordering::Relaxed));
    Ok(())
}

async fn produce(client: &Client) -> hermit_client::Result<()> {
    let producer = client.producer().build()?;
    for ride in 0..RIDES {
        let taxi = format!("taxi {}", ride % 20);
        drop(producer.enqueue("rides", ProducerRecord::new(&format!("ride {ride}")).key(&taxi)).await?);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    producer.close().await
}

/// Processes rides until so many are done by all members together.
async fn member(client: &Client, name: &'static str, done: &Arc<AtomicU32>, until: u32) -> hermit_client::Result<()> {
    let mut consumer = client.consumer().group("dispatch").build()?;
    consumer.set_rebalance_listener(Tell(name));
    consumer.subscribe("rides").await?;
    let enough = async {
        while done.load(Ordering::Relaxed) < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let handler = |_ride: Record| {
        let done = done.clone();
        async move {
            // The rides of one taxi come one after the other, whatever each of them takes.
            tokio::time::sleep(Duration::from_millis(2)).await;
            done.fetch_add(1, Ordering::Relaxed);
            Ok::<(), Error>(())
        }
    };
    consumer.process_parallel(Parallel::new(8), handler, enough).await?;
    // Leaves the group, so that the other member gets the partitions at once.
    consumer.close().await
}

struct Tell(&'static str);

impl RebalanceListener for Tell {
    fn on_assigned(&mut self, assigned: &mut Assigned) {
        for position in assigned.positions() {
            println!("{}: got partition {} from offset {} on", self.0, position.partition, position.offset);
        }
    }

    fn on_revoked(&mut self, revoked: &mut Revoked) {
        for position in revoked.positions() {
            println!("{}: gives up partition {}", self.0, position.partition);
        }
    }

    fn on_lost(&mut self, lost: &[TopicPartition]) {
        println!("{}: lost {lost:?}", self.0);
    }
}
