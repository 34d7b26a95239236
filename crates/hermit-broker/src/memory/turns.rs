//! Who may read a large unit now, where there is not room for all of them. Pure: no clock, no lock, no I/O.
//!
//! A unit is admitted by the size that it declares, once there is room for all of it, so that whoever was admitted can come to the end whatever the
//! others do. While others wait, an admitted unit has the room for a turn. At its end it goes on if it came fast; else what has come of it stays
//! (it is *parked*), and another unit is let in. A parked unit is continued in a later turn. Parked units never take so much that the largest unit would not fit
//! beside them, so that there always is one that can be finished; where parking is not possible for that reason, the slow unit is cut.
//!
//! Units that had no turn yet come first, three out of four times, and addresses take turns: a large unit that comes fast has to wait for a few turns,
//! however many slow ones there are.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::address::PeerAddress;

/// How long a unit that does not come fast has the room while others wait.
pub(super) const TURN: Duration = Duration::from_millis(100);
/// While others wait, a unit that brings nothing for so long, and nothing in a whole turn, is cut.
pub(super) const STALLED: Duration = Duration::from_secs(2);
/// Every so many admissions one is for a unit that had a turn before.
const FRESH_IN_A_ROW: u32 = 3;

/// Names a unit; never used again.
pub(super) type UnitId = u64;

/// Shares out the room for large units.
#[derive(Debug)]
pub(super) struct Turns {
    /// Bytes there are for all.
    room: u64,
    /// The most that a unit may take.
    largest: u64,
    /// Bytes in a second from which on a unit comes fast.
    fast_rate: u64,
    /// What admitted units may take, and what has come of parked ones.
    used: u64,
    /// What has come of parked units.
    parked: u64,
    units: HashMap<UnitId, Unit>,
    fresh: Lanes,
    tried: Lanes,
    /// Who is let in next, as soon as there is room.
    next: Option<UnitId>,
    fresh_in_a_row: u32,
    next_id: UnitId,
}

#[derive(Debug)]
struct Unit {
    address: PeerAddress,
    /// The room that it takes when it is admitted.
    cost: u64,
    /// What has come of it.
    received: u64,
    /// When anything last came of it.
    moved_at: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing of it is counted here.
    Fresh,
    /// Admitted: since when, and what had come before.
    Admitted { since: Duration, before: u64 },
    /// What has come of it is counted.
    Parked,
}

/// What becomes of a unit at the end of its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is read on, and has another turn.
    GoesOn,
    /// It is not read for now, and is told when it is again.
    Parked,
    /// It has to go.
    Cut,
}

impl Turns {
    pub(super) fn new(room: u64, largest: u64, fast_rate: u64) -> Self {
        Self {
            room,
            largest: largest.min(room),
            fast_rate,
            used: 0,
            parked: 0,
            units: HashMap::new(),
            fresh: Lanes::default(),
            tried: Lanes::default(),
            next: None,
            fresh_in_a_row: 0,
            next_id: 0,
        }
    }

    /// A unit that takes `cost` at most asks to be admitted. It is, when `admitted` says so, now or later.
    pub(super) fn ask(&mut self, address: PeerAddress, cost: u64, now: Duration, admitted: &mut Vec<UnitId>) -> UnitId {
        let id = self.next_id;
        self.next_id += 1;
        // What takes more than there is has the room alone.
        let cost = cost.min(self.largest);
        self.units.insert(id, Unit { address, cost, received: 0, moved_at: now, state: State::Fresh });
        self.fresh.push(address, id);
        self.admit(now, admitted);
        id
    }

    /// So much of the unit has come.
    pub(super) fn received(&mut self, id: UnitId, bytes: u64, now: Duration) {
        if let Some(unit) = self.units.get_mut(&id)
            && bytes > unit.received
        {
            unit.received = bytes;
            unit.moved_at = now;
        }
    }

    pub(super) fn is_admitted(&self, id: UnitId) -> bool {
        self.units.get(&id).is_some_and(|unit| matches!(unit.state, State::Admitted { .. }))
    }

    /// The unit is there, or its connection is gone.
    pub(super) fn finish(&mut self, id: UnitId, now: Duration, admitted: &mut Vec<UnitId>) {
        let Some(unit) = self.units.remove(&id) else { return };
        let kept = unit.kept();
        match unit.state {
            State::Fresh => self.fresh.remove(unit.address, id),
            State::Admitted { .. } => self.used = self.used.saturating_sub(unit.cost),
            State::Parked => {
                self.used = self.used.saturating_sub(kept);
                self.parked = self.parked.saturating_sub(kept);
                self.tried.remove(unit.address, id);
            }
        }
        if self.next == Some(id) {
            self.next = None;
        }
        self.admit(now, admitted);
    }

