//! What the broker holds in the end.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use hermit_client::{Error, Start};

use super::{Recorder, Target, payload};
use crate::check::history::{Held, Part};

/// Records that are taken at a time.
const BATCH: usize = 4096;

/// Reads every topic of the recorder that is there, whole.
///
/// # Errors
///
/// When something cannot be read.
pub async fn read(target: &Target, recorder: &Recorder) -> Result<BTreeMap<Part, Held>> {
    let client = target.client()?;
    let mut held = BTreeMap::new();
    let topics = recorder.topics();
    let mut newest: BTreeMap<&str, u16> = BTreeMap::new();
    for (number, topic) in topics.iter().enumerate() {
        // Of a name that was used again it is the last topic that is there, if any.
        newest.insert(&topic.name, u16::try_from(number)?);
    }
    for (name, topic) in newest {
        let found = match client.admin().describe_topic(name).await {
            Ok(found) => found,
            Err(Error::UnknownTopic { .. }) => continue,
            Err(error) => return Err(error).with_context(|| format!("{name} cannot be described")),
        };
        for partition in &found.partitions {
            let part = Part { topic, partition: u16::try_from(partition.partition.0)? };
            let (start, end) = (partition.log_start.0, partition.high_watermark.0);
            held.insert(part, Held { start, end, records: Vec::new() });
        }
        let mut consumer = client.consumer().build()?;
        consumer.assign_topic(name, Start::Earliest).await?;
        consumer.stop_at_present_end().await?;
        loop {
            let batch = consumer.recv_batch(BATCH).await.with_context(|| format!("{name} cannot be read"))?;
            if batch.is_empty() {
                break;
            }
            for record in batch {
                let part = Part { topic, partition: u16::try_from(record.partition.0)? };
                let message = payload::read(record.value.as_deref().unwrap_or_default());
                let message = message.filter(|(of, _)| *of == topic).map(|(_, message)| message);
                held.entry(part).or_default().records.push((record.offset.0, record.span(), message));
            }
        }
    }
    client.close().await;
    // Retention may have gone on while it was read.
    for held in held.values_mut() {
        if let Some((first, ..)) = held.records.first() {
            held.start = held.start.max(*first);
        }
    }
    Ok(held)
}
