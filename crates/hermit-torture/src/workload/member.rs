//! Members of a consumer group: they come and go, some without a word, and commit what they have read.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hermit_client::{Assigned, Consumer, Error, Position, RebalanceListener};
use tokio::time::{Instant, sleep, sleep_until};

use super::place::Place;
use super::recorder::Recorder;
use super::{Task, read_sdk};
use crate::check::history::Happened;

/// Records that are taken at a time.
const BATCH: usize = 64;
/// Before one that could not come tries again.
const AWAY: Duration = Duration::from_millis(50);

/// A group, for its members.
#[derive(Debug, Clone)]
pub(super) struct Membership {
    pub(super) group: u16,
    pub(super) name: String,
    pub(super) session_timeout: Duration,
}

struct Listener {
    recorder: Recorder,
    place: Place,
    group: u16,
    reader: u16,
}

impl RebalanceListener for Listener {
    fn on_assigned(&mut self, assigned: &mut Assigned) {
        let (group, reader) = (self.group, self.reader);
        for position in assigned.positions() {
            let (part, offset) = (self.place.part(position.partition), position.offset.0);
            let begun = self.recorder.now();
            self.recorder.expect(None, Some(group), part);
            self.recorder.note(Happened::Resumes { group, part, offset, begun });
            self.recorder.note(Happened::Begins { reader, part, offset });
        }
    }
}

/// One place in the group: somebody is in it, or soon will be.
pub(super) async fn run(mut task: Task, place: Place, membership: Membership) -> Result<()> {
    place.partitions().for_each(|partition| task.recorder.expect(None, Some(membership.group), place.part(partition)));
    while !*task.stop.borrow() {
        let until = Instant::now() + Duration::from_secs_f64(3.0 + 27.0 * task.random.f64());
        let client = task.target.client()?;
        let reader = task.recorder.reader(format!("a member of {}", membership.name), Some(membership.group));
        let builder = client.consumer().group(&membership.name).session_timeout(membership.session_timeout);
        let mut consumer = builder.build()?;
        let (recorder, group) = (task.recorder.clone(), membership.group);
        consumer.set_rebalance_listener(Listener { recorder, place: place.clone(), group, reader });
        match consumer.subscribe(place.name.as_str()).await {
            Ok(()) | Err(Error::Timeout { .. }) => {}
            Err(error) => {
                task.recorder.problem(format!("{} cannot be joined: {error}", membership.name));
                sleep(AWAY).await;
                continue;
            }
        }
        follow(&mut task, &mut consumer, &place, (&membership, reader), until).await;
        // Every other one vanishes, and its session has to end.
        if *task.stop.borrow() || task.random.bool() {
            match consumer.close().await {
                Ok(()) => {}
                Err(error) if error.is_retryable() => {}
                Err(error) => tracing::info!(%error, "a member did not leave well"),
            }
            client.close().await;
        }
    }
    Ok(())
}

async fn follow(task: &mut Task, consumer: &mut Consumer, place: &Place, (of, reader): (&Membership, u16), until: Instant) {
    let mut stop = task.stop.clone();
    loop {
        let batch = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = sleep_until(until) => return,
            batch = consumer.recv_batch(BATCH) => batch,
        };
        match batch {
            Ok(batch) => {
                let mut positions = BTreeMap::new();
                for record in &batch {
                    read_sdk::note(&task.recorder, reader, Some(of.group), place, record);
                    positions.insert(record.partition, Position::from(record));
                }
                commit(task, consumer, place, of.group, positions.into_values().collect()).await;
            }
            // It begins again with the next call.
            Err(Error::Timeout { .. } | Error::Fenced { .. } | Error::ProcessingTimeout { .. }) => {}
            Err(error) => {
                task.recorder.problem(format!("a member of {}: {error}", of.name));
                sleep(AWAY).await;
            }
        }
    }
}

async fn commit(task: &Task, consumer: &Consumer, place: &Place, group: u16, positions: Vec<Position>) {
    let begun = task.recorder.now();
    for position in &positions {
        task.recorder.note(Happened::Commits { group, part: place.part(position.partition), offset: position.offset.0 });
    }
    match consumer.commit_positions(&positions).await {
        Ok(()) => {
            for position in &positions {
                let part = place.part(position.partition);
                task.recorder.note(Happened::Committed { group, part, offset: position.offset.0, begun });
            }
        }
        Err(Error::Fenced { .. }) => {}
        Err(error) if error.is_retryable() => {}
        Err(error) => task.recorder.problem(format!("a commit failed: {error}")),
    }
}
