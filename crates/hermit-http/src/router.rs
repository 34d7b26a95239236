//! Which path leads where.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use axum::{Extension, Router};

use crate::auth::Client;
use crate::metrics::Scrapes;
use crate::problem::Problem;
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
        .merge(api)
        .fallback(async || {
            Problem::new(StatusCode::NOT_FOUND, "UnknownPath", "there is nothing at this path: /api/v1 shows what there is")
                .field("path")
        })
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "UnknownMethod", "this path does not take this method").field("method")
        })
        .layer(axum::middleware::map_response(guarded))
        .layer(Extension(Scrapes::new(standing.config().metrics_per_partition)))
        .with_state(standing)
}

/// What browsers are told of every answer: it is what it says, and belongs into no frame.
async fn guarded(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers
        .entry(header::CONTENT_SECURITY_POLICY)
        .or_insert(HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"));
    response
}

/// The metrics: for who may administer the broker, as they name all topics and groups.
async fn scrape(client: Client, Extension(scrapes): Extension<Scrapes>, headers: HeaderMap) -> Result<Response, Problem> {
    client.caller.check_broker()?;
    scrapes.answer(client.broker.clone(), &headers).await
}
