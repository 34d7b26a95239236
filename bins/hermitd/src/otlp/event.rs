//! Events of `tracing` as log records of OTLP (opentelemetry-proto, `logs/v1`), in its JSON encoding.

use std::fmt;
use std::sync::Arc;

use hermit_broker::log::{Clock as _, SystemClock};
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::queue::{Queue, Record};
use super::value::{attribute, text, whole};

/// Where the exporter's own lines come from: to send them would make new ones.
const OWN_TARGET: &str = "hermitd::otlp";
/// Longer texts are cut.
const MAX_TEXT_BYTES: usize = 16 << 10;

/// Puts each event that the log writes into the queue.
#[derive(Debug)]
pub(crate) struct Events {
    queue: Arc<Queue>,
}

impl Events {
    pub(super) const fn into(queue: Arc<Queue>) -> Self {
        Self { queue }
    }
}

impl<S: Subscriber> Layer<S> for Events {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let metadata = event.metadata();
        if metadata.target().starts_with(OWN_TARGET) {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        fields.add("target", text(metadata.target()));
        self.queue.push(record(SystemClock.now(), *metadata.level(), &fields.message, fields.attributes));
    }
}

/// The event that so many others were not sent.
pub(super) fn lost(count: u64) -> Record {
    let mut fields = Fields::default();
    fields.add("lost", whole(count));
    fields.add("target", text(OWN_TARGET));
    record(SystemClock.now(), Level::WARN, "OpenTelemetry: events of the log were not sent", fields.attributes)
}

fn record(at: u64, level: Level, message: &str, attributes: Vec<Value>) -> Record {
    let record = json!({
        "timeUnixNano": at.to_string(),
        "observedTimeUnixNano": at.to_string(),
        "severityNumber": severity(level),
        "severityText": level.as_str(),
        "body": text(message),
        "attributes": attributes,
    });
    Record { at, json: record.to_string() }
}

/// The least of the four numbers that OpenTelemetry has for each level.
const fn severity(level: Level) -> u8 {
    match level {
        Level::ERROR => 17,
        Level::WARN => 13,
        Level::INFO => 9,
        Level::DEBUG => 5,
        Level::TRACE => 1,
    }
}

/// What is in an event.
#[derive(Default)]
struct Fields {
    message: String,
    attributes: Vec<Value>,
}

impl Fields {
    fn add(&mut self, key: &str, value: Value) {
        self.attributes.push(attribute(key, value));
    }

    fn add_text(&mut self, field: &Field, mut said: String) {
        if said.len() > MAX_TEXT_BYTES {
            said.truncate(said.floor_char_boundary(MAX_TEXT_BYTES));
            said.push('…');
        }
        match field.name() {
            "message" => self.message = said,
            name => self.add(name, text(&said)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add_text(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add_text(field, value.to_owned());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), json!({ "boolValue": value }));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), whole(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), json!({ "intValue": value.to_string() }));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        match value.is_finite() {
            true => self.add(field.name(), json!({ "doubleValue": value })),
            false => self.add(field.name(), text(&value.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn each_event_is_a_record_and_those_of_the_exporter_are_none() {
        let queue = Arc::new(Queue::default());
        let subscriber = tracing_subscriber::registry().with(Events::into(Arc::clone(&queue)));
        tracing::subscriber::with_default(subscriber, || {
            let long = "ü".repeat(MAX_TEXT_BYTES);
            tracing::event!(target: "a::b", Level::WARN, group = "g\"\n", count = u64::MAX, few = 7_u32, below = -7, good = true, rate = 0.5, path = ?"p", long, "put out");
            tracing::event!(target: "hermitd::otlp::export", Level::ERROR, "own");
        });
        let records = queue.take(0);
        assert_eq!(records.len(), 1);
        let record: Value = serde_json::from_str(&records[0].json).unwrap();
        assert_eq!((&record["severityNumber"], &record["severityText"]), (&json!(13), &json!("WARN")));
        assert_eq!(
            (&record["body"], &record["timeUnixNano"]),
            (&json!({ "stringValue": "put out" }), &json!(records[0].at.to_string()))
        );
        let value = |key: &str| {
            let attributes = record["attributes"].as_array().unwrap();
            attributes.iter().find(|attribute| attribute["key"] == key).unwrap_or_else(|| panic!("{key}: {record}"))["value"]
                .clone()
        };
        for (key, expected) in [
            ("group", json!({ "stringValue": "g\"\n" })),
            ("count", json!({ "stringValue": u64::MAX.to_string() })),
            ("few", json!({ "intValue": "7" })),
            ("below", json!({ "intValue": "-7" })),
            ("good", json!({ "boolValue": true })),
            ("rate", json!({ "doubleValue": 0.5 })),
            ("path", json!({ "stringValue": "\"p\"" })),
            ("target", json!({ "stringValue": "a::b" })),
        ] {
            assert_eq!(value(key), expected, "{key}");
        }
        let long = value("long")["stringValue"].as_str().unwrap().len();
        assert!(long > MAX_TEXT_BYTES - 4 && long <= MAX_TEXT_BYTES + 3, "{long}");
    }
}
