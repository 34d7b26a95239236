//! Consumers of the SDK that read a whole topic, each record once, however often the broker is away.

use anyhow::Result;
use hermit_client::{Error, OnLostPosition, Record, Start};
use tokio::time::{Duration, sleep};

use super::Task;
use super::place::Place;
use super::recorder::Recorder;
use crate::check::history::Happened;

/// Records that are taken at a time.
const BATCH: usize = 256;
const AWAY: Duration = Duration::from_millis(50);

pub(super) async fn run(mut context: Task, place: Place, name: String) -> Result<()> {
    let reader = context.recorder.reader(name.clone(), None);
    let client = context.target.client()?;
    // What retention took while the reader was held up is not there any more: that is no fault.
    let lost = if place.bounded { OnLostPosition::Earliest } else { OnLostPosition::Fail };
    let mut consumer = client.consumer().on_lost_position(lost).build()?;
    while let Err(error) = consumer.assign_topic(place.name.as_str(), Start::Earliest).await {
        if !error.is_retryable() {
            context.recorder.problem(format!("{name}: {error}"));
        }
        sleep(AWAY).await;
    }
    for partition in place.partitions() {
        let part = place.part(partition);
        context.recorder.expect(Some(reader), None, part);
        if !place.bounded {
            context.recorder.note(Happened::Begins { reader, part, offset: 0 });
        }
    }
    loop {
        let batch = tokio::select! {
            _ = context.stop.wait_for(|stop| *stop) => return Ok(()),
            batch = consumer.recv_batch(BATCH) => batch,
        };
        match batch {
            Ok(batch) => batch.iter().for_each(|record| note(&context.recorder, reader, None, &place, record)),
            Err(Error::Timeout { .. }) => {}
            Err(error) => {
                context.recorder.problem(format!("{name}: {error}"));
                sleep(AWAY).await;
            }
        }
    }
}

pub(super) fn note(recorder: &Recorder, reader: u16, group: Option<u16>, place: &Place, record: &Record) {
    let payload = record.value.as_deref().unwrap_or_default();
    recorder.read(reader, group, place.part(record.partition), record.offset.0, record.span(), payload);
}
