//! The HTTP side of a HermitMQ broker: whether it lives and serves, its metrics, and a JSON API, over the public API of `hermit-broker`.
//!
//! [`serve`] is all that an embedder needs who has an open broker. Who wants to be answered while the broker is still being opened makes an [`HttpServer`] first:
//! it says "starting" on `/readyz` until it is given the broker.

mod answer;
mod auth;
mod blocking;
mod body;
mod config;
mod door;
mod fetch;
mod guarded;
mod health;
mod lent;
mod listing;
pub mod metrics;
mod openapi;
mod params;
mod problem;
mod produce;
mod records;
mod room;
mod router;
mod routes;
mod schema;
mod secure;
mod server;
mod sets;
mod stage;
mod stream;

pub use config::HttpConfig;
pub use openapi::openapi_json;
pub use server::{HttpServer, serve};
