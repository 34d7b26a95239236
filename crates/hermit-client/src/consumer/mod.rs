//! Reading records.

mod assignment;
mod chunk;
mod commit;
mod config;
mod follow;
mod group;
mod listener;
mod parallel;
mod rebalance;
mod record;
mod records;
mod seek;
mod stream;
mod stream_adapter;
mod subscription;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hermit_proto::session::OffsetQuery;
use hermit_proto::{CorrelationId, FrameSalt, LeaderEpoch, Offset, PartitionId, TopicId};
use tokio::sync::watch;
use tokio::time::Instant;

pub use commit::{Acker, CommitHandle};
pub use config::{AutoCommit, ConsumerBuilder, OnDamage, OnLostPosition, Otherwise, Start};
pub use listener::{Assigned, RebalanceListener, Revoked, TopicPartition};
pub use parallel::{HandlerError, Parallel};
pub use record::{Position, Record};
pub use records::{RecordHeaders, RecordRef, Records, RecordsIter};
pub use stream_adapter::RecordStream;
pub use subscription::Subscription;

use self::assignment::{Assignment, Policies, not_assigned};
use self::chunk::{Chunk, Source};
use self::group::{Key, Shared, State as GroupState};
use self::listener::Listener;
use self::rebalance::Leaving;
use self::stream::Waiting;
use crate::admin::{Admin, Committed};
use crate::backoff::Backoff;
use crate::conn::{Inbox, Link, LinkState, Session, SlotId};
use crate::error::{Error, Result};

