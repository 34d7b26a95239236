//! Who is in: connections, counted by address. Those that have not asked for anything make room for newer ones, so that a crowd of them keeps nobody out; those that
//! have are limited, so that there is always somebody who can. No I/O.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::config::HttpConfig;

/// Counts connections, requests and streams.
#[derive(Debug)]
pub(crate) struct Door {
    max: usize,
    max_per_address: AtomicUsize,
    #[cfg(feature = "tls")]
    max_handshakes: usize,
    requests: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    places: HashMap<u64, Inside>,
    by_address: HashMap<Network, Counts>,
    /// Those that wait for a request or within their handshake, by when they began to.
    waiting: BTreeMap<u64, u64>,
    /// Those of them that are within a TLS handshake, in the order in which they came.
    shaking: BTreeSet<u64>,
    next: u64,
}

#[derive(Debug)]
struct Inside {
    network: Network,
    /// Its number among those that wait, while it does.
    waits: Option<u64>,
    put_out: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    waiting: usize,
}

/// What counts as one address: an IPv4 address, or the /64 network of an IPv6 one, of which a single host has 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Network(IpAddr);

impl Network {
    fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

/// How many of so many places requests can take, be it of all or of those of one address. The rest is there for who asks whether the broker lives.
fn for_requests(places: usize) -> usize {
    places - (places / 16).clamp(1, 64)
}

impl Door {
    pub(crate) fn new(config: &HttpConfig) -> Arc<Self> {
        let max = config.max_connections.max(1);
        let requests = for_requests(max).max(1);
        let room = |permits: usize| Arc::new(Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS)));
        Arc::new(Self {
            max,
            max_per_address: AtomicUsize::new(config.max_connections_per_address),
            #[cfg(feature = "tls")]
            max_handshakes: config.max_handshakes.max(1),
            requests: room(requests),
            streams: room(requests * 3 / 4),
            state: Mutex::default(),
        })
    }

    /// From now on an address gets so many connections. Those that are there stay.
    pub(crate) fn limit_addresses(&self, max_connections_per_address: usize) {
        self.max_per_address.store(max_connections_per_address, Ordering::Relaxed);
    }

    /// Of two, one can be kept for who asks whether the broker lives.
    fn max_per_address(&self) -> usize {
        self.max_per_address.load(Ordering::Relaxed).max(2)
    }

    /// Lets a connection in, to wait for its first request. Where that makes too many, one that waits has to go: of the same address, where those are too many, else the one that
    /// has waited longest of the address that has most of them, so that a flood from one address puts out its own. `None` where nobody can go.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let network = Network::of(address);
        let mut state = self.state.lock();
        let from_there = state.by_address.get(&network).map_or(0, |counts| counts.all);
        if from_there >= self.max_per_address() && !state.put_out(Some(network)) {
            return None;
        }
        if state.places.len() >= self.max && !state.put_out(None) {
            return None;
        }
        let (number, put_out) = (state.number(), Arc::new(Notify::new()));
        state.places.insert(number, Inside { network, waits: None, put_out: Arc::clone(&put_out) });
        state.by_address.entry(network).or_default().all += 1;
        state.wait(number);
        Some(Place { door: Arc::clone(self), number, put_out })
    }

    /// Room for a stream, which is long.
    pub(crate) fn stream(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.streams).try_acquire_owned().ok()
    }
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn wait(&mut self, place: u64) {
        let number = self.number();
        let Some(held) = self.places.get_mut(&place) else { return };
        held.waits = Some(number);
        self.by_address.entry(held.network).or_default().waiting += 1;
        self.waiting.insert(number, place);
    }

    /// How many of the address of a place have a request; `None` where the place is gone.
    fn busy_beside(&self, place: u64) -> Option<usize> {
        let counts = self.by_address.get(&self.places.get(&place)?.network)?;
        Some(counts.all.saturating_sub(counts.waiting))
    }

    fn wait_no_more(&mut self, place: u64) {
        let Some(held) = self.places.get_mut(&place) else { return };
        if let Some(number) = held.waits.take() {
            self.waiting.remove(&number);
            if let Some(counts) = self.by_address.get_mut(&held.network) {
                counts.waiting = counts.waiting.saturating_sub(1);
            }
        }
    }

    /// Answers whether somebody had to go.
    fn put_out(&mut self, of: Option<Network>) -> bool {
        let waiting_of = |network: Network| self.by_address.get(&network).map_or(0, |counts| counts.waiting);
        let most = self.by_address.values().map(|counts| counts.waiting).max().unwrap_or_default();
        let is_to_go = |place: &u64| {
            let network = self.places.get(place).map(|held| held.network);
            network.is_some_and(|network| of.map_or_else(|| waiting_of(network) == most, |of| of == network))
        };
        let Some(place) = self.waiting.values().copied().find(is_to_go) else { return false };
        self.send_away(place)
    }

    /// The oldest handshake of the address that has most of them.
    #[cfg(feature = "tls")]
    fn put_out_shaking(&mut self) {
        let network = |place: &u64| self.places.get(place).map(|held| held.network);
        let mut counts = HashMap::<_, usize>::new();
        self.shaking.iter().for_each(|place| *counts.entry(network(place)).or_default() += 1);
        let most = counts.values().copied().max();
        if let Some(place) = self.shaking.iter().copied().find(|place| counts.get(&network(place)).copied() == most) {
            self.send_away(place);
        }
    }

    /// Answers whether it was there.
    fn send_away(&mut self, place: u64) -> bool {
        self.leave(place).is_some_and(|held| {
            held.put_out.notify_one();
            true
        })
    }

    fn leave(&mut self, place: u64) -> Option<Inside> {
        self.wait_no_more(place);
        self.shaking.remove(&place);
        let held = self.places.remove(&place)?;
        if let Some(counts) = self.by_address.get_mut(&held.network) {
            counts.all = counts.all.saturating_sub(1);
            if counts.all == 0 {
                self.by_address.remove(&held.network);
            }
        }
        Some(held)
    }
}

