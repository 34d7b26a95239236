//! The description of the API, for programs and for people.

use axum::http::header;
use axum::response::{Html, IntoResponse};

use crate::openapi::openapi_json;

/// The description. It tells nothing of the broker, so that nobody has to log in for it.
pub(crate) async fn document() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], openapi_json())
}

/// A page that shows the description; it needs nothing from elsewhere.
pub(crate) async fn page() -> impl IntoResponse {
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'";
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(include_str!("page.html")))
}
