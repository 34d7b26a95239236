//! A broker inside another program: appending and reading in process, and serving the same topics to clients.
//!
//! `cargo run -p hermit-broker --example embed`

use std::sync::Arc;

use bytes::BytesMut;
use hermit_broker::proto::{FrameView, Offset, PartitionId, ProducedFrame};
use hermit_broker::{Broker, BrokerConfig, TopicConfig};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Appends one message, and waits until it is on the disk.
fn append(broker: &Broker, topic: &str, payload: &[u8]) -> Result<Offset> {
    let topic = broker.topic(&topic.parse()?)?;
    let partition = Arc::clone(topic.partition(PartitionId(0))?);
    let frame = ProducedFrame::message(0, Some(b"key"), payload).to_vec()?;
    let mut batch = broker.parse(BytesMut::from(&frame[..]))?;
    let ticket = broker.append(&partition, &mut batch)?;
    ticket.wait()?;
    Ok(ticket.appended().base_offset)
}

/// Reads a topic's first partition from the start.
fn read(broker: &Broker, topic: &str) -> Result<Vec<String>> {
    let topic = broker.topic(&topic.parse()?)?;
    let log = topic.partition(PartitionId(0))?.log()?;
    let mut cursor = log.cursor(log.bounds().log_start)?;
    let mut messages = Vec::new();
    let mut bytes = Vec::new();
    while let Some(range) = cursor.next(1 << 20)? {
        bytes.clear();
        range.read_into(&mut bytes)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (frame, behind) = FrameView::split(rest, &broker.limits().frame_limits())?;
            messages.push(String::from_utf8_lossy(frame.payload()).into_owned());
            rest = behind;
        }
    }
    Ok(messages)
}

#[expect(clippy::print_stdout, reason = "an example")]
fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::open(BrokerConfig::new(dir.path()))?;
    broker.create_topic("greetings", 1, &TopicConfig::default())?;
    for greeting in ["hello", "good day"] {
        println!("{greeting} is at offset {}", append(&broker, "greetings", greeting.as_bytes())?);
    }
    println!("read back: {:?}", read(&broker, "greetings")?);

    // The same broker, for clients. A real program would wait for a signal where this one does not.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("serving on {}", listener.local_addr()?);
        let serving = broker.clone();
        let served = tokio::spawn(async move { serving.serve(listener).await });
        broker.shutdown().await?;
        served.await?;
        Ok(())
    })
}
