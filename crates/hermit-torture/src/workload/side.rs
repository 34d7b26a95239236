//! Topics that come and go on the side: made, written, grown, read and deleted, and their names used again.

use std::time::Duration;

use anyhow::Result;
use hermit_client::{Client, Error, Start, Status, TopicConfig};
use hermit_proto::TopicName;
use tokio::time::sleep;

use super::place::{Pace, Place};
use super::send_sdk::{Manner, Sender, build};
use super::{Task, read_sdk};
use crate::check::history::{Happened, Keeps};

/// Names that are used in turn.
const NAMES: u32 = 4;
const AWAY: Duration = Duration::from_millis(100);
const MANNER: Manner = Manner { batches: false, delivery_timeout: Duration::from_secs(60) };
const PACE: Pace = Pace { rate: 200.0, max_bytes: 4 << 10 };

pub(super) async fn run(mut task: Task) -> Result<()> {
    let mut there: Vec<Option<Place>> = (0..NAMES).map(|_| None).collect();
    let mut turn = 0;
    while !*task.stop.borrow() {
        let client = task.target.client()?;
        let name = format!("side-{turn}");
        let Some(slot) = there.get_mut(turn) else { break };
        if let Some(old) = slot.take() {
            read(&mut task, &client, &old).await?;
            delete(&mut task, &client, &old).await;
        }
        if let Some(mut made) = create(&mut task, &client, &name).await? {
            let sender = Sender { producer: build(&client, MANNER)?, place: &made, pace: PACE };
            let messages = task.random.usize(1..100);
            sender.send_singly(&mut task, messages).await;
            grow(&mut task, &client, &mut made).await;
            *slot = Some(made);
        }
        turn = (turn + 1) % there.len();
        client.close().await;
        let pause = Duration::from_secs_f64(task.random.f64());
        sleep(pause).await;
    }
    Ok(())
}

/// Whether a topic is there, from a broker that serves.
async fn is_there(task: &Task, client: &Client, name: &str) -> Option<u32> {
    loop {
        match client.admin().describe_topic(name).await {
            Ok(found) => return Some(u32::try_from(found.partitions.len()).unwrap_or(u32::MAX)),
            Err(Error::UnknownTopic { .. }) => return None,
            Err(error) if error.is_retryable() => sleep(AWAY).await,
            Err(error) => task.recorder.problem(format!("{name} cannot be described: {error}")),
        }
    }
}

async fn create(task: &mut Task, client: &Client, name: &str) -> Result<Option<Place>> {
    let partitions = task.random.u32(1..5);
    let topic = task.recorder.topic(name, Keeps::All);
    let made = Place { topic, name: TopicName::new(name)?, partitions, keys: None, bounded: false };
    loop {
        match client.admin().create_topic(name, partitions, TopicConfig::default()).await {
            Ok(_) => break,
            // One that broke off may have been done: the name was free before.
            Err(error) if error.status() == Some(Status::TopicExists) => break,
            Err(error) if error.is_retryable() => {}
            Err(error) => {
                task.recorder.problem(format!("{name} cannot be created: {error}"));
                return Ok(None);
            }
        }
        if is_there(task, client, name).await.is_some() {
            break;
        }
        if *task.stop.borrow() {
            return Ok(None);
        }
    }
    task.recorder.note(Happened::Created { topic });
    Ok(Some(made))
}

async fn grow(task: &mut Task, client: &Client, place: &mut Place) {
    let partitions = place.partitions + task.random.u32(0..3);
    match client.admin().add_partitions(place.name.as_str(), partitions).await {
        Ok(now) => place.partitions = now,
        Err(error) if error.is_retryable() => {}
        Err(error) => task.recorder.problem(format!("{} cannot be grown: {error}", place.name.as_str())),
    }
}

async fn delete(task: &mut Task, client: &Client, place: &Place) {
    let (topic, name) = (place.topic, place.name.as_str());
    task.recorder.note(Happened::Deletes { topic });
    loop {
        match client.admin().delete_topic(name).await {
            Ok(()) | Err(Error::UnknownTopic { .. }) => break,
            Err(error) if error.is_retryable() => sleep(AWAY).await,
            Err(error) => {
                task.recorder.problem(format!("{name} cannot be deleted: {error}"));
                return;
            }
        }
    }
    task.recorder.note(Happened::Deleted { topic });
    let begun = task.recorder.now();
    let there = is_there(task, client, name).await.is_some();
    task.recorder.note(Happened::Listed { topic, there, begun });
}

/// Reads all that the topic holds.
async fn read(task: &mut Task, client: &Client, place: &Place) -> Result<()> {
    let begun = task.recorder.now();
    let there = is_there(task, client, place.name.as_str()).await.is_some();
    task.recorder.note(Happened::Listed { topic: place.topic, there, begun });
    if !there {
        return Ok(());
    }
    let reader = task.recorder.reader(format!("a reader of {}", place.name.as_str()), None);
    let mut consumer = client.consumer().build()?;
    let mut begins = consumer.assign_topic(place.name.as_str(), Start::Earliest).await;
    if begins.is_ok() {
        begins = consumer.stop_at_present_end().await;
    }
    while begins.is_ok() {
        match consumer.recv_batch(256).await {
            Ok(batch) if batch.is_empty() => break,
            Ok(batch) => batch.iter().for_each(|record| read_sdk::note(&task.recorder, reader, None, place, record)),
            Err(error) => begins = Err(error),
        }
    }
    if let Err(error) = begins
        && !error.is_retryable()
    {
        task.recorder.problem(format!("{} cannot be read: {error}", place.name.as_str()));
    }
    Ok(())
}
