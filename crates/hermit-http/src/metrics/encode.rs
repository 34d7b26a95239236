//! The two text formats, Prometheus 0.0.4 and OpenMetrics 1.0.0, which differ in the names of counters' families and in the last line; and the door to a third, OTLP.

use std::fmt::{Display, Write as _};

use hermit_broker::log::{Durations, Histogram};

use super::families::{Family, Kind};
use super::otlp::Points;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Prometheus,
    OpenMetrics,
    /// Of numbers that were taken then, in ns since the Unix epoch. Nobody gets it from `/metrics`.
    Otlp {
        at: u64,
    },
}

impl Format {
    /// A piece of text is handed over once it is so long, or all is done. Each of OTLP becomes a request, of which there are to be few; collectors take 20 MiB and more.
    pub(crate) const fn piece_bytes(self) -> usize {
        match self {
            Self::Prometheus | Self::OpenMetrics => 64 << 10,
            Self::Otlp { .. } => 1 << 20,
        }
    }

    /// What the client prefers of what it takes, by its `Accept`. Who says nothing, or takes neither, gets the older format, which everybody reads.
    pub(crate) fn negotiate(accept: &str) -> Self {
        let mut best = (Self::Prometheus, 0.0);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let format = match kind.as_str() {
                "application/openmetrics-text" => Self::OpenMetrics,
                "text/plain" | "text/*" | "*/*" => Self::Prometheus,
                _ => continue,
            };
            let (mut quality, mut is_known) = (1.0, true);
            for (name, value) in parts.filter_map(|part| part.split_once('=')) {
                match (name.trim().to_ascii_lowercase().as_str(), value.trim().trim_matches('"')) {
                    ("q", value) => quality = value.parse::<f64>().unwrap_or(0.0),
                    // Prometheus names 0.0.1 too, of which 1.0.0 is a superset but for exemplars, which there are none of.
                    ("version", value) if format == Self::OpenMetrics => is_known = ["1.0.0", "0.0.1"].contains(&value),
                    ("version", value) => is_known = value == "0.0.4",
                    _ => {}
                }
            }
            if is_known && quality > best.1 {
                best = (format, quality);
            }
        }
        best.0
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Otlp { .. } => "application/json",
        }
    }
}

/// Labels with their values, escaped, as they stand within the braces: made once for all metrics of a partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels(String);

impl Labels {
    pub(crate) fn none() -> Self {
        Self::default()
    }

    pub(crate) fn of<'a>(labels: impl IntoIterator<Item = (&'static str, &'a str)>) -> Self {
        labels.into_iter().fold(Self::none(), |labels, (name, value)| labels.and(name, value))
    }

    /// With one more.
    pub(crate) fn and(&self, name: &str, value: &str) -> Self {
        let mut text = String::with_capacity(self.0.len() + name.len() + value.len() + 4);
        text.push_str(&self.0);
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                other => text.push(other),
            }
        }
        text.push('"');
        Self(text)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Text that grows.
#[derive(Debug)]
pub(crate) struct Encoder {
    format: Format,
    text: String,
    sample_name: String,
    /// Where the format is OTLP.
    points: Option<Points>,
    /// The metric that was begun.
    #[cfg(debug_assertions)]
    family: Option<Family>,
}

impl Encoder {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            format,
            text: String::new(),
            sample_name: String::new(),
            points: if let Format::Otlp { at } = format { Some(Points::new(at)) } else { None },
            #[cfg(debug_assertions)]
            family: None,
        }
    }

    /// Says since when the counters that follow count, in ns since the Unix epoch. Only OTLP tells.
    pub(crate) const fn count_since(&mut self, since: u64) {
        if let Some(points) = &mut self.points {
            points.count_since(since);
        }
    }

    /// Begins a metric: its samples follow.
    pub(crate) fn begin(&mut self, family: &Family) -> &mut Self {
        #[cfg(debug_assertions)]
        {
            self.family = Some(*family);
        }
        if let Some(points) = &mut self.points {
            points.begin(&mut self.text, family);
            return self;
        }
        self.sample_name = family.shown_name();
        let (kind, help) = (family.kind.name(), family.help);
        let name = if self.format == Format::OpenMetrics { family.name.to_owned() } else { self.sample_name.clone() };
        // OpenMetrics lets a unit be told where the name ends with it.
        if let Some(unit) = family.unit().filter(|_| self.format == Format::OpenMetrics) {
            self.put(format_args!("# UNIT {name} {unit}\n"));
        }
        self.put(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        self
    }

    /// A sample of the metric that was begun.
    pub(crate) fn sample(&mut self, labels: &Labels, value: impl Display) -> &mut Self {
        #[cfg(debug_assertions)]
        debug_assert!(
            self.family.is_some_and(|family| family.kind != Kind::Histogram && has_labels(&family, labels)),
            "{labels:?}"
        );
        if let Some(points) = &mut self.points {
            points.point(&mut self.text, labels, value);
            return self;
        }
        self.text.push_str(&self.sample_name);
        if !labels.0.is_empty() {
            self.text.push('{');
            self.text.push_str(&labels.0);
            self.text.push('}');
        }
        self.put(format_args!(" {value}\n"));
        self
    }

    /// A metric with one sample and no labels.
    pub(crate) fn single(&mut self, family: &Family, value: impl Display) {
        self.begin(family).sample(&Labels::none(), value);
    }

    /// A histogram, all of it.
    pub(crate) fn histogram(&mut self, family: &Family, durations: &Durations) {
        if let Some(points) = &mut self.points {
            return points.histogram(&mut self.text, family, durations);
        }
        self.begin(family);
        let (name, mut count) = (family.name, 0_u64);
        for (end, in_bucket) in Histogram::ends().zip(durations.counts) {
            count = count.wrapping_add(in_bucket);
            let end = end.as_secs_f64();
            // A whole number has a fraction too: both formats are to name the same series.
            let digits = usize::from(end.fract() == 0.0);
            match digits {
                0 => self.put(format_args!("{name}_bucket{{le=\"{end}\"}} {count}\n")),
                digits => self.put(format_args!("{name}_bucket{{le=\"{end:.digits$}\"}} {count}\n")),
            }
        }
        count = count.wrapping_add(durations.longer);
        let sum = durations.sum.as_secs_f64();
        self.put(format_args!("{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_sum {sum}\n{name}_count {count}\n"));
    }

    /// The last line, where the format has one.
    pub(crate) fn end(&mut self) {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
    }

    /// Whether there is a piece to be taken.
    pub(crate) const fn is_full(&self) -> bool {
        self.text.len() >= self.format.piece_bytes()
    }

    /// What there is by now, which goes.
    pub(crate) fn take(&mut self) -> String {
        if let Some(points) = &mut self.points {
            points.close(&mut self.text);
        }
        std::mem::take(&mut self.text)
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _infallible = self.text.write_fmt(text);
    }
}

