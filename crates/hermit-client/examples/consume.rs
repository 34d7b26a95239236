//! Reads all records that a topic has now, without a group: where to begin is said by hand.
//!
//! `cargo run -p hermit-client --example consume [HOST:PORT]`; otherwise `HERMIT_SERVER`, otherwise 127.0.0.1:9092.
//! Run the example `produce` before.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use hermit_client::{Client, Start};

#[tokio::main]
async fn main() -> hermit_client::Result<()> {
    let server = std::env::args().nth(1).or_else(|| std::env::var("HERMIT_SERVER").ok());
    run(server.as_deref().unwrap_or("127.0.0.1:9092")).await
}

pub(crate) async fn run(server: &str) -> hermit_client::Result<()> {
    let client = Client::connect(server).await?;
    let mut consumer = client.consumer().build()?;
    consumer.assign_topic("flights", Start::Earliest).await?;
    consumer.stop_at_present_end().await?;
    let mut count = 0;
    while let Some(record) = consumer.recv().await? {
        let value = String::from_utf8_lossy(record.value.as_deref().unwrap_or_default());
        if count < 10 {
            println!("partition {}, offset {}: {value}", record.partition, record.offset);
        }
        count += 1;
    }
    println!("{count} records");
    Ok(())
}
