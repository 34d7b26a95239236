//! Figures of a case, in relation to what the machine could do and to what they should reach.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::case::Load;
use crate::latency::Latency;
use crate::worker::Outcome;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Frames a second.
    FramesPerSecond,
    /// Records a second.
    RecordsPerSecond,
    /// Bytes a second.
    BytesPerSecond,
    /// Microseconds.
    Micros,
    /// Milliseconds.
    Millis,
    /// Mebibytes.
    Mebibytes,
}

impl Unit {
    /// A figure with its unit, short.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::FramesPerSecond => format!("{} frames/s", short(value)),
            Self::RecordsPerSecond => format!("{} records/s", short(value)),
            Self::BytesPerSecond => format!("{}B/s", short(value)),
            Self::Micros => format!("{value:.0} µs"),
            Self::Millis => format!("{value:.1} ms"),
            Self::Mebibytes => format!("{value:.1} MiB"),
        }
    }
}

/// Three digits and a letter for thousands, millions, thousands of millions.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e9 => format!("{:.2} G", value / 1e9),
        _ if value >= 1e6 => format!("{:.2} M", value / 1e6),
        _ if value >= 1e3 => format!("{:.1} k", value / 1e3),
        _ => format!("{value:.1} "),
    }
}

/// One repetition.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The figure.
    pub value: f64,
    /// What it is compared with, measured beside it, in the same unit.
    pub limit: Option<f64>,
    /// Processor time of the broker for each record, in ns.
    pub cpu_ns: Option<f64>,
    /// Times, where the load takes them.
    pub latency: Option<Latency>,
    /// All that the clients counted.
    pub outcome: Option<Outcome>,
}

impl Sample {
    /// A bare figure.
    #[must_use]
    pub fn new(value: f64, limit: Option<f64>) -> Self {
        Self { value, limit, ..Self::default() }
    }
}

/// Repetitions of one figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Tells it from others of the same case; may be empty.
    pub suffix: String,
    /// What it counts.
    pub unit: Unit,
    /// What it is compared with, in words.
    pub limit_name: String,
    /// The repetitions.
    pub samples: Vec<Sample>,
}

impl Series {
    /// An empty series.
    #[must_use]
    pub fn new(suffix: &str, unit: Unit, limit_name: &str) -> Self {
        Self { suffix: suffix.to_owned(), unit, limit_name: limit_name.to_owned(), samples: Vec::new() }
    }

    /// Takes a repetition, and tells it.
    pub fn push(&mut self, sample: Sample, tell: &mut dyn FnMut(&str)) {
        let mut line = self.unit.show(sample.value);
        if let Some(limit) = sample.limit {
            line += &format!("   {} {}, ratio {:.3}", self.limit_name, self.unit.show(limit), ratio(sample.value, limit));
        }
        if let Some(cpu_ns) = sample.cpu_ns {
            line += &format!("   broker {cpu_ns:.0} ns/record");
        }
        if let Some(Latency { p50, p99, max, .. }) = sample.latency {
            line += &format!("   p50 {p50:.1} p99 {p99:.1} max {max:.1} µs");
        }
        let suffix = if self.suffix.is_empty() { String::new() } else { format!("{}: ", self.suffix) };
        tell(&format!("{suffix}{line}"));
        self.samples.push(sample);
    }
}

/// What a figure should reach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// In words.
    pub words: String,
    /// Whether the ratio is meant, and not the figure itself.
    pub of_ratio: bool,
    /// Whether more is better.
    pub at_least: bool,
    /// The bound.
    pub bound: f64,
}

impl Target {
    /// At least this figure.
    #[must_use]
    pub fn at_least(bound: f64, words: &str) -> Self {
        Self { words: words.to_owned(), of_ratio: false, at_least: true, bound }
    }

    /// At most this figure.
    #[must_use]
    pub fn at_most(bound: f64, words: &str) -> Self {
        Self { words: words.to_owned(), of_ratio: false, at_least: false, bound }
    }

    /// The ratio instead of the figure.
    #[must_use]
    pub fn ratio(self) -> Self {
        Self { of_ratio: true, ..self }
    }
}

