//! Sends records in the three ways there are, and tells where they were stored.
//!
//! `cargo run -p hermit-client --example produce [HOST:PORT]`; otherwise `HERMIT_SERVER`, otherwise 127.0.0.1:9092.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use hermit_client::{Client, Codec, ProducerRecord};

#[tokio::main]
async fn main() -> hermit_client::Result<()> {
    let server = std::env::args().nth(1).or_else(|| std::env::var("HERMIT_SERVER").ok());
    run(server.as_deref().unwrap_or("127.0.0.1:9092")).await
}

pub(crate) async fn run(server: &str) -> hermit_client::Result<()> {
    let client = Client::connect(server).await?;
    let producer = client.producer().codec(Codec::Zstd).linger(Duration::from_millis(2)).build()?;

    // One by one: each waits for the broker's disk.
    let headers = [("source", Some(&b"example"[..]))];
    let stored = producer.send("flights", ProducerRecord::new("on time").key("UA1545").headers(&headers)).await?;
    println!("one: partition {}, offset {:?}", stored.partition, stored.offset);

    // Many on their way at a time, with an answer for each.
    let mut deliveries = Vec::new();
    for (flight, news) in [("AA1141", "delayed"), ("B6725", "on time"), ("UA1714", "cancelled")] {
        deliveries.push(producer.enqueue("flights", ProducerRecord::new(news).key(flight)).await?);
    }
    for delivery in deliveries {
        let stored = delivery.await?;
        println!("each: partition {}, offset {:?}", stored.partition, stored.offset);
    }

    // Many in one call, with an answer for each batch: the fastest way.
    let lines: Vec<_> = (0..1000).map(|number| format!("position {number}")).collect();
    let records: Vec<_> = lines.iter().map(|line| ProducerRecord::new(line).key("UA1545")).collect();
    for stored in producer.send_batch("flights", &records).await? {
        println!("batch: {} records, partition {}, from offset {:?}", stored.records, stored.partition, stored.first_offset);
    }

    // Waits for whatever is still on its way, and tells of what failed.
    producer.close().await?;
    client.close().await;
    Ok(())
}
