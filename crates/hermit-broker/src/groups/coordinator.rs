//! All groups that have members.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hermit_log::Clock;
use hermit_proto::session::{GroupHeartbeatRequest, GroupHeartbeatResponse, LeaveGroupRequest};
use hermit_proto::{Generation, GroupName, MemberId};
use parking_lot::RwLock;

use super::assign::TopicPartition;
use super::cell::{Cell, Seat, State, Waiter};
use super::group::{Group, Refusal, Waits};
use super::subscription::AllPatterns;
use super::time::GroupTime;
use crate::access::{Access, Principal};
use crate::error::{BrokerError, Counted};
use crate::events::Events;
use crate::limits::Limits;
use crate::registry::Registry;
use crate::server::{Line, LineGate};

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
    pub(super) cells: RwLock<HashMap<GroupName, Arc<Cell>>>,
    pub(super) registry: Arc<Registry>,
    pub(super) access: Arc<Access>,
    clock: Arc<dyn Clock>,
    time: GroupTime,
    limits: RwLock<Arc<Limits>>,
    /// What all members take, as far as it is counted.
    pub(super) membership_bytes: AtomicU64,
    events: Option<Arc<Events>>,
    pub(super) patterns: AllPatterns,
    /// No group begins with a generation below this: one of the same name may have got so far.
    next_generation: AtomicU64,
    /// Clients can come and go as fast as they like.
    pub(super) joined: LineGate,
    left: LineGate,
    fenced: Arc<LineGate>,
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
            joined: LineGate::default(),
            left: LineGate::default(),
            fenced: Arc::default(),
        }
    }

    /// From now on these hold, for members that come or ask for something else.
    pub(crate) fn set_limits(&self, limits: &Arc<Limits>) {
        *self.limits.write() = Arc::clone(limits);
    }

    pub(super) fn limits(&self) -> Arc<Limits> {
        Arc::clone(&self.limits.read())
    }

    /// The groups' time: it does not pass while the broker stands still, as nobody can be heard meanwhile.
    pub(super) fn now(&self) -> u64 {
        self.time.at(nanos(self.clock.monotonic()))
    }

    /// From now on the time is asked for at least every second: a longer gap means that the broker stood still.
    pub(crate) fn is_ticked(&self) {
        self.time.watch(nanos(self.clock.monotonic()));
    }

    /// The group's cell, made where there is none.
    pub(super) fn cell_for_joining(&self, name: &GroupName) -> Result<Arc<Cell>, BrokerError> {
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

    pub(super) fn new_cell(&self, name: &GroupName) -> Cell {
        let first = (self.clock.now() / 1_000_000).max(self.next_generation.load(Ordering::Relaxed));
        let waits = Waits {
            first: nanos(self.limits().group_initial_delay),
            returning: nanos(self.limits().group_return_delay.max(self.limits().group_initial_delay)),
        };
        Cell::new(name.clone(), Group::new(self.now(), Generation(first), waits), Arc::clone(&self.fenced), self.events.clone())
    }

    fn cell(&self, name: &GroupName) -> Option<Arc<Cell>> {
        self.cells.read().get(name).cloned()
    }

    /// Unlocks a group, and removes it where nobody is left in it.
    pub(super) fn leave_cell(&self, cell: &Arc<Cell>, mut state: parking_lot::MutexGuard<'_, State>) {
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
    pub(super) fn with<T>(&self, name: &GroupName, work: impl FnOnce(&mut State, u64) -> T) -> Option<T> {
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

    pub(super) fn with_member<T>(
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

    /// Lets the time take effect in all groups.
    pub(crate) fn tick(&self) {
        // Also where there is no group: or the first one that comes would take the time without one for a standstill.
        self.now();
        for cell in self.all_cells() {
            self.with(&cell.name, |_state, _now| ());
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

pub(super) fn refused(name: &GroupName, member: MemberId, refusal: Refusal) -> BrokerError {
    match refusal {
        Refusal::UnknownMember => BrokerError::UnknownMember { group: name.clone(), member },
        Refusal::Strategy(strategy) => BrokerError::InconsistentStrategy { group: name.clone(), strategy },
        Refusal::Version(newest) => BrokerError::UnknownVersion { newest },
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Broker, BrokerConfig};
    use hermit_log::disk::sim::SimDisk;
    use hermit_log::{Flusher, LogEnv, ManualClock};

    #[test]
    fn a_time_without_groups_is_no_standstill() {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000));
        let env = LogEnv::new(Arc::new(SimDisk::new(7)), clock.clone(), Flusher::manual(clock.clone()), 64);
        let broker = Broker::open_with(BrokerConfig { recovery_threads: 1, ..BrokerConfig::new("/data") }, env).unwrap();
        let groups = broker.groups();
        groups.is_ticked();
        for _ in 0..10 {
            clock.advance(Duration::from_secs(1));
            groups.tick();
        }
        assert_eq!(groups.now(), nanos(clock.monotonic()));
    }
}