/// Reads assigned partitions.
///
/// It checks what it hands out against the producer's and the broker's checksums. When the connection breaks it goes on
/// exactly behind the last record that it handed out. Nothing is committed but what the application commits, or has committed after
/// processing ([`AutoCommit`]).
///
/// Partitions are assigned by hand ([`Consumer::assign`]), or by the group that the consumer is a member of ([`Consumer::subscribe`]).
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
    assignments: BTreeMap<SlotId, Assignment>,
    next_slot: SlotId,
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
    /// Membership, and what was processed and committed; without a group there is none.
    group: Option<Arc<Shared>>,
    /// Whether it matters what was handed out.
    tracks: bool,
    subscribed: bool,
    /// [`GroupState::changes`] that were followed.
    seen_changes: u64,
    listener: Option<Listener>,
    /// Partitions that the listener is told of once the application is done with them.
    leaving: Vec<Leaving>,
    /// Partitions that are not read any more, for whoever asks next.
    gone: Vec<Key>,
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
        let inbox = Arc::new(Inbox::default());
        let group = settings.group.as_deref().map(|group| {
            let state = GroupState::new(group.into(), settings.group_config);
            Arc::new(Shared::new(state, inbox.clone()))
        });
        Self {
            link_state: link.watch(),
            admin: Admin::new(link.clone()),
            link,
            assignments: BTreeMap::new(),
            next_slot: SlotId(0),
            inbox,
            tracks: settings.group_config.auto_commit != AutoCommit::Off,
            group,
            subscribed: false,
            seen_changes: 0,
            listener: None,
            leaving: Vec::new(),
            gone: Vec::new(),
            session: None,
            down_since: None,
            waiting: VecDeque::new(),
            records: VecDeque::new(),
            current: None,
            deferred: None,
            settings,
        }
    }

    /// Adds a partition, to be read from `start`. One that is assigned already begins anew.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::UnknownTopic`] — the topic is not created —, [`Error::UnknownPartition`], [`Error::NoGroup`] for
    /// [`Start::Committed`], [`Error::Refused`], connection errors.
    pub async fn assign(&mut self, topic: &str, partition: impl Into<PartitionId>, start: Start) -> Result<()> {
        self.check_assigns()?;
        let found = self.admin.partition(topic, partition.into()).await?;
        self.add(topic, found.topic, found.partition, start).await
    }

    /// Adds all partitions that the topic has now. Those that are added to it later are not: a member of a group
    /// ([`Consumer::subscribe`]) gets them by itself.
    ///
    /// # Errors
    /// As [`Consumer::assign`].
    pub async fn assign_topic(&mut self, topic: &str, start: Start) -> Result<()> {
        self.check_assigns()?;
        let found = self.admin.describe_topic(topic).await?;
        for partition in &found.partitions {
            self.add(topic, found.topic, partition.partition, start).await?;
        }
        Ok(())
    }

    fn check_assigns(&self) -> Result<()> {
        if self.subscribed {
            let problem = "the consumer is a member of its group, which assigns its partitions; use another consumer".to_owned();
            return Err(Error::Config { setting: "assignment", problem });
        }
        Ok(())
    }

    async fn add(&mut self, topic: &str, id: TopicId, partition: PartitionId, start: Start) -> Result<()> {
        let (position, epoch) = self.find_start(id, partition, start).await?;
        let source = Source {
            topic: topic.into(),
            topic_id: id,
            partition,
            salt: FrameSalt::new(id, partition),
            max_unpacked_bytes: self.settings.max_unpacked_bytes,
        };
        let policies = Policies { on_damage: self.settings.on_damage, on_lost_position: self.settings.on_lost_position };
        let backoff = Backoff::new(self.link.config().backoff);
        let mut assignment = Assignment::new(id, source, position, epoch, policies, backoff);
        if let Ok(slot) = self.slot_of(topic, partition) {
            self.remove(slot);
        }
        if let Some(shared) = &self.group {
            let topic = &assignment.source.topic;
            let tenure = shared.with(|state| state.assign_by_hand((id, partition), topic));
            assignment = assignment.of(tenure);
            if self.tracks {
                shared.start(&self.link);
            }
        }
        self.insert(assignment);
        Ok(())
    }

    fn insert(&mut self, assignment: Assignment) {
        self.assignments.insert(self.next_slot, assignment);
        // Never given again, so that what comes late for a partition that was given up finds nobody.
        self.next_slot = SlotId(self.next_slot.0 + 1);
    }

    fn remove(&mut self, slot: SlotId) -> Option<Assignment> {
        self.unsubscribe(slot);
        self.assignments.remove(&slot)
    }

    async fn find_start(&self, topic: TopicId, partition: PartitionId, start: Start) -> Result<(Offset, LeaderEpoch)> {
        let query = match start {
            Start::Offset(offset) => return Ok((offset, LeaderEpoch::UNKNOWN)),
            Start::Earliest => OffsetQuery::Earliest,
            Start::Latest => OffsetQuery::Latest,
            Start::Last(count) => OffsetQuery::Last(count),
            Start::Time(ns) => OffsetQuery::AtOrAfter(ns),
            Start::Committed { or } => {
                let group = self.settings.group.as_deref().ok_or(Error::NoGroup)?;
                if let Some(Committed { offset, leader_epoch }) = self.admin.committed_by_id(group, topic, partition).await? {
                    return Ok((offset, leader_epoch));
                }
                or.query()
            }
        };
        let found = self.admin.list_offsets_by_id(topic, partition, query).await?;
        Ok((found.offset, LeaderEpoch::UNKNOWN))
    }

    /// Gives up a partition that was assigned by hand. What was to be committed for it by itself and was not yet is not.
    ///
    /// # Errors
    /// [`Error::NotAssigned`]; [`Error::Config`] for a member of a group.
    pub fn unassign(&mut self, topic: &str, partition: impl Into<PartitionId>) -> Result<()> {
        let partition = partition.into();
        let slot = self.slot_of(topic, partition)?;
        if self.subscribed {
            let problem = "the group assigns the partitions; change the subscription, or `pause` the partition".to_owned();
            return Err(Error::Config { setting: "assignment", problem });
        }
        if let (Some(assignment), Some(shared)) = (self.remove(slot), &self.group) {
            shared.with(|state| state.unassign_by_hand(assignment.key()));
        }
        Ok(())
    }

    /// The assigned partitions.
    pub fn assignment(&self) -> impl Iterator<Item = (&str, PartitionId)> {
        self.assignments.values().map(|assignment| (&*assignment.source.topic, assignment.source.partition))
    }

    /// Where a partition is: behind the last record handed out, or behind a gap that follows it.
    ///
    /// # Errors
    /// [`Error::NotAssigned`].
    pub fn position(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Position> {
        Ok(self.find(topic, partition.into())?.1.place())
    }

    /// Where all partitions are.
    #[must_use]
    pub fn positions(&self) -> Vec<Position> {
        self.assignments.values().map(Assignment::place).collect()
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
        let Some(assignment) = self.assignments.get_mut(&slot) else { return };
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
        let partitions: Vec<_> =
            self.assignments.iter().map(|(slot, found)| (*slot, found.topic_id, found.source.partition)).collect();
        for (slot, topic, partition) in partitions {
            let found = self.admin.list_offsets_by_id(topic, partition, OffsetQuery::Latest).await?;
            self.set_end(slot, found.high_watermark);
        }
        Ok(())
    }

    /// How many offsets lie between the position and the end that the broker last told of; `None` before it told of any.
    ///
    /// # Errors
    /// [`Error::NotAssigned`].
    pub fn lag(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Option<u64>> {
        let (_, assignment) = self.find(topic, partition.into())?;
        Ok(assignment.high_watermark.map(|end| end.0.saturating_sub(assignment.position().0)))
    }

    fn slot_of(&self, topic: &str, partition: PartitionId) -> Result<SlotId> {
        Ok(self.find(topic, partition)?.0)
    }

    fn find(&self, topic: &str, partition: PartitionId) -> Result<(SlotId, &Assignment)> {
        let found = self.assignments.iter().find(|(_, assignment)| assignment.is(topic, partition));
        found.map(|(slot, assignment)| (*slot, assignment)).ok_or_else(|| not_assigned(topic, partition))
    }
}
