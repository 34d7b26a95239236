//! Opening a log: read the facts, decide, act (`docs/architecture.md`, "Recovery").

mod act;
mod decide;
mod facts;
mod part;
mod place;
mod rewrite;

use hermit_proto::{LeaderEpoch, Offset};

use crate::error::LogError;

use crate::fenced::{Fenced, FencedRange};
use crate::segment::Segment;
use std::sync::Arc;

pub(crate) use act::{Opening, recover};
pub(crate) use facts::read_hints;
pub(crate) use part::store_index;
pub(crate) use rewrite::copy;

/// What opening a log found and did. All empty after a clean stop without damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Frames that were read and checked.
    pub scanned_frames: u64,
    /// Log bytes that were read for that.
    pub scanned_bytes: u64,
    /// Damage in flushed data that this start found; it is fenced, and what follows is readable.
    pub fenced: Vec<FencedRange>,
    /// A torn tail that was cut.
    pub cut: Option<CutTail>,
    /// Bytes of the accepted tail that had to be written again before they could be relied on.
    pub rewritten_bytes: u64,
    /// Segments whose index was made again.
    pub rebuilt_indexes: usize,
    /// State files that were damaged and made again or done without, by name.
    pub damaged_state: Vec<String>,
}

/// A torn tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutTail {
    /// The log ends here; whatever was behind was never acknowledged in a `sync` log.
    pub end: Offset,
    /// Bytes that were cut.
    pub bytes: u64,
    /// The files, in the log's directory, that keep them; empty where there was no space.
    pub kept_in: Vec<String>,
}

/// A log as recovery leaves it: all of it flushed.
#[derive(Debug)]
pub(crate) struct Recovered {
    /// Sealed segments, oldest first; after a clean stop the last may go on.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Whether the last segment goes on: it carries the current leader epoch and has an active index.
    pub(crate) continues: bool,
    /// Logical size of the last segment.
    pub(crate) last_len_bytes: u64,
    pub(crate) log_start: Offset,
    pub(crate) log_end: Offset,
    pub(crate) last_append_time: u64,
    pub(crate) fenced: Fenced,
    pub(crate) report: RecoveryReport,
}

/// The epoch for whoever does not keep one elsewhere: that of the newest frames, and one more after a stop that was not clean.
pub(crate) fn next_epoch(opening: &Opening<'_>) -> Result<LeaderEpoch, LogError> {
    Ok(match facts::newest_epoch(opening)? {
        None => LeaderEpoch(0),
        Some(epoch) if opening.clean => epoch,
        Some(epoch) => LeaderEpoch(epoch.0.saturating_add(1).min(LeaderEpoch::UNKNOWN.0 - 1)),
    })
}
