//! Memory for embedders that receive bytes by a protocol of their own.

use std::sync::Arc;

use super::Broker;
use crate::memory::Loan;

impl Broker {
    /// Room in the budget of [`Limits::max_inflight_bytes`](crate::Limits::max_inflight_bytes) for what an embedder receives by a protocol of its own: none yet, see [`Loan::grow`].
    #[must_use]
    pub fn loan(&self) -> Loan {
        Loan::of(Arc::clone(self.budget()))
    }

    /// Most bytes that all loans together have: a sixteenth of the budget, where that is not small.
    #[must_use]
    pub fn max_loan_bytes(&self) -> u64 {
        self.budget().most_lent_bytes()
    }
}
