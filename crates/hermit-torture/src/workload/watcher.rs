//! Somebody who looks at everything from outside, and notes what he is told: ends of partitions, committed positions, topics.

use std::time::Duration;

use anyhow::Result;
use hermit_client::Error;
use tokio::time::sleep;

use super::Task;
use super::topics::Places;
use crate::check::history::Happened;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn run(mut task: Task, places: Places) -> Result<()> {
    let client = task.target.client()?;
    let mut stop = task.stop.clone();
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
            () = look(&mut task, &client, &places) => {}
        }
        sleep(PAUSE).await;
    }
}

async fn look(task: &mut Task, client: &hermit_client::Client, places: &Places) {
    let Some(place) = task.random.choice(&places.all) else { return };
    let begun = task.recorder.now();
    match client.admin().describe_topic(place.name.as_str()).await {
        Ok(found) => {
            for partition in found.partitions {
                let (part, start, end) = (place.part(partition.partition), partition.log_start.0, partition.high_watermark.0);
                task.recorder.note(Happened::Ends { part, start, end, begun });
                if !partition.status.is_ok() {
                    task.recorder.problem(format!("{part:?} suffers from {}", partition.status));
                }
            }
        }
        Err(Error::UnknownTopic { .. }) => {
            task.recorder.note(Happened::Listed { topic: place.topic, there: false, begun });
        }
        Err(error) if error.is_retryable() => {}
        Err(error) => task.recorder.problem(format!("{} cannot be described: {error}", place.name.as_str())),
    }
    let Some((group, name, place)) = task.random.choice(&places.groups) else { return };
    for partition in place.partitions() {
        let begun = task.recorder.now();
        match client.admin().committed(name, place.name.as_str(), partition).await {
            Ok(committed) => {
                let (part, offset) = (place.part(partition), committed.map(|committed| committed.offset.0));
                task.recorder.note(Happened::Fetched { group: *group, part, offset, begun });
            }
            Err(error) if error.is_retryable() => {}
            Err(error) => task.recorder.problem(format!("the position of {name} cannot be told: {error}")),
        }
    }
}
