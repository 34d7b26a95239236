//! Produces and consumes in a program without an async runtime.
//!
//! `cargo run -p hermit-client --example blocking [HOST:PORT]`; otherwise `HERMIT_SERVER`, otherwise 127.0.0.1:9092.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use hermit_client::blocking::Client;
use hermit_client::{AutoCommit, ProducerRecord};

fn main() -> hermit_client::Result<()> {
    let server = std::env::args().nth(1).or_else(|| std::env::var("HERMIT_SERVER").ok());
    run(server.as_deref().unwrap_or("127.0.0.1:9092"))
}

pub(crate) fn run(server: &str) -> hermit_client::Result<()> {
    let client = Client::connect(server)?;
    let producer = client.producer().build()?;
    let lines: Vec<_> = (0..100).map(|number| format!("line {number}")).collect();
    let records: Vec<_> = lines.iter().map(ProducerRecord::new).collect();
    for stored in producer.send_batch("lines", &records)? {
        println!("{} records, partition {}, from offset {:?}", stored.records, stored.partition, stored.first_offset);
    }
    producer.close()?;

    // A member of a group: it shares the partitions with others that run this program.
    let mut consumer = client.consumer().group("readers").auto_commit(AutoCommit::Processed).build()?;
    consumer.subscribe("lines")?;
    let mut count = 0;
    // Nothing came for a while: this example ends there. A service would go on.
    while let Some(record) = consumer.recv_timeout(Duration::from_secs(2))? {
        count += record.value.iter().count();
        if count == lines.len() {
            break;
        }
    }
    println!("{count} records");
    consumer.close()?;
    client.close()
}
