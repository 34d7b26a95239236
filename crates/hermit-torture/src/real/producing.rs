//! The producer's side.

use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{Client, Delivery, ProducerRecord};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use super::{Plan, TOPIC};

/// Where a line was stored, as the broker answered: the number of the line, partition, offset.
pub(crate) type Answer = (usize, u32, u64);

/// Sends all lines, evenly over a time, and gives the answers. `answered` follows how many lines, from the first on, are answered.
///
/// An answer without an offset says that the line is stored, and not where; it is left out.
pub(crate) async fn send(client: Client, plan: Plan, over: Duration, answered: watch::Sender<usize>) -> Result<Vec<Answer>> {
    let builder = client.producer().batch_bytes(plan.batch_bytes).max_buffered_bytes(plan.buffered_bytes);
    let producer = builder.build()?;
    let (sent, mut deliveries) = mpsc::unbounded_channel::<Delivery>();
    let answers = tokio::spawn(async move {
        let mut answers = Vec::new();
        let mut number = 0;
        while let Some(delivery) = deliveries.recv().await {
            let stored = delivery.await.with_context(|| format!("line {} was not stored", number + 1))?;
            answers.extend(stored.offset.map(|offset| (number, stored.partition.0, offset.0)));
            number += 1;
            answered.send_replace(number);
        }
        anyhow::Ok(answers)
    });
    let begun = Instant::now();
    for (number, line) in plan.lines.iter().enumerate() {
        sleep_until(begun + over.mul_f64(number as f64 / plan.lines.len() as f64)).await;
        let delivery = producer.enqueue(TOPIC, ProducerRecord::new(&line.text).key(&line.key)).await?;
        // When nobody takes it any more, a line before has failed, which the answers tell.
        if sent.send(delivery).is_err() {
            break;
        }
    }
    drop(sent);
    let answers = answers.await??;
    producer.close().await?;
    Ok(answers)
}
