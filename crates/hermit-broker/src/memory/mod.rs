//! The budget for bytes that were received and not yet handed on.
//!
//! It has three parts, see `docs/architecture.md`: what is read without asking (*loose* bytes: many small units, or the first piece of any), units of
//! middle size where that part is used up, and large units.

mod loan;
mod turns;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use self::turns::{TURN, Turns, UnitId, Verdict};
use crate::address::PeerAddress;
use crate::limits::Limits;

pub use loan::Loan;

/// Larger units ask before they are read.
const SMALL_UNIT_BYTES: u64 = 64 << 10;
/// What is read of a large unit before it is admitted: a read is not to be cut for it, and what came with the header is there anyway.
const PIECE_BYTES: u64 = 68 << 10;
/// So much every connection may hold, whatever the others hold.
const FLOOR_BYTES: u64 = 4 << 10;
/// Header and a little more around key and payload of a unit.
const UNIT_OVERHEAD_BYTES: u64 = 1 << 10;
/// Least that is kept for small units where the budget can hold little more than one request.
const LEAST_SMALL_BYTES: u64 = 32 << 10;

/// The budget of all connections together.
#[derive(Debug)]
pub(crate) struct Budget {
    began: Instant,
    /// Bytes that were read without asking.
    loose_bytes: AtomicU64,
    max_loose_bytes: u64,
    /// Those of the loose bytes that are lent.
    lent_bytes: AtomicU64,
    small_unit_bytes: u64,
    middle: Pool,
    large: Pool,
}

/// Room for units that ask.
#[derive(Debug)]
struct Pool {
    state: Mutex<PoolState>,
}

#[derive(Debug)]
struct PoolState {
    turns: Turns,
    /// Who is told when its unit is admitted.
    owners: HashMap<UnitId, Arc<Notify>>,
    /// Room for those that were admitted by one event.
    admitted: Vec<UnitId>,
}

impl Pool {
    fn new(room: u64, largest: u64, fast_rate: u64) -> Self {
        let turns = Turns::new(room, largest, fast_rate);
        Self { state: Mutex::new(PoolState { turns, owners: HashMap::new(), admitted: Vec::new() }) }
    }
}

impl PoolState {
    fn tell(&mut self) {
        for id in self.admitted.drain(..) {
            if let Some(owner) = self.owners.get(&id) {
                owner.notify_one();
            }
        }
    }
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let budget = limits.max_inflight_bytes;
        let request = u64::from(limits.max_request_bytes).saturating_add(UNIT_OVERHEAD_BYTES);
        let small = (budget / 4).min(budget.saturating_sub(request)).max(LEAST_SMALL_BYTES);
        let large = budget.saturating_sub(small);
        let small_unit_bytes = SMALL_UNIT_BYTES.min(small / 4);
        // The largest cost: a version-1 frame counts twice, as far as there is room for that.
        let largest = request.saturating_mul(2).min(large);
        let rate = limits.min_large_frame_rate;
        Arc::new(Self {
            began: Instant::now(),
            loose_bytes: AtomicU64::new(0),
            max_loose_bytes: small / 2,
            lent_bytes: AtomicU64::new(0),
            small_unit_bytes,
            middle: Pool::new(small / 2, small_unit_bytes, rate),
            large: Pool::new(large, largest, rate),
        })
    }

    /// The share of a connection from there: nothing yet. A unit is held so many times at once while it is handed on.
    pub(crate) fn share(self: &Arc<Self>, address: PeerAddress, copies: u64) -> Share {
        Share {
            budget: Arc::clone(self),
            address,
            copies,
            buffered_bytes: 0,
            announced_bytes: None,
            loose_bytes: 0,
            unit: None,
            admitted: Arc::new(Notify::new()),
        }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        let held = [&self.middle, &self.large].map(|pool| pool.state.lock().turns.received_bytes());
        held.iter().sum::<u64>().saturating_add(self.loose_bytes.load(Ordering::Relaxed))
    }

    fn has_loose_room(&self) -> bool {
        self.loose_bytes.load(Ordering::Relaxed) < self.max_loose_bytes
    }

    const fn pool(&self, is_large: bool) -> &Pool {
        if is_large { &self.large } else { &self.middle }
    }
}

