//! Lines in the log that peers can bring about: only so many of them, so that a flood of connections does not fill the disk.

pub(crate) use hermit_log::Line;
use tokio::time::Instant;

/// Lets some lines of a kind through.
#[derive(Debug)]
pub(crate) struct LineGate {
    began: Instant,
    gate: hermit_log::LineGate,
}

/// The kinds of lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// Connections that broke, or were too slow.
    pub(super) ended: LineGate,
    /// Connections that were closed for what the peer did.
    pub(super) closed: LineGate,
    /// Logins that were refused.
    pub(crate) refused_logins: LineGate,
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
    /// Connections that were closed by a fault in the broker.
    pub(crate) panicked: LineGate,
    /// Sessions that ended with the user or the credential that opened them.
    pub(crate) revoked: LineGate,
    /// Topics that came.
    pub(crate) created: LineGate,
    /// Topics that went.
    pub(crate) deleted: LineGate,
    /// Topics whose settings were changed.
    pub(crate) altered: LineGate,
    /// Topics that were given partitions.
    pub(crate) grown: LineGate,
    /// Partitions that were trimmed.
    pub(crate) trimmed: LineGate,
    /// Groups whose positions have expired.
    pub(crate) expired: LineGate,
    /// Partitions for which retention or compaction failed.
    pub(crate) upkeep: LineGate,
    /// Appends that the hook before them could not look at.
    pub(crate) hook: LineGate,
}

impl Default for LineGate {
    fn default() -> Self {
        Self { began: Instant::now(), gate: hermit_log::LineGate::default() }
    }
}

impl LineGate {
    /// Asks for a line.
    pub(crate) fn line(&self) -> Line {
        self.gate.line_at(self.began.elapsed())
    }
}
