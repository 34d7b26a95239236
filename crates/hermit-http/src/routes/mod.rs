//! The JSON API, one file for each kind of thing.

mod broker;
mod connections;
mod docs;
mod event;
mod follow;
mod followed;
mod groups;
mod partitions;
mod records;
mod rules;
mod stream;
mod topics;
mod users;

use std::sync::Arc;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::stage::Standing;

pub(crate) use docs::{document, page};

/// Everything under `/api/v1` that the description describes.
pub(crate) fn api() -> OpenApiRouter<Arc<Standing>> {
    OpenApiRouter::new()
        .routes(routes!(topics::list, topics::create))
        .routes(routes!(topics::describe, topics::alter, topics::delete))
        .routes(routes!(partitions::list))
        .routes(routes!(partitions::describe))
        .routes(routes!(partitions::trim))
        .routes(routes!(partitions::offset))
        .routes(routes!(records::produce))
        .routes(routes!(records::fetch))
        .routes(routes!(stream::stream))
        .routes(routes!(stream::stream_all))
        .routes(routes!(groups::list))
        .routes(routes!(groups::describe, groups::delete))
        .routes(routes!(groups::seek))
        .routes(routes!(broker::describe))
        .routes(routes!(connections::list))
        .routes(routes!(connections::close))
        .routes(routes!(broker::settings))
        .routes(routes!(broker::who_am_i))
        .routes(routes!(users::list))
        .routes(routes!(users::put, users::delete))
        .routes(routes!(users::create_token))
        .routes(routes!(users::delete_token))
        .routes(routes!(rules::list, rules::add))
        .routes(routes!(rules::delete))
}
