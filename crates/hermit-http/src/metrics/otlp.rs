//! The same metrics as OpenTelemetry has them: lists of `Metric` in the JSON encoding of OTLP (opentelemetry-proto, `metrics/v1`). Sums and histograms are cumulative.
//!
//! Names are those of the table without what Prometheus adds to counters, and units are told, so that who turns them into Prometheus' names gets those of `/metrics`.

use std::fmt::{Display, Write as _};

use hermit_broker::log::{Durations, Histogram};

use super::encode::Labels;
use super::families::{Family, Kind};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;

/// The list that is being written.
#[derive(Debug)]
pub(super) struct Points {
    /// When the numbers were taken, and since when counters count; in ns since the Unix epoch.
    at: u64,
    since: u64,
    family: Option<Family>,
    /// Whether the metric that was begun has points in the list.
    is_open: bool,
}

impl Points {
    pub(super) const fn new(at: u64) -> Self {
        Self { at, since: at, family: None, is_open: false }
    }

    pub(super) const fn count_since(&mut self, since: u64) {
        self.since = since;
    }

    /// Begins a metric. It is in the list from its first point on: one without points is none.
    pub(super) fn begin(&mut self, text: &mut String, family: &Family) {
        self.close_metric(text);
        self.family = Some(*family);
    }

    /// A point of the metric that was begun. What is no number is left out.
    pub(super) fn point(&mut self, text: &mut String, labels: &Labels, value: impl Display) {
        let Some(family) = self.family else { return };
        let value = value.to_string();
        // One metric has points of one kind, whatever fraction a number of seconds happens to have.
        let is_whole = family.unit() != Some("seconds") && value.parse::<i64>().is_ok();
        if !is_whole && !value.parse::<f64>().is_ok_and(f64::is_finite) {
            return;
        }
        self.open_point(text, &family, labels);
        match is_whole {
            true => put(text, format_args!(",\"asInt\":\"{value}\"}}")),
            false => put(text, format_args!(",\"asDouble\":{value}}}")),
        }
    }

    /// The one point of a histogram.
    pub(super) fn histogram(&mut self, text: &mut String, family: &Family, durations: &Durations) {
        self.begin(text, family);
        let counts = || durations.counts.iter().chain([&durations.longer]);
        let count = counts().fold(0_u64, |sum, count| sum.wrapping_add(*count));
        self.open_point(text, family, &Labels::none());
        put(text, format_args!(",\"count\":\"{count}\",\"sum\":{},\"bucketCounts\":", durations.sum.as_secs_f64()));
        list(text, counts(), |text, count| put(text, format_args!("\"{count}\"")));
        text.push_str(",\"explicitBounds\":");
        list(text, Histogram::ends(), |text, end| put(text, format_args!("{}", end.as_secs_f64())));
        text.push('}');
    }

    /// Ends the list. Points that follow go into another.
    pub(super) fn close(&mut self, text: &mut String) {
        self.close_metric(text);
        if !text.is_empty() {
            text.push(']');
        }
    }

    fn open_point(&mut self, text: &mut String, family: &Family, labels: &Labels) {
        if self.is_open {
            text.push(',');
        } else {
            self.open_metric(text, family);
        }
        text.push_str("{\"attributes\":");
        attributes(text, labels.as_str());
        if family.kind != Kind::Gauge {
            put(text, format_args!(",\"startTimeUnixNano\":\"{}\"", self.since));
        }
        put(text, format_args!(",\"timeUnixNano\":\"{}\"", self.at));
    }

    fn open_metric(&mut self, text: &mut String, family: &Family) {
        text.push(if text.is_empty() { '[' } else { ',' });
        let (name, help) = (family.name, family.help);
        put(text, format_args!("{{\"name\":\"{name}\",\"description\":\"{help}\""));
        if let Some(unit) = family.unit().map(in_ucum) {
            put(text, format_args!(",\"unit\":\"{unit}\""));
        }
        match family.kind {
            Kind::Counter => {
                put(text, format_args!(",\"sum\":{{\"aggregationTemporality\":{CUMULATIVE},\"isMonotonic\":true,"));
            }
            Kind::Gauge => text.push_str(",\"gauge\":{"),
            Kind::Histogram => put(text, format_args!(",\"histogram\":{{\"aggregationTemporality\":{CUMULATIVE},")),
        }
        text.push_str("\"dataPoints\":[");
        self.is_open = true;
    }

    fn close_metric(&mut self, text: &mut String) {
        if std::mem::take(&mut self.is_open) {
            text.push_str("]}}");
        }
    }
}

