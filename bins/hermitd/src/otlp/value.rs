//! Values and attributes in OTLP's JSON encoding (opentelemetry-proto, `common/v1`).

use serde_json::{Value, json};

pub(super) fn attribute(key: &str, value: Value) -> Value {
    json!({ "key": key, "value": value })
}

pub(super) fn text(value: &str) -> Value {
    json!({ "stringValue": value })
}

/// 64-bit integers are texts in JSON; and they have a sign.
pub(super) fn whole(value: u64) -> Value {
    match i64::try_from(value) {
        Ok(value) => json!({ "intValue": value.to_string() }),
        Err(_too_large) => text(&value.to_string()),
    }
}
