//! Times of single events, kept whole until the end: sorting them is exact and costs nothing while the clock runs.

use serde::{Deserialize, Serialize};

/// Percentiles of times, in µs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many times these are.
    pub count: u64,
    /// Half took no longer.
    pub p50: f64,
    /// Nine of ten.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Latency {
    /// Of times in ns; none gives zeros.
    #[must_use]
    pub fn of(mut times_ns: Vec<u64>) -> Self {
        times_ns.sort_unstable();
        let at = |share: f64| percentile(&times_ns, share);
        Self { count: times_ns.len() as u64, p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1.0) }
    }
}

/// The nearest rank, in µs.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a rank within a vector's length"
)]
fn percentile(sorted_ns: &[u64], share: f64) -> f64 {
    let rank = (share * sorted_ns.len() as f64).ceil() as usize;
    sorted_ns.get(rank.saturating_sub(1)).map_or(0.0, |ns| *ns as f64 / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let latency = Latency::of((1..=1000).rev().map(|us| us * 1000).collect());
        assert_eq!(latency, Latency { count: 1000, p50: 500.0, p90: 900.0, p99: 990.0, p999: 999.0, max: 1000.0 });
        assert_eq!(Latency::of(Vec::new()), Latency::default());
        assert_eq!(Latency::of(vec![5000]).p50, 5.0);
    }
}
