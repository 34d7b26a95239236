//! Looking at the group from outside, as an operator would.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_client::{Client, GroupPartition, GroupState, Status};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::journal::now;
use super::{GROUP, TOPIC};
use crate::check::{Event, Journal};

/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Somebody who looks at the group all the time, and notes what is committed and by whom.
#[derive(Debug)]
pub(super) struct Onlooker {
    task: JoinHandle<Journal>,
    stop: watch::Sender<bool>,
}

impl Onlooker {
    pub(super) fn start(client: Client) -> Self {
        let (stop, mut stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let (admin, mut seen) = (client.admin(), Seen::default());
            loop {
                tokio::select! {
                    _ = stopped.wait_for(|stop| *stop) => return seen.journal,
                    described = admin.describe_group(GROUP) => {
                        // A broker that is away, or a group that nobody has joined yet, shows nothing.
                        if let Ok(group) = described {
                            // The answer is older than this; a later time only makes the check milder.
                            let at = now();
                            group.partitions.iter().for_each(|partition| seen.note(at, partition));
                        }
                    }
                }
                sleep(PAUSE).await;
            }
        });
        Self { task, stop }
    }

    /// Ends it; gives what it noted.
    pub(super) async fn stop(self) -> Result<Journal> {
        self.stop.send_replace(true);
        Ok(self.task.await?)
    }
}

/// What was noted so far.
#[derive(Debug, Default)]
struct Seen {
    journal: Journal,
    newest: BTreeMap<u32, u64>,
}

impl Seen {
    fn note(&mut self, at: u64, partition: &GroupPartition) {
        let Some(offset) = partition.committed else { return };
        let newest = self.newest.entry(partition.partition.0).or_default();
        // Where nobody owns it, the position was made by an owner up to now: it binds those that come.
        let generation = if partition.owner.is_some() { partition.generation.0 } else { *newest + 1 };
        *newest = partition.generation.0.max(*newest);
        self.journal.0.push((at, Event::Committed { partition: partition.partition.0, offset: offset.0, generation }));
    }
}

/// Waits until the group has committed all that there is.
pub(super) async fn until_done(client: &Client, partitions: u32) -> Result<()> {
    let begun = Instant::now();
    loop {
        match client.admin().describe_group(GROUP).await {
            Ok(group) => {
                let all = group.partitions.len() == usize::try_from(partitions)?;
                if all && group.partitions.iter().all(|partition| partition.lag == 0 && partition.committed.is_some()) {
                    return Ok(());
                }
            }
            Err(error) if error.is_retryable() || error.status() == Some(Status::UnknownGroup) => {}
            Err(error) => return Err(error).context("the group cannot be described"),
        }
        ensure!(begun.elapsed() < super::STALLED, "the group does not come to its end");
        sleep(PAUSE).await;
    }
}

/// The positions of the group that all members have left. They are the ends of all partitions.
pub(super) async fn final_positions(client: &Client) -> Result<BTreeMap<u32, u64>> {
    let group = client.admin().describe_group(GROUP).await.context("the group cannot be described")?;
    ensure!(group.state == GroupState::Empty && group.members.is_empty(), "members are left: {:?}", group.members);
    let mut positions = BTreeMap::new();
    for partition in group.partitions.iter().filter(|partition| partition.name == TOPIC) {
        let number = partition.partition.0;
        let committed = partition.committed.with_context(|| format!("partition {number} has no position"))?;
        ensure!(committed == partition.high_watermark, "partition {number}: {committed} of {}", partition.high_watermark);
        positions.insert(number, committed.0);
    }
    Ok(positions)
}