/// A connection that was let in; it is counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    door: Arc<Door>,
    number: u64,
    put_out: Arc<Notify>,
}

impl Place {
    /// Resolves when the connection has to make room, which happens while it waits for a request only.
    pub(crate) fn put_out(&self) -> impl Future<Output = ()> + use<> {
        let put_out = Arc::clone(&self.put_out);
        async move { put_out.notified().await }
    }

    /// The connection is within a TLS handshake, until what this gives is dropped. Where that makes too many, an older one has to go, as for [`Door::enter`].
    #[cfg(feature = "tls")]
    pub(crate) fn shake(&self) -> Shaking<'_> {
        let mut state = self.door.state.lock();
        if state.shaking.len() >= self.door.max_handshakes {
            state.put_out_shaking();
        }
        state.shaking.insert(self.number);
        Shaking { place: self }
    }

    /// The connection has a request, until what this gives is dropped; `None` where there are too many, of all or of its address.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<Busy> {
        let permit = Arc::clone(&self.door.requests).try_acquire_owned().ok()?;
        let most = for_requests(self.door.max_per_address());
        let mut state = self.door.state.lock();
        if state.busy_beside(self.number)? >= most {
            return None;
        }
        state.wait_no_more(self.number);
        drop(state);
        Some(Busy { place: Arc::clone(self), _permit: permit })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(self.door.state.lock().leave(self.number));
    }
}

/// A request that is under way, until its answer is out.
#[derive(Debug)]
pub(crate) struct Busy {
    place: Arc<Place>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.place.door.state.lock().wait(self.place.number);
    }
}

/// A TLS handshake that is under way.
#[cfg(feature = "tls")]
#[derive(Debug)]
pub(crate) struct Shaking<'a> {
    place: &'a Place,
}

