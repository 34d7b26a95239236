//! Looking at a partition's directory without opening the log: nothing is recovered, and nothing is changed.
//!
//! Meant for a directory that no broker uses. What a start would do about damage — fence it, or cut a torn tail — is decided then; here it is told
//! what is there. [`crate::repair`] acts on it.
//!
//! ```
//! use hermit_log::disk::RealDisk;
//! use hermit_log::inspect::{Check, inspect};
//! use hermit_log::{Log, LogConfig, LogIdentity};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let (log, _report) = Log::open(dir.path(), LogConfig::default())?;
//! log.close()?;
//! let found = inspect(&RealDisk, dir.path(), LogIdentity::default(), Check::Everything)?;
//! assert!(found.is_sound());
//! # Ok(())
//! # }
//! ```

mod check;
mod frames;
mod listing;
pub(crate) mod walk;

use std::path::{Path, PathBuf};

use hermit_proto::{FrameSalt, LeaderEpoch, Offset};

use crate::disk::Disk;
use crate::error::LogError;
use crate::fenced::FencedRange;
use crate::log::LogIdentity;

pub use frames::{Frames, StoredFrame, frames, last_segment_time};
pub(crate) use listing::Listing;

/// How much is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Headers alone: what the log holds, and where frames cannot be told from each other.
    Headers,
    /// Every byte: both checksums of every frame too.
    Everything,
}

/// What a partition's directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspected {
    /// The directory.
    pub dir: PathBuf,
    /// By base offset.
    pub segments: Vec<SegmentReport>,
    /// The oldest offset that could be read.
    pub log_start: Offset,
    /// The offset that the next record would get, as far as the files tell; what a start finds torn may still be taken off it.
    pub log_end: Offset,
    /// Damage, in order; also what is fenced already.
    pub damages: Vec<FoundDamage>,
    /// Ranges that are fenced: known to be damaged, or left out on purpose.
    pub fenced: Vec<FencedRange>,
    /// Up to where the log is known to be flushed.
    pub checkpoint: Option<CheckpointReport>,
    /// The log start that a trim or retention has stored.
    pub stored_start: Option<Offset>,
    /// Gaps before this are a compaction's, or were dropped by a repair.
    pub compacted_end: Option<Offset>,
    /// Snapshots of producer state, the oldest first.
    pub snapshots: Vec<SnapshotReport>,
    /// Files that keep what was cut from a torn tail, or what a repair replaced.
    pub kept: Vec<FileReport>,
    /// Files that an interrupted step left behind: the next start removes them.
    pub leftovers: Vec<FileReport>,
    /// State files that are damaged, by name; a start does without them.
    pub damaged_state: Vec<String>,
    /// Whether the stop was clean, where the log was opened by itself. A broker's marker is elsewhere.
    pub has_clean_marker: bool,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// The offset in its name.
    pub base: Offset,
    /// The offset behind its last frame.
    pub end: Offset,
    /// Size of the file.
    pub file_bytes: u64,
    /// Bytes that are part of the log; what lies behind is a copy of what the next segment begins with, or, in the segment that was written to when a broker was
    /// killed, room for what was to come.
    pub log_bytes: u64,
    /// Whole frames.
    pub frames: u64,
    /// Offsets that these take.
    pub records: u64,
    /// Offsets between frames that no frame has.
    pub missing_offsets: u64,
    /// Of the first readable frame, in nanoseconds since the Unix epoch.
    pub first_append_time: Option<u64>,
    /// Of the last readable frame.
    pub last_append_time: Option<u64>,
    /// Usually one.
    pub leader_epochs: Vec<LeaderEpoch>,
    /// Its index.
    pub index: IndexReport,
}

/// What became of an index. It is derived: whatever is wrong with it costs time, not data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexReport {
    /// Complete, with a checksum that holds, and in accord with the log.
    Sealed {
        /// Its entries.
        entries: u64,
    },
    /// That of the segment which is written to, after a stop that was not clean. The entries that are there are right.
    Unsealed {
        /// Its entries.
        entries: u64,
    },
    /// There is none.
    Missing,
    /// It is to be made again.
    Wrong {
        /// What is wrong with it.
        why: &'static str,
    },
}

/// What is wrong at some place of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The header's checksum does not hold, or the file ends within the frame.
    Header,
    /// The header is right, and key or payload are not.
    Body,
    /// A whole frame whose offset does not belong there.
    OutOfPlace,
    /// Nothing is there.
    Missing,
}

/// One damaged range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundDamage {
    /// The base offset of its segment. What is missing before the first segment is told of with that.
    pub segment: Offset,
    /// The position of the first damaged byte.
    pub position: u64,
    /// The position at which frames go on; the end of the segment where they do not.
    pub next_position: u64,
    /// The first offset that is lost.
    pub from: Offset,
    /// The first offset behind it; `None` where nothing in the files tells.
    pub next: Option<Offset>,
    /// What is wrong.
    pub kind: DamageKind,
    /// Readers are told of it already.
    pub fenced: bool,
    /// It lies behind what is known to be flushed: where the stop was not clean, the next start may take it for a torn tail, and cut it.
    pub unflushed: bool,
}

/// The checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointReport {
    /// All before is flushed.
    pub offset: Offset,
    /// The base offset of the segment in which that is.
    pub segment: Offset,
    /// The position in it.
    pub position: u64,
}

/// A snapshot of producer state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotReport {
    /// It holds what was appended before.
    pub offset: Offset,
    /// Size of the file.
    pub bytes: u64,
    /// Producers in it; `None` where it is damaged.
    pub producers: Option<usize>,
}

/// A file beside the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Its name in the directory.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

impl Inspected {
    /// Whether nothing is damaged or missing, in the log and in what is derived from it. Ranges that were left out on purpose count as damage.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damages.is_empty()
            && self.damaged_state.is_empty()
            && self.snapshots.iter().all(|snapshot| snapshot.producers.is_some())
            && self.segments.iter().all(|segment| match segment.index {
                IndexReport::Sealed { .. } | IndexReport::Unsealed { .. } => true,
                // Made with the first frame.
                IndexReport::Missing => segment.file_bytes == 0,
                IndexReport::Wrong { .. } => false,
            })
    }

    /// Frames of all segments.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.segments.iter().map(|segment| segment.frames).sum()
    }

    /// Records of all segments.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.segments.iter().map(|segment| segment.records).sum()
    }

    /// Bytes of the log.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.log_bytes).sum()
    }
}

/// Reads what is in `dir`, and changes nothing. The identity is part of every frame's checksum: with another partition's, all of it looks damaged.
///
/// # Errors
/// [`LogError::Io`] where the directory or a file cannot be read. Damage is no error.
pub fn inspect(disk: &dyn Disk, dir: &Path, identity: LogIdentity, check: Check) -> Result<Inspected, LogError> {
    let salt = FrameSalt::new(identity.topic, identity.partition);
    let listing = Listing::read(disk, dir, &salt)?;
    check::run(disk, &listing, &salt, check)
}
