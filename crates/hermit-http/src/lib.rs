//! The HTTP side of a HermitMQ broker: whether it lives and serves, its metrics, and a JSON API, over the public API of `hermit-broker`.
//!
//! [`serve`] is all that an embedder needs who has an open broker. Who wants to be answered while the broker is still being opened makes an [`HttpServer`] first:
//! it says "starting" on `/readyz` until it is given the broker.

// What is limited, and where it is counted: `door` has the places of connections, and which of them requests and streams may take; `held` is what one request holds of
// that and of the broker, which `guarded` gives back once the answer is written, and `blocking` keeps for work that outlives its client. Memory is lent of the broker's
// budget, and each kind in one place: bodies of requests with `body`, records that are read with `room` (of which the text stays lent: with `lent` in an answer, with each
// piece in a stream), parts of sets with `sets`, and other large answers with `held`.
mod answer;
mod auth;
mod blocking;
mod body;
mod config;
mod door;
mod fetch;
mod guarded;
mod health;
mod held;
mod lent;
mod listing;
pub mod metrics;
mod openapi;
mod pace;
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
mod timed;
mod untold;

pub use config::HttpConfig;
pub use openapi::openapi_json;
pub use server::{HttpServer, serve};
