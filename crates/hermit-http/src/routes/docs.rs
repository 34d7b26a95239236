//! The description of the API, for programs and for people.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::{Html, IntoResponse};
use bytes::Bytes;

use crate::openapi::openapi_json;

/// The description. It tells nothing of the broker, so that nobody has to log in for it.
pub(crate) async fn document() -> impl IntoResponse {
    // Made once: it takes milliseconds, and everybody may ask for it.
    static DESCRIPTION: LazyLock<Bytes> = LazyLock::new(|| openapi_json().into());
    ([(header::CONTENT_TYPE, "application/json")], DESCRIPTION.clone())
}

/// A page that shows the description; it needs nothing from elsewhere.
pub(crate) async fn page() -> impl IntoResponse {
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'";
    ([(header::CONTENT_SECURITY_POLICY, policy)], Html(include_str!("page.html")))
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn the_description_is_made_once() {
        let (one, other) = (document().await.into_response(), document().await.into_response());
        let one = one.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
        let other = other.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(one.len() > 1000 && one.as_ptr() == other.as_ptr());
    }
}
