//! Where reading begins and ends.

use anyhow::{Result, ensure};
use hermit_client::{Client, Consumer, Error, Offset, OnDamage, OnLostPosition, Otherwise, PartitionId, Start, TopicMetadata};

use super::member::{self, Printed};
use crate::args::{ConsumeArgs, Until};
use crate::place::Place;

/// A consumer of what was asked for.
pub(super) async fn assign(client: &Client, args: &ConsumeArgs, printed: Printed) -> Result<Consumer> {
    let on_damage = if args.skip_damaged { OnDamage::Skip } else { OnDamage::Stop };
    let mut builder = client.consumer().on_damage(on_damage).on_lost_position(args.on_lost_position.unwrap_or_default());
    if let Some(group) = &args.group {
        builder = builder.group(group);
    }
    // A member would wait for a topic that is not there.
    let topic = client.admin().describe_topic(&args.topic).await?;
    if args.joins() {
        return member::join(builder, args, printed).await;
    }
    let mut consumer = builder.build()?;
    for partition in partitions(&topic, &args.partition)? {
        let start = start(client, args, partition).await?;
        consumer.assign(&args.topic, partition, start).await?;
        if let (Start::Offset(offset), true) = (start, args.until.is_some()) {
            check_end(args, &topic, partition, offset, &mut consumer)?;
        }
    }
    match args.until {
        None => {}
        Some(Until::End) => consumer.stop_at_present_end().await?,
        Some(Until::Time(time)) => stop_at_time(client, args, time, &mut consumer).await?,
    }
    Ok(consumer)
}

/// The partitions that were asked for; all of them if none was.
pub(crate) fn partitions(topic: &TopicMetadata, asked: &[u32]) -> Result<Vec<PartitionId>> {
    let count = u32::try_from(topic.partitions.len()).unwrap_or(u32::MAX);
    if let Some(unknown) = asked.iter().find(|partition| **partition >= count) {
        let (topic, partition) = (topic.name.as_str().into(), PartitionId(*unknown));
        return Err(Error::UnknownPartition { topic, partition, count }.into());
    }
    let mut partitions: Vec<_> = match asked {
        [] => (0..count).map(PartitionId).collect(),
        asked => asked.iter().copied().map(PartitionId).collect(),
    };
    partitions.sort_unstable();
    partitions.dedup();
    Ok(partitions)
}

async fn start(client: &Client, args: &ConsumeArgs, partition: PartitionId) -> Result<Start> {
    Ok(match (args.from, &args.group) {
        (Some(Place::Earliest), _) | (None, None) => Start::Earliest,
        (Some(Place::Latest), _) => Start::Latest,
        (Some(Place::Offset(offset)), _) => Start::Offset(offset),
        (Some(place), _) => Start::Offset(place.resolve(&client.admin(), &args.topic, partition).await?.0),
        (None, Some(_)) => Start::Committed { or: Otherwise::Earliest },
    })
}

/// A consumer that stops at an end before its position would never ask the broker for it: an error, as it would be from the broker,
/// unless another place to go on was chosen.
fn check_end(
    args: &ConsumeArgs,
    topic: &TopicMetadata,
    partition: PartitionId,
    position: Offset,
    consumer: &mut Consumer,
) -> Result<()> {
    let found = topic.partitions.iter().find(|found| found.partition == partition && found.high_watermark < position);
    let (Some(found), Some(Place::Offset(_))) = (found, args.from) else { return Ok(()) };
    match args.on_lost_position {
        None => Err(Error::OutOfRange {
            topic: args.topic.as_str().into(),
            partition,
            position,
            log_start: found.log_start,
            high_watermark: found.high_watermark,
        }
        .into()),
        Some(OnLostPosition::Earliest) => Ok(consumer.seek(&args.topic, partition, found.log_start)?),
        // There is nothing up to the present end.
        Some(_latest_or_epoch_end) => Ok(()),
    }
}

async fn stop_at_time(client: &Client, args: &ConsumeArgs, time: u64, consumer: &mut Consumer) -> Result<()> {
    if let Some(Place::Time(from)) = args.from {
        ensure!(from <= time, "--until lies before --from");
    }
    let partitions: Vec<_> = consumer.assignment().map(|(_, partition)| partition).collect();
    for partition in partitions {
        let (end, _) = Place::Time(time).resolve(&client.admin(), &args.topic, partition).await?;
        consumer.stop_at(&args.topic, partition, end)?;
    }
    Ok(())
}
