//! What a run has shown, for people.

use std::fmt;
use std::time::Duration;

use super::Deeds;
use crate::check::{GroupFacts, Violations};

/// A run's counts, and what was wrong.
#[derive(Debug)]
pub struct Report {
    /// Lines sent.
    pub sent: usize,
    /// What the members did.
    pub facts: GroupFacts,
    /// What was done to them.
    pub deeds: Deeds,
    /// Records committed in the end.
    pub committed: u64,
    /// Until the last line was answered.
    pub produced_in: Duration,
    /// Until the last record was committed.
    pub consumed_in: Duration,
    /// What was wrong.
    pub violations: Violations,
}

impl Report {
    /// Whether every promise was kept, and all of it was really done.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty() && self.committed == self.sent as u64 && self.facts.distinct == self.committed
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GroupFacts { handled, distinct, assigned, released, lost, looks } = self.facts;
        writeln!(f, "members: {}", self.deeds)?;
        writeln!(f, "partitions: {assigned} times assigned, {released} times given up, {lost} times lost to a fence")?;
        writeln!(f, "sent      {:>8} lines, in {:.1} s", self.sent, self.produced_in.as_secs_f64())?;
        writeln!(f, "handled   {distinct:>8} records, and {} of them again before their commit", handled - distinct)?;
        writeln!(
            f,
            "committed {:>8} records, in {:.1} s; {looks} looks at positions",
            self.committed,
            self.consumed_in.as_secs_f64()
        )?;
        write!(f, "{}", self.violations)
    }
}
