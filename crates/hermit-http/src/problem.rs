//! Refusals, as problem details (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hermit_broker::proto::session::{Status, WireError};
use hermit_broker::{BrokerError, LoginRefused};
use serde::Serialize;
use utoipa::ToSchema;

use crate::schema::StoredPart;

/// What is wrong, for people and for programs (`application/problem+json`, RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Problem {
    /// Of which kind it is: the name of the native protocol's status where it has one. Always the same for the same kind.
    title: String,
    /// The HTTP status.
    status: u16,
    /// What happened, and what to do.
    detail: String,
    /// Which field of the request is at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// Whether the same request may succeed later without anybody changing it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    retryable: bool,
    /// Of a batch for several partitions: what was stored all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stored: Vec<StoredPart>,
    /// For how many seconds it is of no use to try again.
    #[serde(skip)]
    wait_s: u64,
}

/// Longer texts are cut: they may repeat what the client has sent.
const MAX_TEXT_BYTES: usize = 1024;

fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_TEXT_BYTES));
    text
}

impl Problem {
    pub(crate) fn new(status: StatusCode, title: &str, detail: impl Into<String>) -> Self {
        let (title, status, detail) = (title.to_owned(), status.as_u16(), cut(detail.into()));
        Self { title, status, detail, field: None, retryable: false, stored: Vec::new(), wait_s: 1 }
    }

    /// A request that means nothing.
    pub(crate) fn bad(field: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", detail).field(field)
    }

    /// Names the field at fault.
    pub(crate) fn field(self, field: impl Into<String>) -> Self {
        Self { field: Some(cut(field.into())), ..self }
    }

    /// The same request may succeed later.
    pub(crate) fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    /// It is the fault of the record with this index.
    pub(crate) fn within(self, index: usize) -> Self {
        let field = self.field.as_deref().map_or_else(|| format!("records[{index}]"), |field| format!("records[{index}].{field}"));
        self.field(field)
    }

    /// Tells what was stored all the same.
    pub(crate) fn with_stored(self, stored: Vec<StoredPart>) -> Self {
        Self { stored, ..self }
    }

    pub(crate) fn starting() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Starting", "the broker is starting: /readyz tells how far it is").retryable()
    }

    /// Others are doing what was asked for.
    pub(crate) fn busy(detail: &str) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", detail).retryable()
    }

    /// There is no memory for an answer now.
    pub(crate) fn throttled() -> Self {
        Self::no_memory_for("answers")
    }

    /// There is no memory for a request now.
    pub(crate) fn throttled_body() -> Self {
        Self::no_memory_for("requests")
    }

    fn no_memory_for(what: &str) -> Self {
        let detail = format!("the broker's memory budget for {what} is used up (max_inflight_bytes)");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "Throttled", detail).retryable()
    }

    /// There is not that much memory for answers.
    pub(crate) fn too_large_to_tell(offset: u64) -> Self {
        let detail = format!(
            "what stands at offset {offset} takes more memory than HTTP has for all answers (a sixteenth of max_inflight_bytes): read it over the native port"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "TooLarge", detail).field("offset")
    }

    pub(crate) fn stopping() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ShuttingDown", "the broker is stopping").retryable()
    }

    /// A fault in the broker: what was asked for died.
    pub(crate) fn internal() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal", "the request failed in the broker; its log says why")
    }
}

impl From<BrokerError> for Problem {
    fn from(error: BrokerError) -> Self {
        error.wire().into()
    }
}

impl From<hermit_broker::proto::NameError> for Problem {
    fn from(error: hermit_broker::proto::NameError) -> Self {
        BrokerError::from(error).into()
    }
}

impl From<WireError> for Problem {
    fn from(error: WireError) -> Self {
        let mut problem = Self::new(http_status(error.status), error.status.name(), error.message.clone());
        problem.field = (!error.field.is_empty()).then_some(error.field.clone());
        problem.retryable = error.is_retryable();
        problem
    }
}

impl From<LoginRefused> for Problem {
    fn from(refused: LoginRefused) -> Self {
        let detail = refused.to_string();
        match refused {
            LoginRefused::Later { wait_ms } => {
                let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyLogins", detail).retryable();
                Self { wait_s: wait_ms.div_ceil(1000).max(1), ..problem }
            }
            LoginRefused::Unencrypted | LoginRefused::NotAsked => {
                Self::new(StatusCode::FORBIDDEN, "NotAuthenticated", detail).field("authorization")
            }
            _ => Self::new(StatusCode::UNAUTHORIZED, "NotAuthenticated", detail).field("authorization"),
        }
    }
}

/// The one table from the native protocol's statuses to those of HTTP.
const fn http_status(status: Status) -> StatusCode {
    match status {
        Status::UnknownTopic
        | Status::UnknownPartition
        | Status::UnknownGroup
        | Status::UnknownMember
        | Status::UnknownUser
        | Status::UnknownToken => StatusCode::NOT_FOUND,
        Status::TopicExists
        | Status::UserExists
        | Status::TokenExists
        | Status::GroupActive
        | Status::LastAdministrator
        | Status::CommitBeyondEnd => StatusCode::CONFLICT,
        Status::OffsetOutOfRange => StatusCode::RANGE_NOT_SATISFIABLE,
        Status::NotAuthorized | Status::InternalTopic | Status::Rejected => StatusCode::FORBIDDEN,
        Status::NotAuthenticated => StatusCode::UNAUTHORIZED,
        Status::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Status::DiskFull => StatusCode::INSUFFICIENT_STORAGE,
        Status::ShuttingDown | Status::ReadOnly => StatusCode::SERVICE_UNAVAILABLE,
        Status::Internal | Status::CorruptLog => StatusCode::INTERNAL_SERVER_ERROR,
        other if other.is_retryable() => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, [(header::CONTENT_TYPE, "application/problem+json")], body).into_response();
        let headers = response.headers_mut();
        if self.retryable {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(self.wait_s));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"hermitmq\", charset=\"UTF-8\""));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_the_native_protocol_is_an_error_here() {
        for status in Status::ALL.iter().filter(|status| **status != Status::Ok) {
            let http = http_status(*status);
            assert!(http.is_client_error() || http.is_server_error(), "{status:?}");
            let can_wait = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::INSUFFICIENT_STORAGE];
            assert!(!status.is_retryable() || can_wait.contains(&http), "{status:?}: {http}");
        }
    }
}
