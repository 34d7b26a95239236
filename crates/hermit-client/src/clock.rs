//! The wall clock, read in one place.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NS_PER_S: u64 = 1_000_000_000;

/// Nanoseconds since the Unix epoch; 0 before it.
#[inline]
pub(crate) fn wall_clock_ns() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "this is the SDK's one clock for record timestamps")]
    let now = SystemTime::now();
    // In 64 bits: it is read for each record. They last until the year 2554.
    let nanos = |since: Duration| since.as_secs().saturating_mul(NS_PER_S).saturating_add(since.subsec_nanos().into());
    now.duration_since(UNIX_EPOCH).map_or(0, nanos)
}
