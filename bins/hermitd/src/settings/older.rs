//! The older HermitMQ's settings file: JSON in sections. Each of its keys becomes a setting of this release, or is told to have no meaning any more.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::finding::{Origin, excerpt};
use super::gather::Gathered;
use super::names;
use super::value::Raw;

/// What the limit on payloads did not count: a key of up to so many bytes goes with the largest one.
const KEY_ROOM_BYTES: u64 = 64 << 10;
/// Where the older broker listened when nobody said.
const DEFAULT_PORT: u64 = 9092;
const DEFAULT_HOST: &str = "127.0.0.1";
/// Room for requests of more than one connection.
const INFLIGHT_FACTOR: u64 = 4;

/// Every key, by section.
const KEYS: [(&str, &[&str]); 3] = [
    ("server", &["host", "port", "handshake_timeout_sec"]),
    (
        "storage",
        &[
            "data_dir",
            "max_segment_mb",
            "retention_hours",
            "cleanup_interval_min",
            "buffer_pool_size_kb",
            "max_buffer_return_kb",
            "flush_interval_ms",
        ],
    ),
    ("security", &["max_payload_mb"]),
];

/// Whether a settings file is an old one.
pub(super) fn is_older(path: &str, text: &str) -> bool {
    let by_name = std::path::Path::new(path).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"));
    by_name || text.trim_start_matches('\u{feff}').trim_start().starts_with('{')
}

