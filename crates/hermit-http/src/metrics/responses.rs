//! How requests over HTTP were answered.

use std::sync::atomic::{AtomicU64, Ordering};

const FIRST: u16 = 100;
const COUNT: usize = 500;

/// Counts of answers by status.
#[derive(Debug)]
pub(crate) struct Responses([AtomicU64; COUNT]);

impl Default for Responses {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Responses {
    pub(crate) fn count(&self, status: u16) {
        if let Some(counter) = status.checked_sub(FIRST).and_then(|at| self.0.get(usize::from(at))) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Those that there were, in their order.
    pub(crate) fn read(&self) -> Vec<(u16, u64)> {
        let all = (FIRST..).zip(&self.0).map(|(status, counter)| (status, counter.load(Ordering::Relaxed)));
        all.filter(|(_, count)| *count > 0).collect()
    }
}