/// What one connection holds of the budget; given back when it ends.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    address: PeerAddress,
    copies: u64,
    buffered_bytes: u64,
    announced_bytes: Option<u64>,
    loose_bytes: u64,
    unit: Option<Held>,
    admitted: Arc<Notify>,
}

/// A unit that asked for room.
#[derive(Debug)]
struct Held {
    id: UnitId,
    is_large: bool,
    declared_bytes: u64,
    /// The end of its turn; `None` while it waits for one.
    turn_ends_at: Option<Instant>,
    /// Whether what has come is counted with it: once it had a turn.
    is_counted: bool,
}

impl Share {
    /// So many bytes are in the buffer now, and the unit at its front announces that it is so long, header included. Call this after each read,
    /// and after units were taken out.
    pub(crate) fn update(&mut self, buffered_bytes: u64, announced_bytes: Option<u64>) {
        // What asked was the front unit: it was taken.
        if buffered_bytes < self.buffered_bytes && self.unit.is_some() {
            self.finish();
        }
        self.buffered_bytes = buffered_bytes;
        self.announced_bytes = announced_bytes;
        if let Some(unit) = &self.unit {
            let now = self.budget.began.elapsed();
            self.budget.pool(unit.is_large).state.lock().turns.received(unit.id, buffered_bytes, now);
        } else if let Some(announced) = announced_bytes
            && announced > buffered_bytes
            && announced > self.budget.small_unit_bytes
        {
            self.ask(announced, true);
        }
        self.count();
    }

    /// How many bytes may be read now; `None`: none, until [`Share::changed`].
    pub(crate) fn permit(&mut self) -> Option<usize> {
        if self.unit.is_none() {
            if self.budget.has_loose_room() {
                return Some(usize::MAX);
            }
            match self.announced_bytes {
                Some(announced) if announced > self.buffered_bytes && announced > FLOOR_BYTES => self.ask(announced, false),
                _ => return Some(size(FLOOR_BYTES)),
            }
        }
        self.look();
        let unit = self.unit.as_ref()?;
        if unit.turn_ends_at.is_some() {
            return Some(usize::MAX);
        }
        let piece = if self.budget.has_loose_room() { PIECE_BYTES } else { FLOOR_BYTES };
        (!unit.is_counted && self.buffered_bytes < piece).then(|| size(piece - self.buffered_bytes))
    }

    /// Whether a unit waits for its turn.
    pub(crate) fn is_waiting(&self) -> bool {
        self.unit.as_ref().is_some_and(|unit| unit.turn_ends_at.is_none())
    }

    /// Resolves when it is time to ask again.
    pub(crate) async fn changed(&self) {
        self.admitted.notified().await;
    }

    /// When [`Share::turn_ends`] is to be called.
    pub(crate) fn turn_ends_at(&self) -> Option<Instant> {
        self.unit.as_ref()?.turn_ends_at
    }

    /// The turn of the unit that is being read is over. `is_held_up`: the peer does not take its answers, for which a whole unit waits. Answers whether
    /// the connection may stay.
    pub(crate) fn turn_ends(&mut self, is_held_up: bool) -> bool {
        let Some(unit) = &mut self.unit else { return true };
        let is_whole = self.buffered_bytes >= unit.declared_bytes && !is_held_up;
        let mut state = self.budget.pool(unit.is_large).state.lock();
        let PoolState { turns, admitted, .. } = &mut *state;
        let verdict = turns.turn_ends(unit.id, is_whole, self.budget.began.elapsed(), admitted);
        state.tell();
        match verdict {
            Verdict::GoesOn => unit.turn_ends_at = Some(Instant::now() + TURN),
            Verdict::Parked => unit.turn_ends_at = None,
            Verdict::Cut => {
                drop(state);
                self.finish();
                return false;
            }
        }
        true
    }

    fn ask(&mut self, announced_bytes: u64, is_large: bool) {
        let mut state = self.budget.pool(is_large).state.lock();
        let PoolState { turns, owners, admitted } = &mut *state;
        let cost = announced_bytes.saturating_mul(if is_large { self.copies } else { 1 });
        let id = turns.ask(self.address, cost, self.budget.began.elapsed(), admitted);
        owners.insert(id, Arc::clone(&self.admitted));
        state.tell();
        drop(state);
        self.unit = Some(Held { id, is_large, declared_bytes: announced_bytes, turn_ends_at: None, is_counted: false });
        self.look();
    }

