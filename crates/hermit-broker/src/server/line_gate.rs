//! Lines in the log that peers can bring about: only so many of them, so that a flood of connections does not fill the disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Lines of one kind in each period.
const LINES: u64 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// Lets some lines of a kind through.
#[derive(Debug)]
pub(crate) struct LineGate {
    began: Instant,
    /// The number of the period, and the lines that were asked for in it: 32 bits each.
    state: AtomicU64,
}

/// The kinds of lines.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Connections that broke, or were too slow.
    pub(super) ended: LineGate,
    /// Connections that were closed for what the peer did.
    pub(super) closed: LineGate,
    /// Logins that were refused.
    pub(super) refused_logins: LineGate,
    /// Connections that were too many.
    pub(super) turned_away: LineGate,
    /// Connections that could not be taken in.
    pub(super) not_taken_in: LineGate,
    /// What a consumer of version 1 was not given, as it cannot be read.
    pub(super) passed_over: LineGate,
    /// Positions of groups of version 1 that were moved.
    pub(super) moved: LineGate,
    /// Positions that were asked for, and cannot be read.
    pub(super) unreadable: LineGate,
}

impl Lines {
    pub(crate) fn new() -> Self {
        let gate = LineGate::new;
        Self {
            ended: gate(),
            closed: gate(),
            refused_logins: gate(),
            turned_away: gate(),
            not_taken_in: gate(),
            passed_over: gate(),
            moved: gate(),
            unreadable: gate(),
        }
    }
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// It is written; so many were left out in the period before.
    Write {
        left_out: u64,
    },
    LeaveOut,
}

impl LineGate {
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), state: AtomicU64::new(0) }
    }

    /// Asks for a line.
    pub(crate) fn line(&self) -> Line {
        self.line_at(self.began.elapsed())
    }

    fn line_at(&self, since: Duration) -> Line {
        let period = since.as_secs() / PERIOD.as_secs();
        let next = |state: u64| {
            let (of, asked) = (state >> 32, state & u64::from(u32::MAX));
            let asked = if of == period & u64::from(u32::MAX) { (asked + 1).min(u64::from(u32::MAX)) } else { 1 };
            Some((period << 32) | asked)
        };
        let before = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or_default();
        let (of, asked) = (before >> 32, before & u64::from(u32::MAX));
        if of != period & u64::from(u32::MAX) {
            Line::Write { left_out: asked.saturating_sub(LINES) }
        } else if asked < LINES {
            Line::Write { left_out: 0 }
        } else {
            Line::LeaveOut
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_its_number() {
        let gate = LineGate::new();
        let lines: Vec<_> = (0..1000).map(|_| gate.line_at(Duration::from_secs(3))).collect();
        assert_eq!(lines.iter().filter(|line| **line != Line::LeaveOut).count() as u64, LINES);
        assert_eq!(gate.line_at(Duration::from_secs(13)), Line::Write { left_out: 1000 - LINES });
        assert_eq!(gate.line_at(Duration::from_secs(13)), Line::Write { left_out: 0 });
    }
}
