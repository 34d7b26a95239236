//! Writing and reading records.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use hermit_broker::proto::session::AccessOperations;
use hermit_broker::proto::{Offset, TopicName};
use hermit_broker::{Broker, Caller, Partition, Topic};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::partitions::{at_time, find};
use crate::answer::Answer;
use crate::auth::Client;
use crate::blocking::{blocking, searching};
use crate::body::{self, Received, media_type, receive};
use crate::fetch::{self, Most, Piece};
use crate::lent::Lent;
use crate::params::{Path, Query};
use crate::problem::Problem;
use crate::produce::{self, Appending};
use crate::records::{Batch, Form, HeaderJson, RecordIn, RecordOut};
use crate::room::Room;
use crate::schema::Stored;
use crate::stage::Standing;

/// A body, what is unescaped of it, the record set, and the frame.
const COPIES: u64 = 4;
/// From here on a body is decoded on a thread of its own.
const SMALL_BODY_BYTES: usize = 64 << 10;
/// Headers of the request that become headers of the record, in a raw produce.
const HEADER_PREFIX: &str = "hermit-header-";
/// What any page may send without asking, and an empty type.
const TYPES_OF_FORMS: [&str; 4] = ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];

/// What is told of a raw record besides its value.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct RawRecord {
    /// Raw bodies: the key, as text.
    key: Option<String>,
    /// Raw bodies: the key, as base64.
    key_base64: Option<String>,
    /// Raw bodies: the partition.
    partition: Option<u32>,
    /// Raw bodies: ms since the Unix epoch.
    timestamp_ms: Option<u64>,
}

/// Stores records. It is answered when they are as durable as the topic promises.
///
/// JSON is a batch, `{"records": […]}`, or one record. Every other type (`application/octet-stream`, say; not those that HTML forms can send) is the value of one record; its headers are the
/// request's headers that begin with `Hermit-Header-`.
#[utoipa::path(post, path = "/api/v1/topics/{topic}/records", tag = "records", params(("topic" = String, Path, description = "The topic; it is created where it is missing and the settings and the client's rights allow"), RawRecord), request_body(content((Batch = "application/json"), (RecordIn = "application/json"), (Vec<u8> = "application/octet-stream"))), responses((status = 200, body = Stored), (status = "default", body = Problem)))]
pub(super) async fn produce(
    State(standing): State<Arc<Standing>>,
    mut client: Client,
    Path(topic): Path<String>,
    Query(raw): Query<RawRecord>,
    request: Request,
) -> Result<Answer<Stored>, Problem> {
    client.caller.check_topic(&topic, AccessOperations::PRODUCE)?;
    let (parts, body) = request.into_parts();
    let media = media_type(&parts.headers);
    if TYPES_OF_FORMS.contains(&media.as_str()) {
        let detail = "send JSON as application/json, and other values under a type that HTML forms cannot send, such as application/octet-stream";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", detail).field("content-type"));
    }
    let is_json = media == "application/json";
    if is_json && (raw.key.is_some() || raw.key_base64.is_some() || raw.partition.is_some() || raw.timestamp_ms.is_some()) {
        return Err(Problem::bad(
            "query",
            "of JSON, key, partition and time stand in the record; in the query they are for raw bodies",
        ));
    }
    let most = client.broker.max_loan_bytes() / COPIES;
    let mut received = receive(body, &parts.headers, &client.broker, standing.config(), most).await?;
    received.lend_copies(COPIES - body::COPIES)?;
    // A body may take its time.
    client.check_topic_now(&topic, AccessOperations::PRODUCE)?;
    let topic = to_write(&client, &topic).await?;
    let caller = client.caller.clone();
    let small = received.bytes.len() < SMALL_BODY_BYTES;
    let work = move || {
        if is_json { append_json(&caller, &topic, &received) } else { append_raw(&caller, &topic, &received, &raw, &parts.headers) }
    };
    let appending = if small { work()? } else { blocking(work).await? };
    Ok(Answer(appending.stored().await?))
}

