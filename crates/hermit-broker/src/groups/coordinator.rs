//! All groups that have members.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermit_log::Clock;
use hermit_proto::session::{
    AccessOperations, Assignment, GroupHeartbeatRequest, GroupHeartbeatResponse, JoinGroupRequest, JoinGroupResponse,
    LeaveGroupRequest,
};
use hermit_proto::{Generation, GroupName, MemberId, TopicId, TopicName};
use parking_lot::RwLock;

use super::assign::TopicPartition;
use super::cell::{Cell, Seat, State, Waiter};
use super::group::{Group, GroupTopic, Joining, Refusal, Waits};
use super::member::Timeouts;
use super::subscription::{AllPatterns, Patterns, Subscription};
use super::time::GroupTime;
use crate::access::{Access, Authority, Principal};
use crate::error::{BrokerError, Counted};
use crate::events::Events;
use crate::limits::Limits;
use crate::registry::{Registry, TopicListener};
use crate::server::{Line, LineGate};
use crate::topic::Topic;

/// Bytes of a client's name that are kept.
const CLIENT_NAME_BYTES: usize = 255;

/// Who sends a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer<'a> {
    pub(crate) client: &'a str,
    pub(crate) address: &'a str,
    pub(crate) principal: &'a Principal,
}

/// Which heartbeat waits: whose, the newest assignment that it knows of, and its number among the member's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heartbeat {
    pub(crate) member: MemberId,
    version: u64,
    beat: u64,
}

/// How a heartbeat is answered.
#[derive(Debug)]
pub(crate) enum Beat {
    /// At once.
    Answer(GroupHeartbeatResponse),
    /// When the waiter is woken, or after `wait`. At `look_again` the group's time has come, for whatever reason.
    Wait { heartbeat: Heartbeat, wait: Duration, look_again: Duration },
}

/// The groups that have members.
#[derive(Debug)]
pub(crate) struct Groups {
    cells: RwLock<HashMap<GroupName, Arc<Cell>>>,
    registry: Arc<Registry>,
    access: Arc<Access>,
    clock: Arc<dyn Clock>,
    time: GroupTime,
    limits: RwLock<Arc<Limits>>,
    /// What all members take, as far as it is counted.
    membership_bytes: AtomicU64,
    events: Option<Arc<Events>>,
    patterns: AllPatterns,
    /// No group begins with a generation below this: one of the same name may have got so far.
    next_generation: AtomicU64,
    /// Clients can come and go as fast as they like.
    joined: LineGate,
    left: LineGate,
}

impl Groups {
    pub(crate) fn new(
        registry: Arc<Registry>,
        access: Arc<Access>,
        clock: Arc<dyn Clock>,
        limits: Limits,
        events: Option<Arc<Events>>,
    ) -> Self {
        Self {
            cells: RwLock::default(),
            registry,
            access,
            clock,
            time: GroupTime::default(),
            limits: RwLock::new(Arc::new(limits)),
            membership_bytes: AtomicU64::new(0),
            events,
            patterns: AllPatterns::default(),
            next_generation: AtomicU64::new(0),
            joined: LineGate::new(),
            left: LineGate::new(),
        }
    }

    /// From now on these hold, for members that come or ask for something else.
    pub(crate) fn set_limits(&self, limits: &Arc<Limits>) {
        *self.limits.write() = Arc::clone(limits);
    }

    fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits.read())
    }

    /// The groups' time: it does not pass while the broker stands still, as nobody can be heard meanwhile.
    fn now(&self) -> u64 {
        self.time.at(nanos(self.clock.monotonic()))
    }

    /// From now on the time is asked for at least every second: a longer gap means that the broker stood still.
    pub(crate) fn is_ticked(&self) {
        self.time.watch(nanos(self.clock.monotonic()));
    }

    /// A member comes, or changes what it asks for.
    pub(crate) fn join(&self, request: &JoinGroupRequest, peer: Peer<'_>) -> Result<JoinGroupResponse, BrokerError> {
        let name = GroupName::new_public(&request.group)?;
        let timeouts = self.timeouts(request)?;
        let subscription = Subscription::new(&request.topics, &request.patterns, &self.limits(), &self.patterns)?;
        // Matching may take its time: the others are not to wait for it.
        let mut asked = Asked::new(Arc::new(subscription), Seen::now(self, peer.principal));
        asked.look(self, peer.principal);
        loop {
            let cell = self.cell_for_joining(&name)?;
            let mut state = cell.lock();
            if state.dead {
                continue;
            }
            let joined = self.join_locked(&mut state, &name, request, asked, timeouts, peer);
            self.leave_cell(&cell, state);
            let session_ms = millis(timeouts.session);
            return Ok(JoinGroupResponse {
                session_timeout_ms: session_ms,
                processing_timeout_ms: millis(timeouts.processing),
                heartbeat_interval_ms: (session_ms / 3).max(1),
                assignment: joined?,
            });
        }
    }

    fn join_locked(
        &self,
        state: &mut State,
        name: &GroupName,
        request: &JoinGroupRequest,
        mut asked: Asked,
        timeouts: Timeouts,
        peer: Peer<'_>,
    ) -> Result<Assignment, BrokerError> {
        let (now, id) = (self.now(), request.member);
        state.tick(name, now);
        let limit = self.limits().max_group_members;
        if !state.seats.contains_key(&id) && state.seats.len() as u64 >= u64::from(limit) {
            return Err(BrokerError::TooMany { what: Counted::GroupMembers, limit: limit.into() });
        }
        if asked.seen != Seen::now(self, peer.principal) {
            asked.look(self, peer.principal);
        }
        let limit = self.limits().max_membership_bytes;
        let bytes = asked.subscription.bytes().saturating_add(state.new_topic_bytes(&asked.topics));
        if self.membership_bytes.load(Ordering::Relaxed).saturating_add(bytes) > limit {
            return Err(BrokerError::TooMany { what: Counted::MembershipBytes, limit });
        }
        let Asked { subscription, topics, .. } = asked;
        let joining = Joining { timeouts, strategy: request.strategy, topics, claims: request.claims.clone() };
        state.group.join(now, id, joining).map_err(|refusal| refused(name, id, refusal))?;
        let end = peer.client.floor_char_boundary(CLIENT_NAME_BYTES);
        let client = peer.client.get(..end).unwrap_or_default().to_owned();
        let address = peer.address.to_owned();
        match state.seats.get_mut(&id) {
            Some(seat) => {
                (seat.subscription, seat.client, seat.address) = (subscription, client, address);
                seat.principal = peer.principal.clone();
            }
            None => {
                if let Line::Write { left_out } = self.joined.line() {
                    tracing::info!(group = %name, member = %id, ?client, %address, left_out, "a member joined");
                }
                state
                    .seats
                    .insert(id, Seat { subscription, client, address, principal: peer.principal.clone(), beat: 0, waiter: None });
            }
        }
        state.changed = true;
        state.settle(name);
        state.tell(name, now, id)
    }

    fn timeouts(&self, request: &JoinGroupRequest) -> Result<Timeouts, BrokerError> {
        let limits = &*self.limits();
        let session = limits.min_session_timeout..=limits.max_session_timeout;
        let session = choose("session_timeout_ms", request.session_timeout_ms, limits.default_session_timeout, session)?;
        let processing = limits.min_processing_timeout..=limits.max_processing_timeout;
        let default = limits.default_processing_timeout;
        let processing = choose("processing_timeout_ms", request.processing_timeout_ms, default, processing)?;
        Ok(Timeouts { session, processing })
    }

    /// The group's cell, made where there is none.
    fn cell_for_joining(&self, name: &GroupName) -> Result<Arc<Cell>, BrokerError> {
        if let Some(cell) = self.cell(name).filter(|cell| !cell.lock().dead) {
            return Ok(cell);
        }
        let mut cells = self.cells.write();
        if let Some(cell) = cells.get(name).filter(|cell| !cell.lock().dead) {
            return Ok(Arc::clone(cell));
        }
        let limit = self.limits().max_active_groups;
        if !cells.contains_key(name) && cells.len() as u64 >= u64::from(limit) {
            return Err(BrokerError::TooMany { what: Counted::ActiveGroups, limit: limit.into() });
        }
        let cell = Arc::new(self.new_cell(name));
        cells.insert(name.clone(), Arc::clone(&cell));
        Ok(cell)
    }

    fn new_cell(&self, name: &GroupName) -> Cell {
        let first = (self.clock.now() / 1_000_000).max(self.next_generation.load(Ordering::Relaxed));
        let waits = Waits {
            first: nanos(self.limits().group_initial_delay),
            returning: nanos(self.limits().group_return_delay.max(self.limits().group_initial_delay)),
        };
        Cell::new(name.clone(), Group::new(self.now(), Generation(first), waits), self.events.clone())
    }

    fn cell(&self, name: &GroupName) -> Option<Arc<Cell>> {
        self.cells.read().get(name).cloned()
    }

    /// Unlocks a group, and removes it where nobody is left in it.
    fn leave_cell(&self, cell: &Arc<Cell>, mut state: parking_lot::MutexGuard<'_, State>) {
        let is_empty = !state.dead && state.group.members().is_empty();
        self.count_bytes(&mut state);
        if is_empty {
            state.dead = true;
            self.next_generation.fetch_max(state.group.generation().0 + 1, Ordering::Relaxed);
        }
        drop(state);
        if is_empty {
            let mut cells = self.cells.write();
            if cells.get(&cell.name).is_some_and(|other| Arc::ptr_eq(other, cell)) {
                cells.remove(&cell.name);
            }
        }
    }

    /// Counts what a group's members take, where that has changed.
    fn count_bytes(&self, state: &mut State) {
        let (before, now) = state.count_bytes();
        if now > before {
            self.membership_bytes.fetch_add(now - before, Ordering::Relaxed);
        } else {
            self.membership_bytes.fetch_sub(before - now, Ordering::Relaxed);
        }
    }

    /// Does `work` on a group that has members, after letting the time take effect.
    fn with<T>(&self, name: &GroupName, work: impl FnOnce(&mut State, u64) -> T) -> Option<T> {
        let cell = self.cell(name)?;
        let mut state = cell.lock();
        if state.dead {
            return None;
        }
        let now = self.now();
        state.tick(name, now);
        let done = work(&mut state, now);
        state.settle(name);
        self.leave_cell(&cell, state);
        Some(done)
    }

    fn with_member<T>(
        &self,
        name: &GroupName,
        member: MemberId,
        work: impl FnOnce(&mut State, u64) -> Result<T, BrokerError>,
    ) -> Result<T, BrokerError> {
        let unknown = || BrokerError::UnknownMember { group: name.clone(), member };
        self.with(name, |state, now| if state.seats.contains_key(&member) { work(state, now) } else { Err(unknown()) })
            .unwrap_or_else(|| Err(unknown()))
    }

    /// A member lives, and tells what it holds.
    pub(crate) fn heartbeat(
        &self,
        name: &GroupName,
        request: &GroupHeartbeatRequest,
        waiter: &Waiter,
    ) -> Result<Beat, BrokerError> {
        let id = request.member;
        let owned: BTreeSet<TopicPartition> = request.owned.iter().copied().collect();
        self.with_member(name, id, |state, now| {
            let beaten = state.group.heartbeat(now, id, request.version, &owned);
            beaten.map_err(|refusal| refused(name, id, refusal))?;
            let Some(seat) = state.seats.get_mut(&id) else { return Err(refused(name, id, Refusal::UnknownMember)) };
            seat.beat += 1;
            let heartbeat = Heartbeat { member: id, version: request.version, beat: seat.beat };
            // The older heartbeat's wait is over.
            seat.wake();
            let longest = state.group.members().get(&id).map_or(0, |member| member.timeouts().session / 3);
            let wait = Duration::from_millis(request.wait_ms.into()).min(Duration::from_nanos(longest));
            wait_or_answer(state, name, now, heartbeat, wait, waiter)
        })
    }

    /// Looks again whether a heartbeat that waits can be answered; with a `wait` of zero it is.
    pub(crate) fn look_again(
        &self,
        name: &GroupName,
        heartbeat: Heartbeat,
        wait: Duration,
        waiter: &Waiter,
    ) -> Result<Beat, BrokerError> {
        self.with_member(name, heartbeat.member, |state, now| wait_or_answer(state, name, now, heartbeat, wait, waiter))
    }

    /// Nobody waits for the member's assignment any more.
    pub(crate) fn forget(&self, name: &GroupName, id: MemberId, waiter: &Waiter) {
        let Some(cell) = self.cell(name) else { return };
        if let Some(seat) = cell.lock().seats.get_mut(&id)
            && seat.waiter.as_ref().is_some_and(|other| other.is(waiter))
        {
            seat.waiter = None;
        }
    }

    /// A member goes.
    pub(crate) fn leave(&self, request: &LeaveGroupRequest) -> Result<(), BrokerError> {
        let (name, id) = (GroupName::new(&request.group)?, request.member);
        self.with_member(&name, id, |state, _now| {
            state.group.leave(id).map_err(|refusal| refused(&name, id, refusal))?;
            if let Some(mut seat) = state.seats.remove(&id) {
                seat.wake();
            }
            state.changed = true;
            if let Line::Write { left_out } = self.left.line() {
                tracing::info!(group = %name, member = %id, left_out, "a member left");
            }
            Ok(())
        })
    }

    /// Does `append` for a member, which is told what the member may commit. Nothing changes hands meanwhile.
    pub(crate) fn commit_as<T>(
        &self,
        name: &GroupName,
        member: MemberId,
        append: impl FnOnce(&dyn Fn(TopicPartition, Generation) -> bool) -> T,
    ) -> Result<T, BrokerError> {
        self.with_member(name, member, |state, now| {
            state.group.seen(now, member).map_err(|refusal| refused(name, member, refusal))?;
            let group = &state.group;
            Ok(append(&|of, generation| group.may_commit(member, of, generation)))
        })
    }

    /// Does `work`, which is short, while nobody is in the group, and nobody can join it.
    pub(crate) fn while_inactive<T>(&self, name: &GroupName, work: impl FnOnce() -> T) -> Result<T, BrokerError> {
        // Whose time is over is in nobody's way.
        self.with(name, |_state, _now| ());
        loop {
            let cells = self.cells.read();
            let Some(cell) = cells.get(name).cloned() else {
                let done = work();
                drop(cells);
                return Ok(done);
            };
            // Somebody may have it for longer: not to be waited for with the map.
            drop(cells);
            if !cell.lock().dead {
                return Err(BrokerError::GroupActive { group: name.clone() });
            }
            std::thread::yield_now();
        }
    }

    /// The same for work that takes its time: a group that is empty stands for this one meanwhile, and only who comes to this one waits.
    pub(crate) fn while_reserved<T>(&self, name: &GroupName, work: impl FnOnce() -> T) -> Result<T, BrokerError> {
        self.with(name, |_state, _now| ());
        loop {
            let mut cells = self.cells.write();
            let Some(cell) = cells.get(name).cloned() else {
                let cell = Arc::new(self.new_cell(name));
                let state = cell.lock();
                cells.insert(name.clone(), Arc::clone(&cell));
                drop(cells);
                let done = work();
                self.leave_cell(&cell, state);
                return Ok(done);
            };
            drop(cells);
            if !cell.lock().dead {
                return Err(BrokerError::GroupActive { group: name.clone() });
            }
            std::thread::yield_now();
        }
    }

    /// Lets the time take effect in all groups.
    pub(crate) fn tick(&self) {
        for cell in self.all_cells() {
            self.with(&cell.name, |_state, _now| ());
        }
    }

    /// Rules have changed: members get the topics of their subscriptions that they may consume now, and no others.
    pub(crate) fn access_changed(&self) {
        if !self.access.is_enabled() {
            return;
        }
        for cell in self.all_cells() {
            let subscriptions = cell.lock().subscriptions();
            // The group goes on while patterns are matched.
            let looked: Vec<_> = subscriptions
                .into_iter()
                .filter(|(_, _, principal)| *principal != Principal::Anyone)
                .map(|(member, subscription, principal)| {
                    let mut asked = Asked::new(Arc::clone(&subscription), Seen::now(self, &principal));
                    asked.look(self, &principal);
                    (member, subscription, principal, asked)
                })
                .collect();
            self.with(&cell.name, |state, _now| {
                state.changed = true;
                for (member, subscription, principal, mut asked) in looked {
                    if state.unchanged(&[(member, subscription, principal.clone())]).is_empty() {
                        continue;
                    }
                    if asked.seen != Seen::now(self, &principal) {
                        asked.look(self, &principal);
                    }
                    state.group.asks(member, asked.topics);
                }
            });
        }
    }

    pub(super) fn all_cells(&self) -> Vec<Arc<Cell>> {
        self.cells.read().values().cloned().collect()
    }

    /// Looks into a group that has members.
    pub(super) fn inspect<T>(&self, name: &GroupName, look: impl FnOnce(&State) -> T) -> Option<T> {
        self.with(name, |state, _now| look(state))
    }

    /// How many members are in groups, and how many of them have somebody waiting, for tests of what is left behind.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let cells = self.all_cells();
        let seats =
            |count: fn(&Seat) -> bool| cells.iter().map(|cell| cell.lock().seats.values().filter(|s| count(s)).count()).sum();
        (seats(|_| true), seats(|seat| seat.waiter.is_some()))
    }
}

