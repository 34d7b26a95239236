//! Memory for an answer, taken from the broker's budget before it is used.

use hermit_broker::{Broker, Loan};

use crate::problem::Problem;

/// Room in the budget, for what is read and what is made of it.
#[derive(Debug)]
pub(crate) struct Room {
    loan: Loan,
    /// Bytes of the loan.
    lent_bytes: u64,
    /// Bytes that are used.
    used_bytes: u64,
    /// What is used without being lent.
    free_bytes: u64,
    /// All that can be lent: what is larger takes what there is.
    most_bytes: u64,
}

impl Room {
    /// None yet, but for what is not counted.
    pub(crate) fn new(broker: &Broker, free_bytes: u64) -> Self {
        Self { loan: broker.loan(), lent_bytes: 0, used_bytes: 0, free_bytes, most_bytes: broker.max_loan_bytes() }
    }

    /// Takes so many bytes more.
    ///
    /// # Errors
    /// There are none now.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), Problem> {
        let used_bytes = self.used_bytes.saturating_add(bytes);
        let wanted_bytes = used_bytes.saturating_sub(self.free_bytes).min(self.most_bytes);
        let more_bytes = wanted_bytes.saturating_sub(self.lent_bytes);
        if !self.loan.grow(more_bytes) {
            return Err(Problem::throttled());
        }
        self.lent_bytes = self.lent_bytes.saturating_add(more_bytes);
        self.used_bytes = used_bytes;
        Ok(())
    }

    /// So many bytes are used no more. They stay lent, for what is read next.
    pub(crate) const fn give_back(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }

    /// A loan for so many bytes, which are what is left. Those that are not counted need none.
    pub(crate) fn keep(self, bytes: u64) -> Loan {
        let mut loan = self.loan;
        loan.shrink_to(bytes.saturating_sub(self.free_bytes));
        loan
    }
}
