//! Records as JSON: texts and JSON as they are, everything else as base64. What is read can be written again as it is.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::marker::PhantomData;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::problem::Problem;

/// A header of a record.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeaderJson<'a> {
    /// Its name.
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    /// Its value, if that is text.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<Cow<'a, str>>,
    /// Its value, as base64.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(crate) value_base64: Option<Cow<'a, str>>,
}

/// A record to be written. Of `value`, `value_json` and `value_base64` one may be given; where none is, the value is null, which is a tombstone in a compacted topic.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordIn<'a> {
    /// The partition; left out: that of the key, and without a key any.
    #[serde(default)]
    pub(crate) partition: Option<u32>,
    /// Milliseconds since the Unix epoch; left out: now.
    #[serde(default)]
    pub(crate) timestamp_ms: Option<u64>,
    /// The key, as text.
    #[serde(borrow, default)]
    pub(crate) key: Option<Cow<'a, str>>,
    /// The key, as base64.
    #[serde(borrow, default)]
    pub(crate) key_base64: Option<Cow<'a, str>>,
    /// The value, as text.
    #[serde(borrow, default)]
    pub(crate) value: Option<Cow<'a, str>>,
    /// The value, as base64.
    #[serde(borrow, default)]
    pub(crate) value_base64: Option<Cow<'a, str>>,
    /// The value, as JSON: it is stored as it stands there.
    #[serde(borrow, default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) value_json: Option<&'a RawValue>,
    /// Its headers, at most 10,000.
    #[serde(borrow, default, deserialize_with = "few")]
    #[schema(max_items = 10_000)]
    pub(crate) headers: Vec<HeaderJson<'a>>,
}

/// Most records of a batch, and most headers of a record: three bytes of JSON may stand for one that takes hundreds.
pub(crate) const MAX_ITEMS: usize = 10_000;

/// A list that is refused as soon as it is too long.
fn few<'de, D: Deserializer<'de>, T: Deserialize<'de>>(list: D) -> Result<Vec<T>, D::Error> {
    struct Few<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Few<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a list of at most {MAX_ITEMS}")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
            let mut items = Vec::new();
            while let Some(item) = list.next_element()? {
                if items.len() == MAX_ITEMS {
                    return Err(Error::invalid_length(MAX_ITEMS + 1, &self));
                }
                items.push(item);
            }
            Ok(items)
        }
    }

    list.deserialize_seq(Few(PhantomData))
}

/// Records to be written.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Batch<'a> {
    /// At least one, and at most 10,000.
    #[serde(borrow, deserialize_with = "few")]
    #[schema(max_items = 10_000)]
    pub(crate) records: Vec<RecordIn<'a>>,
}

/// A record that was read. A field without a value is left out.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RecordOut {
    /// Its partition, where it is read with those of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) partition: Option<u32>,
    /// Its offset.
    pub(crate) offset: u64,
    /// Milliseconds since the Unix epoch.
    pub(crate) timestamp_ms: u64,
    /// The key, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<String>,
    /// The key, as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_base64: Option<String>,
    /// The value, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
    /// The value, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) value_json: Option<Box<RawValue>>,
    /// The value, as base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value_base64: Option<String>,
    /// Its headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) headers: Vec<HeaderJson<'static>>,
    /// The offset behind it: that of the next record, where one takes several offsets.
    #[serde(skip)]
    pub(crate) next: u64,
}

/// How values are told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    /// What is text as text, the rest as base64.
    #[default]
    Text,
    /// Values that are JSON as JSON, and else as `text`.
    Json,
    /// All as base64.
    Base64,
}

/// Bytes that were given as text, as base64, or not at all.
pub(crate) fn bytes_of<'a>(
    text: Option<&'a Cow<'a, str>>,
    base64: Option<&Cow<'a, str>>,
    field: &str,
) -> Result<Option<Cow<'a, [u8]>>, Problem> {
    match (text, base64) {
        (None, None) => Ok(None),
        (Some(text), None) => Ok(Some(Cow::Borrowed(text.as_bytes()))),
        (None, Some(base64)) => {
            let field = format!("{field}_base64");
            let decoded =
                STANDARD.decode(base64.as_bytes()).map_err(|error| Problem::bad(&field, format!("it is no base64: {error}")))?;
            Ok(Some(Cow::Owned(decoded)))
        }
        (Some(_), Some(_)) => Err(Problem::bad(field, format!("give {field} or {field}_base64, not both"))),
    }
}

