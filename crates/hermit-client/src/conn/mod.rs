//! One multiplexed connection to the broker, made again whenever it breaks.
//!
//! [`Link`] is what the rest of the SDK holds: it outlives connections. A [`Session`] is one connection after its hello; its
//! reader and writer are tasks of their own, so that nobody's slowness holds up anybody else's answers.

mod dial;
mod inbox;
mod link;
mod reader;
mod routes;
mod session;
mod spares;
mod writer;

pub(crate) use inbox::{Event, Inbox, SlotId};
pub(crate) use link::{Link, LinkState, Retry};
pub(crate) use routes::{ProduceAnswer, ProduceOutcome};
pub(crate) use session::Session;
pub(crate) use spares::SPARE_BYTES;
