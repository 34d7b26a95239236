//! Whether a peer sends or takes bytes as fast as it has to.

use std::time::Duration;

use tokio::time::Instant;

/// Time that was spent waiting for a peer, less what it has earned by taking or sending bytes. Who is not behind earns nothing.
#[derive(Debug)]
pub(crate) struct Pace {
    patience: Duration,
    bytes_per_second: u64,
    behind: Duration,
    waits_since: Option<Instant>,
}

impl Pace {
    /// A peer that takes or sends so many bytes in a second may be behind by so much time.
    pub(crate) const fn new(patience: Duration, bytes_per_second: u64) -> Self {
        Self { patience, bytes_per_second, behind: Duration::ZERO, waits_since: None }
    }

    /// The peer does not take or send more now; answers until when it must.
    pub(crate) fn waits(&mut self, now: Instant) -> Instant {
        later(*self.waits_since.get_or_insert(now), self.patience.saturating_sub(self.behind))
    }

    /// The peer has taken or sent bytes; answers whether it is in time.
    pub(crate) fn took(&mut self, bytes: usize, now: Instant) -> bool {
        let waited = self.waits_since.take().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.behind = self.behind.saturating_add(waited).saturating_sub(at_rate(bytes as u64, self.bytes_per_second));
        self.behind <= self.patience
    }
}

/// An instant, and the last one that can be told where it would be behind that.
fn later(from: Instant, by: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    from + by.min(FAR)
}

/// The time that bytes take at a rate.
fn at_rate(bytes: u64, bytes_per_second: u64) -> Duration {
    let ms = u128::from(bytes) * 1000 / u128::from(bytes_per_second.max(1));
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}