impl TopicListener for Groups {
    fn topic_changed(&self, topic: &Topic) {
        let id = topic.meta.id;
        // What was matched already: many members ask for the same patterns.
        let mut matched = Vec::<(Arc<Patterns>, bool)>::new();
        let mut matches = |patterns: &Arc<Patterns>, name: &TopicName| {
            if let Some((_, found)) = matched.iter().find(|(other, _)| Arc::ptr_eq(other, patterns)) {
                return *found;
            }
            let found = patterns.matches(name);
            matched.push((Arc::clone(patterns), found));
            found
        };
        for cell in self.all_cells() {
            let mut asked = Vec::new();
            if let Some(topic) = self.registry.by_id(id) {
                let name = &topic.meta.name;
                // The group goes on while its patterns are matched.
                asked = cell.lock().subscriptions();
                asked.retain(|(_, asked, principal)| {
                    let asks =
                        asked.names.contains(name) || asked.patterns.as_ref().is_some_and(|patterns| matches(patterns, name));
                    asks && may_consume(&Authority::of(principal.clone(), &self.access), name)
                });
            }
            self.with(&cell.name, |state, _now| {
                state.changed = true;
                match self.registry.by_id(id) {
                    // What the registry says now: it may have gone on since.
                    Some(topic) => {
                        let subscribers = state.unchanged(&asked);
                        state.group.topic(id, about(&topic), &subscribers);
                    }
                    None => state.group.topic_gone(id),
                }
            });
        }
    }
}

