//! Memory for an answer, taken from the broker's budget before it is used.

use hermit_broker::{Broker, Loan};

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
    /// All that can ever be had: what can be lent to everybody together, and what need not be.
    most_bytes: u64,
}

/// Why there is no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// Others have it.
    Now,
    /// It is more than there is.
    Ever,
}

impl Room {
    /// None yet, but for what is not counted; of that there may be as much as `most_free_bytes` another time.
    pub(crate) fn new(broker: &Broker, free_bytes: u64, most_free_bytes: u64) -> Self {
        let most_bytes = broker.max_loan_bytes().saturating_add(most_free_bytes);
        Self { loan: broker.loan(), lent_bytes: 0, used_bytes: 0, free_bytes, most_bytes }
    }

    /// Takes so many bytes more.
    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), NoRoom> {
        let used_bytes = self.used_bytes.saturating_add(bytes);
        if used_bytes > self.most_bytes {
            return Err(NoRoom::Ever);
        }
        let wanted_bytes = used_bytes.saturating_sub(self.free_bytes);
        let more_bytes = wanted_bytes.saturating_sub(self.lent_bytes);
        if !self.loan.grow(more_bytes) {
            return Err(NoRoom::Now);
        }
        self.lent_bytes = self.lent_bytes.saturating_add(more_bytes);
        self.used_bytes = used_bytes;
        Ok(())
    }

    /// So many bytes are used no more. They stay lent, for what is read next.
    pub(crate) const fn give_back(&mut self, bytes: u64) {
        self.used_bytes = self.used_bytes.saturating_sub(bytes);
    }

    /// Bytes that could be taken if nobody else had any.
    pub(crate) const fn left_bytes(&self) -> u64 {
        self.most_bytes.saturating_sub(self.used_bytes)
    }

    /// A loan for so many bytes, which are what is left. Those that are not counted need none.
    pub(crate) fn keep(self, bytes: u64) -> Loan {
        let mut loan = self.loan;
        loan.shrink_to(bytes.saturating_sub(self.free_bytes));
        loan
    }
}
