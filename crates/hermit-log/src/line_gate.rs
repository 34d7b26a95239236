//! Lines of the process's log that come as often as somebody likes, or as a disk fails: only so many of them, so that they do not fill the disk.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Lines of one kind in each period.
const LINES: u64 = 20;
const PERIOD: Duration = Duration::from_secs(10);

/// Lets 20 lines of a kind through in each ten seconds.
#[derive(Debug, Default)]
pub struct LineGate {
    /// The number of the period, and the lines that were asked for in it: 32 bits each.
    state: AtomicU64,
}

/// What becomes of a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Line {
    /// It is written.
    Write {
        /// Count of those that were left out in the last period before in which there were any.
        left_out: u64,
    },
    /// It is left out.
    LeaveOut,
}

impl LineGate {
    /// Asks for a line, at a time since some fixed moment.
    pub fn line_at(&self, since: Duration) -> Line {
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

/// The kinds of lines of logs, for all of them together.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Something that can be made again could not be stored, as on a full disk at every flush.
    pub(crate) unstored: LineGate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_its_number() {
        let gate = LineGate::default();
        let lines: Vec<_> = (0..1000).map(|_| gate.line_at(Duration::from_secs(3))).collect();
        assert_eq!(lines.iter().filter(|line| **line != Line::LeaveOut).count() as u64, LINES);
        assert_eq!(gate.line_at(Duration::from_secs(13)), Line::Write { left_out: 1000 - LINES });
        assert_eq!(gate.line_at(Duration::from_secs(13)), Line::Write { left_out: 0 });
    }
}
