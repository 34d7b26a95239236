//! The promises, checked from outside: what was sent against what the log holds, and what a consumer was shown and
//! committed against both. Nothing here does I/O.

mod checksum;
mod consumer;
mod group;
pub mod history;
mod log;
mod violations;

pub use checksum::{Checksum, sorted_checksum};
pub use consumer::ConsumerCheck;
pub use group::{Event, GroupFacts, Journal, Stamped, check as check_group, fingerprint};
pub use log::{LogCheck, LogFacts};
pub use violations::{Kind, Violations};

use bytes::Bytes;

/// A record as a consumer got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The partition that it was read from.
    pub partition: u32,
    /// Its offset there.
    pub offset: u64,
    /// Its key.
    pub key: Bytes,
    /// Its payload.
    pub text: Bytes,
}
