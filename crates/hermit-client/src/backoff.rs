//! Bounded back-off with jitter.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long to wait between attempts: doubles from `min` to `max`, each time cut by up to a half at random, so that
/// clients that lost the same broker do not come back in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackoffConfig {
    /// The first wait. Default 50 ms.
    pub min: Duration,
    /// The longest wait. Default 2 s.
    pub max: Duration,
}

impl Default for BackoffConfig {
    fn default() -> Self {
        Self { min: Duration::from_millis(50), max: Duration::from_secs(2) }
    }
}

/// One sequence of waits.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    config: BackoffConfig,
    attempts: u32,
    random: u64,
}

impl Backoff {
    pub(crate) fn new(config: BackoffConfig) -> Self {
        // `RandomState` is seeded by the operating system; xorshift needs a state that is not 0.
        Self { config, attempts: 0, random: RandomState::new().hash_one(0u8) | 1 }
    }

    /// One whose jitter can be repeated.
    #[cfg(test)]
    pub(crate) const fn seeded(config: BackoffConfig, seed: u64) -> Self {
        Self { config, attempts: 0, random: seed | 1 }
    }

    /// The next wait.
    pub(crate) fn next(&mut self) -> Duration {
        let factor = 1u32.checked_shl(self.attempts.min(31)).unwrap_or(u32::MAX);
        self.attempts = self.attempts.saturating_add(1);
        let full = self.config.min.saturating_mul(factor).min(self.config.max.max(self.config.min));
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // 0..=512 of 1024ths are taken off.
        let off = u32::try_from(self.random % 513).unwrap_or(0);
        full.saturating_sub(full.saturating_mul(off) / 1024)
    }

    /// It worked: begin at the shortest wait again.
    pub(crate) const fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_never_fall_below_half() {
        let config = BackoffConfig { min: Duration::from_millis(10), max: Duration::from_millis(100) };
        let mut backoff = Backoff::new(config);
        for full in [10, 20, 40, 80, 100, 100, 100] {
            let wait = backoff.next();
            assert!(wait <= Duration::from_millis(full), "{wait:?} of {full}");
            assert!(wait >= Duration::from_millis(full) / 2, "{wait:?} of {full}");
        }
        for _ in 0..100 {
            assert!(backoff.next() <= config.max);
        }
        backoff.reset();
        assert!(backoff.next() <= config.min);
    }

    #[test]
    fn jitter_differs_between_sequences() {
        let config = BackoffConfig { min: Duration::from_secs(1), max: Duration::from_secs(1) };
        let mut waits: Vec<_> = (0..16).map(|_| Backoff::new(config).next()).collect();
        waits.sort_unstable();
        waits.dedup();
        assert!(waits.len() > 1, "all the same: {waits:?}");
    }
}