/// Whether the labels are those that the table names.
#[cfg(debug_assertions)]
fn has_labels(family: &Family, labels: &Labels) -> bool {
    let mut rest = labels.0.as_str();
    for (at, label) in family.labels.iter().enumerate() {
        let separator = if at == 0 { "" } else { "\"," };
        let begin = format!("{separator}{label}=\"");
        let Some(found) = rest.find(&begin) else { return false };
        rest = rest.get(found + begin.len()..).unwrap_or_default();
    }
    labels.0.is_empty() == family.labels.is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::families;
    use super::*;

    #[test]
    fn who_asks_for_openmetrics_gets_it_and_the_others_what_everybody_reads() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (prometheus, Format::OpenMetrics),
            ("", Format::Prometheus),
            ("*/*", Format::Prometheus),
            ("text/html", Format::Prometheus),
            ("application/openmetrics-text; version=\"1.0.0\"", Format::OpenMetrics),
            ("application/openmetrics-text; version=2.0.0", Format::Prometheus),
            ("application/openmetrics-text;q=0.1, text/plain", Format::Prometheus),
            ("Application/OpenMetrics-Text;Q=0.9, text/plain;q=0.8", Format::OpenMetrics),
            ("application/openmetrics-text;q=nonsense", Format::Prometheus),
            (";;,=;q", Format::Prometheus),
        ] {
            assert_eq!(Format::negotiate(accept), format, "{accept}");
        }
    }

    #[test]
    fn hostile_values_stay_within_their_quotes() {
        let labels = Labels::of([("group", "a\"} 1\nhermit_up{x=\"\\"), ("topic", "t")]);
        let mut encoder = Encoder::new(Format::Prometheus);
        encoder.begin(&families::GROUP_LAG).sample(&labels, 7);
        let text = encoder.take();
        let sample = text.lines().last().unwrap();
        assert_eq!(sample, r#"hermit_group_lag_messages{group="a\"} 1\nhermit_up{x=\"\\",topic="t"} 7"#);
        assert_eq!(text.lines().count(), 3);
    }

    #[test]
    fn the_formats_differ_in_the_names_of_counters_and_in_the_end() {
        let show = |format| {
            let mut encoder = Encoder::new(format);
            encoder.single(&families::PROCESS_CPU, 1.5);
            encoder.end();
            encoder.take()
        };
        let help = families::PROCESS_CPU.help;
        assert_eq!(
            show(Format::Prometheus),
            format!(
                "# HELP process_cpu_seconds_total {help}\n# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.5\n"
            )
        );
        assert_eq!(
            show(Format::OpenMetrics),
            format!(
                "# UNIT process_cpu_seconds seconds\n# HELP process_cpu_seconds {help}\n# TYPE process_cpu_seconds counter\n\
                 process_cpu_seconds_total 1.5\n# EOF\n"
            )
        );
    }

    #[test]
    fn a_histogram_adds_its_buckets_up() {
        let histogram = Histogram::default();
        for millis in [1, 1, 60, 20_000] {
            histogram.add(std::time::Duration::from_millis(millis));
        }
        let mut encoder = Encoder::new(Format::Prometheus);
        encoder.histogram(&families::FLUSH_TIME, &histogram.read());
        let text = encoder.take();
        for line in [
            "_bucket{le=\"0.000001\"} 0",
            "_bucket{le=\"0.0005\"} 0",
            "_bucket{le=\"0.001\"} 2",
            "_bucket{le=\"0.1\"} 3",
            "_bucket{le=\"1.0\"} 3",
            "_bucket{le=\"10.0\"} 3",
            "_bucket{le=\"+Inf\"} 4",
            "_sum 20.062",
            "_count 4",
        ] {
            assert!(text.contains(&format!("hermit_flush_duration_seconds{line}\n")), "{line} in {text}");
        }
    }
}
