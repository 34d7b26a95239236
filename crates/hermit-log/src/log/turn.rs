//! When a log's next flush is to begin, and whether the flusher knows.

use std::time::Duration;

use super::State;
use crate::config::{Durability, LogConfig};
use crate::pace::Pace;

/// What a log and the flusher have agreed upon.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) pace: Pace,
    /// Frames that were appended since the last flush began.
    pub(super) waiting_frames: u64,
    /// Somebody wants a flush that waits for nothing.
    pub(super) asked: bool,
    /// A flush is under way: when it has ended, it is seen to what comes next.
    pub(super) running: bool,
    /// The log is in the flusher's queue.
    pub(super) queued: bool,
    /// The flusher looks at the log when others that are expected have had their time.
    pub(super) paced: bool,
    /// With `os`: when the flusher looks at the log for its interval. It stays so where the log is flushed before: there is one such time, or each flush would leave
    /// one behind that comes to be a flush itself.
    pub(super) later: Option<Duration>,
    /// With `os`: since when something is not flushed, and by no flush under way.
    pub(super) unflushed_since: Option<Duration>,
}

/// What the flusher is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    Now,
    At(Duration),
}

impl State {
    /// When the next flush is to begin, noted as told: whoever asks tells the flusher.
    pub(super) fn next_flush(&mut self, now: impl Fn() -> Duration) -> Next {
        let unflushed_bytes = self.appended_bytes - self.flushed_bytes;
        let LogConfig { durability, os_flush_bytes, os_flush_interval, .. } = self.config;
        let turn = &mut self.turn;
        let is_waiting = durability == Durability::Os && unflushed_bytes > 0;
        turn.unflushed_since = is_waiting.then(|| turn.unflushed_since.unwrap_or_else(&now));
        if turn.running || turn.queued {
            return Next::Nothing;
        }
        let next = if turn.asked {
            Next::Now
        } else if unflushed_bytes == 0 || self.failed.is_some() {
            Next::Nothing
        } else if durability == Durability::Sync {
            match turn.pace.due(now(), turn.waiting_frames) {
                None => Next::Now,
                Some(_) if turn.paced => Next::Nothing,
                Some(at) => Next::At(at),
            }
        } else if unflushed_bytes >= os_flush_bytes {
            Next::Now
        } else if let (None, Some(since)) = (turn.later, turn.unflushed_since) {
            let at = since.saturating_add(os_flush_interval);
            turn.later = Some(at);
            return Next::At(at);
        } else {
            Next::Nothing
        };
        turn.queued |= next == Next::Now;
        turn.paced |= matches!(next, Next::At(_));
        next
    }

    /// The flusher has come to this log, for whatever reason. Whether it is time to flush it.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        let turn = &mut self.turn;
        turn.queued = false;
        turn.paced = false;
        turn.later = turn.later.filter(|at| *at > now);
        if turn.running {
            return false;
        }
        let LogConfig { durability, os_flush_bytes, os_flush_interval, .. } = self.config;
        turn.asked
            || match durability {
                Durability::Sync => turn.pace.due(now, turn.waiting_frames).is_none(),
                Durability::Os => {
                    let is_over = |since: Duration| now >= since.saturating_add(os_flush_interval);
                    self.appended_bytes - self.flushed_bytes >= os_flush_bytes || turn.unflushed_since.is_some_and(is_over)
                }
            }
    }
}
