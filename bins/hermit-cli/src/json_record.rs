//! A record as a line of JSON: what `consume --output json` prints and `produce --json` reads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hermit_client::Record;
use serde_json::{Value, json};

use crate::json::Json;
use crate::time;

/// What `consume` prints of where a record was; it gets another place when it is produced.
const PASSED_OVER: &[&str] = &["topic", "offset", "append_time_ns", "leader_epoch"];

/// A record to be produced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonRecord {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    /// In ns since the Unix epoch.
    pub(crate) timestamp: Option<u64>,
    pub(crate) partition: Option<u32>,
}

/// A consumed record. What is not UTF-8 stands in base64 under another name, so that nothing is lost or mistaken.
pub(crate) fn print(record: &Record) -> Value {
    let mut object = json!({
        "topic": &*record.topic,
        "partition": record.partition.0,
        "offset": record.offset.0,
        "timestamp_ns": record.timestamp,
        "append_time_ns": record.append_time,
        "leader_epoch": record.leader_epoch.0,
    });
    put(&mut object, "key", record.key.as_deref());
    put(&mut object, "value", record.value.as_deref());
    if !record.headers.is_empty() {
        let headers = record.headers.iter().map(|(name, value)| {
            let mut header = json!({ "name": name });
            put(&mut header, "value", value.as_deref());
            header
        });
        object["headers"] = headers.collect();
    }
    object
}

fn put(object: &mut Value, name: &str, bytes: Option<&[u8]>) {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => object[name] = Value::Null,
        Some((_, Ok(text))) => object[name] = text.into(),
        Some((bytes, Err(_not_utf8))) => object[format!("{name}_base64")] = STANDARD.encode(bytes).into(),
    }
}

/// Reads a line. The error names the field at fault, and what it should be.
pub(crate) fn parse(line: &[u8]) -> Result<JsonRecord, String> {
    let object = match serde_json::from_slice(line) {
        Ok(Json::Object(fields)) => fields,
        Ok(other) => return Err(format!("it is {}, and should be an object such as {{\"value\":\"…\"}}", other.kind())),
        Err(error) => return Err(no_json(&error)),
    };
    let mut fields = Fields::new(object)?;
    let record = JsonRecord {
        key: fields.bytes("key")?.flatten(),
        value: fields.bytes("value")?.ok_or("it has no field `value`; a tombstone has null there")?,
        headers: fields.take("headers").map_or(Ok(Vec::new()), headers)?,
        timestamp: fields.timestamp()?,
        partition: fields.partition()?,
    };
    for name in PASSED_OVER {
        fields.take(name);
    }
    fields.end("")?;
    Ok(record)
}

fn no_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let (problem, _place) = text.rsplit_once(" at line ").unwrap_or((&text, ""));
    format!("it is not JSON: {problem}, at byte {}", error.column())
}

/// The fields of an object that are not read yet.
struct Fields(Vec<(String, Json)>);

impl Fields {
    fn new(object: Vec<(String, Json)>) -> Result<Self, String> {
        let twice = object.iter().enumerate().find(|(at, (name, _))| object.iter().take(*at).any(|(other, _)| other == name));
        match twice {
            Some((_, (name, _))) => Err(format!("field `{name}` is there twice")),
            None => Ok(Self(object)),
        }
    }