    /// The end of an admitted unit's turn. `is_whole`: it has come, and waits for something else.
    pub(super) fn turn_ends(&mut self, id: UnitId, is_whole: bool, now: Duration, admitted: &mut Vec<UnitId>) -> Verdict {
        self.admit(now, admitted);
        let others_wait = self.next.is_some();
        let (room, largest, parked, fast_rate) = (self.room, self.largest, self.parked, self.fast_rate);
        let Some(unit) = self.units.get_mut(&id) else { return Verdict::GoesOn };
        let State::Admitted { since, before } = unit.state else { return Verdict::Parked };
        let (lasted, brought) = (now.saturating_sub(since), unit.received.saturating_sub(before));
        if lasted < TURN {
            return Verdict::GoesOn;
        }
        let fast = u128::from(fast_rate).saturating_mul(lasted.as_millis()) / 1000;
        if !others_wait || is_whole || u128::from(brought) >= fast {
            unit.state = State::Admitted { since: now, before: unit.received };
            return Verdict::GoesOn;
        }
        let is_stalled = brought == 0 && now.saturating_sub(unit.moved_at) >= STALLED;
        let kept = unit.kept();
        if is_stalled || parked.saturating_add(kept) > room.saturating_sub(largest) {
            return Verdict::Cut;
        }
        unit.state = State::Parked;
        self.used = self.used.saturating_sub(unit.cost).saturating_add(kept);
        self.parked = self.parked.saturating_add(kept);
        self.tried.push(unit.address, id);
        self.admit(now, admitted);
        Verdict::Parked
    }

    /// Lets in who is next, as long as there is room.
    fn admit(&mut self, now: Duration, admitted: &mut Vec<UnitId>) {
        loop {
            if self.next.is_none() {
                self.next = self.choose();
            }
            let Some(id) = self.next else { return };
            let Some(unit) = self.units.get_mut(&id) else {
                self.next = None;
                continue;
            };
            let counted = if unit.state == State::Parked { unit.kept() } else { 0 };
            if self.used.saturating_sub(counted).saturating_add(unit.cost) > self.room {
                return;
            }
            self.used = self.used.saturating_sub(counted).saturating_add(unit.cost);
            self.parked = self.parked.saturating_sub(counted);
            unit.state = State::Admitted { since: now, before: unit.received };
            self.next = None;
            admitted.push(id);
        }
    }

    fn choose(&mut self) -> Option<UnitId> {
        if (self.fresh_in_a_row < FRESH_IN_A_ROW || self.tried.is_empty())
            && let Some(id) = self.fresh.pop()
        {
            self.fresh_in_a_row = self.fresh_in_a_row.saturating_add(1);
            return Some(id);
        }
        self.fresh_in_a_row = 0;
        self.tried.pop()
    }

    /// What has come of admitted and parked units.
    pub(super) fn received_bytes(&self) -> u64 {
        self.units.values().filter(|unit| unit.state != State::Fresh).map(|unit| unit.received).sum()
    }
}

impl Unit {
    /// What stays of it when it is parked.
    fn kept(&self) -> u64 {
        self.received.min(self.cost)
    }
}

/// Units that wait: first come, first served within an address, and addresses in turn.
#[derive(Debug, Default)]
struct Lanes {
    by_address: HashMap<PeerAddress, VecDeque<UnitId>>,
    order: VecDeque<PeerAddress>,
}

impl Lanes {
    fn push(&mut self, address: PeerAddress, id: UnitId) {
        let lane = self.by_address.entry(address).or_default();
        if lane.is_empty() {
            self.order.push_back(address);
        }
        lane.push_back(id);
    }

    fn pop(&mut self) -> Option<UnitId> {
        let address = self.order.pop_front()?;
        let lane = self.by_address.get_mut(&address)?;
        let id = lane.pop_front();
        if lane.is_empty() {
            self.by_address.remove(&address);
        } else {
            self.order.push_back(address);
        }
        id
    }

    fn remove(&mut self, address: PeerAddress, id: UnitId) {
        let Some(lane) = self.by_address.get_mut(&address) else { return };
        lane.retain(|other| *other != id);
        if lane.is_empty() {
            self.by_address.remove(&address);
            self.order.retain(|other| *other != address);
        }
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
