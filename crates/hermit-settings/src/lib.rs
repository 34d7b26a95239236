#![doc = include_str!("../README.md")]

mod name;
mod place;
mod quantity;

pub use name::nearest;
pub use place::{excerpt, line_and_column};
pub use quantity::{NEVER, bytes, or_never, show_bytes, show_time_ms, time_ms};