/// An object's keys and values, in order, with doubles.
struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with keys, in braces")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, &'de RawValue>()? {
                    entries.push((Cow::Owned(key), value));
                }
                Ok(Object(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Takes what the text of the file that is called `path` says.
pub(super) fn take(path: &str, text: &str, gathered: &mut Gathered) {
    let text = text.trim_start_matches('\u{feff}');
    let mut reading = Reading { path, text, gathered, host: None, port: None };
    match serde_json::from_str(text) {
        Ok(Object(sections)) => reading.sections(&sections),
        Err(error) => {
            let told = error.to_string();
            let told = told.split(" at line ").next().unwrap_or_default().to_owned();
            let (path, line, column) = (path.to_owned(), error.line().max(1), error.column().max(1));
            reading.gathered.findings.add(Origin::File { path, line, column }, told);
        }
    }
}

fn hint(name: &str, known: &[String]) -> String {
    match names::nearest(name, known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are {}", known.join(", ")),
    }
}

struct Reading<'a> {
    path: &'a str,
    text: &'a str,
    gathered: &'a mut Gathered,
    host: Option<String>,
    port: Option<(u64, Origin)>,
}

impl Reading<'_> {
    fn sections(&mut self, sections: &[(Cow<'_, str>, &RawValue)]) {
        let mut seen = Vec::new();
        let mut host_origin = None;
        for (section, value) in sections {
            let known: Vec<_> = KEYS.iter().map(|(name, _)| (*name).to_owned()).collect();
            let Some((_, keys)) = KEYS.iter().find(|(name, _)| name == section) else {
                self.wrong(value, format!("`{}` is no section; {}", excerpt(section), hint(section, &known)));
                continue;
            };
            let Ok(Object(entries)) = serde_json::from_str(value.get()) else {
                self.wrong(value, format!("`{section}` must be an object with keys, in braces"));
                continue;
            };
            for (key, value) in &entries {
                let full = format!("{section}.{key}");
                if !keys.contains(&key.as_ref()) {
                    let known: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
                    self.wrong(value, format!("`{}` is no setting; {}", excerpt(&full), hint(key, &known)));
                } else if seen.contains(&full) {
                    self.wrong(value, format!("`{full}` is given twice"));
                } else {
                    if full == "server.host" {
                        host_origin = Some(self.place(value));
                    }
                    self.take(&full, value);
                    seen.push(full);
                }
            }
        }
        self.listen(host_origin);
    }

    /// File, line and column of a value.
    fn place(&self, value: &RawValue) -> Origin {
        // The value is a part of the text, so that its address tells where it stands.
        let position = (value.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        super::file::place(self.path, self.text, position)
    }

    fn wrong(&mut self, value: &RawValue, message: String) {
        let place = self.place(value);
        self.gathered.findings.add(place, message);
    }

    /// Gives a setting of this release a value.
    fn give(&mut self, setting: &str, text: &str, value: &RawValue) {
        let place = self.place(value);
        self.gathered.take(setting, Raw::Text(text), place, text);
    }

    fn take(&mut self, key: &str, value: &RawValue) {
        match key {
            "server.host" => self.host = self.text_of(key, value),
            "server.port" => self.port = self.number(key, value, 0..=65535).map(|port| (port, self.place(value))),
            "server.handshake_timeout_sec" => self.give_number("handshake_timeout", key, value, 1..=365 * 24 * 3600, "s"),
            "storage.data_dir" => {
                if let Some(dir) = self.text_of(key, value) {
                    self.give("data_dir", &dir, value);
                }
            }
            "storage.max_segment_mb" => self.give_number("segment_bytes", key, value, 1..=2048, "MiB"),
            "storage.retention_hours" => self.give_number("retention_age", key, value, 1..=1_000_000_000, "h"),
            "storage.cleanup_interval_min" => self.give_number("maintenance_interval", key, value, 1..=365 * 24 * 60, "min"),
            "storage.flush_interval_ms" => {
                self.give_number("os_flush_interval", key, value, 1..=3_600_000, "ms");
                self.give("durability", "os", value);
                self.gathered.older_flush = Some(self.path.to_owned());
            }
            "security.max_payload_mb" => {
                let Some(mb) = self.number(key, value, 1..=2048) else { return };
                let bytes = (mb << 20) + KEY_ROOM_BYTES;
                self.give("max_frame_bytes", &bytes.to_string(), value);
                // The older broker had no such limit: it must not refuse what the old settings allow.
                let default = hermit_broker::Limits::default().max_inflight_bytes;
                let needed = bytes.saturating_mul(INFLIGHT_FACTOR);
                if needed > default {
                    self.give("max_inflight_bytes", &needed.to_string(), value);
                }
            }
            // The others are buffers of the older broker.
            _ => {
                if self.number(key, value, 0..=u64::MAX).is_some() {
                    self.gathered.notes.push(format!("{}: `{key}` has no meaning any more", self.path));
                }
            }
        }
    }

    fn give_number(&mut self, setting: &str, key: &str, value: &RawValue, allowed: RangeInclusive<u64>, unit: &str) {
        if let Some(number) = self.number(key, value, allowed) {
            self.give(setting, &format!("{number}{unit}"), value);
        }
    }

    fn text_of(&mut self, key: &str, value: &RawValue) -> Option<String> {
        let text = serde_json::from_str(value.get()).ok();
        if text.is_none() {
            self.wrong(value, format!("`{key}` is {}: give a text, in quotes", excerpt(value.get())));
        }
        text
    }

    fn number(&mut self, key: &str, value: &RawValue, allowed: RangeInclusive<u64>) -> Option<u64> {
        let number = serde_json::from_str::<u64>(value.get()).ok().filter(|number| allowed.contains(number));
        if number.is_none() {
            let (found, (least, most)) = (excerpt(value.get()), (allowed.start(), allowed.end()));
            let most = if *most == u64::MAX { String::new() } else { format!(" to {most}") };
            let otherwise = if found == "0" { "; leave it out for the default" } else { "" };
            self.wrong(value, format!("`{key}` is {found}: give a whole number from {least}{most}{otherwise}"));
        }
        number
    }

    fn listen(&mut self, host_origin: Option<Origin>) {
        let port_origin = self.port.as_ref().map(|(_, origin)| origin.clone());
        if self.host.is_none() && self.port.is_none() {
            return;
        }
        let Some(origin) = host_origin.or(port_origin) else { return };
        let host = match self.host.as_deref() {
            None => DEFAULT_HOST.to_owned(),
            // As everywhere in Go: no host means all addresses.
            Some("") => "0.0.0.0".to_owned(),
            Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
            Some(host) => host.to_owned(),
        };
        let listen = format!("{host}:{}", self.port.as_ref().map_or(DEFAULT_PORT, |(port, _)| *port));
        self.gathered.take("listen", Raw::Text(&listen), origin, &listen);
    }
}

#[cfg(test)]
mod tests {
    use super::super::quantity::{Bytes, OrNever, Time};
    use super::super::table::DurabilityName;
    use super::*;

    fn taken(text: &str) -> Gathered {
        let mut gathered = Gathered::default();
        take("hermitmq.json", text, &mut gathered);
        gathered
    }

    fn refusals(text: &str) -> Vec<String> {
        let mut gathered = taken(text);
        gathered.settle();
        gathered.findings.0.iter().map(ToString::to_string).collect()
    }

    const WHOLE: &str = r#"{
  "server": {"host": "", "port": 9093, "handshake_timeout_sec": 7},
  "storage": {
    "data_dir": "/var/lib/hermitmq",
    "max_segment_mb": 128,
    "retention_hours": 168,
    "cleanup_interval_min": 5,
    "buffer_pool_size_kb": 64,
    "max_buffer_return_kb": 1024,
    "flush_interval_ms": 500
  },
  "security": {"max_payload_mb": 100}
}"#;

    #[test]
    fn every_key_is_mapped_or_told() {
        let mut gathered = taken(WHOLE);
        let given = &gathered.given;
        assert_eq!(given.listen.as_deref(), Some("0.0.0.0:9093"));
        assert_eq!(given.handshake_timeout, Some(Time(7000)));
        assert_eq!(given.data_dir, Some("/var/lib/hermitmq".into()));
        assert_eq!(given.segment_bytes, Some(Bytes(128 << 20)));
        assert_eq!(given.retention_age, Some(OrNever(Some(Time(168 * 3_600_000)))));
        assert_eq!(given.maintenance_interval, Some(Time(300_000)));
        assert_eq!((given.durability, given.os_flush_interval), (Some(DurabilityName::Os), Some(Time(500))));
        assert_eq!(given.max_frame_bytes, Some(Bytes((100 << 20) + (64 << 10))));
        assert!(given.max_inflight_bytes.unwrap().0 > 300 << 20);
        assert_eq!(gathered.notes.len(), 2);
        gathered.settle();
        assert_eq!(gathered.findings.0, []);
        assert!(gathered.notes.iter().any(|note| note.contains("those of the last 500ms")), "{:?}", gathered.notes);
        assert_eq!(taken("{}").given, super::super::table::Given::default());
    }

    #[test]
    fn half_an_address_is_completed() {
        let listen = |text: &str| taken(text).given.listen.unwrap();
        assert_eq!(listen(r#"{"server": {"port": 1}}"#), "127.0.0.1:1");
        assert_eq!(listen(r#"{"server": {"host": "10.0.0.1"}}"#), "10.0.0.1:9092");
        assert_eq!(listen(r#"{"server": {"host": "::1", "port": 0}}"#), "[::1]:0");
    }

    #[test]
    fn what_is_no_address_or_directory_is_found_before_the_start() {
        for host in ["a b", "0.0.0.0:9000", "[::1", "ho\\u0000st", "tcp://x"] {
            let refusals = refusals(&format!(r#"{{"server": {{"host": "{host}", "port": 1}}}}"#));
            assert!(refusals.len() == 1 && refusals[0].starts_with("hermitmq.json:1:21: `listen` is \""), "{refusals:?}");
        }
        for host in ["", "::", "[::1]", "10.0.0.1", "fe80::1%3", "broker-1.example_net"] {
            assert_eq!(refusals(&format!(r#"{{"server": {{"host": "{host}"}}}}"#)), [""; 0], "{host}");
        }
        for dir in ["", "a\\u0000b"] {
            let refusals = refusals(&format!(r#"{{"storage": {{"data_dir": "{dir}"}}}}"#));
            assert!(refusals.len() == 1 && refusals[0].starts_with("hermitmq.json:1:26: `data_dir` is "), "{refusals:?}");
        }
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let text = WHOLE.replace("retention_hours", "retention_hrs").replace("128", "4096").replace("9093", "99999");
        assert_eq!(refusals(&text).len(), 3);
    }

    #[test]
    fn mistakes_are_refused_with_their_line_and_what_was_meant() {
        for (text, expected) in [
            (
                WHOLE.replace("retention_hours", "retention_hrs"),
                "hermitmq.json:6: `storage.retention_hrs` is no setting; did you mean `retention_hours`?",
            ),
            (WHOLE.replace("security", "securty"), "hermitmq.json:12: `securty` is no section; did you mean `security`?"),
            (
                WHOLE.replace("128", "\"big\""),
                "hermitmq.json:5: `storage.max_segment_mb` is \"big\": give a whole number from 1 to 2048",
            ),
            (WHOLE.replace("128", "4096"), "hermitmq.json:5: `storage.max_segment_mb` is 4096: give a whole number from 1 to 2048"),
            (
                WHOLE.replace("168", "0"),
                "hermitmq.json:6: `storage.retention_hours` is 0: give a whole number from 1 to 1000000000; leave it out for the default",
            ),
            (WHOLE.replace("64,", "-1,"), "hermitmq.json:8: `storage.buffer_pool_size_kb` is -1: give a whole number from 0"),
            (
                WHOLE.replace("500", "1.5"),
                "hermitmq.json:10: `storage.flush_interval_ms` is 1.5: give a whole number from 1 to 3600000",
            ),
            (WHOLE.replace("\"/var/lib/hermitmq\"", "7"), "hermitmq.json:4: `storage.data_dir` is 7: give a text, in quotes"),
            (
                WHOLE.replace("\"retention_hours\": 168", "\"max_segment_mb\": 1"),
                "hermitmq.json:6: `storage.max_segment_mb` is given twice",
            ),
            ("{\n\"server\": 3}".to_owned(), "hermitmq.json:2: `server` must be an object with keys, in braces"),
            ("{\n\n\"server\" {}}".to_owned(), "hermitmq.json:3: expected `:`"),
        ] {
            let [found] = refusals(&text).try_into().unwrap();
            let without_column =
                found.splitn(4, ':').enumerate().filter(|(at, _)| *at != 2).map(|(_, part)| part).collect::<Vec<_>>().join(":");
            assert_eq!(without_column, expected);
        }
    }

    #[test]
    fn an_old_file_is_known_by_its_name_or_its_first_brace() {
        assert!(is_older("a/hermitmq.json", "") && is_older("x", " \n{}") && is_older("x.JSON", "a = 1"));
        assert!(!is_older("x.toml", "a = 1"));
    }
}
