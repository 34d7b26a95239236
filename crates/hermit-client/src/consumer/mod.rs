//! Reading records.

mod assignment;
mod chunk;
mod commit;
mod config;
mod follow;
mod record;
mod stream;

use std::collections::VecDeque;
use std::sync::Arc;

use hermit_proto::session::OffsetQuery;
use hermit_proto::{CorrelationId, FrameSalt, LeaderEpoch, Offset, PartitionId, TopicId};
use tokio::sync::watch;
use tokio::time::Instant;

pub use config::{ConsumerBuilder, OnDamage, OnLostPosition, Otherwise, Start};
pub use record::{Position, Record};

use self::assignment::{Assignment, Policies, not_assigned};
use self::chunk::{Chunk, Source};
use self::stream::Waiting;
use crate::admin::{Admin, Committed};
use crate::backoff::Backoff;
use crate::conn::{Inbox, Link, LinkState, Session, SlotId};
use crate::error::{Error, Result};

/// Reads assigned partitions.
///
/// It checks what it hands out against the producer's and the broker's checksums. When the connection breaks it goes on
/// exactly behind the last record that it handed out. Nothing is committed but what the application commits.
///
/// Errors of one partition leave the others alone: what [`Consumer::recv`] returns as an error concerns the partition that the
/// error names, and `recv` can be called again.
///
/// ```no_run
/// use hermit_client::{Client, Otherwise, Start};
///
/// # async fn example() -> hermit_client::Result<()> {
/// let client = Client::connect("127.0.0.1:9092").await?;
/// let mut consumer = client.consumer().group("billing").build()?;
/// consumer.assign_topic("flights", Start::Committed { or: Otherwise::Earliest }).await?;
/// while let Some(record) = consumer.recv().await? {
///     println!("{} {:?}", record.offset, record.value);
///     consumer.commit_through(&record).await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Consumer {
    link: Link,
    link_state: watch::Receiver<LinkState>,
    admin: Admin,
    settings: ConsumerBuilder,
    assignments: Vec<Assignment>,
    inbox: Arc<Inbox>,
    session: Option<Session>,
    /// Since when there is no session, or since when that was last reported.
    down_since: Option<Instant>,
    /// What came and is not decoded, in the order of arrival.
    waiting: VecDeque<Waiting>,
    /// Decoded, all of one partition.
    records: VecDeque<Record>,
    /// Where `records` came from.
    current: Option<Current>,
    /// What came up behind the records of a batch.
    deferred: Option<Error>,
}

#[derive(Debug)]
struct Current {
    slot: SlotId,
    subscription: CorrelationId,
    chunk: Chunk,
}

impl Consumer {
    fn new(settings: ConsumerBuilder) -> Self {
        let link = settings.link.clone();
        Self {
            link_state: link.watch(),
            admin: Admin::new(link.clone()),
            link,
            settings,
            assignments: Vec::new(),
            inbox: Arc::default(),
            session: None,
            down_since: None,
            waiting: VecDeque::new(),
            records: VecDeque::new(),
            current: None,
            deferred: None,
        }
    }

    /// Adds a partition, to be read from `start`. One that is assigned already begins anew.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::UnknownTopic`] — the topic is not created —, [`Error::UnknownPartition`], [`Error::NoGroup`] for
    /// [`Start::Committed`], [`Error::Refused`], connection errors.
    pub async fn assign(&mut self, topic: &str, partition: impl Into<PartitionId>, start: Start) -> Result<()> {
        let found = self.admin.partition(topic, partition.into()).await?;
        self.add(topic, found.topic, found.partition, start).await
    }

    /// Adds all partitions that the topic has now.
    ///
    /// # Errors
    /// As [`Consumer::assign`].
    pub async fn assign_topic(&mut self, topic: &str, start: Start) -> Result<()> {
        let found = self.admin.describe_topic(topic).await?;
        for partition in &found.partitions {
            self.add(topic, found.topic, partition.partition, start).await?;
        }
        Ok(())
    }

    async fn add(&mut self, topic: &str, id: TopicId, partition: PartitionId, start: Start) -> Result<()> {
        let (position, epoch) = self.find_start(id, partition, start).await?;
        let source = Source {
            topic: topic.into(),
            partition,
            salt: FrameSalt::new(id, partition),
            max_unpacked_bytes: self.settings.max_unpacked_bytes,
        };
        let policies = Policies { on_damage: self.settings.on_damage, on_lost_position: self.settings.on_lost_position };
        let backoff = Backoff::new(self.link.config().backoff);
        let assignment = Assignment::new(id, source, position, epoch, policies, backoff);
        match self.slot_of(topic, partition) {
            Ok(slot) => {
                self.unsubscribe(slot);
                if let Some(before) = self.assignments.get_mut(slot.0) {
                    *before = assignment;
                }
            }
            Err(_new) => self.assignments.push(assignment),
        }
        Ok(())
    }