/// A subscription, and the topics that it asks for.
struct Asked {
    subscription: Arc<Subscription>,
    /// Which topics its patterns match, of those that were looked at.
    known: HashMap<TopicId, bool>,
    seen: Seen,
    topics: BTreeMap<TopicId, GroupTopic>,
}

/// Upon what was looked: the registry's changes, and those of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    changes: u64,
    epoch: u64,
}

impl Seen {
    fn now(groups: &Groups, principal: &Principal) -> Self {
        let epoch = if *principal == Principal::Anyone { 0 } else { groups.access.epoch() };
        Self { changes: groups.registry.changes(), epoch }
    }
}

impl Asked {
    fn new(subscription: Arc<Subscription>, seen: Seen) -> Self {
        Self { subscription, known: HashMap::new(), seen, topics: BTreeMap::new() }
    }

    /// Looks which topics there are that the member may consume. A second time only what has changed is matched.
    fn look(&mut self, groups: &Groups, principal: &Principal) {
        self.seen = Seen::now(groups, principal);
        let (registry, authority) = (&groups.registry, Authority::of(principal.clone(), &groups.access));
        let may = |topic: &Arc<Topic>| may_consume(&authority, &topic.meta.name);
        let by_name = self.subscription.names.iter().filter_map(|name| registry.by_name(name)).filter(may);
        self.topics = by_name.map(|topic| (topic.meta.id, about(&topic))).collect();
        let Some(patterns) = &self.subscription.patterns else { return };
        for topic in registry.all() {
            if *self.known.entry(topic.meta.id).or_insert_with(|| patterns.matches(&topic.meta.name)) && may(&topic) {
                self.topics.insert(topic.meta.id, about(&topic));
            }
        }
    }
}