    /// Whether the unit that waits has a turn now.
    fn look(&mut self) {
        let Some(unit) = self.unit.as_mut().filter(|unit| unit.turn_ends_at.is_none()) else { return };
        let mut state = self.budget.pool(unit.is_large).state.lock();
        if state.turns.is_admitted(unit.id) {
            state.turns.received(unit.id, self.buffered_bytes, self.budget.began.elapsed());
            drop(state);
            unit.turn_ends_at = Some(Instant::now() + TURN);
            unit.is_counted = true;
            self.count();
        }
    }

    fn finish(&mut self) {
        let Some(unit) = self.unit.take() else { return };
        let mut state = self.budget.pool(unit.is_large).state.lock();
        let PoolState { turns, owners, admitted } = &mut *state;
        owners.remove(&unit.id);
        turns.finish(unit.id, self.budget.began.elapsed(), admitted);
        state.tell();
    }

    /// Counts what is held without having asked.
    fn count(&mut self) {
        let loose = if self.unit.as_ref().is_some_and(|unit| unit.is_counted) { 0 } else { self.buffered_bytes };
        let total = &self.budget.loose_bytes;
        if loose > self.loose_bytes {
            total.fetch_add(loose - self.loose_bytes, Ordering::Relaxed);
        } else if loose < self.loose_bytes {
            total.fetch_sub(self.loose_bytes - loose, Ordering::Relaxed);
        }
        self.loose_bytes = loose;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.finish();
        self.buffered_bytes = 0;
        self.count();
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn budget(max_inflight_bytes: u64) -> Arc<Budget> {
        Budget::new(&Limits { max_inflight_bytes, max_request_bytes: 1 << 20, ..Limits::default() })
    }

    fn share(budget: &Arc<Budget>) -> Share {
        budget.share(PeerAddress::of(Ipv4Addr::LOCALHOST.into()), 1)
    }

    #[test]
    fn shares_add_up_and_are_given_back() {
        let budget = budget(8 << 20);
        let (mut a, mut b, mut c) = (share(&budget), share(&budget), share(&budget));
        a.update(60, None);
        b.update(1000, Some(1 << 20));
        c.update(500, Some(600));
        assert_eq!(budget.used_bytes(), 1560);
        b.update(1 << 20, Some(1 << 20));
        assert_eq!((budget.used_bytes(), budget.loose_bytes.load(Ordering::Relaxed)), (560 + (1 << 20), 560));
        b.update(0, None);
        assert_eq!(budget.used_bytes(), 560);
        drop((a, b, c));
        assert_eq!(budget.used_bytes(), 0);
        assert!(budget.large.state.lock().owners.is_empty());
    }

    #[test]
    fn a_large_unit_waits_for_room_for_all_of_it_and_small_ones_do_not() {
        let budget = budget(4 << 20);
        let mut large: Vec<_> = (0..4).map(|_| share(&budget)).collect();
        for share in &mut large {
            share.update(100, Some(1 << 20));
        }
        let permits: Vec<_> = large.iter_mut().map(Share::permit).collect();
        // Three quarters of the budget; of the fourth only a piece is read.
        assert_eq!(permits[..3], [Some(usize::MAX); 3]);
        assert_eq!(permits[3], Some(size(PIECE_BYTES - 100)));
        large[3].update(PIECE_BYTES, Some(1 << 20));
        assert_eq!(large[3].permit(), None);
        assert_eq!(share(&budget).permit(), Some(usize::MAX));
        large[0].update(0, None);
        assert_eq!(large[3].permit(), Some(usize::MAX));
    }

    #[test]
    fn where_loose_bytes_are_used_up_little_is_read_and_units_of_middle_size_ask() {
        let budget = budget(4 << 20);
        let mut hogs: Vec<_> = (0..8).map(|_| share(&budget)).collect();
        hogs.iter_mut().for_each(|hog| hog.update(64 << 10, None));
        let mut other = share(&budget);
        assert_eq!(other.permit(), Some(size(FLOOR_BYTES)));
        other.update(3000, Some(40_000));
        assert_eq!(other.permit(), Some(usize::MAX));
        assert_eq!(other.loose_bytes, 0);
        drop(hogs);
        other.update(0, None);
        assert_eq!(other.permit(), Some(usize::MAX));
        drop(other);
        assert_eq!(budget.used_bytes(), 0);
    }
}
