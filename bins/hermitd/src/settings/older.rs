//! The older HermitMQ's settings file: JSON in sections. Each of its keys becomes a setting of this release, or is told to have no meaning any more.

use std::borrow::Cow;
use std::fmt;
use std::ops::RangeInclusive;

use anyhow::{anyhow, bail};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::names;
use super::table::{DurabilityName, Given};

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

/// What an old file says.
#[derive(Debug, Default)]
pub(super) struct Older {
    /// The settings of this release.
    pub(super) given: Given,
    /// Keys that have no meaning any more.
    pub(super) ignored: Vec<String>,
    /// Which key, on which line, gave a setting.
    origins: Vec<(&'static str, String, usize)>,
}

impl Older {
    /// The line and the key that gave a setting.
    pub(super) fn origin(&self, setting: &str) -> Option<(usize, &str)> {
        let origin = self.origins.iter().find(|(name, _, _)| *name == setting);
        origin.map(|(_, key, line)| (*line, key.as_str()))
    }
}

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

/// Parses the text of the file that is called `path`.
pub(super) fn parse(path: &str, text: &str) -> anyhow::Result<Older> {
    let text = text.trim_start_matches('\u{feff}');
    let Object(sections) = serde_json::from_str(text).map_err(|error| {
        let told = error.to_string();
        let told = told.split(" at line ").next().unwrap_or_default().to_owned();
        anyhow!("{path}:{}: {told}", error.line().max(1))
    })?;
    let mut reading = Reading { path, text, older: Older::default(), host: None, port: None };
    let mut seen = Vec::new();
    for (section, value) in &sections {
        let place = reading.place(value);
        let known: Vec<_> = KEYS.iter().map(|(name, _)| (*name).to_owned()).collect();
        let Some((_, keys)) = KEYS.iter().find(|(name, _)| name == section) else {
            bail!("{place}: `{section}` is no section; {}", hint(section, &known));
        };
        let Object(entries) = serde_json::from_str(value.get())
            .map_err(|_other| anyhow!("{place}: `{section}` must be an object with keys, in braces"))?;
        for (key, value) in &entries {
            let (place, full) = (reading.place(value), format!("{section}.{key}"));
            if !keys.contains(&key.as_ref()) {
                let known: Vec<_> = keys.iter().map(|key| (*key).to_owned()).collect();
                bail!("{place}: `{full}` is no setting; {}", hint(key, &known));
            }
            if seen.contains(&full) {
                bail!("{place}: `{full}` is given twice");
            }
            reading.take(&full, value)?;
            seen.push(full);
        }
    }
    Ok(reading.finish())
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
    older: Older,
    host: Option<String>,
    port: Option<u64>,
}

impl Reading<'_> {
    /// File and line of a value.
    fn place(&self, value: &RawValue) -> String {
        format!("{}:{}", self.path, self.line(value))
    }

