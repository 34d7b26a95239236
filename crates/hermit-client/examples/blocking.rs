//! Produces and consumes in a program without an async runtime.
//!
//! `cargo run -p hermit-client --example blocking [HOST:PORT]`; otherwise `HERMIT_SERVER`, otherwise 127.0.0.1:9092.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use hermit_client::blocking::Client;
use hermit_client::{Otherwise, ProducerRecord, Start};

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

    let mut consumer = client.consumer().group("readers").build()?;
    consumer.assign_topic("lines", Start::Committed { or: Otherwise::Earliest })?;
    consumer.stop_at_present_end()?;
    let mut count = 0;
    while let Some(record) = consumer.recv()? {
        // Committed when it is processed, so that the next start goes on behind it.
        count += 1;
        if count % 50 == 0 {
            consumer.commit_through(&record)?;
        }
    }
    consumer.commit()?;
    println!("{count} records");
    client.close()
}