    async fn find_start(&self, topic: TopicId, partition: PartitionId, start: Start) -> Result<(Offset, LeaderEpoch)> {
        let query = match start {
            Start::Offset(offset) => return Ok((offset, LeaderEpoch::UNKNOWN)),
            Start::Earliest => OffsetQuery::Earliest,
            Start::Latest => OffsetQuery::Latest,
            Start::Committed { or } => {
                let group = self.settings.group.as_deref().ok_or(Error::NoGroup)?;
                if let Some(Committed { offset, leader_epoch }) = self.admin.committed_by_id(group, topic, partition).await? {
                    return Ok((offset, leader_epoch));
                }
                match or {
                    Otherwise::Earliest => OffsetQuery::Earliest,
                    Otherwise::Latest => OffsetQuery::Latest,
                }
            }
        };
        let found = self.admin.list_offsets_by_id(topic, partition, query).await?;
        Ok((found.offset, LeaderEpoch::UNKNOWN))
    }

    /// Gives up a partition.
    ///
    /// # Errors
    /// [`Error::NotAssigned`].
    pub fn unassign(&mut self, topic: &str, partition: impl Into<PartitionId>) -> Result<()> {
        let slot = self.slot_of(topic, partition.into())?;
        // Slots are numbered by place, so all that is under way is asked for again.
        for other in 0..self.assignments.len() {
            self.unsubscribe(SlotId(other));
        }
        self.assignments.remove(slot.0);
        Ok(())
    }

    /// The assigned partitions.
    pub fn assignment(&self) -> impl Iterator<Item = (&str, PartitionId)> {
        self.assignments.iter().map(|assignment| (&*assignment.source.topic, assignment.source.partition))
    }

    /// Where a partition is: behind the last record handed out, or behind a gap that follows it.
    ///
    /// # Errors
    /// [`Error::NotAssigned`].
    pub fn position(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Position> {
        let slot = self.slot_of(topic, partition.into())?;
        self.assignments.get(slot.0).map(Assignment::place).ok_or_else(|| not_assigned(topic, PartitionId(0)))
    }

    /// Where all partitions are.
    #[must_use]
    pub fn positions(&self) -> Vec<Position> {
        self.assignments.iter().map(Assignment::place).collect()
    }

    /// Goes on at another offset; also begins again after an error stopped the partition.
    ///
    /// # Errors
    /// [`Error::NotAssigned`]. An offset that is not there is reported by [`Consumer::recv`].
    pub fn seek(&mut self, topic: &str, partition: impl Into<PartitionId>, offset: impl Into<Offset>) -> Result<()> {
        let slot = self.slot_of(topic, partition.into())?;
        self.unsubscribe(slot);
        if let Some(assignment) = self.assignments.get_mut(slot.0) {
            assignment.seek(offset.into(), LeaderEpoch::UNKNOWN);
        }
        Ok(())
    }

    /// Hands out no record at or behind `end` of this partition. When all partitions have reached their ends, [`Consumer::recv`]
    /// returns `None`.
    ///
    /// # Errors
    /// [`Error::NotAssigned`].
    pub fn stop_at(&mut self, topic: &str, partition: impl Into<PartitionId>, end: impl Into<Offset>) -> Result<()> {
        let slot = self.slot_of(topic, partition.into())?;
        self.set_end(slot, end.into());
        Ok(())
    }

    fn set_end(&mut self, slot: SlotId, end: Offset) {
        let Some(assignment) = self.assignments.get_mut(slot.0) else { return };
        let subscription = assignment.subscription();
        assignment.stop_at(end);
        if assignment.is_over()
            && let Some(subscription) = subscription
        {
            self.end_subscription(subscription);
        }
    }

    /// Sets [`Consumer::stop_at`] of every assigned partition to its present end.
    ///
    /// # Errors
    /// [`Error::Refused`]; connection errors.
    pub async fn stop_at_present_end(&mut self) -> Result<()> {
        let partitions: Vec<_> = self.assignments.iter().map(|found| (found.topic_id, found.source.partition)).collect();
        for (slot, (topic, partition)) in partitions.into_iter().enumerate() {
            let found = self.admin.list_offsets_by_id(topic, partition, OffsetQuery::Latest).await?;
            self.set_end(SlotId(slot), found.high_watermark);
        }
        Ok(())
    }

    /// How many offsets lie between the position and the end that the broker last told of; `None` before it told of any.
    ///
    /// # Errors
    /// [`Error::NotAssigned`].
    pub fn lag(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Option<u64>> {
        let slot = self.slot_of(topic, partition.into())?;
        let assignment = self.assignments.get(slot.0);
        Ok(assignment.and_then(|found| found.high_watermark.map(|end| end.0.saturating_sub(found.position().0))))
    }

    fn slot_of(&self, topic: &str, partition: PartitionId) -> Result<SlotId> {
        let found = self.assignments.iter().position(|assignment| assignment.is(topic, partition));
        found.map(SlotId).ok_or_else(|| not_assigned(topic, partition))
    }
}
