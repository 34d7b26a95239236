//! Clients that do as they are told, well or badly behaved: thin drivers over `hermit-proto`. The SDK is too polite for what
//! has to be shown here: it reads when something is there, and never stalls within a frame.

mod fill;
mod session;
mod v1;

pub use fill::{Filled, fill};
pub use session::{Reading, Session};
pub use v1::{V1Consumer, V1Producer};
