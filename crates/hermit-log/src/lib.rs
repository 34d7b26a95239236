//! HermitMQ's partition log: append-only, checksummed, crash-safe, with zero-copy reads.
//!
//! | to change | look in |
//! | --- | --- |
//! | what is locked while frames are appended | `log.rs`, `log/append.rs` |
//! | group commit | `flusher/`, `pace.rs`, `log/flush.rs` |
//! | room ahead of the end, so that a flush writes data alone | `log/preallocate.rs`, `room.rs` |
//! | what readers see | `view.rs`, `log/cursor.rs` |
//! | the ranges for `sendfile` | `log/range.rs` |
//! | finding an offset, a time, an epoch | `log/find.rs`, `index.rs` |
//! | damage that reading meets | `log/fence.rs`, `fenced.rs` |
//! | a first offset other than 0, offsets left out | `log/gap.rs` |
//! | what happens at start | `recovery.rs` |
//! | retention, trim, compaction | `log/retain.rs`, `log/compact.rs` |
//! | verifying closed segments while all else goes on | `log/scrub.rs`, `scrub_file.rs`, `scrub_pace.rs` |
//! | idempotent producers | `producers.rs` |
//! | counters and histograms | `metrics.rs` |
//! | looking at a directory offline, and repairing it | [`inspect`], [`repair`] |
//! | file access, and the simulated disk | [`disk`] |
//! | the names of files | `names.rs` |
//!
//! The format is in `docs/architecture.md` and `docs/protocol.md`.
#![warn(clippy::indexing_slicing)]

mod batch;
mod checkpoint;
mod clock;
mod compacted;
mod config;
mod dir_watch;
pub mod disk;
mod error;
mod fenced;
mod files;
mod flusher;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod index;
pub mod inspect;
mod line_gate;
mod log;
mod maps;
mod metrics;
mod names;
mod pace;
mod producers;
mod recovery;
pub mod repair;
mod room;
mod scan;
mod scrub_file;
mod scrub_pace;
mod segment;
mod start;
mod state_file;
mod view;

pub use batch::{Batch, BatchFrame};
pub use clock::{Clock, ManualClock, SystemClock};
pub use config::{CompactionConfig, Durability, LogConfig, ProducerConfig};
pub use error::{LogError, ProducerError, error_line};
pub use fenced::FencedRange;
pub use files::{CachedFile, FileCache, PinnedFile};
pub use flusher::Flusher;
#[doc(hidden)]
pub use line_gate::{Line, LineGate};
pub use log::{
    Appended, Compacted, Cursor, Log, LogEnv, LogIdentity, LogListener, Range, Ready, Removed, Scrub, ScrubStep, ScrubVerdict,
    Start,
};
pub use metrics::{Durations, Histogram, LogFigures, LogTimes, UnderWay, Writes, WritesSeen};
pub use recovery::{CutTail, RecoveryReport};
pub use scrub_pace::ScrubPace;
pub use view::Bounds;
