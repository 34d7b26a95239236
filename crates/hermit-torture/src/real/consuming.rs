//! The consumer's side.

use anyhow::{Context, Result};
use hermit_client::{Client, Consumer, Error, Otherwise, Record, Start};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::{GROUP, Plan, TOPIC};
use crate::check::{ConsumerCheck, Found, LogCheck};

/// Records that are taken at a time where nothing is committed.
const BATCH: usize = 4096;
const COMMITTED: Start = Start::Committed { or: Otherwise::Earliest };

/// A consumer that follows the stream and commits what it has processed, as a process of its own would.
#[derive(Debug)]
pub(super) struct Follower {
    task: JoinHandle<Result<ConsumerCheck>>,
    orders: watch::Sender<Order>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Follow,
    /// Reads up to the present end, and commits.
    Finish,
    /// Drops everything, at once.
    Abandon,
}

impl Follower {
    /// Begins at what the group has committed. The check knows what consumers before it have done.
    pub(super) async fn start(client: Client, plan: &Plan, mut check: ConsumerCheck) -> Result<Self> {
        let consumer = begin(&client, &mut check).await?;
        let (orders, received) = watch::channel(Order::Follow);
        let task = tokio::spawn(follow(consumer, check, plan.commit_every, received));
        Ok(Self { task, orders })
    }

    /// Ends it as a SIGKILL would: what it was about to commit may be committed or not.
    pub(super) async fn abandon(self) -> Result<ConsumerCheck> {
        self.orders.send_replace(Order::Abandon);
        self.task.await?
    }

    /// Lets it read and commit all that is there now.
    pub(super) async fn finish(self) -> Result<ConsumerCheck> {
        self.orders.send_replace(Order::Finish);
        self.task.await?
    }
}

/// A consumer of the whole topic, from what the group has committed.
async fn begin(client: &Client, check: &mut ConsumerCheck) -> Result<Consumer> {
    let mut consumer = client.consumer().group(GROUP).build()?;
    consumer.assign_topic(TOPIC, COMMITTED).await?;
    let partitions: Vec<_> = consumer.assignment().map(|(_topic, partition)| partition).collect();
    for partition in partitions {
        let committed = consumer.committed(TOPIC, partition).await?;
        check.started(partition.0, committed.map(|committed| committed.offset.0));
    }
    Ok(consumer)
}

async fn follow(
    mut consumer: Consumer,
    mut check: ConsumerCheck,
    commit_every: usize,
    mut orders: watch::Receiver<Order>,
) -> Result<ConsumerCheck> {
    // A receiver of its own: waiting for one order would mark another as seen.
    let mut abandoned = orders.clone();
    loop {
        let batch = tokio::select! {
            // An order comes first, or a broker that is gone would be asked on.
            biased;
            changed = orders.changed() => {
                changed.context("the run has ended")?;
                let order = *orders.borrow_and_update();
                match order {
                    Order::Follow => {}
                    Order::Abandon => return Ok(check),
                    Order::Finish => consumer.stop_at_present_end().await?,
                }
                continue;
            }
            batch = consumer.recv_batch(commit_every) => batch,
        };
        match batch {
            Ok(batch) if batch.is_empty() => return Ok(check),
            Ok(batch) => batch.into_iter().for_each(|record| check.read(found(record))),
            // The broker is away for longer than the client likes to wait.
            Err(Error::Timeout { .. }) => continue,
            Err(error) => return Err(error).context("the consumer failed"),
        }
        tokio::select! {
            biased;
            _ = abandoned.wait_for(|order| *order == Order::Abandon) => return Ok(check),
            committed = commit(&consumer, &mut check) => committed?,
        }
    }
}

/// Commits all that was handed out: all of it is processed.
async fn commit(consumer: &Consumer, check: &mut ConsumerCheck) -> Result<()> {
    let positions = consumer.positions();
    for position in &positions {
        check.committing(position.partition.0, position.offset.0);
    }
    match consumer.commit_positions(&positions).await {
        Ok(()) => {
            for position in &positions {
                check.committed(position.partition.0, position.offset.0);
            }
            Ok(())
        }
        // What is not answered is committed with the next batch.
        Err(error) if error.is_retryable() => Ok(()),
        Err(error) => Err(error).context("a commit failed"),
    }
}

/// A consumer of the group begins once more, when all is committed: it is to read nothing.
pub(super) async fn resume(client: &Client, check: &mut ConsumerCheck) -> Result<()> {
    let mut consumer = begin(client, check).await?;
    consumer.stop_at_present_end().await?;
    while let Some(record) = consumer.recv().await? {
        check.read(found(record));
    }
    Ok(())
}

/// Reads the whole log, from its start to its present end.
pub(crate) async fn read_log(client: &Client, log: &mut LogCheck<'_>) -> Result<()> {
    let mut consumer = client.consumer().build()?;
    consumer.assign_topic(TOPIC, Start::Earliest).await?;
    consumer.stop_at_present_end().await?;
    loop {
        let batch = consumer.recv_batch(BATCH).await?;
        if batch.is_empty() {
            return Ok(());
        }
        batch.into_iter().for_each(|record| log.read(found(record)));
    }
}

fn found(record: Record) -> Found {
    let (key, text) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
    Found { partition: record.partition.0, offset: record.offset.0, key, text }
}
