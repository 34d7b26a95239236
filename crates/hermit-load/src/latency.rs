//! Latencies, gathered in ns and told in µs.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The longest latency that is told apart: what is longer counts as this.
const LONGEST_NS: u64 = 600_000_000_000;
/// To 1 %: 200 KiB for each histogram.
const DIGITS: u8 = 2;
/// The curve's quantiles, in percent.
const CURVE: [f64; 15] = [0.0, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0];

/// How latencies are distributed, in µs. All is 0 where nothing was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// How many were measured.
    pub count: u64,
    /// Half took no longer.
    pub p50_us: f64,
    /// 90 % took no longer.
    pub p90_us: f64,
    /// 99 % took no longer.
    pub p99_us: f64,
    /// 99.9 % took no longer.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Their mean.
    pub mean_us: f64,
    /// Percent, and the latency that so many did not exceed, for plots.
    pub curve: Vec<(f64, f64)>,
}

/// Gathers latencies; one for each thread that does, merged at the end.
#[derive(Debug)]
pub(crate) struct Latencies(Option<Histogram<u64>>);

impl Latencies {
    pub(crate) fn new() -> Self {
        // These bounds are always accepted.
        Self(Histogram::new_with_bounds(100, LONGEST_NS, DIGITS).ok())
    }

    pub(crate) fn record(&mut self, latency: Duration, count: u64) {
        let ns = u64::try_from(latency.as_nanos()).unwrap_or(LONGEST_NS);
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record_n(ns, count);
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        if let (Some(histogram), Some(other)) = (&mut self.0, &other.0) {
            // The bounds are the same: it cannot fail.
            histogram.add(other).unwrap_or_default();
        }
    }

    pub(crate) fn summary(&self) -> LatencySummary {
        let Some(histogram) = self.0.as_ref().filter(|histogram| !histogram.is_empty()) else {
            return LatencySummary::default();
        };
        let at = |percent: f64| us(histogram.value_at_percentile(percent));
        LatencySummary {
            count: histogram.len(),
            p50_us: at(50.0),
            p90_us: at(90.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: us(histogram.max()),
            mean_us: (histogram.mean() / 10.0).round() / 100.0,
            curve: CURVE.iter().map(|percent| (*percent, at(*percent))).collect(),
        }
    }
}

/// To 10 ns, which a histogram to 1 % does not tell apart anyway.
fn us(ns: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a histogram's values are far below 2⁵³")]
    let ns = ns as f64;
    (ns / 10.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_tells_quantiles_in_us() {
        let (mut all, mut half) = (Latencies::new(), Latencies::new());
        (1..=500).for_each(|us| all.record(Duration::from_micros(us), 1));
        (501..=1000).for_each(|us| half.record(Duration::from_micros(us), 1));
        all.merge(&half);
        let told = all.summary();
        assert_eq!(told.count, 1000);
        for (percent, us) in [(told.p50_us, 500.0), (told.p90_us, 900.0), (told.p99_us, 990.0), (told.max_us, 1000.0)] {
            assert!((percent - us).abs() <= us / 100.0, "{percent} is not {us} to 1 %");
        }
        assert!(told.curve.is_sorted_by(|a, b| a.1 <= b.1));
    }

    #[test]
    fn without_a_measurement_all_is_0_and_a_long_one_counts_as_the_longest() {
        assert_eq!(Latencies::new().summary(), LatencySummary::default());
        let mut one = Latencies::new();
        one.record(Duration::from_secs(86_400), 3);
        let told = one.summary();
        assert!(told.count == 3 && told.max_us >= 600e6, "{told:?}");
    }
}
