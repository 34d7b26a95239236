//! Live streams of a partition, or of all partitions of a topic: server-sent events, which go on where they were cut.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures_core::Stream;
use hermit_broker::Topic;
use hermit_broker::proto::TopicName;
use hermit_broker::proto::session::AccessOperations;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use utoipa::IntoParams;

use super::event::Ids;
use super::follow::Follower;
use super::followed::{Followed, check_partitions};
use super::groups::Place;
use super::partitions::{at_time, find};
use super::records::begin;
use crate::auth::Client;
use crate::blocking::searching;
use crate::held::Endless;
use crate::params::{Path, Query};
use crate::problem::Problem;
use crate::records::Form;
use crate::stage::Standing;

/// Where a stream begins, and how it tells values.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// The first offset; left out: that of `time_ms`, else what comes from now on. The header `Last-Event-ID`, which browsers send when they come again, wins.
    offset: Option<u64>,
    /// In place of an offset: the first record that was appended at this time or later, in ms since the Unix epoch.
    time_ms: Option<u64>,
    /// How keys and values are told: `text`, `json` or `base64`, as for reading.
    #[serde(default)]
    #[param(inline)]
    form: Form,
}

/// Streams the records of a partition as they become readable: server-sent events, whose ids are offsets. An event `gap` tells which offsets are left out, and for which reason; an
/// event `error` tells a problem, and is the last one.
#[utoipa::path(get, path = "/api/v1/topics/{topic}/partitions/{partition}/stream", tag = "records", params(("topic" = String, Path, description = "The topic"), ("partition" = u32, Path, description = "The partition"), StreamQuery), responses((status = 200, description = "Events with a record each", content_type = "text/event-stream", body = String), (status = "default", body = Problem)))]
pub(super) async fn stream(
    State(standing): State<Arc<Standing>>,
    client: Client,
    Path((topic, partition)): Path<(String, u32)>,
    Query(from): Query<StreamQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    client.caller.check_topic(&topic, AccessOperations::CONSUME)?;
    if from.offset.is_some() && from.time_ms.is_some() {
        return Err(Problem::bad("time_ms", "give offset or time_ms, not both"));
    }
    let partition = find(&client, &topic, partition)?;
    let next = match last_event(&headers)? {
        Some(last) => {
            let last: u64 =
                last.parse().map_err(|_other| Problem::bad(LAST_EVENT, "it must be the offset of the last record that came"))?;
            last.saturating_add(1)
        }
        None if from.offset.is_none() && from.time_ms.is_none() => partition.bounds()?.high_watermark.0,
        None => begin(&client.broker, &partition, from.offset, from.time_ms).await?,
    };
    begun(&standing, client, topic, Ids::Offset, vec![Followed::new(partition, next)], from.form)
}

/// Where a stream of all partitions begins, and how it tells values.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamAllQuery {
    /// At which end: `earliest` or `latest`, which is the default. The header `Last-Event-ID`, which browsers send when they come again, wins.
    #[param(inline)]
    place: Option<Place>,
    /// In place of an end: the first records that were appended at this time or later, in ms since the Unix epoch.
    time_ms: Option<u64>,
    /// How keys and values are told: `text`, `json` or `base64`, as for reading.
    #[serde(default)]
    #[param(inline)]
    form: Form,
}

/// Streams the records of all partitions of a topic as they become readable: server-sent events with a record each, in the order of offsets within a partition. The id of an event
/// says where to go on in all partitions; where they are more than 16, not every event has one, and what came behind the last id comes again. Partitions that are added are
/// followed from their beginning. An event `gap` tells which offsets of a partition are left out, and for which reason; an event `down` that nothing more will come of a partition; an event `error`
/// tells a problem, and is the last one.
#[utoipa::path(get, path = "/api/v1/topics/{topic}/stream", tag = "records", params(("topic" = String, Path, description = "The topic; one with at most 256 partitions"), StreamAllQuery), responses((status = 200, description = "Events with a record each, which has its partition", content_type = "text/event-stream", body = String), (status = "default", body = Problem)))]
pub(super) async fn stream_all(
    State(standing): State<Arc<Standing>>,
    client: Client,
    Path(name): Path<String>,
    Query(from): Query<StreamAllQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    client.caller.check_topic(&name, AccessOperations::CONSUME)?;
    if from.place.is_some() && from.time_ms.is_some() {
        return Err(Problem::bad("time_ms", "give place or time_ms, not both"));
    }
    let topic = client.broker.topic(&TopicName::new(&name)?)?;
    check_partitions(topic.partitions().len())?;
    let last = last_event(&headers)?.map(|last| Ids::parse(last, &topic)).transpose()?;
    let form = from.form;
    let followed = searching(&client.broker, move || first_of_all(&topic, last.as_deref(), &from)).await?;
    let id = followed.first().map(|first| first.partition.topic()).ok_or_else(Problem::internal)?;
    begun(&standing, client, name, Ids::OfTopic(id), followed, form)
}

/// The first offsets to read.
fn first_of_all(topic: &Topic, last: Option<&[Option<u64>]>, from: &StreamAllQuery) -> Result<Vec<Followed>, Problem> {
    let first = topic.partitions().iter().enumerate().map(|(number, partition)| {
        let told = last.map(|last| last.get(number).copied());
        let begin = || {
            let bounds = partition.bounds()?;
            Ok(match (told, from.time_ms, from.place) {
                (Some(Some(Some(next))), ..) => next,
                // Partitions that were added since are read from their beginning.
                (Some(None), ..) => bounds.log_start.0,
                (_, Some(time_ms), _) => at_time(partition, time_ms)?,
                (_, None, Some(Place::Earliest)) => bounds.log_start.0,
                (_, None, Some(Place::Latest) | None) => bounds.high_watermark.0,
            })
        };
        let known = told.and_then(|told| told.unwrap_or(Some(0)));
        Followed::begin(partition, known, begin)
    });
    first.collect()
}

const LAST_EVENT: &str = "last-event-id";

fn last_event(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(last) = headers.get(LAST_EVENT) else { return Ok(None) };
    last.to_str().map(Some).map_err(|_bytes| Problem::bad(LAST_EVENT, "it must be the id of the last event that came"))
}

fn begun(
    standing: &Standing,
    client: Client,
    topic: String,
    ids: Ids,
    followed: Vec<Followed>,
    form: Form,
) -> Result<Response, Problem> {
    let Some(permit) = standing.door().stream() else {
        return Err(Problem::busy("too many streams are under way: try again, or read without one"));
    };
    let (events, received) = mpsc::channel(1);
    tokio::spawn(Follower::new(client, topic, ids, followed, form, events).run());
    let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    let mut response = (head, Body::from_stream(Events { received, _permit: permit })).into_response();
    response.extensions_mut().insert(Endless);
    Ok(response)
}

/// Pieces of the stream on their way to the client.
struct Events {
    received: mpsc::Receiver<Bytes>,
    _permit: OwnedSemaphorePermit,
}

impl Stream for Events {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.received.poll_recv(cx).map(|piece| piece.map(Ok))
    }
}
