//! Whether the broker lives, and whether it serves.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use serde::Serialize;

use crate::stage::{Stage, Standing};

/// The process answers: what a supervisor restarts a process by.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// What `/readyz` tells.
#[derive(Debug, Serialize)]
pub(crate) struct Readiness {
    /// `starting`, `serving` or `stopping`.
    status: &'static str,
    /// How far a start is.
    #[serde(skip_serializing_if = "Option::is_none")]
    recovery: Option<Recovery>,
}

/// How far the recovery of partitions is.
#[derive(Debug, Serialize)]
pub(crate) struct Recovery {
    /// Partitions to be opened; 0 while that is not known yet.
    partitions: u64,
    /// Partitions that are open.
    opened: u64,
}

/// Whether requests will be served: what a load balancer or an orchestrator sends traffic by.
pub(crate) async fn readyz(State(standing): State<Arc<Standing>>) -> impl IntoResponse {
    let told = |code, status, recovery| (code, Json(Readiness { status, recovery }));
    match standing.now() {
        Stage::Starting => {
            let progress = standing.progress();
            let recovery = Recovery { partitions: progress.partitions(), opened: progress.opened() };
            told(StatusCode::SERVICE_UNAVAILABLE, "starting", Some(recovery))
        }
        Stage::Serving(_) => told(StatusCode::OK, "serving", None),
        Stage::Stopping => told(StatusCode::SERVICE_UNAVAILABLE, "stopping", None),
    }
}
