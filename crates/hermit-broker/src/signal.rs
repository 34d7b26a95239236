//! Waking whoever waits for partitions to move: one signal for each waiting task, however many partitions it watches.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Tells a waiting task which of the things it waits for have moved. A wake-up before the wait is not lost.
#[derive(Debug)]
pub struct Signal {
    id: u64,
    ready: Mutex<Vec<u64>>,
    // `notify_one` leaves a permit where nobody waits yet, unlike `notify_waiters`.
    notify: Notify,
}

impl Signal {
    /// A signal that nothing has set.
    #[must_use]
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), ready: Mutex::new(Vec::new()), notify: Notify::new() }
    }

    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Says that the thing with this token has moved.
    pub fn wake(&self, token: u64) {
        let mut ready = self.ready.lock();
        if !ready.contains(&token) {
            ready.push(token);
        }
        drop(ready);
        self.notify.notify_one();
    }

    /// Appends the tokens of what has moved since the last call to `tokens`; an empty one gives its room in exchange.
    pub fn take_into(&self, tokens: &mut Vec<u64>) {
        let mut ready = self.ready.lock();
        if tokens.is_empty() {
            std::mem::swap(&mut *ready, tokens);
        } else {
            tokens.append(&mut ready);
        }
    }

    /// Waits until something has moved since the last wait.
    pub async fn notified(&self) {
        self.notify.notified().await;
    }
}

impl Default for Signal {
    fn default() -> Self {
        Self::new()
    }
}
