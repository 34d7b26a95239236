//! The consumer's side of its group: it follows what the tasks beside it found out.

use std::collections::BTreeMap;
use std::sync::Arc;

use hermit_proto::FrameSalt;
use tokio::time::Instant;

use super::assignment::{Assignment, Policies};
use super::chunk::Source;
use super::group::{Held, Key, Shared, Tenure, View, random_member};
use super::listener::{Assigned, Listener, RebalanceListener, Revoked, TopicPartition};
use super::{Consumer, Position, Subscription};
use crate::backoff::Backoff;
use crate::conn::SlotId;
use crate::error::{Error, Result};

/// A partition that is to be given up once the application is done with it.
#[derive(Debug)]
pub(super) struct Leaving {
    key: Key,
    position: Position,
}

/// While it lives the application waits for the consumer, and not the consumer for the application.
#[derive(Debug)]
pub(super) struct Call(Arc<Shared>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.with(|state| state.go_off(Instant::now()));
    }
}

impl Consumer {
    /// Becomes a member of the consumer's group, which divides the partitions of the topics among its members. Returns when the broker has
    /// accepted; partitions come as the group can give them, and [`Consumer::recv`] hands out their records from where the group has
    /// committed. Called again, it changes what the member reads.
    ///
    /// Tasks beside the application keep the membership alive, so that a record may take its time — up to
    /// [`processing_timeout`](crate::ConsumerBuilder::processing_timeout). They need the runtime: do not block its threads for as long as the session
    /// timeout. [`Consumer::close`] leaves the group at once; dropping the consumer does so too, without waiting for it.
    ///
    /// New partitions of the topics, and new topics that a pattern matches, are given to the members by the broker.
    ///
    /// ```no_run
    /// use hermit_client::{AutoCommit, Client, Subscription};
    ///
    /// # async fn example() -> hermit_client::Result<()> {
    /// let client = Client::connect("127.0.0.1:9092").await?;
    /// let mut consumer = client.consumer().group("billing").auto_commit(AutoCommit::Processed).build()?;
    /// consumer.subscribe(Subscription::new().topic("orders").pattern(r"refunds\..*")).await?;
    /// while let Some(record) = consumer.recv().await? {
    ///     println!("{} {} {:?}", record.topic, record.offset, record.value);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoGroup`]; [`Error::Name`]; [`Error::Config`] for an empty subscription, or where partitions were assigned by hand;
    /// [`Error::Refused`] with [`InvalidPattern`](crate::Status::InvalidPattern), [`InconsistentStrategy`](crate::Status::InconsistentStrategy)
    /// and others; [`Error::Timeout`] where the broker could not be asked within the request timeout: the consumer goes on trying.
    pub async fn subscribe(&mut self, subscription: impl Into<Subscription>) -> Result<()> {
        let subscription = subscription.into();
        subscription.check()?;
        let shared = self.group.clone().ok_or(Error::NoGroup)?;
        if !self.subscribed && !self.assignments.is_empty() {
            let problem =
                "the consumer reads partitions that were assigned by hand; unassign them, or use another consumer".to_owned();
            return Err(Error::Config { setting: "subscription", problem });
        }
        self.subscribed = true;
        self.tracks = true;
        shared.start(&self.link);
        shared.tell(|state| {
            state.listens = self.listener.is_some();
            state.subscribe(subscription, random_member);
        });
        let deadline = self.link.deadline();
        loop {
            if let Some(outcome) = shared.with(|state| state.join_outcome()) {
                return outcome;
            }
            if tokio::time::timeout_at(deadline, self.inbox.arrived()).await.is_err() {
                let source = self.link.last_failure().map(Arc::new);
                return Err(Error::Timeout { awaited: "answer to JoinGroup", after: self.link.config().request_timeout, source });
            }
        }
    }

    /// Has a listener told when partitions come and go. To be called before [`Consumer::subscribe`].
    ///
    /// ```
    /// use hermit_client::{RebalanceListener, Revoked, TopicPartition};
    ///
    /// struct Totals;
    ///
    /// impl RebalanceListener for Totals {
    ///     fn on_revoked(&mut self, revoked: &mut Revoked) {
    ///         // Write the totals of these partitions somewhere, then:
    ///         revoked.commit_all();
    ///     }
    ///
    ///     fn on_lost(&mut self, lost: &[TopicPartition]) {
    ///         // Forget the totals of these partitions: another member begins them anew.
    ///     }
    /// }
    /// ```
    pub fn set_rebalance_listener(&mut self, listener: impl RebalanceListener + 'static) {
        self.listener = Some(Listener::new(listener));
        if let Some(shared) = &self.group {
            shared.with(|state| state.listens = true);
        }
    }

    /// The group's state, where it matters what was handed out.
    pub(super) fn tracked(&self) -> Option<&Arc<Shared>> {
        self.group.as_ref().filter(|_| self.tracks)
    }

    /// The application is back, for as long as the guard lives.
    pub(super) fn enter(&self) -> Option<Call> {
        let shared = self.tracked()?;
        let call = Call(shared.clone());
        if shared.with(|state| state.come_back()) {
            shared.wake();
        }
        Some(call)
    }

    /// Takes up what changed in the group. The partitions of which nothing more is handed out.
    pub(super) fn follow_group(&mut self) -> Result<Vec<Key>> {
        let Some(shared) = self.group.clone() else { return Ok(Vec::new()) };
        let changes = shared.changes();
        if changes == self.seen_changes && self.leaving.is_empty() {
            return Ok(std::mem::take(&mut self.gone));
        }
        if changes != self.seen_changes {
            // Read before the state, so that what changes in between is looked at again.
            self.seen_changes = changes;
            if self.subscribed {
                let views = shared.with(|state| state.views());
                let gone = self.follow_views(&views);
                self.gone.extend(gone);
            }
        }
        self.tell_revoked(&shared);
        match shared.with(|state| state.errors.pop_front().or_else(|| state.take_refusal())) {
            Some(error) => {
                // Others may wait behind it.
                self.seen_changes = 0;
                shared.wake();
                Err(error)
            }
            None => Ok(std::mem::take(&mut self.gone)),
        }
    }

