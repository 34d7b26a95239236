//! Hooks of an embedder: a rule for what may be appended, and news of what happens.
//!
//! `cargo run -p hermit-broker --example hooks`

use std::sync::Arc;

use bytes::BytesMut;
use hermit_broker::log::Batch;
use hermit_broker::proto::{FrameLimits, FrameView, PartitionId, ProducedFrame};
use hermit_broker::{AppendContext, Broker, BrokerConfig, BrokerError, Event, Hooks, Rejection, TopicConfig};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Lets only JSON objects into topics whose names begin with `json.`.
#[derive(Debug)]
struct JsonOnly;

impl Hooks for JsonOnly {
    fn before_append(&self, context: &AppendContext<'_>, batch: &Batch) -> std::result::Result<(), Rejection> {
        if !context.topic.as_str().starts_with("json.") {
            return Ok(());
        }
        let mut rest = batch.as_bytes();
        while !rest.is_empty() {
            let (frame, behind) = FrameView::split(rest, &FrameLimits::default()).map_err(|bad| Rejection::new(bad.to_string()))?;
            if !frame.payload().starts_with(b"{") {
                return Err(Rejection::new(format!("topic {} takes JSON objects only", context.topic)));
            }
            rest = behind;
        }
        Ok(())
    }

    #[expect(clippy::print_stdout, reason = "an example")]
    fn on_event(&self, event: &Event) {
        match event {
            Event::TopicCreated { topic } => println!("created {} with {} partitions", topic.name, topic.partitions),
            Event::TopicGrown { topic, before } => println!("{} grew from {before} to {} partitions", topic.name, topic.partitions),
            other => println!("{other:?}"),
        }
    }
}

fn append(broker: &Broker, topic: &str, payload: &[u8]) -> std::result::Result<(), BrokerError> {
    let topic = broker.topic(&topic.parse()?)?;
    let partition = Arc::clone(topic.partition(PartitionId(0))?);
    let frame = ProducedFrame::message(0, None, payload).to_vec().unwrap_or_default();
    let mut batch = broker.parse(BytesMut::from(&frame[..]))?;
    broker.append(&partition, &mut batch)?.wait()
}

#[expect(clippy::print_stdout, reason = "an example")]
fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let broker = Broker::open(BrokerConfig { hooks: Some(Arc::new(JsonOnly)), ..BrokerConfig::new(dir.path()) })?;
    broker.create_topic("json.orders", 1, &TopicConfig::default())?;
    append(&broker, "json.orders", br#"{"order":1}"#)?;
    match append(&broker, "json.orders", b"order 2") {
        Err(BrokerError::Rejected { message }) => println!("refused: {message}"),
        other => return Err(format!("this should have been refused: {other:?}").into()),
    }
    broker.add_partitions(&"json.orders".parse()?, 3)?;
    broker.close()?;
    Ok(())
}
