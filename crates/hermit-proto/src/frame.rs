//! The version-2 data frame: header, 40-byte extension, key, payload (`docs/protocol.md`, "The version-2 data frame").
//!
//! The producer makes its half once, under the *body CRC*; the broker fills in its half with [`FramePrefix::stamp`], under the *frame
//! CRC*, without touching key or payload. The extension stands before the key, so that [`PREFIX_SIZE`] bytes tell all there is to know.

mod attributes;
mod error;
mod layout;
mod prefix;
mod produced;
mod stamp;
mod view;

pub use attributes::{Attributes, Codec};
pub use error::{FrameError, FrameLimits};
pub use layout::{EXTENSION_SIZE, PREFIX_SIZE};
pub use prefix::{Extension, FramePrefix};
pub use produced::ProducedFrame;
pub use stamp::{BrokerStamp, FrameSalt, ProducerStamp};
pub use view::FrameView;

#[cfg(test)]
mod tests;
