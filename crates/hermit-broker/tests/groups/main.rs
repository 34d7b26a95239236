//! Consumer groups over real sessions: who holds what, who may commit, and what is left behind. Time is the tests' own.
#![expect(clippy::unwrap_used, reason = "a test")]

mod fencing;
mod hand_over;
mod hostile;
mod looking_after;
mod member;
mod positions;
mod refusals;
#[path = "../support/mod.rs"]
mod support;
mod topics;
mod waiting;