#[cfg(feature = "tls")]
impl Drop for Shaking<'_> {
    fn drop(&mut self) {
        self.place.door.state.lock().shaking.remove(&self.place.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn door(max_connections: usize, max_connections_per_address: usize) -> Arc<Door> {
        Door::new(&HttpConfig { max_connections, max_connections_per_address, ..HttpConfig::default() })
    }

    fn address(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn is_out(place: &Place) -> bool {
        pin!(place.put_out()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn who_waits_makes_room_and_who_is_served_does_not() {
        let door = door(4, 4);
        let busy_place = Arc::new(door.enter(address(1)).unwrap());
        let busy = busy_place.begin().unwrap();
        let other = door.enter(address(2)).unwrap();
        let flood: Vec<_> = (0..10).map(|_| door.enter(address(3)).unwrap()).collect();
        let out: Vec<_> = flood.iter().map(is_out).collect();
        assert_eq!(out, [[true; 8].as_slice(), &[false; 2]].concat(), "the oldest go first, and the flood's own");
        assert!(!is_out(&busy_place) && !is_out(&other));
        // Whose answer is out waits again.
        drop(busy);
        let more: Vec<_> = (4..8).map(|last| door.enter(address(last)).unwrap()).collect();
        assert!(is_out(&busy_place) && is_out(&other) && more.iter().all(|place| !is_out(place)));
        assert!(busy_place.begin().is_none(), "it was put out");
        drop((busy_place, other, flood, more));
        let state = door.state.lock();
        assert!(state.places.is_empty() && state.by_address.is_empty() && state.waiting.is_empty());
    }

    #[test]
    fn requests_never_take_all_places_and_streams_not_all_requests() {
        let door = door(16, 100);
        let places: Vec<_> = (0..16).map(|last| Arc::new(door.enter(address(last)).unwrap())).collect();
        let busy: Vec<_> = places.iter().filter_map(Place::begin).collect();
        assert_eq!(busy.len(), 15);
        assert!(door.enter(address(99)).is_some() && is_out(&places[15]));
        assert_eq!((0..16).filter_map(|_| door.stream()).collect::<Vec<_>>().len(), 11);
    }

    #[test]
    fn a_flood_of_handshakes_puts_out_its_own() {
        let door = Door::new(&HttpConfig { max_handshakes: 3, ..HttpConfig::default() });
        let other = door.enter(address(1)).unwrap();
        let _shaking = other.shake();
        let flood: Vec<_> = (0..5).map(|_| door.enter(address(2)).unwrap()).collect();
        let shaking: Vec<_> = flood.iter().map(Place::shake).collect();
        assert_eq!(flood.iter().map(is_out).collect::<Vec<_>>(), [true, true, true, false, false]);
        assert!(!is_out(&other));
        // Who has shaken hands is no more in the way.
        drop(shaking);
        let _more: Vec<_> = flood[3..].iter().map(Place::shake).collect();
        assert!(!is_out(&other) && !is_out(&flood[3]));
    }

    #[test]
    fn an_address_has_its_limit() {
        let door = door(100, 3);
        let enter = |address: &str| door.enter(address.parse().unwrap()).map(Arc::new);
        let [first, second, third] = [(); 3].map(|()| enter("2001:db8::1").unwrap());
        let _busy = first.begin().unwrap();
        let fourth = enter("2001:db8::2").unwrap();
        assert!(is_out(&second) && !is_out(&first) && !is_out(&third));
        let _also_busy = fourth.begin().unwrap();
        // Its requests never take all of its places.
        assert!(third.begin().is_none());
        let _fifth = enter("2001:db8::3").unwrap();
        assert!(is_out(&third));
        assert!(enter("2001:db8:0:1::3").unwrap().begin().is_some());
    }

    #[test]
    fn an_address_with_the_least_limit_is_told_whether_the_broker_lives() {
        let door = door(100, 1);
        let [stream, other] = [(); 2].map(|()| Arc::new(door.enter(address(1)).unwrap()));
        let _busy = stream.begin().unwrap();
        assert!(other.begin().is_none());
        assert!(door.enter(address(1)).is_some() && is_out(&other) && !is_out(&stream));
    }

    #[test]
    fn the_limit_of_an_address_can_be_changed() {
        let door = door(100, 3);
        let places = [(); 3].map(|()| Arc::new(door.enter(address(1)).unwrap()));
        let _busy = places[0].begin().unwrap();
        door.limit_addresses(2);
        assert!(places[1].begin().is_none());
        door.limit_addresses(4);
        let _more = door.enter(address(1)).unwrap();
        assert!(places[1].begin().is_some() && places.iter().all(|place| !is_out(place)));
    }
}
