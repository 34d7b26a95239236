//! A group as it lives in the broker: the state machine, and who its members are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use hermit_proto::session::{AssignedPartition, AssignedTopic, Assignment};
use hermit_proto::{Generation, GroupName, MemberId, TopicId};
use parking_lot::{Mutex, MutexGuard};

use super::group::{Effects, Group, GroupTopic};
use super::member::Fence;
use super::subscription::Subscription;
use crate::access::Principal;
use crate::error::BrokerError;
use crate::events::{Event, Events};
use crate::server::{Line, LineGate};
use crate::signal::Signal;

/// One group with members, behind its lock.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(super) name: GroupName,
    state: Mutex<State>,
}

/// What the lock protects.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) group: Group,
    pub(crate) seats: HashMap<MemberId, Seat>,
    /// Lines about members that were put out, of all groups together.
    fenced: Arc<LineGate>,
    /// Who is told of its generations and of fenced members, if anybody.
    events: Option<Arc<Events>>,
    told: Generation,
    /// Nobody is in it any more, and nobody will be: another cell takes its place.
    pub(super) dead: bool,
    /// Whether its members or topics are others than when they were counted.
    pub(super) changed: bool,
    /// What they took then.
    counted_bytes: u64,
}

/// What a partition of a group takes, roughly.
const PARTITION_BYTES: u64 = 200;

/// Who a member is.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) subscription: Arc<Subscription>,
    pub(crate) client: String,
    pub(crate) address: String,
    /// In whose name it joined last.
    pub(crate) principal: Principal,
    /// Counts its heartbeats, so that an older one that waits knows that it is.
    pub(super) beat: u64,
    pub(super) waiter: Option<Waiter>,
}

/// A member, what it asks for, and in whose name.
pub(super) type Subscriber = (MemberId, Arc<Subscription>, Principal);

/// Who waits for a member's assignment to change.
#[derive(Debug, Clone)]
pub(crate) struct Waiter {
    pub(crate) signal: Arc<Signal>,
    pub(crate) token: u64,
}

impl Cell {
    pub(super) fn new(name: GroupName, group: Group, fenced: Arc<LineGate>, events: Option<Arc<Events>>) -> Self {
        Self {
            name,
            state: Mutex::new(State {
                told: group.generation(),
                group,
                seats: HashMap::new(),
                fenced,
                events,
                dead: false,
                changed: false,
                counted_bytes: 0,
            }),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn topic_bytes(about: &GroupTopic) -> u64 {
    PARTITION_BYTES.saturating_mul(about.partitions.into()).saturating_add(about.name.as_str().len() as u64)
}

impl Waiter {
    pub(super) fn is(&self, other: &Self) -> bool {
        self.signal.id() == other.signal.id() && self.token == other.token
    }
}

impl Seat {
    pub(super) fn wake(&mut self) {
        if let Some(waiter) = self.waiter.take() {
            waiter.signal.wake(waiter.token);
        }
    }
}

impl State {
    /// Lets the time that has passed take effect.
    pub(super) fn tick(&mut self, name: &GroupName, now: u64) {
        self.group.tick(now);
        self.settle(name);
    }

    /// Wakes whoever the last event concerns.
    pub(super) fn settle(&mut self, name: &GroupName) {
        let Effects { changed, fenced } = self.group.take_effects();
        for (member, fence) in fenced {
            let Some(mut seat) = self.seats.remove(&member) else { continue };
            self.changed = true;
            seat.wake();
            let why = match fence {
                Fence::Silent => "no heartbeat within its session timeout",
                Fence::Slow => "a partition was not given up within its processing timeout",
            };
            if let Some(events) = &self.events {
                events.push(Event::MemberFenced { group: name.clone(), member, reason: why });
            }
            if let Line::Write { left_out } = self.fenced.line() {
                tracing::warn!(group = %name, %member, client = ?seat.client, address = %seat.address, why, left_out, "put a member out of its group");
            }
        }
        let generation = self.group.generation();
        if let Some(events) = self.events.as_ref().filter(|_| generation != self.told) {
            events.push(Event::GroupRebalanced { group: name.clone(), generation, members: self.seats.len() });
        }
        self.told = generation;
        for member in changed {
            if let Some(seat) = self.seats.get_mut(&member) {
                seat.wake();
            }
        }
    }

    /// What its members took when that was last counted, and what they take now.
    pub(super) fn count_bytes(&mut self) -> (u64, u64) {
        let before = self.counted_bytes;
        if self.seats.is_empty() {
            self.counted_bytes = 0;
        } else if self.changed {
            let members: u64 = self.seats.values().map(|seat| seat.subscription.bytes()).sum();
            self.counted_bytes = members.saturating_add(self.group.topics().values().map(topic_bytes).sum());
        }
        self.changed = false;
        (before, self.counted_bytes)
    }

    /// What those of the topics take that the group does not have yet.
    pub(super) fn new_topic_bytes(&self, topics: &BTreeMap<TopicId, GroupTopic>) -> u64 {
        let new = topics.iter().filter(|(topic, _)| !self.group.topics().contains_key(topic));
        new.map(|(_, about)| topic_bytes(about)).sum()
    }

    /// What a member may hold; it counts as told from now on.
    pub(super) fn tell(&mut self, name: &GroupName, now: u64, id: MemberId) -> Result<Assignment, BrokerError> {
        let generation = self.group.generation();
        let unknown = |_refusal| BrokerError::UnknownMember { group: name.clone(), member: id };
        let member = self.group.tell(now, id).map_err(unknown)?;
        let version = member.version();
        let mut by_topic = BTreeMap::<_, Vec<_>>::new();
        for ((topic, partition), generation) in member.assigned() {
            by_topic.entry(topic).or_default().push(AssignedPartition { partition, generation });
        }
        let name_of = |topic| self.group.topics().get(&topic).map(|about| about.name.to_string()).unwrap_or_default();
        let topics = by_topic.into_iter().map(|(topic, partitions)| AssignedTopic { topic, name: name_of(topic), partitions });
        Ok(Assignment { version, generation, topics: topics.collect() })
    }

    /// The members, with what they ask for.
    pub(super) fn subscriptions(&self) -> Vec<Subscriber> {
        let of = |(member, seat): (&MemberId, &Seat)| (*member, Arc::clone(&seat.subscription), seat.principal.clone());
        self.seats.iter().map(of).collect()
    }

    /// Those of the members that still ask for the same. The others have come, or come back, since: they know of all topics from their joining.
    pub(super) fn unchanged(&self, asked: &[Subscriber]) -> BTreeSet<MemberId> {
        let same = |(member, subscription, _): &&Subscriber| {
            self.seats.get(member).is_some_and(|seat| Arc::ptr_eq(&seat.subscription, subscription))
        };
        asked.iter().filter(same).map(|(member, ..)| *member).collect()
    }
}
