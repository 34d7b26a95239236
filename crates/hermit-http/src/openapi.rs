//! The description of the API, made from the code.

use utoipa::OpenApi;

use crate::routes;

/// What is said of the API as a whole.
#[derive(OpenApi)]
#[openapi(info(
    title = "HermitMQ",
    description = "The JSON API of a HermitMQ broker. Refusals are problem details (RFC 9457) that name the field at fault. Log in with a user and its password (Basic) or with a token (Bearer), where the broker asks for it.",
    license(name = "MIT OR Apache-2.0")
))]
struct Head;

/// The description as it is served at `/api/v1/openapi.json`: OpenAPI 3.1.
#[must_use]
pub fn openapi_json() -> String {
    let mut described = Head::openapi();
    described.merge(routes::api().into_openapi());
    let mut text = described.to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}
