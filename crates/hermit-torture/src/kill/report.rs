//! What a run has shown, for people.

use std::fmt;
use std::time::Duration;

use crate::check::Violations;
use crate::check::history::{Deed, Totals};
use crate::logins::Counts;

/// One deed, and how the broker came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// What was done.
    pub deed: Deed,
    /// SIGKILLs in it.
    pub kills: usize,
    /// From its last start until it was ready; zero where it did not have to start.
    pub ready_after: Duration,
}

/// Counts and times of a run, and what was wrong.
#[derive(Debug)]
pub struct Report {
    /// What the history adds up to.
    pub totals: Totals,
    /// What was done with users, where everybody had to log in.
    pub logins: Option<Counts>,
    /// Events in it.
    pub events: usize,
    /// All deeds.
    pub recoveries: Vec<Recovery>,
    /// How long clients were at work.
    pub worked_for: Duration,
    /// The same, with reading everything back and checking it.
    pub took: Duration,
    /// What was wrong.
    pub violations: Violations,
}

impl Report {
    /// Whether every promise was kept.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    /// How long starts took: the median, and the longest.
    fn starts(&self) -> Option<(Duration, Duration)> {
        let starts = self.recoveries.iter().map(|recovery| recovery.ready_after).filter(|after| !after.is_zero());
        let mut starts: Vec<_> = starts.collect();
        starts.sort_unstable();
        Some((*starts.get(starts.len() / 2)?, *starts.last()?))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { sent, stored, refused, unanswered, unanswered_held, reads, commits, held, deeds } = &self.totals;
        writeln!(f, "sent       {sent:>9} messages")?;
        writeln!(f, "stored     {stored:>9} by their answers")?;
        writeln!(f, "refused    {refused:>9}")?;
        writeln!(f, "unanswered {unanswered:>9}, and {unanswered_held} of them stored")?;
        writeln!(f, "read       {reads:>9} records by all readers")?;
        writeln!(f, "committed  {commits:>9} times")?;
        writeln!(f, "in the end {held:>9} records; {} events checked", self.events)?;
        if let Some(logins) = &self.logins {
            write!(f, "{logins}")?;
        }
        for (deed, count) in deeds.iter().filter(|(deed, _)| **deed != Deed::Serves) {
            writeln!(f, "{deed:<24} {count:>6}")?;
        }
        let kills: usize = self.recoveries.iter().map(|recovery| recovery.kills).sum();
        writeln!(f, "SIGKILLs in all          {kills:>6}")?;
        if let Some((median, longest)) = self.starts() {
            writeln!(f, "ready after a start in {} ms (median), {} ms (longest)", median.as_millis(), longest.as_millis())?;
        }
        writeln!(f, "{:.1} s at work, {:.1} s in all", self.worked_for.as_secs_f64(), self.took.as_secs_f64())?;
        write!(f, "{}", self.violations)
    }
}