/// The topic; created where it is missing and that is allowed.
async fn to_write(client: &Client, topic: &str) -> Result<Arc<Topic>, Problem> {
    let name = TopicName::new(topic)?;
    if !name.is_internal()
        && let Ok(found) = client.broker.topic(&name)
    {
        return Ok(found);
    }
    let caller = client.caller.clone();
    blocking(move || Ok(caller.topic_to_write(&name)?)).await
}

fn append_json(caller: &Caller, topic: &Topic, received: &Received) -> Result<Appending, Problem> {
    let bytes = &received.bytes[..];
    body::check_object(bytes)?;
    // A batch is looked for first. What is neither is told by what it looks like.
    match serde_json::from_slice::<Batch<'_>>(bytes) {
        Ok(batch) if batch.records.is_empty() => Err(Problem::bad("records", "give at least one record")),
        Ok(batch) => produce::append(caller, topic, &batch.records),
        Err(_not_a_batch) if names_records(bytes) => Err(body::parse::<Batch<'_>>(bytes).err().unwrap_or_else(Problem::internal)),
        Err(_not_a_batch) => produce::append(caller, topic, &[body::parse::<RecordIn<'_>>(bytes)?]),
    }
}

/// Whether an object has a field `records`, whatever else it has.
fn names_records(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Looked {
        records: Option<serde::de::IgnoredAny>,
    }
    serde_json::from_slice::<Looked>(bytes)
        .map_or_else(|_error| bytes.windows(9).any(|window| window == b"\"records\""), |looked| looked.records.is_some())
}

fn append_raw(
    caller: &Caller,
    topic: &Topic,
    received: &Received,
    raw: &RawRecord,
    headers: &HeaderMap,
) -> Result<Appending, Problem> {
    let mut of_record = Vec::new();
    for (name, value) in headers {
        let Some(name) = name.as_str().strip_prefix(HEADER_PREFIX) else { continue };
        let value = value
            .to_str()
            .map_err(|_bytes| Problem::bad(name, "the values of record headers must be ASCII here; JSON takes any"))?;
        of_record.push(HeaderJson { name: Cow::Borrowed(name), value: Some(Cow::Borrowed(value)), value_base64: None });
    }
    let record = RecordIn {
        partition: raw.partition,
        timestamp_ms: raw.timestamp_ms,
        key: raw.key.as_deref().map(Cow::Borrowed),
        key_base64: raw.key_base64.as_deref().map(Cow::Borrowed),
        headers: of_record,
        ..RecordIn::default()
    };
    produce::append_with_value(caller, topic, &record, &received.bytes)
}

/// From where, how much, and for how long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Fetch {
    /// The first offset; left out: that of `time_ms`, else the oldest one.
    offset: Option<u64>,
    /// In place of an offset: the first record that was appended at this time or later, in ms since the Unix epoch.
    time_ms: Option<u64>,
    /// Where there is nothing yet, ms to wait for something; at most 60,000. Default: 0.
    #[serde(default)]
    wait_ms: u64,
    /// Roughly so many bytes of answer, from 1 to 4,194,304; one record is told in any case. Default: 1,048,576.
    max_bytes: Option<usize>,
    /// So many records, from 1 to 10,000. Default: 1,000.
    max_records: Option<usize>,
    /// How keys and values are told: `text` (what is text as text, the rest as base64; the default), `json` (values that are JSON as JSON), or `base64`.
    #[serde(default)]
    #[param(inline)]
    form: Form,
}

/// An answer without records, and more.
const HEAD_BYTES: usize = 128;
const LONGEST_WAIT_MS: u64 = 60_000;
const MOST_BYTES: usize = 4 << 20;
const MOST_RECORDS: usize = 10_000;

impl Fetch {
    fn most(&self) -> Result<Most, Problem> {
        let within = |field: &str, value: usize, most: usize| {
            if (1..=most).contains(&value) { Ok(value) } else { Err(Problem::bad(field, format!("it must be from 1 to {most}"))) }
        };
        let bytes = within("max_bytes", self.max_bytes.unwrap_or(1 << 20), MOST_BYTES)?;
        let records = within("max_records", self.max_records.unwrap_or(1000), MOST_RECORDS)?;
        if self.wait_ms > LONGEST_WAIT_MS {
            return Err(Problem::bad("wait_ms", format!("it must be at most {LONGEST_WAIT_MS}")));
        }
        if self.offset.is_some() && self.time_ms.is_some() {
            return Err(Problem::bad("time_ms", "give offset or time_ms, not both"));
        }
        // A comma goes around each of them.
        Ok(Most { bytes, records, form: self.form, around_bytes: 1, break_bytes: 0, keeps_sets: false })
    }
}

/// Records that were read.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Fetched {
    /// In the order of their offsets.
    records: Vec<RecordOut>,
    /// Where to go on: the offset to ask for next.
    next_offset: u64,
    /// The end of what can be read now, exclusive.
    high_watermark: u64,
}