/// A unit in the words of UCUM.
fn in_ucum(unit: &'static str) -> &'static str {
    match unit {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    }
}

/// Labels as a list of attributes. What Prometheus has before a character that must not stand by itself, JSON has, too; JSON wants it of all control characters.
fn attributes(text: &mut String, labels: &str) {
    text.push('[');
    let mut rest = labels;
    while let Some((name, behind)) = rest.split_once("=\"") {
        let (separator, name) = name.strip_prefix(',').map_or(("", name), |name| (",", name));
        put(text, format_args!("{separator}{{\"key\":\"{name}\",\"value\":{{\"stringValue\":\""));
        let mut characters = behind.char_indices();
        let mut end = behind.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => {
                    text.push('\\');
                    text.extend(characters.next().map(|(_, escaped)| escaped));
                }
                control if control.is_control() => put(text, format_args!("\\u{:04x}", u32::from(control))),
                other => text.push(other),
            }
        }
        text.push_str("\"}}");
        rest = behind.get(end..).unwrap_or_default();
    }
    text.push(']');
}

fn list<T>(text: &mut String, items: impl Iterator<Item = T>, show: impl Fn(&mut String, T)) {
    text.push('[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            text.push(',');
        }
        show(text, item);
    }
    text.push(']');
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _infallible = text.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::encode::{Encoder, Format};
    use super::super::families;
    use super::*;

    fn written(write: impl FnOnce(&mut Encoder)) -> Value {
        let mut encoder = Encoder::new(Format::Otlp { at: 9 });
        encoder.count_since(4);
        write(&mut encoder);
        serde_json::from_str(&encoder.take()).unwrap()
    }

    #[test]
    fn counters_are_sums_and_gauges_have_no_beginning() {
        let list = written(|encoder| {
            encoder.begin(&families::LOGINS);
            encoder.single(&families::CONNECTIONS_ACCEPTED, 7);
            encoder.single(&families::PROCESS_START, 3.0);
            encoder.single(&families::PROCESS_MAX_FDS, u64::MAX);
            encoder.single(&families::RECOVERY_TIME, f64::NAN);
        });
        let points = |value: Value| json!({ "dataPoints": [value] });
        let mut sum = points(json!({ "attributes": [], "startTimeUnixNano": "4", "timeUnixNano": "9", "asInt": "7" }));
        (sum["aggregationTemporality"], sum["isMonotonic"]) = (json!(2), json!(true));
        let start = points(json!({ "attributes": [], "timeUnixNano": "9", "asDouble": 3 }));
        let most = points(json!({ "attributes": [], "timeUnixNano": "9", "asDouble": u64::MAX }));
        let metric = |family: &Family| json!({ "name": family.name, "description": family.help });
        let mut expected = [families::CONNECTIONS_ACCEPTED, families::PROCESS_START, families::PROCESS_MAX_FDS].map(|f| metric(&f));
        expected[0]["sum"] = sum;
        (expected[1]["unit"], expected[1]["gauge"]) = (json!("s"), start);
        expected[2]["gauge"] = most;
        assert_eq!(list, json!(expected));
    }

    #[test]
    fn hostile_labels_come_through_as_they_are() {
        let group = "a\"} 1\nhermit_up{x=\"\\,y=\"\u{1}\u{7f}ü";
        let labels = Labels::of([("group", group), ("topic", "t")]);
        let list = written(|encoder| {
            encoder.begin(&families::GROUP_LAG).sample(&labels, 7).sample(&labels, 8);
        });
        let points = &list[0]["gauge"]["dataPoints"];
        assert_eq!(points[1]["asInt"], "8");
        let attribute = |key: &str, value: &str| json!({ "key": key, "value": { "stringValue": value } });
        assert_eq!(points[0]["attributes"], json!([attribute("group", group), attribute("topic", "t")]));
    }

    #[test]
    fn a_histogram_has_a_count_for_each_bucket_and_for_what_is_longer() {
        let histogram = Histogram::default();
        for millis in [1, 1, 60, 20_000] {
            histogram.add(std::time::Duration::from_millis(millis));
        }
        let list = written(|encoder| encoder.histogram(&families::FLUSH_TIME, &histogram.read()));
        let metric = &list[0];
        assert_eq!((&metric["unit"], &metric["histogram"]["aggregationTemporality"]), (&json!("s"), &json!(2)));
        let point = &metric["histogram"]["dataPoints"][0];
        assert_eq!((&point["count"], &point["sum"]), (&json!("4"), &json!(20.062)));
        let bounds: Vec<_> = point["explicitBounds"].as_array().unwrap().iter().map(|bound| bound.as_f64().unwrap()).collect();
        let counts: Vec<_> = point["bucketCounts"].as_array().unwrap().iter().map(|count| count.as_str().unwrap()).collect();
        assert!(bounds.is_sorted() && counts.len() == bounds.len() + 1, "{point}");
        let at = |bound: f64| counts[bounds.iter().position(|known| (*known - bound).abs() < 1e-12).unwrap()];
        assert_eq!((at(0.001), at(0.1), *counts.last().unwrap()), ("2", "1", "1"));
    }
}
