//! The broker's numbers as text for Prometheus, and as lists of metrics for OpenTelemetry.
//!
//! The text is made by hand, not with a client library: those keep a tree of label sets in memory and show it in one piece and one format, while here the
//! numbers are the broker's own, taken at one moment, and become text piece by piece as the client takes it. Of 10,000 partitions that is 8 MB.

mod collect;
mod encode;
mod families;
mod otlp;
mod responses;
mod table;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_core::Stream;
use hermit_broker::Broker;
use hermit_broker::log::{Clock as _, SystemClock};
use hermit_broker::metrics::ProcessMetrics;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::collect::{Exposition, HttpMetrics};
use self::encode::Format;
pub(crate) use self::responses::Responses;
use crate::blocking::blocking;
use crate::problem::Problem;
use crate::stage::Standing;

/// All metrics with their kinds, labels and meanings, as the table of the manual.
#[must_use]
pub fn manual() -> String {
    table::markdown()
}

/// The names of all metrics as queries use them.
#[must_use]
pub fn names() -> Vec<String> {
    families::ALL.iter().flat_map(families::Family::queried_names).collect()
}

/// Scrapes that are under way at a time, with what they hold: the numbers of all partitions, and a piece of text. Who has several Prometheus servers has
/// two of them; one that is slow must not keep the others out.
const MOST_SCRAPES: usize = 4;

/// Answers scrapes.
#[derive(Clone, Debug)]
pub(crate) struct Scrapes {
    room: Arc<Semaphore>,
}

impl Default for Scrapes {
    fn default() -> Self {
        Self { room: Arc::new(Semaphore::new(MOST_SCRAPES)) }
    }
}

impl Scrapes {
    /// All metrics in the format that the client prefers.
    pub(crate) async fn answer(&self, broker: Broker, headers: &HeaderMap, standing: &Standing) -> Result<Response, Problem> {
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            return Err(Problem::busy("other scrapes are under way: try again, and scrape less often"));
        };
        let accept: Vec<_> = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        let format = Format::negotiate(&accept.join(","));
        let (shows_partitions, http) = (standing.shows_partitions(), HttpMetrics::read(standing));
        // It looks at every partition, and may read logs.
        let exposition = blocking(move || Ok(exposition(&broker, http, format, shows_partitions))).await?;
        let body = Body::from_stream(Pieces { exposition, _permit: permit });
        Ok(([(header::CONTENT_TYPE, format.content_type())], body).into_response())
    }
}

fn exposition(broker: &Broker, http: HttpMetrics, format: Format, shows_partitions: bool) -> Exposition {
    let process = ProcessMetrics::read();
    if let Err(error) = &process {
        tracing::debug!(%error, "there are no metrics of the process");
    }
    Exposition::new(broker.metrics(), http, process.ok(), format, shows_partitions)
}

/// All metrics as OpenTelemetry has them: lists of `Metric` in the JSON encoding of OTLP, each of about 1 MiB.
pub(crate) fn otlp(broker: &Broker, standing: &Standing) -> impl Iterator<Item = String> + use<> {
    let format = Format::Otlp { at: SystemClock.now() };
    exposition(broker, HttpMetrics::read(standing), format, standing.shows_partitions())
}

impl HttpMetrics {
    fn read(standing: &Standing) -> Self {
        Self { responses: standing.responses().read(), certificate_end: certificate_end(standing) }
    }
}

/// Of the one that is shown over HTTP.
#[cfg(feature = "tls")]
fn certificate_end(standing: &Standing) -> Option<SystemTime> {
    standing.tls().certificate_end()
}

#[cfg(not(feature = "tls"))]
const fn certificate_end(_standing: &Standing) -> Option<SystemTime> {
    None
}

/// Pieces of text, made as they are asked for.
struct Pieces {
    exposition: Exposition,
    _permit: OwnedSemaphorePermit,
}

impl Stream for Pieces {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.exposition.next().map(|piece| Ok(Bytes::from(piece))))
    }
}

#[cfg(test)]
mod tests;
