//! Sends records and tells where they were stored, to a broker that lives in this process.
//!
//! `cargo run -p hermit-client --example produce`
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use hermit_broker::{Broker, BrokerConfig};
use hermit_client::{Client, Codec, ProducerRecord};
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
    let producer = client.producer().codec(Codec::Lz4).build()?;

    // Many on their way at a time: the batches are answered when they are on disk.
    let mut deliveries = Vec::new();
    for (carrier, flight) in [("UA", "1545"), ("AA", "1141"), ("B6", "725"), ("UA", "1714")] {
        deliveries.push(producer.enqueue("flights", ProducerRecord::new(flight).key(carrier)).await?);
    }
    for delivery in deliveries {
        let stored = delivery.await?;
        println!("stored: topic {}, partition {}, offset {:?}", stored.topic, stored.partition, stored.offset);
    }
    producer.close().await?;

    drop((producer, client));
    broker.shutdown().await?;
    serving.await?;
    Ok(())
}