    fn follow_views(&mut self, views: &[View]) -> Vec<Key> {
        let by_key: BTreeMap<Key, &View> = views.iter().map(|view| (view.key, view)).collect();
        let slots: Vec<(SlotId, Key, Tenure)> =
            self.assignments.iter().map(|(slot, assignment)| (*slot, assignment.key(), assignment.tenure)).collect();
        let (mut gone, mut lost) = (Vec::new(), Vec::new());
        for (slot, key, tenure) in slots {
            match by_key.get(&key).filter(|view| view.tenure == tenure).map(|view| view.held) {
                Some(Held::Active { .. }) => self.hold_back(slot, false),
                Some(Held::Waiting) => self.hold_back(slot, true),
                Some(Held::Revoking { told }) => {
                    gone.push(key);
                    if let Some(assignment) = self.remove(slot).filter(|_| !told) {
                        self.leaving.push(Leaving { key, position: assignment.place() });
                    }
                }
                None => {
                    gone.push(key);
                    if let Some(assignment) = self.remove(slot) {
                        lost.push(TopicPartition::from(&assignment.place()));
                    }
                }
            }
        }
        // What was being given up, and is lost or read on.
        self.leaving.retain(|leaving| {
            let still = by_key.get(&leaving.key).is_some_and(|view| view.held == Held::Revoking { told: false });
            if !still && !by_key.contains_key(&leaving.key) {
                lost.push(TopicPartition::from(&leaving.position));
            }
            still
        });
        if let Some(listener) = self.listener.as_mut().filter(|_| !lost.is_empty()) {
            listener.get().on_lost(&lost);
        }
        self.take_up(views);
        gone
    }

    fn hold_back(&mut self, slot: SlotId, held_back: bool) {
        if held_back {
            self.unsubscribe(slot);
        }
        if let Some(assignment) = self.assignments.get_mut(&slot) {
            assignment.held_back = held_back;
        }
    }

    /// Begins what was granted.
    fn take_up(&mut self, views: &[View]) {
        let known: Vec<Tenure> = self.assignments.values().map(|assignment| assignment.tenure).collect();
        let mut positions = Vec::new();
        for view in views {
            let Held::Active { start } = view.held else { continue };
            if known.contains(&view.tenure) {
                continue;
            }
            let (topic, partition) = view.key;
            let source = Source {
                topic: view.topic.clone(),
                topic_id: topic,
                partition,
                salt: FrameSalt::new(topic, partition),
                max_unpacked_bytes: self.settings.max_unpacked_bytes,
            };
            let policies = Policies { on_damage: self.settings.on_damage, on_lost_position: self.settings.on_lost_position };
            let backoff = Backoff::new(self.link.config().backoff);
            let assignment = Assignment::new(topic, source, start.offset, start.epoch, policies, backoff).of(view.tenure);
            positions.push(assignment.place());
            self.insert(assignment);
        }
        let Some(listener) = self.listener.as_mut().filter(|_| !positions.is_empty()) else { return };
        let mut assigned = Assigned { positions, seeks: Vec::new() };
        listener.get().on_assigned(&mut assigned);
        for (partition, offset) in assigned.seeks {
            if let Err(error) = self.seek(&partition.topic, partition.partition, offset) {
                tracing::warn!(%error, "a rebalance listener seeks elsewhere");
            }
        }
    }

    /// Tells the listener of what the application is done with, so that it can be given up.
    fn tell_revoked(&mut self, shared: &Arc<Shared>) {
        if self.leaving.is_empty() {
            return;
        }
        let done: Vec<Key> =
            shared.with(|state| self.leaving.iter().map(|leaving| leaving.key).filter(|key| !state.is_in_hand(*key)).collect());
        let (told, leaving) = std::mem::take(&mut self.leaving).into_iter().partition(|leaving| done.contains(&leaving.key));
        self.leaving = leaving;
        let told: Vec<Leaving> = told;
        if told.is_empty() {
            return;
        }
        self.revoke(told.into_iter().map(|leaving| (leaving.key, leaving.position)).collect());
        shared.tell(|state| state.told(&done));
    }

    /// Tells the listener, and has committed what it wants to be.
    pub(super) fn revoke(&mut self, partitions: Vec<(Key, Position)>) -> Option<super::group::CommitWait> {
        let (keys, positions): (Vec<Key>, Vec<Position>) = partitions.into_iter().unzip();
        let shared = self.group.clone()?;
        let (may_be_fenced, generations) = shared.with(|state| {
            let generations = keys.iter().map(|key| state.generation(*key)).collect();
            (!state.is_alive(Instant::now()), generations)
        });
        let listener = self.listener.as_mut()?;
        if may_be_fenced {
            let lost: Vec<TopicPartition> = positions.iter().map(TopicPartition::from).collect();
            listener.get().on_lost(&lost);
            return None;
        }
        let mut revoked = Revoked { positions, generations, commits: Vec::new() };
        listener.get().on_revoked(&mut revoked);
        if revoked.commits.is_empty() {
            return None;
        }
        match self.enqueue(&revoked.commits) {
            Ok(wait) => Some(wait),
            Err(error) => {
                tracing::warn!(%error, "a rebalance listener commits what cannot be");
                None
            }
        }
    }
}
