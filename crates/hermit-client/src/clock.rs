//! The wall clock, read in one place.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch; 0 before it.
pub(crate) fn wall_clock_ns() -> u64 {
    #[expect(clippy::disallowed_methods, reason = "this is the SDK's one clock for record timestamps")]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