/// Reads records of a partition.
#[utoipa::path(get, path = "/api/v1/topics/{topic}/partitions/{partition}/records", tag = "records", params(("topic" = String, Path, description = "The topic"), ("partition" = u32, Path, description = "The partition"), Fetch), responses((status = 200, body = Fetched), (status = "default", body = Problem)))]
pub(super) async fn fetch(
    mut client: Client,
    Path((topic, partition)): Path<(String, u32)>,
    Query(query): Query<Fetch>,
) -> Result<Response, Problem> {
    client.caller.check_topic(&topic, AccessOperations::CONSUME)?;
    let most = query.most()?;
    let partition = find(&client, &topic, partition)?;
    let from = begin(&client.broker, &partition, query.offset, query.time_ms).await?;
    // What lies before the log's start is refused at once, not after the wait.
    if from >= partition.bounds()?.high_watermark.0 && query.wait_ms > 0 {
        let waited = tokio::time::timeout(Duration::from_millis(query.wait_ms), partition.wait_for(Offset(from.saturating_add(1))));
        tokio::select! {
            waited = waited => if let Ok(reached) = waited { reached? },
            () = client.broker.stopping() => return Err(Problem::stopping()),
        }
        client.check_topic_now(&topic, AccessOperations::CONSUME)?;
    }
    let broker = client.broker.clone();
    let (body, loan) = searching(&client.broker, move || {
        let mut room = Room::new(&broker, HEAD_BYTES as u64, HEAD_BYTES as u64);
        let Piece { records, text_bytes, next } = fetch::read(&broker, &partition, from, most, &mut room, &mut None)?;
        let fetched = Fetched { records, next_offset: next, high_watermark: partition.bounds()?.high_watermark.0 };
        // It does not grow, which would take as much again.
        let mut body = Vec::with_capacity(text_bytes.saturating_add(HEAD_BYTES));
        serde_json::to_writer(&mut body, &fetched).map_err(|_impossible| Problem::internal())?;
        let loan = room.keep(body.len() as u64);
        Ok((body, loan))
    })
    .await?;
    let response = Response::builder().header(header::CONTENT_TYPE, "application/json").header(header::CACHE_CONTROL, "no-store");
    response.body(Body::new(Lent::new(body.into(), loan))).map_err(|_impossible| Problem::internal())
}

/// The first offset to read.
pub(super) async fn begin(
    broker: &Broker,
    partition: &Arc<Partition>,
    offset: Option<u64>,
    time_ms: Option<u64>,
) -> Result<u64, Problem> {
    match (offset, time_ms) {
        (Some(offset), _) => Ok(offset),
        (None, None) => Ok(partition.bounds()?.log_start.0),
        (None, Some(time_ms)) => {
            let partition = Arc::clone(partition);
            searching(broker, move || Ok(at_time(&partition, time_ms)?)).await
        }
    }
}
