//! The names of `hermit-log` that the modelled files use.

use hermit_proto::Offset;

/// The ends of a log.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bounds {
    /// Inclusive.
    pub log_start: Offset,
    /// Exclusive.
    pub high_watermark: Offset,
    /// Exclusive.
    pub flushed_end: Offset,
    /// Exclusive.
    pub log_end: Offset,
}

/// Why a log is read-only.
#[derive(Clone, Debug)]
pub enum LogError {
    /// It is.
    Closed,
}

/// Told of what others wait for.
pub trait LogListener {
    /// An end has moved.
    fn advanced(&self, bounds: Bounds);
    /// The log is read-only.
    fn failed(&self, reason: &LogError);
}
