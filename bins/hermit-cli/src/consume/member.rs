//! Reading as a member of a group, which divides the partitions among such processes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use hermit_client::{
    Admin, Client, Consumer, ConsumerBuilder, Offset, Otherwise, PartitionId, Position, RebalanceListener, Record, Revoked,
    TopicPartition,
};

use crate::args::{ConsumeArgs, Until};
use crate::place::Place;

/// How far the partitions were printed since the last commit.
#[derive(Clone, Debug, Default)]
pub(super) struct Printed(Arc<Mutex<BTreeMap<PartitionId, Position>>>);

impl Printed {
    fn positions(&self) -> MutexGuard<'_, BTreeMap<PartitionId, Position>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, record: &Record) {
        self.positions().insert(record.partition, Position::from(record));
    }

    pub(super) fn take(&self) -> Vec<Position> {
        std::mem::take(&mut *self.positions()).into_values().collect()
    }
}

/// Commits what was printed before another member gets the partition, and no more.
impl RebalanceListener for Printed {
    fn on_revoked(&mut self, revoked: &mut Revoked) {
        let mut printed = self.positions();
        let positions: Vec<_> = revoked.positions().iter().filter_map(|position| printed.remove(&position.partition)).collect();
        positions.into_iter().for_each(|position| revoked.commit(position));
    }

    fn on_lost(&mut self, lost: &[TopicPartition]) {
        let mut printed = self.positions();
        for partition in lost {
            printed.remove(&partition.partition);
        }
    }
}

/// Joins the group.
pub(super) async fn join(builder: ConsumerBuilder, args: &ConsumeArgs, printed: Printed) -> Result<Consumer> {
    let start = if args.from == Some(Place::Latest) { Otherwise::Latest } else { Otherwise::Earliest };
    let mut consumer = builder.uncommitted_start(start).build()?;
    consumer.set_rebalance_listener(printed);
    consumer.subscribe(args.topic.as_str()).await?;
    Ok(consumer)
}

/// How far a group is to come. Every member ends when the group has, whoever had which partition.
#[derive(Debug)]
pub(super) struct Goal {
    admin: Admin,
    group: String,
    topic: String,
    /// Of the partitions that held something.
    ends: BTreeMap<PartitionId, Offset>,
}

impl Goal {
    /// Where the partitions end now; `None` where the reading does not end.
    pub(super) async fn set(client: &Client, args: &ConsumeArgs, group: &str) -> Result<Option<Self>> {
        let place = match args.until {
            None => return Ok(None),
            Some(Until::End) => Place::Latest,
            Some(Until::Time(time)) => Place::Time(time),
        };
        let admin = client.admin();
        let mut ends = BTreeMap::new();
        for partition in admin.describe_topic(&args.topic).await?.partitions {
            let (end, held) = place.resolve(&admin, &args.topic, partition.partition).await?;
            if end > held.log_start {
                ends.insert(partition.partition, end);
            }
        }
        Ok(Some(Self { admin, group: group.to_owned(), topic: args.topic.clone(), ends }))
    }

    /// Whether the record lies before the end.
    pub(super) fn takes(&self, record: &Record) -> bool {
        self.ends.get(&record.partition).is_some_and(|end| record.offset < *end)
    }

    pub(super) async fn is_reached(&self, consumer: &Consumer) -> Result<bool> {
        let own: BTreeMap<_, _> = consumer.positions().into_iter().map(|position| (position.partition, position.offset)).collect();
        // What this process can tell without asking comes first.
        if self.ends.iter().any(|(partition, end)| own.get(partition).is_some_and(|position| position < end)) {
            return Ok(false);
        }
        for (partition, end) in self.ends.iter().filter(|(partition, _)| !own.contains_key(partition)) {
            let committed = self.admin.committed(&self.group, &self.topic, *partition).await?;
            if committed.is_none_or(|committed| committed.offset < *end) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
