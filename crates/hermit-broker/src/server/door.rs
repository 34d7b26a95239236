//! Who is in: connections are counted by address, and apart from those that have not finished their handshake. No I/O.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::address::PeerAddress;
use crate::error::{BrokerError, Counted};
use crate::limits::Limits;

/// Counts connections.
#[derive(Debug)]
pub(crate) struct Door {
    max_connections: AtomicUsize,
    max_connections_per_address: AtomicUsize,
    max_handshakes: AtomicUsize,
    state: Mutex<State>,
    turned_away: AtomicU64,
    put_out: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Connections whose handshake is over.
    open: usize,
    open_by_address: HashMap<PeerAddress, usize>,
    /// Those whose handshake is not, in the order in which they came.
    waiting: BTreeMap<u64, Waiting>,
    waiting_by_address: HashMap<PeerAddress, usize>,
    next: u64,
}

#[derive(Debug)]
struct Waiting {
    address: PeerAddress,
    put_out: Arc<Notify>,
}

/// What happened to connections since the broker's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionCounts {
    /// Connections whose handshake is over.
    pub open: usize,
    /// Connections whose handshake is not.
    pub in_handshake: usize,
    /// Connections that were refused at the end of their handshake, as there were too many.
    pub turned_away: u64,
    /// Connections that were closed within their handshake, to make room for newer ones.
    pub put_out: u64,
}

impl Door {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            max_connections: AtomicUsize::new(limits.max_connections),
            max_connections_per_address: AtomicUsize::new(limits.max_connections_per_address),
            max_handshakes: AtomicUsize::new(limits.max_handshakes),
            state: Mutex::default(),
            turned_away: AtomicU64::new(0),
            put_out: AtomicU64::new(0),
        })
    }

    /// From now on these hold. Nobody who is in is put out by lower ones.
    pub(crate) fn set_limits(&self, limits: &Limits) {
        self.max_connections.store(limits.max_connections, Ordering::Relaxed);
        self.max_connections_per_address.store(limits.max_connections_per_address, Ordering::Relaxed);
        self.max_handshakes.store(limits.max_handshakes, Ordering::Relaxed);
    }

    /// Lets a connection begin its handshake. Where that makes too many, an older one has to go: the oldest from the address that has most of them,
    /// so that a flood from one address puts out its own.
    pub(crate) fn enter(self: &Arc<Self>, address: PeerAddress) -> Entry {
        let mut state = self.state.lock();
        if state.waiting.len() >= self.max_handshakes.load(Ordering::Relaxed) {
            self.put_out.fetch_add(1, Ordering::Relaxed);
            state.put_out_one();
        }
        let (number, put_out) = (state.next, Arc::new(Notify::new()));
        state.next += 1;
        state.waiting.insert(number, Waiting { address, put_out: Arc::clone(&put_out) });
        *state.waiting_by_address.entry(address).or_default() += 1;
        Entry { door: Arc::clone(self), address, number, put_out, is_open: false }
    }

    pub(crate) fn counts(&self) -> ConnectionCounts {
        let state = self.state.lock();
        ConnectionCounts {
            open: state.open,
            in_handshake: state.waiting.len(),
            turned_away: self.turned_away.load(Ordering::Relaxed),
            put_out: self.put_out.load(Ordering::Relaxed),
        }
    }
}

impl State {
    fn put_out_one(&mut self) {
        let most = self.waiting_by_address.values().copied().max().unwrap_or_default();
        let is_from_there = |waiting: &Waiting| self.waiting_by_address.get(&waiting.address).is_some_and(|count| *count == most);
        let oldest = self.waiting.iter().find(|(_, waiting)| is_from_there(waiting)).map(|(number, _)| *number);
        if let Some(waiting) = oldest.and_then(|number| self.forget(number)) {
            waiting.put_out.notify_one();
        }
    }

    fn forget(&mut self, number: u64) -> Option<Waiting> {
        let waiting = self.waiting.remove(&number)?;
        count_down(&mut self.waiting_by_address, waiting.address);
        Some(waiting)
    }
}

fn count_down(counts: &mut HashMap<PeerAddress, usize>, address: PeerAddress) {
    if let Some(count) = counts.get_mut(&address) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(&address);
        }
    }
}