/// Bytes as text, where they are and that is wanted, else as base64.
fn told(bytes: &[u8], form: Form) -> (Option<String>, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) if form != Form::Base64 => (Some(text.to_owned()), None),
        _ => (None, Some(STANDARD.encode(bytes))),
    }
}

impl RecordIn<'_> {
    /// The value's bytes.
    pub(crate) fn value_bytes(&self) -> Result<Option<Cow<'_, [u8]>>, Problem> {
        match self.value_json {
            None => bytes_of(self.value.as_ref(), self.value_base64.as_ref(), "value"),
            Some(json) if self.value.is_none() && self.value_base64.is_none() => Ok(Some(Cow::Borrowed(json.get().as_bytes()))),
            Some(_) => Err(Problem::bad("value_json", "give one of value, value_json and value_base64")),
        }
    }

    /// The key's bytes.
    pub(crate) fn key_bytes(&self) -> Result<Option<Cow<'_, [u8]>>, Problem> {
        bytes_of(self.key.as_ref(), self.key_base64.as_ref(), "key")
    }
}

/// What a record is made of.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) offset: u64,
    /// The offset behind it.
    pub(crate) next: u64,
    pub(crate) timestamp_ms: u64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
}

/// Most that bytes take as text, of whichever form.
const fn most_text_bytes(bytes: usize) -> usize {
    bytes.div_ceil(3).saturating_mul(4)
}

impl RecordOut {
    pub(crate) fn new<'a>(parts: &Parts<'_>, headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>, form: Form) -> Self {
        let (key, key_base64) = parts.key.map_or((None, None), |key| told(key, form));
        let as_json = || serde_json::from_slice::<&RawValue>(parts.value?).ok().map(ToOwned::to_owned);
        let value_json = if form == Form::Json { as_json() } else { None };
        let plain = parts.value.filter(|_| value_json.is_none());
        let (value, value_base64) = plain.map_or((None, None), |value| told(value, form));
        let header = |(name, value): (&str, Option<&[u8]>)| {
            let (value, value_base64) = value.map_or((None, None), |value| told(value, form));
            HeaderJson {
                name: Cow::Owned(name.to_owned()),
                value: value.map(Cow::Owned),
                value_base64: value_base64.map(Cow::Owned),
            }
        };
        let headers = headers.map(header).collect();
        let &Parts { offset, next, timestamp_ms, .. } = parts;
        Self { partition: None, offset, timestamp_ms, key, key_base64, value, value_json, value_base64, headers, next }
    }

    /// Most bytes of memory that it will take, in a list that grows: known before it is made.
    pub(crate) fn most_bytes<'a>(parts: &Parts<'_>, headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>) -> usize {
        let texts = [parts.key, parts.value].into_iter().flatten().map(|bytes| most_text_bytes(bytes.len()));
        let headers = headers
            .map(|(name, value)| size_of::<HeaderJson<'_>>() + name.len() + value.map_or(0, |value| most_text_bytes(value.len())));
        2 * size_of::<Self>() + texts.chain(headers).sum::<usize>()
    }

    /// Bytes of its JSON, to the byte: what must be escaped takes up to six times what it is.
    pub(crate) fn json_bytes(&self) -> Result<usize, Problem> {
        let mut counted = Counted(0);
        serde_json::to_writer(&mut counted, self).map_err(|_impossible| Problem::internal())?;
        Ok(counted.0)
    }

    /// Line breaks of its JSON: only what was stored as JSON may have them.
    pub(crate) fn breaks(&self) -> usize {
        let json = self.value_json.as_ref().map_or("", |json| json.get());
        json.bytes().filter(|byte| matches!(byte, b'\n' | b'\r')).count()
    }
}

/// Counts what is written.
struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