    fn line(&self, value: &RawValue) -> usize {
        // The value is a part of the text, so that its address tells where it stands.
        let position = (value.get().as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        self.text.as_bytes().iter().take(position).filter(|byte| **byte == b'\n').count() + 1
    }

    fn take(&mut self, key: &str, value: &RawValue) -> anyhow::Result<()> {
        const KB: RangeInclusive<u64> = 0..=u64::MAX;
        let given = |reading: &mut Self, setting| {
            let line = reading.line(value);
            reading.older.origins.push((setting, key.to_owned(), line));
        };
        match key {
            "server.host" => {
                self.host = Some(self.text_of(key, value)?);
                given(self, "listen");
            }
            "server.port" => {
                self.port = Some(self.number(key, value, 0..=65535)?);
                given(self, "listen");
            }
            "server.handshake_timeout_sec" => {
                self.older.given.handshake_timeout_ms = Some(self.number(key, value, 1..=365 * 24 * 3600)? * 1000);
                given(self, "handshake_timeout_ms");
            }
            "storage.data_dir" => {
                self.older.given.data_dir = Some(self.text_of(key, value)?.into());
                given(self, "data_dir");
            }
            "storage.max_segment_mb" => {
                self.older.given.segment_bytes = Some(self.number(key, value, 1..=2048)? << 20);
                given(self, "segment_bytes");
            }
            "storage.retention_hours" => {
                self.older.given.retention_age_ms = Some(self.number(key, value, 1..=1_000_000_000)? * 3_600_000);
                given(self, "retention_age_ms");
            }
            "storage.cleanup_interval_min" => {
                self.older.given.maintenance_interval_s = Some(self.number(key, value, 1..=365 * 24 * 60)? * 60);
                given(self, "maintenance_interval_s");
            }
            "storage.flush_interval_ms" => {
                self.older.given.os_flush_interval_ms = Some(self.number(key, value, 1..=3_600_000)?);
                self.older.given.durability = Some(DurabilityName::Os);
                given(self, "os_flush_interval_ms");
            }
            "security.max_payload_mb" => {
                let bytes = (self.number(key, value, 1..=2048)? << 20) + KEY_ROOM_BYTES;
                self.older.given.max_frame_bytes = u32::try_from(bytes).ok();
                self.raise_inflight(bytes);
                given(self, "max_frame_bytes");
            }
            // The others are buffers of the older broker.
            _ => {
                self.number(key, value, KB)?;
                self.older.ignored.push(key.to_owned());
            }
        }
        Ok(())
    }

    /// The older broker had no such limit: it must not refuse what the old settings allow.
    fn raise_inflight(&mut self, frame_bytes: u64) {
        let default = hermit_broker::Limits::default().max_inflight_bytes;
        let needed = frame_bytes.saturating_mul(INFLIGHT_FACTOR);
        self.older.given.max_inflight_bytes = (needed > default).then_some(needed);
    }

    fn text_of(&self, key: &str, value: &RawValue) -> anyhow::Result<String> {
        serde_json::from_str(value.get())
            .map_err(|_other| anyhow!("{}: `{key}` is {}: give a text, in quotes", self.place(value), value.get()))
    }

    fn number(&self, key: &str, value: &RawValue, allowed: RangeInclusive<u64>) -> anyhow::Result<u64> {
        let number = serde_json::from_str::<u64>(value.get()).ok().filter(|number| allowed.contains(number));
        number.ok_or_else(|| {
            let (place, found, (least, most)) = (self.place(value), value.get(), (allowed.start(), allowed.end()));
            let most = if *most == u64::MAX { String::new() } else { format!(" to {most}") };
            let otherwise = if found == "0" { "; leave it out for the default" } else { "" };
            anyhow!("{place}: `{key}` is {found}: give a whole number from {least}{most}{otherwise}")
        })
    }

    fn finish(mut self) -> Older {
        if self.host.is_some() || self.port.is_some() {
            let host = match self.host.as_deref() {
                None => DEFAULT_HOST.to_owned(),
                // As everywhere in Go: no host means all addresses.
                Some("") => "0.0.0.0".to_owned(),
                Some(host) if host.contains(':') && !host.starts_with('[') => format!("[{host}]"),
                Some(host) => host.to_owned(),
            };
            self.older.given.listen = Some(format!("{host}:{}", self.port.unwrap_or(DEFAULT_PORT)));
        }
        self.older
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> String {
        parse("hermitmq.json", text).unwrap_err().to_string()
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
        let Older { given, ignored, .. } = parse("f", WHOLE).unwrap();
        assert_eq!(given.listen.as_deref(), Some("0.0.0.0:9093"));
        assert_eq!(given.handshake_timeout_ms, Some(7000));
        assert_eq!(given.data_dir, Some("/var/lib/hermitmq".into()));
        assert_eq!(given.segment_bytes, Some(128 << 20));
        assert_eq!(given.retention_age_ms, Some(168 * 3_600_000));
        assert_eq!(given.maintenance_interval_s, Some(300));
        assert_eq!((given.durability, given.os_flush_interval_ms), (Some(DurabilityName::Os), Some(500)));
        assert_eq!(given.max_frame_bytes, Some((100 << 20) + (64 << 10)));
        assert!(given.max_inflight_bytes.unwrap() > 300 << 20);
        assert_eq!(ignored, ["storage.buffer_pool_size_kb", "storage.max_buffer_return_kb"]);
        given.settle().unwrap();
        let none = parse("f", "{}").unwrap().given;
        assert_eq!((none.listen.clone(), none.durability), (None, None));
        none.settle().unwrap();
    }

    #[test]
    fn half_an_address_is_completed() {
        let listen = |text: &str| parse("f", text).unwrap().given.listen.unwrap();
        assert_eq!(listen(r#"{"server": {"port": 1}}"#), "127.0.0.1:1");
        assert_eq!(listen(r#"{"server": {"host": "10.0.0.1"}}"#), "10.0.0.1:9092");
        assert_eq!(listen(r#"{"server": {"host": "::1", "port": 0}}"#), "[::1]:0");
    }

    #[test]
    fn what_is_no_address_or_directory_is_found_before_the_start() {
        let settled = |text: &str| parse("f", text).unwrap().given.settle().map(drop);
        for host in ["a b", "0.0.0.0:9000", "[::1", "ho\\u0000st", "tcp://x"] {
            let error = settled(&format!(r#"{{"server": {{"host": "{host}", "port": 1}}}}"#)).unwrap_err().to_string();
            assert!(error.starts_with("`listen` is `"), "{error}");
        }
        for host in ["", "::", "[::1]", "10.0.0.1", "fe80::1%3", "broker-1.example_net"] {
            settled(&format!(r#"{{"server": {{"host": "{host}"}}}}"#)).unwrap();
        }
        for dir in ["", "a\\u0000b"] {
            let error = settled(&format!(r#"{{"storage": {{"data_dir": "{dir}"}}}}"#)).unwrap_err().to_string();
            assert!(error.starts_with("`data_dir` is "), "{error}");
        }
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
            assert_eq!(refusal(&text), expected);
        }
    }

    #[test]
    fn an_old_file_is_known_by_its_name_or_its_first_brace() {
        assert!(is_older("a/hermitmq.json", "") && is_older("x", " \n{}") && is_older("x.JSON", "a = 1"));
        assert!(!is_older("x.toml", "a = 1"));
    }
}