fn may_consume(authority: &Authority, topic: &TopicName) -> bool {
    authority.is_open() || authority.on_topic(topic.as_str()).contains(AccessOperations::CONSUME)
}

fn wait_or_answer(
    state: &mut State,
    name: &GroupName,
    now: u64,
    heartbeat: Heartbeat,
    wait: Duration,
    waiter: &Waiter,
) -> Result<Beat, BrokerError> {
    let Heartbeat { member: id, version, beat } = heartbeat;
    let is_newer = state.group.members().get(&id).is_some_and(|member| member.version() > version);
    let next_deadline = state.group.next_deadline();
    let Some(seat) = state.seats.get_mut(&id) else { return Err(refused(name, id, Refusal::UnknownMember)) };
    if is_newer || wait.is_zero() || seat.beat != beat {
        if seat.beat == beat {
            seat.waiter = None;
        }
        return Ok(Beat::Answer(GroupHeartbeatResponse { assignment: state.tell(name, now, id)? }));
    }
    seat.waiter = Some(waiter.clone());
    Ok(Beat::Wait { heartbeat, wait, look_again: Duration::from_nanos(next_deadline.saturating_sub(now)) })
}

fn refused(name: &GroupName, member: MemberId, refusal: Refusal) -> BrokerError {
    match refusal {
        Refusal::UnknownMember => BrokerError::UnknownMember { group: name.clone(), member },
        Refusal::Strategy(strategy) => BrokerError::InconsistentStrategy { group: name.clone(), strategy },
        Refusal::Version(newest) => BrokerError::UnknownVersion { newest },
    }
}

fn about(topic: &Topic) -> GroupTopic {
    GroupTopic { name: topic.meta.name.clone(), partitions: topic.meta.partitions }
}

fn choose(field: &'static str, asked_ms: u32, default: Duration, allowed: RangeInclusive<Duration>) -> Result<u64, BrokerError> {
    if asked_ms == 0 {
        return Ok(nanos(default));
    }
    let asked = Duration::from_millis(asked_ms.into());
    if !allowed.contains(&asked) {
        let rule = format!("{asked_ms} is outside {} to {}", allowed.start().as_millis(), allowed.end().as_millis());
        return Err(BrokerError::InvalidConfig { field, rule });
    }
    Ok(nanos(asked))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn millis(nanos: u64) -> u32 {
    u32::try_from(nanos / 1_000_000).unwrap_or(u32::MAX)
}
