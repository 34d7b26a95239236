//! A live stream of a partition: server-sent events, which go on where they were cut.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use bytes::Bytes;
use futures_core::Stream;
use hermit_broker::proto::Offset;
use hermit_broker::proto::session::AccessOperations;
use hermit_broker::{Broker, Caller, Loan, Partition};
use serde::Deserialize;
use tokio::sync::mpsc;
use utoipa::IntoParams;

use super::partitions::find;
use super::records::begin;
use crate::auth::Client;
use crate::blocking::blocking;
use crate::fetch::{self, Most};
use crate::params::{Path, Query};
use crate::problem::Problem;
use crate::records::{Form, RecordOut};

/// What is read at a time: a client that takes nothing holds two of these. One record may be larger; what it has beyond this is lent of the memory budget.
const PIECE_BYTES: usize = 64 << 10;
const PIECE_RECORDS: usize = 500;
/// A quiet stream says that it lives, and looks whether it still may.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// Where a stream begins, and how it tells values.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct From {
    /// The first offset; left out: that of `time_ms`, else what comes from now on. The header `Last-Event-ID`, which browsers send when they come again, wins.
    offset: Option<u64>,
    /// In place of an offset: the first record that was appended at this time or later, in ms since the Unix epoch.
    time_ms: Option<u64>,
    /// How keys and values are told: `text`, `json` or `base64`, as for reading.
    #[serde(default)]
    #[param(inline)]
    form: Form,
}

/// Streams the records of a partition as they become readable: server-sent events, whose ids are offsets. An event `error` tells a problem, and is the last one.
#[utoipa::path(get, path = "/api/v1/topics/{topic}/partitions/{partition}/stream", tag = "records", params(("topic" = String, Path, description = "The topic"), ("partition" = u32, Path, description = "The partition"), From), responses((status = 200, description = "Events with a record each", content_type = "text/event-stream", body = String), (status = "default", body = Problem)))]
pub(super) async fn stream(
    client: Client,
    Path((topic, partition)): Path<(String, u32)>,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    client.caller.check_topic(&topic, AccessOperations::CONSUME)?;
    if from.offset.is_some() && from.time_ms.is_some() {
        return Err(Problem::bad("time_ms", "give offset or time_ms, not both"));
    }
    let partition = find(&client, &topic, partition)?;
    let next = match last_event(&headers)? {
        Some(last) => last.saturating_add(1),
        None if from.offset.is_none() && from.time_ms.is_none() => partition.bounds()?.high_watermark.0,
        None => begin(&partition, from.offset, from.time_ms).await?,
    };
    let (events, received) = mpsc::channel(1);
    let follower =
        Follower { caller: client.caller.clone(), broker: client.broker.clone(), topic, partition, form: from.form, next, events };
    tokio::spawn(follower.run());
    let response = Response::builder().header(header::CONTENT_TYPE, "text/event-stream").header(header::CACHE_CONTROL, "no-store");
    response.body(Body::from_stream(Events(received))).map_err(|_impossible| Problem::internal())
}

fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Problem> {
    let Some(last) = headers.get("last-event-id") else { return Ok(None) };
    let last = last.to_str().ok().and_then(|last| last.parse().ok());
    last.map(Some).ok_or_else(|| Problem::bad("last-event-id", "it must be the offset of the last record that came"))
}

/// Pieces of the stream on their way to the client.
struct Events(mpsc::Receiver<Bytes>);

impl Stream for Events {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|piece| piece.map(Ok))
    }
}

/// Reads what a client follows.
struct Follower {
    caller: Caller,
    broker: Broker,
    topic: String,
    partition: Arc<Partition>,
    form: Form,
    next: u64,
    events: mpsc::Sender<Bytes>,
}

impl Follower {
    /// Until the client goes, the broker stops, or something is wrong.
    async fn run(mut self) {
        // Says to the client, and to what stands between, that the stream has begun.
        if self.events.send(Bytes::from_static(b": here\n\n")).await.is_err() {
            return;
        }
        loop {
            let piece = match self.turn().await {
                Ok(Some(piece)) => piece,
                Ok(None) => return,
                Err(problem) => {
                    let told = serde_json::to_string(&problem).unwrap_or_default();
                    // Whoever is gone needs no reason.
                    drop(self.events.send(format!("event: error\ndata: {told}\n\n").into()).await);
                    return;
                }
            };
            if self.events.send(piece).await.is_err() {
                return;
            }
        }
    }

    /// The next piece; none where the client has gone or the broker stops.
    async fn turn(&mut self) -> Result<Option<Bytes>, Problem> {
        let mut quiet = false;
        if self.next >= self.partition.bounds()?.high_watermark.0 {
            let waited = self.partition.wait_for(Offset(self.next.saturating_add(1)));
            tokio::select! {
                reached = waited => reached?,
                () = tokio::time::sleep(ALIVE_INTERVAL) => quiet = true,
                () = self.broker.stopping() => return Ok(None),
                () = self.events.closed() => return Ok(None),
            }
        }
        // After the wait: what was allowed before it need not be now.
        if !self.caller.renew() {
            return Err(hermit_broker::LoginRefused::Wrong.into());
        }
        self.caller.check_topic(&self.topic, AccessOperations::CONSUME)?;
        if quiet {
            return Ok(Some(Bytes::from_static(b": alive\n\n")));
        }
        let (broker, partition, next) = (self.broker.clone(), Arc::clone(&self.partition), self.next);
        let most = Most { bytes: PIECE_BYTES, records: PIECE_RECORDS, form: self.form };
        let (text, next) = blocking(move || {
            let piece = fetch::read(&broker, &partition, next, most)?;
            let mut text = String::new();
            piece.records.iter().try_for_each(|record| event(record, &mut text))?;
            Ok((text, piece.next))
        })
        .await?;
        // Where there was nothing but offsets without records the client hears that the stream lives.
        self.next = next;
        Ok(Some(if text.is_empty() { Bytes::from_static(b": gap\n\n") } else { self.lent(text)? }))
    }

    fn lent(&self, text: String) -> Result<Bytes, Problem> {
        let beyond = (text.len() as u64).saturating_sub(PIECE_BYTES as u64);
        if beyond == 0 {
            return Ok(text.into());
        }
        let mut loan = self.broker.loan();
        // A record that is larger than all loans takes what there is.
        if loan.grow(beyond.min(self.broker.max_loan_bytes())) {
            Ok(Bytes::from_owner(LentText { text, _loan: loan }))
        } else {
            Err(Problem::throttled())
        }
    }
}

/// Given back when the last of the text was sent.
struct LentText {
    text: String,
    _loan: Loan,
}

impl AsRef<[u8]> for LentText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Writes one event. JSON as it was stored may have several lines.
fn event(record: &RecordOut, out: &mut String) -> Result<(), Problem> {
    let json = serde_json::to_string(record).map_err(|_impossible| Problem::internal())?;
    out.push_str("id: ");
    out.push_str(&record.offset.to_string());
    for line in json.split(['\n', '\r']) {
        out.push_str("\ndata: ");
        out.push_str(line);
    }
    out.push_str("\n\n");
    Ok(())
}
