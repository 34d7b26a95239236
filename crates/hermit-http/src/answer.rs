//! Answers of JSON that are made as a whole.

use axum::Json;
use axum::response::{IntoResponse, Response};
use hyper::body::Body as _;
use serde::Serialize;

use crate::held::Large;

/// Larger ones count in the broker's budget until they are written.
const SMALL_BYTES: u64 = 64 << 10;

/// JSON.
#[derive(Debug)]
pub(crate) struct Answer<T>(pub(crate) T);

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        let mut response = Json(self.0).into_response();
        let bytes = response.body().size_hint().lower();
        if bytes > SMALL_BYTES {
            response.extensions_mut().insert(Large { bytes });
        }
        response
    }
}
