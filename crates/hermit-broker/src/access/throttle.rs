//! Limiting logins that fail: per user and address, and per address. Pure; the time is given.
//!
//! Only who fails waits: the counts are of one address, so that nobody can keep another address out.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};

const SECOND: u64 = 1_000_000_000;
/// Failures of a user at one address that cost nothing but the check: typing errors.
const FREE_OF_USER: u32 = 5;
/// The same for all users of one address, behind which there may be many people.
const FREE_OF_ADDRESS: u32 = 50;
/// The first wait. Each failure after it doubles it.
const FIRST_WAIT: u64 = SECOND;
const LONGEST_WAIT: u64 = 60 * SECOND;
/// Failures are forgotten when there was none for so long.
const FORGET: u64 = 15 * 60 * SECOND;
/// Counts that are kept of each kind, at some 100 bytes.
const MOST: usize = 10_000;

/// An address as failures are counted for it: of version 6 the network of 64 bits that one customer gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Origin(u128);

impl Origin {
    pub(crate) fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(Ipv6Addr::LOCALHOST) => Ipv6Addr::LOCALHOST.to_bits(),
            IpAddr::V6(address) => address.to_bits() >> 64 << 64,
        })
    }
}

/// Who failed how often lately.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    users: Counts<(String, Origin)>,
    origins: Counts<Origin>,
}

#[derive(Debug)]
struct Counts<K>(HashMap<K, Count>);

#[derive(Debug, Clone, Copy)]
struct Count {
    failures: u32,
    last: u64,
    /// Nothing is looked at before.
    until: u64,
}

impl Throttle {
    /// How many ns are to be waited before a login is looked at; 0: none.
    pub(crate) fn wait(&self, user: &str, origin: Origin, now: u64) -> u64 {
        self.users.wait(&(user.to_owned(), origin), now).max(self.wait_of_origin(origin, now))
    }

    /// The same for an address alone.
    pub(crate) fn wait_of_origin(&self, origin: Origin, now: u64) -> u64 {
        self.origins.wait(&origin, now)
    }

    /// A login has failed.
    pub(crate) fn failed(&mut self, user: &str, origin: Origin, now: u64) {
        self.users.failed((user.to_owned(), origin), FREE_OF_USER, now);
        self.failed_at(origin, now);
    }

    /// One without a user has failed.
    pub(crate) fn failed_at(&mut self, origin: Origin, now: u64) {
        self.origins.failed(origin, FREE_OF_ADDRESS, now);
    }

    /// A login was right. What others failed at the address stays: who has a password of his own may guess another's.
    pub(crate) fn succeeded(&mut self, user: &str, origin: Origin) {
        self.users.0.remove(&(user.to_owned(), origin));
    }
}

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq + Clone> Counts<K> {
    fn wait(&self, key: &K, now: u64) -> u64 {
        self.0.get(key).map_or(0, |count| count.until.saturating_sub(now))
    }

    fn failed(&mut self, key: K, free: u32, now: u64) {
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            self.make_room(now);
        }
        let count = self.0.entry(key).or_insert(Count { failures: 0, last: now, until: 0 });
        if now.saturating_sub(count.last) > FORGET {
            count.failures = 0;
        }
        count.failures = count.failures.saturating_add(1);
        count.last = now;
        if let Some(doublings) = count.failures.checked_sub(free) {
            let wait = FIRST_WAIT.checked_shl(doublings.min(32)).unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT);
            count.until = now.saturating_add(wait);
        }
    }

    /// Forgets what is old; where that is nothing, the half whose last failure is longest ago.
    fn make_room(&mut self, now: u64) {
        self.0.retain(|_, count| now.saturating_sub(count.last) <= FORGET);
        if self.0.len() < MOST {
            return;
        }
        let mut times: Vec<_> = self.0.values().map(|count| count.last).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        self.0.retain(|_, count| count.last > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::of(text.parse().unwrap())
    }

    #[test]
    fn waits_begin_after_some_failures_double_and_end() {
        let (mut throttle, here, mut now) = (Throttle::default(), origin("10.0.0.1"), 0);
        let mut waits = Vec::new();
        for _ in 0..14 {
            throttle.failed("anna", here, now);
            let wait = throttle.wait("anna", here, now);
            waits.push(wait / SECOND);
            now += wait;
            assert_eq!(throttle.wait("anna", here, now), 0);
        }
        assert_eq!(waits, [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]);
        throttle.succeeded("anna", here);
        throttle.failed("anna", here, now);
        assert_eq!(throttle.wait("anna", here, now), 0);
    }

    #[test]
    fn failures_keep_neither_another_address_nor_at_first_another_user_out() {
        let (mut throttle, here, there) = (Throttle::default(), origin("10.0.0.1"), origin("10.0.0.2"));
        for _ in 0..20 {
            throttle.failed("anna", here, 0);
        }
        assert!(throttle.wait("anna", here, 0) > 0);
        assert_eq!((throttle.wait("bert", here, 0), throttle.wait("anna", there, 0)), (0, 0));
        for number in 0..1000 {
            throttle.failed(&number.to_string(), here, 0);
        }
        assert!(throttle.wait("bert", here, 0) > 0, "an address that tries many users");
        assert_eq!(throttle.wait("anna", there, 0), 0);
    }

    #[test]
    fn failures_of_long_ago_are_forgotten_and_memory_is_bounded() {
        let (mut throttle, here) = (Throttle::default(), origin("10.0.0.1"));
        for _ in 0..5 {
            throttle.failed("anna", here, 0);
        }
        throttle.failed("anna", here, FORGET + 1);
        assert_eq!(throttle.wait("anna", here, FORGET + 1), 0);
        for number in 0..25_000u64 {
            throttle.failed(&number.to_string(), here, number);
        }
        assert!(throttle.users.0.len() <= MOST);
        assert!(throttle.users.0.contains_key(&("24999".to_owned(), here)));
    }

    #[test]
    fn addresses_of_version_6_count_by_network() {
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:1"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
        assert_ne!(origin("10.0.0.1"), origin("10.0.0.2"));
    }
}