    fn take(&mut self, name: &str) -> Option<Json> {
        let at = self.0.iter().position(|(found, _)| found == name)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Bytes as text or in base64; `Some(None)` is null.
    fn bytes(&mut self, name: &str) -> Result<Option<Option<Vec<u8>>>, String> {
        let base64 = format!("{name}_base64");
        match (self.take(name), self.take(&base64)) {
            (Some(_), Some(_)) => Err(format!("it has both `{name}` and `{base64}`")),
            (None, None) => Ok(None),
            (Some(Json::Null), None) => Ok(Some(None)),
            (Some(Json::Text(text)), None) => Ok(Some(Some(text.into_bytes()))),
            (Some(other), None) => Err(format!("field `{name}` is {}, and should be a string or null", other.kind())),
            (None, Some(Json::Text(text))) => match STANDARD.decode(&text) {
                Ok(bytes) => Ok(Some(Some(bytes))),
                Err(error) => Err(format!("field `{base64}` is not base64: {error}")),
            },
            (None, Some(other)) => Err(format!("field `{base64}` is {}, and should be a string of base64", other.kind())),
        }
    }

    fn timestamp(&mut self) -> Result<Option<u64>, String> {
        let mut found = None;
        for (name, factor) in [("timestamp", 0), ("timestamp_ms", 1_000_000), ("timestamp_ns", 1)] {
            let Some(value) = self.take(name) else { continue };
            let read = match &value {
                Json::Text(text) if factor == 0 => time::rfc3339_ns(text),
                Json::Number(number) if factor > 0 => number.as_u64().and_then(|number| number.checked_mul(factor)),
                _ => None,
            };
            let form = if factor == 0 { "RFC 3339, such as \"2026-01-31T12:00:00Z\"" } else { "a whole number since 1970" };
            let read = read.ok_or_else(|| format!("field `{name}` should be {form}"))?;
            if let Some((other, _)) = found.replace((name, read)) {
                return Err(format!("it has both `{other}` and `{name}`"));
            }
        }
        Ok(found.map(|(_, timestamp)| timestamp))
    }

    fn partition(&mut self) -> Result<Option<u32>, String> {
        match self.take("partition") {
            None | Some(Json::Null) => Ok(None),
            Some(Json::Number(number)) => match number.as_u64().and_then(|number| u32::try_from(number).ok()) {
                Some(partition) => Ok(Some(partition)),
                None => Err(format!("field `partition` is {number}, and should be a number from 0 on")),
            },
            Some(other) => Err(format!("field `partition` is {}, and should be a number from 0 on", other.kind())),
        }
    }

    /// A field that nobody reads would be lost without a word.
    fn end(&self, within: &str) -> Result<(), String> {
        match self.0.first() {
            None => Ok(()),
            Some((name, _)) => Err(format!("field `{within}{name}` is not known; see `hermit-cli produce --help`")),
        }
    }
}

type Header = (String, Option<Vec<u8>>);

fn headers(value: Json) -> Result<Vec<Header>, String> {
    match value {
        Json::Object(fields) => fields.into_iter().map(plain_header).collect(),
        Json::List(items) => items.into_iter().map(listed_header).collect(),
        other => Err(format!("field `headers` is {}, and should be a list of headers, or an object", other.kind())),
    }
}

fn plain_header((name, value): (String, Json)) -> Result<Header, String> {
    match value {
        Json::Null => Ok((name, None)),
        Json::Text(text) => Ok((name, Some(text.into_bytes()))),
        other => Err(format!("field `headers.{name}` is {}, and should be a string or null", other.kind())),
    }
}

fn listed_header(item: Json) -> Result<Header, String> {
    let Json::Object(fields) = item else {
        return Err(format!("field `headers` has {}, where an object with `name` and `value` should be", item.kind()));
    };
    let within = |problem: String| format!("in `headers`: {problem}");
    let mut fields = Fields::new(fields).map_err(within)?;
    let name = match fields.take("name") {
        Some(Json::Text(name)) => name,
        Some(other) => return Err(within(format!("field `name` is {}, and should be a string", other.kind()))),
        None => return Err(within("a header has no `name`".to_owned())),
    };
    let value = fields.bytes("value").map_err(within)?;
    let value = value.ok_or_else(|| within(format!("header `{name}` has no `value`, which may be null")))?;
    fields.end("headers.")?;
    Ok((name, value))
}

#[cfg(test)]
#[path = "json_record_tests.rs"]
mod tests;
