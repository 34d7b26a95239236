//! Which path leads where.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use axum::{Extension, Router};

use crate::auth::Client;
use crate::metrics::Scrapes;
use crate::problem::Problem;
use crate::server::Peer;
use crate::stage::Standing;
use crate::{health, routes};

pub(crate) fn router(standing: Arc<Standing>) -> Router {
    let (api, _description) = routes::api().split_for_parts();
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(scrape))
        .route("/api/v1/openapi.json", get(routes::document))
        .route("/api/v1", get(routes::page))
        // Whoever opens the address of the line that says ready in a browser.
        .route("/", get(async || Redirect::temporary("/api/v1")))
        .merge(api)
        .fallback(async || {
            Problem::new(StatusCode::NOT_FOUND, "UnknownPath", "there is nothing at this path: /api/v1 shows what there is")
                .field("path")
        })
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "UnknownMethod", "this path does not take this method").field("method")
        })
        .layer(axum::middleware::from_fn(refuse_plain))
        .layer(Extension(Scrapes::default()))
        .with_state(standing)
}

/// What is told to everybody, and in any case.
pub(crate) fn is_health(path: &str) -> bool {
    ["/healthz", "/readyz"].contains(&path)
}

/// Where TLS is required, others get no more than whether the broker lives: whoever probes that needs no certificate for it.
async fn refuse_plain(request: Request, next: Next) -> Response {
    let wants_tls = request.extensions().get::<Peer>().is_none_or(|peer| peer.wants_tls);
    if wants_tls && !is_health(request.uri().path()) {
        let detail = "this port takes requests over TLS only: write https:// in place of http://";
        return Problem::new(StatusCode::FORBIDDEN, "TlsRequired", detail).into_response();
    }
    next.run(request).await
}

/// Counts every answer, and says of it to browsers: it is what it says, and belongs into no frame.
pub(crate) fn finish(standing: &Standing, mut response: Response) -> Response {
    standing.responses().count(response.status().as_u16());
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    response
}

/// The metrics: for who may read them, which is a right of its own, as they name all topics and groups.
async fn scrape(
    client: Client,
    State(standing): State<Arc<Standing>>,
    Extension(scrapes): Extension<Scrapes>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    client.caller.check_metrics()?;
    scrapes.answer(client.broker.clone(), &headers, &standing).await
}
