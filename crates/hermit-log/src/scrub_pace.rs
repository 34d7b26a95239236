//! How fast the scrub goes: within its allowance, and far below what the disk and the processors have to spare.

use std::time::Duration;

/// A step is followed by so many times its own length of rest. A step takes long where the disk or the processors are busy with others,
/// so that the scrub takes a fifth of what is there at most, and the less the more others want.
const REST_PER_STEP: u32 = 4;
/// Longer rests would keep the scrub from noticing that there is room again.
const LONGEST_REST: Duration = Duration::from_secs(10);

/// When the next step may begin. Pure: it knows no clock.
///
/// ```
/// use std::time::Duration;
/// use hermit_log::ScrubPace;
///
/// let pace = ScrubPace::new(1 << 20);
/// // 512 KiB at 1 MiB/s are half a second, of which the step itself has taken some.
/// assert_eq!(pace.rest(512 << 10, Duration::from_millis(10)), Duration::from_millis(490));
/// // The disk has others to serve.
/// assert_eq!(pace.rest(512 << 10, Duration::from_millis(400)), Duration::from_millis(1600));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubPace {
    bytes_per_second: u64,
}

impl ScrubPace {
    /// At most so many bytes a second; at least 1.
    #[must_use]
    pub const fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second: if bytes_per_second == 0 { 1 } else { bytes_per_second } }
    }

    /// How long to rest after a step that has read `bytes` in `took`.
    #[must_use]
    pub fn rest(&self, bytes: u64, took: Duration) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        let allowed = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        // A frame of 50 MiB takes its allowance, however long that is; giving way has an end.
        allowed.saturating_sub(took).max(took.saturating_mul(REST_PER_STEP).min(LONGEST_REST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_brings_more_than_its_allowance_and_a_busy_disk_has_four_fifths_for_others() {
        for rate in [1, 1000, 8 << 20, 1 << 30] {
            let pace = ScrubPace::new(rate);
            for bytes in [0, 1, 4096, 512 << 10, 50 << 20] {
                for took in [0, 1, 10, 1000, 60_000].map(Duration::from_millis) {
                    let rest = pace.rest(bytes, took);
                    let seconds = (rest + took).as_secs_f64();
                    #[expect(clippy::cast_precision_loss, reason = "a comparison within a thousandth")]
                    let (bytes, rate) = (bytes as f64, rate as f64);
                    assert!(bytes <= rate * (seconds + 1e-9) * 1.001, "{bytes} bytes in {seconds} s at {rate}");
                    assert!(rest >= (took * 4).min(LONGEST_REST));
                }
            }
        }
        assert_eq!(ScrubPace::new(0), ScrubPace::new(1));
    }
}
