//! Room for bytes that others than the native port receive.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Budget;
use crate::broker::Broker;

/// Bytes of the broker's budget that somebody holds, until this is dropped; see [`Broker::loan`].
#[derive(Debug)]
pub struct Loan {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Loan {
    /// Takes so many bytes more; `false`, and nothing more, where there is no room now.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let (lent, most) = (&self.budget.lent_bytes, self.budget.most_lent_bytes());
        let fits = |held: u64| held.checked_add(bytes).filter(|after| *after <= most);
        if lent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return false;
        }
        self.budget.loose_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes = self.bytes.saturating_add(bytes);
        true
    }

    /// Gives back what is beyond so many bytes.
    pub fn shrink_to(&mut self, bytes: u64) {
        self.give_back(self.bytes.saturating_sub(bytes));
    }

    fn give_back(&mut self, bytes: u64) {
        self.budget.lent_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.budget.loose_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

impl Budget {
    /// The native port keeps half of what is read without asking.
    const fn most_lent_bytes(&self) -> u64 {
        self.max_loose_bytes / 2
    }
}

impl Broker {
    /// Room in the budget of [`Limits::max_inflight_bytes`](crate::Limits::max_inflight_bytes) for what an embedder receives by a protocol of its own: none yet, see [`Loan::grow`].
    #[must_use]
    pub fn loan(&self) -> Loan {
        Loan { budget: Arc::clone(self.budget()), bytes: 0 }
    }

    /// Most bytes that all loans together have: a sixteenth of the budget, where that is not small.
    #[must_use]
    pub fn max_loan_bytes(&self) -> u64 {
        self.budget().most_lent_bytes()
    }
}
