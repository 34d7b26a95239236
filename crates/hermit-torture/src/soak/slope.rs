//! Whether numbers grow: the median of the slopes between all pairs of samples (Theil and Sen), which a spike, or a quarter of the samples, does
//! not move.

use std::fmt;

use super::sample::Incarnation;
use crate::memory::mib;

/// Samples that a slope is made of at most: pairs grow with the square.
const MOST: usize = 400;
/// Of fewer samples nothing is said.
const FEWEST: usize = 8;
/// An hour has room for a small leak to show; what a short run finds must be larger.
const LONG_SECONDS: f64 = 1800.0;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// Resident bytes.
    Memory,
    /// Open descriptors.
    Descriptors,
    /// Threads.
    Threads,
    /// Bytes on disk.
    Disk,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Memory, Self::Descriptors, Self::Threads, Self::Disk];

    /// What it may grow by over a long run: so much, or such a part of what there is.
    const fn tolerance(self) -> (f64, f64) {
        match self {
            Self::Memory => (4_194_304.0, 0.10),
            Self::Descriptors => (12.0, 0.15),
            Self::Threads => (2.0, 0.0),
            // Segments come and go in steps, and compaction when it pays.
            Self::Disk => (8_388_608.0, 0.25),
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Memory => "memory",
            Self::Descriptors => "descriptors",
            Self::Threads => "threads",
            Self::Disk => "disk",
        })
    }
}

/// How much something grew.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// What.
    pub measure: Measure,
    /// In which incarnation of the broker, from 1; `None`: over all of them.
    pub incarnation: Option<usize>,
    /// By how much over its time, as the slope says.
    pub growth: f64,
    /// What is allowed.
    pub allowed: f64,
}

impl Verdict {
    /// Whether that is too much.
    #[must_use]
    pub fn is_growth(&self) -> bool {
        self.growth > self.allowed
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, incarnation, growth, allowed } = self;
        match incarnation {
            Some(incarnation) => write!(f, "{measure:<12} in incarnation {incarnation}: ")?,
            None => write!(f, "{measure:<12} over all incarnations: ")?,
        }
        match measure {
            Measure::Memory | Measure::Disk => {
                let bytes = |number: f64| {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "sizes on a machine are far below 2^53"
                    )]
                    let size = mib(number.abs() as u64);
                    if number < 0.0 { format!("-{size}") } else { size }
                };
                write!(f, "{} (allowed {})", bytes(*growth), bytes(*allowed))
            }
            Measure::Descriptors | Measure::Threads => write!(f, "{growth:.1} (allowed {allowed:.1})"),
        }
    }
}

/// The median slope of all pairs of points (x, y); 0 where there are too few.
#[must_use]
pub fn theil_sen(points: &[(f64, f64)]) -> f64 {
    let mut slopes = Vec::new();
    for (number, (x, y)) in points.iter().enumerate() {
        let later = points.iter().skip(number + 1).filter(|(later, _)| later > x);
        slopes.extend(later.map(|(later, value)| (value - y) / (later - x)));
    }
    slopes.sort_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or(0.0)
}

/// What grew, within incarnations and over them.
pub(super) fn judge(incarnations: &[Incarnation]) -> Vec<Verdict> {
    let seconds: f64 = incarnations.iter().map(|incarnation| incarnation.time.as_secs_f64()).sum();
    let wider = (LONG_SECONDS / seconds.max(1.0)).clamp(1.0, 4.0);
    let mut verdicts = Vec::new();
    for measure in Measure::ALL {
        let allowed = |level: f64| {
            let (absolute, part) = measure.tolerance();
            wider * absolute.max(part * level)
        };
        for (number, incarnation) in incarnations.iter().enumerate() {
            let warm = incarnation.warm();
            if warm.len() < FEWEST {
                continue;
            }
            let step = warm.len().div_ceil(MOST);
            let points: Vec<_> =
                warm.iter().step_by(step).map(|sample| (sample.at.as_secs_f64(), sample.get(measure) as f64)).collect();
            let span = points.last().map_or(0.0, |last| last.0) - points.first().map_or(0.0, |first| first.0);
            let growth = theil_sen(&points) * span;
            let level = incarnation.median(measure) as f64;
            verdicts.push(Verdict { measure, incarnation: Some(number + 1), growth, allowed: allowed(level) });
        }
        // The first one starts from nothing: what it has is no measure for the others.
        let points: Vec<_> = (0_u32..)
            .zip(incarnations)
            .skip(1)
            .map(|(x, incarnation)| (f64::from(x), incarnation.median(measure) as f64))
            .collect();
        if points.len() >= 2 {
            let growth = theil_sen(&points) * (points.len() - 1) as f64;
            verdicts.push(Verdict {
                measure,
                incarnation: None,
                growth,
                allowed: allowed(points.first().map_or(0.0, |first| first.1)),
            });
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::soak::Sample;

    fn incarnation(seconds: u64, memory: impl Fn(u64) -> u64) -> Incarnation {
        let sample = |second| Sample {
            at: Duration::from_secs(second),
            memory_bytes: memory(second),
            descriptors: 50,
            threads: 20,
            disk_bytes: 100 << 20,
        };
        Incarnation { time: Duration::from_secs(seconds), samples: (0..seconds).map(sample).collect() }
    }

    fn grown(incarnations: &[Incarnation]) -> Vec<(Measure, Option<usize>)> {
        judge(incarnations)
            .iter()
            .filter(|verdict| verdict.is_growth())
            .map(|verdict| (verdict.measure, verdict.incarnation))
            .collect()
    }

    #[test]
    fn the_slope_is_that_of_most_pairs() {
        let mut points: Vec<_> = (0..100).map(|x| (f64::from(x), 3.0 * f64::from(x) + 7.0)).collect();
        assert!((theil_sen(&points) - 3.0).abs() < 1e-9);
        // A spike moves a mean, and not this.
        points[50].1 = 1e9;
        assert!((theil_sen(&points) - 3.0).abs() < 1e-9);
        assert!(theil_sen(&[]).abs() < 1e-9);
    }

    #[test]
    fn what_stays_and_what_swings_does_not_grow() {
        let flat = incarnation(600, |second| (50 << 20) + (second * 7919 % 4096) * 1024);
        assert_eq!(grown(&[flat.clone(), flat.clone(), flat]), []);
        // Warming up is no growth.
        let warming = incarnation(600, |second| (50 << 20) + (second.min(150) << 17));
        assert_eq!(grown(&[warming]), []);
    }

    #[test]
    fn a_leak_within_an_incarnation_is_found() {
        let flat = incarnation(600, |_| 50 << 20);
        let leak = incarnation(600, |second| (50 << 20) + (second << 16));
        assert_eq!(grown(&[flat.clone(), leak, flat]), [(Measure::Memory, Some(2))]);
    }

    #[test]
    fn growth_from_start_to_start_is_found() {
        let of = |level: u64| incarnation(600, move |_| (50 << 20) + level * (5 << 20));
        assert_eq!(grown(&[of(0), of(1), of(2), of(3), of(4)]), [(Measure::Memory, None)]);
    }
}
