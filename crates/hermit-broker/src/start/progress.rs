//! How far a start is, for who waits for it.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far a start is: shared, by [`BrokerConfig::start_progress`](crate::BrokerConfig::start_progress), between the broker that is being opened and whoever
/// wants to know meanwhile.
#[derive(Debug, Default)]
pub struct StartProgress {
    partitions: AtomicU64,
    opened: AtomicU64,
}

impl StartProgress {
    /// Partitions that are to be opened; 0 while that is not known yet.
    #[must_use]
    pub fn partitions(&self) -> u64 {
        self.partitions.load(Ordering::Relaxed)
    }

    /// Partitions that are open already, or have failed to be.
    #[must_use]
    pub fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    pub(super) fn begin(&self, partitions: usize) {
        self.partitions.store(partitions as u64, Ordering::Relaxed);
    }

    pub(super) fn opened_one(&self) {
        self.opened.fetch_add(1, Ordering::Relaxed);
    }
}
