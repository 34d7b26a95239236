//! The groups' time.

use parking_lot::Mutex;

/// Who asks every second asks no later than this, in ns, unless the process was stopped.
const LONGEST_GAP: u64 = 3_000_000_000;

/// A clock that stands still while the process does. A broker that was stopped (SIGSTOP, a machine that was paused) would otherwise put all
/// members out when it wakes: their heartbeats have come meanwhile, and nobody has read them.
#[derive(Debug, Default)]
pub(super) struct GroupTime(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// When somebody last asked; none where nobody asks regularly.
    asked_at: Option<u64>,
    /// How long the process stood still.
    lost: u64,
}

impl GroupTime {
    /// From now on gaps are noticed.
    pub(super) fn watch(&self, monotonic: u64) {
        self.0.lock().asked_at = Some(monotonic);
    }

    /// The groups' time at a time of the monotonic clock, both in ns.
    pub(super) fn at(&self, monotonic: u64) -> u64 {
        let mut state = self.0.lock();
        if let Some(asked_at) = state.asked_at {
            let gap = monotonic.saturating_sub(asked_at);
            if gap > LONGEST_GAP {
                tracing::warn!(seconds = gap / 1_000_000_000, "the broker stood still; members of groups are given that time");
                state.lost = state.lost.saturating_add(gap);
            }
            state.asked_at = Some(asked_at.max(monotonic));
        }
        monotonic.saturating_sub(state.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_does_not_count_and_what_is_not_watched_has_none() {
        const SECOND: u64 = 1_000_000_000;
        let time = GroupTime::default();
        assert_eq!([1, 100].map(|at| time.at(at * SECOND)), [SECOND, 100 * SECOND]);
        time.watch(100 * SECOND);
        assert_eq!([101, 103, 163, 162, 164].map(|at| time.at(at * SECOND) / SECOND), [101, 103, 103, 102, 104]);
    }
}
