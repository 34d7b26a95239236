//! The budget for bytes that were received and not yet handed on.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

/// The budget of all connections together.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_bytes: u64,
    used_bytes: Mutex<u64>,
    /// Changes when bytes were given back while somebody wanted more than there was.
    freed: watch::Sender<u64>,
}

impl Budget {
    pub(crate) fn new(limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self { limit_bytes, used_bytes: Mutex::new(0), freed: watch::Sender::new(0) })
    }

    /// A share of nothing yet.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), bytes: 0 }
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        *self.used_bytes.lock()
    }
}

/// What one connection holds of the budget; given back when it ends.
#[derive(Debug)]
pub(crate) struct Share {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Share {
    /// Holds `bytes` from now on. What is there already is counted whether or not it fits; the answer tells whether more may be read.
    pub(crate) fn set(&mut self, bytes: u64) -> bool {
        let mut used = self.budget.used_bytes.lock();
        // Nobody waits who has seen room.
        let was_full = *used >= self.budget.limit_bytes;
        *used = used.saturating_sub(self.bytes).saturating_add(bytes);
        let (freed, fits) = (was_full && bytes < self.bytes, *used <= self.budget.limit_bytes);
        drop(used);
        self.bytes = bytes;
        if freed {
            self.budget.freed.send_modify(|count| *count = count.wrapping_add(1));
        }
        fits
    }

    /// Whether more may be read.
    pub(crate) fn has_room(&self) -> bool {
        *self.budget.used_bytes.lock() < self.budget.limit_bytes
    }

    /// Waits until there may be room. Check again afterwards.
    pub(crate) async fn freed(&self) {
        let mut freed = self.budget.freed.subscribe();
        if !self.has_room() {
            // The sender lives as long as this share.
            let _closed = freed.changed().await;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_are_given_back() {
        let budget = Budget::new(100);
        let (mut a, mut b) = (budget.share(), budget.share());
        assert!(a.set(60));
        assert!(b.has_room());
        assert!(!b.set(60));
        assert!(!a.has_room());
        assert!(a.set(10));
        drop(b);
        assert_eq!(budget.used_bytes(), 10);
        drop(a);
        assert_eq!(budget.used_bytes(), 0);
    }
}
