//! Creates a topic, changes it while it is in use, and tells how the broker and its groups fare.
//!
//! `cargo run -p hermit-client --example admin [HOST:PORT]`; otherwise `HERMIT_SERVER`, otherwise 127.0.0.1:9092.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use hermit_client::{Client, Error, OffsetQuery, ProducerRecord, Status, TopicConfig};

#[tokio::main]
async fn main() -> hermit_client::Result<()> {
    let server = std::env::args().nth(1).or_else(|| std::env::var("HERMIT_SERVER").ok());
    run(server.as_deref().unwrap_or("127.0.0.1:9092")).await
}

pub(crate) async fn run(server: &str) -> hermit_client::Result<()> {
    let client = Client::connect(server).await?;
    let admin = client.admin();

    let broker = admin.describe_broker().await?;
    println!("{}: {} topics, {} groups, {} MiB free", broker.broker, broker.topics, broker.groups, broker.free_bytes >> 20);

    match admin.create_topic("orders", 2, TopicConfig::default()).await {
        Ok(created) => println!("created orders with {} partitions", created.partitions),
        Err(error) if error.status() == Some(Status::TopicExists) => println!("orders exists"),
        Err(error) => return Err(error),
    }
    client.producer().build()?.send("orders", ProducerRecord::new("an order").key("1")).await?;

    // A day instead of for ever.
    let config = admin.alter_topic("orders", TopicConfig { retention_age_ms: Some(86_400_000), ..TopicConfig::default() }).await?;
    println!("retention age: {:?} ms", config.retention_age_ms);
    println!("partitions: {}", admin.add_partitions("orders", 4).await?);

    for partition in 0..4 {
        let offsets = admin.list_offsets("orders", partition, OffsetQuery::Last(10)).await?;
        println!("partition {partition}: {} to {}", offsets.log_start, offsets.high_watermark);
    }
    for group in admin.list_groups().await? {
        match admin.describe_group(&group.name).await {
            Ok(described) => {
                let lag: u64 = described.partitions.iter().map(|partition| partition.lag).sum();
                println!("group {}: {:?}, {} members, {lag} records behind", group.name, described.state, group.members);
            }
            // It may have gone meanwhile.
            Err(Error::UnknownGroup { group }) => println!("group {group} is gone"),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
