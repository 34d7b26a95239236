//! From how many logs on one sync of the file system costs less than a sync for each: measured all the time, as it depends on the disk, on the file system, and
//! on what others write there, which such a sync has to wait for.

use std::time::Duration;

use crate::pace::blend;

/// Fewer are not tried: their own syncs run at the same time, and wait for nobody else's data.
const FEWEST: usize = 4;
/// Where one sync of the file system was no gain, it is tried again after so many times the time it took, and each time that it is none again after twice
/// as many: while somebody writes a lot, each of them keeps everybody waiting.
const PAUSE: u32 = 16;
const MAX_PAUSE: u32 = 1024;

#[derive(Debug, Default)]
pub(crate) struct Crossover {
    /// What a log's own sync takes lately, with others at the same time.
    own: Duration,
    /// What a sync of the file system takes lately; `None` where it is to be tried.
    whole: Option<Duration>,
    not_before: Duration,
    /// What the last sync of the file system that was no gain took.
    lost: Duration,
    /// The pause after the last that was no gain, 0 after one that was.
    pause: u32,
}

impl Crossover {
    /// What `logs` syncs take where `threads` run at a time.
    fn own_syncs(&self, logs: usize, threads: usize) -> Duration {
        self.own.saturating_mul(u32::try_from(logs.div_ceil(threads.max(1))).unwrap_or(u32::MAX))
    }

    /// Whether to flush so many logs with one sync. What was no gain for a few may well be one for many.
    pub(crate) fn joins(&self, now: Duration, logs: usize, threads: usize) -> bool {
        let own = self.own_syncs(logs, threads);
        let gains = if now >= self.not_before { self.whole.is_none_or(|whole| whole < own) } else { self.lost * 2 < own };
        logs >= FEWEST && gains
    }

    pub(crate) fn took_own(&mut self, took: Duration) {
        self.own = blend(self.own, took);
    }

    pub(crate) fn took_whole(&mut self, now: Duration, took: Duration, logs: usize, threads: usize) {
        if took > self.own_syncs(logs, threads) && !self.own.is_zero() {
            self.whole = None;
            self.lost = took;
            self.pause = (self.pause * 2).clamp(PAUSE, MAX_PAUSE);
            self.not_before = now + took.saturating_mul(self.pause);
        } else {
            self.pause = 0;
            self.whole = Some(blend(self.whole.unwrap_or_default(), took));
        }
    }

    /// How long a sync of the file system may keep others waiting.
    pub(super) fn patience(&self, logs: usize, threads: usize) -> Duration {
        self.whole.unwrap_or_default().max(self.own_syncs(logs, threads)) * 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_took_less_lately_is_done() {
        let mut crossover = Crossover::default();
        assert!(!crossover.joins(MS, FEWEST - 1, 4));
        assert!(crossover.joins(MS, FEWEST, 4), "it is tried");
        crossover.took_own(MS);
        crossover.took_whole(MS, MS * 3, 100, 4);
        assert!(crossover.joins(MS, 16, 4), "3 ms against 4");
        assert!(!crossover.joins(MS, 12, 4), "3 ms against 3");
        // Others write a lot.
        crossover.took_whole(MS, MS * 100, 100, 4);
        assert!(!crossover.joins(MS * 1600, 800, 4), "it is left alone for a while");
        assert!(crossover.joins(MS * 1600, 804, 4), "but where it gains all the same");
        assert!(crossover.joins(MS * 1601, 4, 4), "and tried again");
        crossover.took_whole(MS * 1700, MS, 100, 4);
        assert!(crossover.joins(MS * 1701, 8, 4));
    }

    #[test]
    fn what_is_no_gain_again_and_again_is_tried_ever_less() {
        let (mut crossover, mut now, mut spent) = (Crossover::default(), MS, Duration::ZERO);
        crossover.took_own(MS);
        let hour = Duration::from_secs(3600);
        while now < hour {
            // Beside a bulk writer.
            if crossover.joins(now, 8, 4) {
                now += MS * 500;
                spent += MS * 500;
                crossover.took_whole(now, MS * 500, 8, 4);
            }
            now += MS * 100;
        }
        assert!(spent < hour / 200, "{spent:?} of an hour");
        // It is found when that ends, and the next pause is a short one again.
        now += MS * 500 * MAX_PAUSE;
        assert!(crossover.joins(now, 8, 4));
        crossover.took_whole(now, MS, 8, 4);
        crossover.took_whole(now, MS * 500, 8, 4);
        assert!(crossover.joins(now + MS * 500 * PAUSE, 8, 4));
    }

    #[test]
    fn a_first_sync_of_all_is_no_loss_while_nothing_is_known() {
        let mut crossover = Crossover::default();
        crossover.took_whole(MS, MS * 50, 4, 4);
        assert!(!crossover.joins(MS * 2, 4, 4), "50 ms against what is not known yet");
        crossover.took_own(MS);
        assert!(!crossover.joins(MS * 2, 100, 4));
        assert!(crossover.joins(MS * 2, 300, 4));
    }
}
