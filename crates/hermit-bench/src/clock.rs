//! The wall clock of a measurement: nothing is decided by it but when a load ends.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time now.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds since the Unix epoch: comes from the same clock in every process of the machine.
#[expect(clippy::disallowed_methods, reason = "the time that a payload carries is compared in another process")]
#[must_use]
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
