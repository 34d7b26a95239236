//! Reads records for a group and commits them, from a broker that lives in this process.
//!
//! `cargo run -p hermit-client --example consume`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use hermit_broker::{Broker, BrokerConfig};
use hermit_client::{Client, Otherwise, ProducerRecord, Start};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::open(BrokerConfig::new(dir.path()))?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let served = broker.clone();
    let serving = tokio::spawn(async move { served.serve(listener).await });

    let client = Client::connect(&address).await?;
    let producer = client.producer().build()?;
    for number in 0..5 {
        producer.send("events", ProducerRecord::new(&format!("event {number}")).key("example")).await?;
    }

    // The first reader takes three, and gets done with two.
    let start = Start::Committed { or: Otherwise::Earliest };
    let mut first = client.consumer().group("readers").build()?;
    first.assign_topic("events", start).await?;
    for done in [true, true, false] {
        if let Some(record) = first.recv().await?
            && done
        {
            first.commit_through(&record).await?;
        }
    }
    drop(first);

    // Whoever comes next goes on behind what was processed.
    let mut next = client.consumer().group("readers").build()?;
    next.assign_topic("events", start).await?;
    next.stop_at_present_end().await?;
    while let Some(record) = next.recv().await? {
        println!("offset {}: {}", record.offset, String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()));
        next.commit_through(&record).await?;
    }

    drop((next, producer, client));
    broker.shutdown().await?;
    serving.await?;
    Ok(())
}
