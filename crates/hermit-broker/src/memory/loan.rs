//! Room for bytes that others than the native port receive.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Budget;

/// Bytes of the broker's budget that somebody holds, until this is dropped; see [`Broker::loan`](crate::Broker::loan).
#[derive(Debug)]
pub struct Loan {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Loan {
    /// Of this budget, and nothing yet.
    pub(crate) const fn of(budget: Arc<Budget>) -> Self {
        Self { budget, bytes: 0 }
    }

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
    pub(crate) const fn most_lent_bytes(&self) -> u64 {
        self.max_loose_bytes / 2
    }
}
