//! Protocol version 1, as its clients speak it: a producer, a consumer or a commit to a connection.

mod access;
mod commit;
mod consumer;
#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod gather;
mod incoming;
mod outgoing;
mod owed;
mod producer;
mod unfold;

pub(super) use access::user;
pub(super) use commit::commit;
pub(super) use consumer::consume;
pub(super) use producer::produce;
