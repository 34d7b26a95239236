//! Which path leads where.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::problem::Problem;
use crate::stage::{Stage, Standing};
use crate::{health, metrics};

pub(crate) fn router(standing: Arc<Standing>) -> Router {
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(scrape))
        .with_state(standing)
}

async fn scrape(State(standing): State<Arc<Standing>>) -> Response {
    let broker = match standing.now() {
        Stage::Serving(broker) => broker,
        Stage::Starting => return Problem::starting().into_response(),
        Stage::Stopping => return Problem::stopping().into_response(),
    };
    // It looks at every partition.
    let written = tokio::task::spawn_blocking(move || {
        let mut text = String::new();
        metrics::write(&broker, &mut text);
        text
    });
    match written.await {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(_panicked) => Problem::stopping().into_response(),
    }
}