/// Median and spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of two, the mean.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
}

impl Spread {
    /// Of some figures; none has none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) };
        Some(Self { median, min, max })
    }
}

/// A line of the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The case, and the suffix of the series.
    pub name: String,
    /// What was done.
    pub settings: Load,
    /// What it counts.
    pub unit: Unit,
    /// What it is compared with, in words.
    pub limit_name: String,
    /// The figure.
    pub figure: Option<Spread>,
    /// Figure by limit, of the same repetition each.
    pub ratio: Option<Spread>,
    /// Processor time of the broker for each record, in ns.
    pub cpu_ns: Option<Spread>,
    /// What it should reach.
    pub target: Option<Target>,
    /// Whether the median does.
    pub met: Option<bool>,
    /// All repetitions.
    pub samples: Vec<Sample>,
}

impl Finding {
    /// Puts the repetitions of a case in relation.
    #[must_use]
    pub fn new(case: &str, settings: &Load, series: Series, target: Option<Target>) -> Self {
        let Series { suffix, unit, limit_name, samples } = series;
        let name = if suffix.is_empty() { case.to_owned() } else { format!("{case} {suffix}") };
        let figure = Spread::of(samples.iter().map(|sample| sample.value));
        let ratio = Spread::of(samples.iter().filter_map(|sample| sample.limit.map(|limit| ratio(sample.value, limit))));
        let cpu_ns = Spread::of(samples.iter().filter_map(|sample| sample.cpu_ns));
        let met = target.as_ref().and_then(|target| {
            let median = if target.of_ratio { ratio } else { figure }?.median;
            Some(if target.at_least { median >= target.bound } else { median <= target.bound })
        });
        Self { name, settings: settings.clone(), unit, limit_name, figure, ratio, cpu_ns, target, met, samples }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.met {
            Some(true) => "met",
            Some(false) => "NOT met",
            None => "",
        };
        let figure = self.figure.map_or_else(String::new, |figure| self.unit.show(figure.median));
        let ratio = self.ratio.map_or_else(String::new, |ratio| format!(", ratio {:.3}", ratio.median));
        let target = self.target.as_ref().map_or_else(String::new, |target| format!("; {}: {verdict}", target.words));
        write!(f, "{}: {figure}{ratio}{target}", self.name)
    }
}

/// The one by the other; nothing by nothing is nothing.
#[must_use]
pub fn ratio(value: f64, limit: f64) -> f64 {
    if limit > 0.0 { value / limit } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::start::BySize;

    fn finding(samples: &[(f64, Option<f64>)], target: Target) -> Finding {
        let mut series = Series::new("", Unit::Micros, "one sync");
        for (value, limit) in samples {
            series.push(Sample::new(*value, *limit), &mut |_line| {});
        }
        Finding::new("case", &Load::StartBySize(BySize { small_bytes: 1, large_bytes: 2 }), series, Some(target))
    }

    #[test]
    fn medians_and_spreads() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn a_verdict_is_that_of_the_median() {
        let samples = [(10.0, Some(10.0)), (30.0, Some(10.0)), (20.0, Some(10.0))];
        assert_eq!(finding(&samples, Target::at_least(20.0, "")).met, Some(true));
        assert_eq!(finding(&samples, Target::at_least(20.1, "")).met, Some(false));
        assert_eq!(finding(&samples, Target::at_most(2.0, "").ratio()).met, Some(true));
        assert_eq!(finding(&samples, Target::at_most(1.9, "").ratio()).met, Some(false));
        // Without a limit there is no ratio, and no verdict.
        assert_eq!(finding(&[(1.0, None)], Target::at_most(2.0, "").ratio()).met, None);
    }

    #[test]
    fn figures_are_short() {
        assert_eq!(Unit::BytesPerSecond.show(4.9e9), "4.90 GB/s");
        assert_eq!(Unit::FramesPerSecond.show(1_300_000.0), "1.30 M frames/s");
        assert_eq!(Unit::Micros.show(99.6), "100 µs");
    }
}
