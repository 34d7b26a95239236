//! How long to wait before something is tried again.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// A collector that asks for more time is looked at all the same.
const LONGEST_ASKED: Duration = Duration::from_secs(300);

/// Twice as long each time.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Time until the next attempt after one more that failed; `asked` is what the other side asked for. Some of it is by chance, so that brokers that lost their
    /// collector together do not come back together.
    pub(super) fn after_failure(&mut self, asked: Option<Duration>) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let longest = FIRST.saturating_mul(1 << (self.failures - 1).min(6)).min(LONGEST);
        longest.mul_f64(fastrand::f64().mul_add(0.5, 0.5)).max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }

    pub(super) const fn after_success(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_doubles_to_a_minute_and_begins_anew() {
        let mut backoff = Backoff::default();
        for longest in [1, 2, 4, 8, 16, 32, 60, 60] {
            let wait = backoff.after_failure(None).as_secs_f64();
            assert!(wait >= f64::from(longest) / 2.0 && wait <= f64::from(longest), "{wait} of {longest}");
        }
        assert_eq!(backoff.after_failure(Some(Duration::from_secs(90))), Duration::from_secs(90));
        assert_eq!(backoff.after_failure(Some(Duration::from_secs(9000))), LONGEST_ASKED);
        backoff.after_success();
        assert!(backoff.after_failure(None) <= FIRST);
    }
}
