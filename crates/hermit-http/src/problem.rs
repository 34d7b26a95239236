//! Refusals, as problem details (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// What is wrong, for people and for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    title: &'static str,
    status: u16,
    detail: &'static str,
}

impl Problem {
    pub(crate) const fn starting() -> Self {
        Self { title: "Starting", status: 503, detail: "the broker is starting: /readyz tells how far it is" }
    }

    pub(crate) const fn stopping() -> Self {
        Self { title: "ShuttingDown", status: 503, detail: "the broker is stopping" }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response();
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        response
    }
}