/// A connection that was let in; it is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    door: Arc<Door>,
    address: PeerAddress,
    number: u64,
    put_out: Arc<Notify>,
    is_open: bool,
}

impl Entry {
    /// From where.
    pub(crate) const fn address(&self) -> PeerAddress {
        self.address
    }

    /// Resolves when the connection has to make room, which happens in its handshake only.
    pub(crate) fn put_out(&self) -> impl Future<Output = ()> + use<> {
        let put_out = Arc::clone(&self.put_out);
        async move { put_out.notified().await }
    }

    /// The handshake is over: counts the connection among the others, if the limits allow. Once is enough.
    ///
    /// # Errors
    /// [`BrokerError::TooMany`].
    pub(crate) fn open(&mut self) -> Result<(), BrokerError> {
        if self.is_open {
            return Ok(());
        }
        let door = Arc::clone(&self.door);
        let mut state = door.state.lock();
        let from_there = state.open_by_address.get(&self.address).copied().unwrap_or_default();
        let most = door.max_connections.load(Ordering::Relaxed);
        let most_from_there = door.max_connections_per_address.load(Ordering::Relaxed);
        let refused = if state.open >= most {
            Some((Counted::Connections, most))
        } else if from_there >= most_from_there {
            Some((Counted::ConnectionsOfAddress, most_from_there))
        } else {
            None
        };
        if let Some((what, limit)) = refused {
            drop(state);
            door.turned_away.fetch_add(1, Ordering::Relaxed);
            return Err(BrokerError::TooMany { what, limit: limit as u64 });
        }
        state.forget(self.number);
        state.open += 1;
        *state.open_by_address.entry(self.address).or_default() += 1;
        self.is_open = true;
        Ok(())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.door.state.lock();
        if self.is_open {
            state.open = state.open.saturating_sub(1);
            count_down(&mut state.open_by_address, self.address);
        } else {
            state.forget(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn door(max_connections: usize, max_connections_per_address: usize, max_handshakes: usize) -> Arc<Door> {
        Door::new(&Limits { max_connections, max_connections_per_address, max_handshakes, ..Limits::default() })
    }

    fn address(last: u8) -> PeerAddress {
        PeerAddress::of(Ipv4Addr::new(10, 0, 0, last).into())
    }

    fn is_put_out(entry: &Entry) -> bool {
        pin!(entry.put_out()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn a_flood_of_handshakes_puts_out_its_own_and_never_who_is_in() {
        let door = door(10, 10, 4);
        let mut first = door.enter(address(1));
        first.open().unwrap();
        let other = door.enter(address(2));
        let flood: Vec<_> = (0..10).map(|_| door.enter(address(3))).collect();
        let out: Vec<_> = flood.iter().map(is_put_out).collect();
        assert_eq!(out.iter().filter(|out| **out).count(), 7);
        assert!(out[..7].iter().all(|out| *out), "the oldest go first: {out:?}");
        assert!(!is_put_out(&other) && !is_put_out(&first));
        assert_eq!(door.counts(), ConnectionCounts { open: 1, in_handshake: 4, turned_away: 0, put_out: 7 });
        drop((first, other, flood));
        assert_eq!(door.counts(), ConnectionCounts { put_out: 7, ..ConnectionCounts::default() });
        assert!(door.state.lock().open_by_address.is_empty() && door.state.lock().waiting_by_address.is_empty());
    }

    #[test]
    fn handshakes_take_no_room_from_connections_and_an_address_has_its_limit() {
        let door = door(3, 2, 100);
        let mut entries: Vec<_> = [1, 1, 1, 2, 2].map(|last| door.enter(address(last))).into();
        let opened: Vec<_> = entries.iter_mut().map(|entry| entry.open().is_ok()).collect();
        assert_eq!(opened, [true, true, false, true, false]);
        let refused = |entry: &mut Entry| match entry.open() {
            Err(BrokerError::TooMany { what, limit }) => (what, limit),
            other => panic!("{other:?}"),
        };
        assert_eq!(refused(&mut entries[4]), (Counted::Connections, 3));
        drop(entries.remove(3));
        assert_eq!(refused(&mut entries[2]), (Counted::ConnectionsOfAddress, 2));
        entries[3].open().unwrap();
        assert_eq!(door.counts(), ConnectionCounts { open: 3, in_handshake: 1, turned_away: 4, put_out: 0 });
    }
}
