//! Passwords that were found right lately: a reconnect must not cost an argon2 each time.

use std::collections::{HashSet, VecDeque};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::error::BrokerError;
use crate::ids::Ids;

/// A password's keyed hash, with whose it is and since when. The key is random and never leaves the process.
pub(crate) type Mark = [u8; 32];

/// Marks of passwords that were found right.
#[derive(Debug)]
pub(crate) struct Known {
    key: Key,
    marks: HashSet<Mark>,
    /// Oldest first.
    order: VecDeque<Mark>,
    most: usize,
}

struct Key([u8; 32]);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl Known {
    pub(crate) fn new(most: usize, ids: &Ids) -> Result<Self, BrokerError> {
        let mut key = [0; 32];
        for half in key.chunks_exact_mut(16) {
            half.copy_from_slice(&ids.next()?.to_be_bytes());
        }
        Ok(Self { key: Key(key), marks: HashSet::new(), order: VecDeque::new(), most })
    }

    /// The mark of a password, which is the user's since `revision`.
    pub(crate) fn mark(&self, user: &str, revision: u64, password: &[u8]) -> Option<Mark> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key.0).ok()?;
        mac.update(&(user.len() as u64).to_be_bytes());
        mac.update(user.as_bytes());
        mac.update(&revision.to_be_bytes());
        mac.update(password);
        Some(mac.finalize().into_bytes().into())
    }

    pub(crate) fn contains(&self, mark: &Mark) -> bool {
        self.marks.contains(mark)
    }

    /// Remembers a password that was found right; the oldest makes room.
    pub(crate) fn insert(&mut self, mark: Mark) {
        if self.most == 0 || !self.marks.insert(mark) {
            return;
        }
        self.order.push_back(mark);
        while self.marks.len() > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            self.marks.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_user_revision_and_password_together() {
        let known = Known::new(10, &Ids::new(Some(1))).unwrap();
        let mark = known.mark("ab", 1, b"c").unwrap();
        for other in [known.mark("a", 1, b"bc"), known.mark("ab", 2, b"c"), known.mark("ab", 1, b"d")] {
            assert_ne!(other.unwrap(), mark);
        }
        assert_ne!(Known::new(10, &Ids::new(Some(2))).unwrap().mark("ab", 1, b"c").unwrap(), mark, "keyed");
    }

    #[test]
    fn so_many_are_remembered() {
        let mut known = Known::new(2, &Ids::new(Some(1))).unwrap();
        for number in 0..3 {
            known.insert([number; 32]);
            known.insert([number; 32]);
        }
        assert_eq!([0, 1, 2].map(|number| known.contains(&[number; 32])), [false, true, true]);
        assert_eq!(known.order.len(), 2);
    }
}
