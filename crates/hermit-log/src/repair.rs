//! Repairing a partition's directory while nobody has the log open.
//!
//! What is derived and wrong — indexes, leftovers, state files — is made again, or moved aside where a start does without it. No readable frame is ever lost, and of whatever else is
//! replaced the original stays beside it, as `<name>.replaced`, for the operator to remove.
//!
//! Damage stays as it is, and readers are told of it, unless [`RepairOptions::drop_damage`] asks to drop it *for good*: the readable frames of a damaged segment are copied byte for byte into a new file in its
//! place, and what is missing then is a gap like a compaction's: consumers go past it without being told, also those that stop at damage.
//!
//! Each step is durable before the next, and whatever a power cut leaves between two of them is a log that opens; the repair can be done again.

mod act;

use std::path::Path;

use hermit_proto::Offset;

use crate::disk::Disk;
use crate::error::LogError;
use crate::inspect::{Check, FoundDamage, inspect};
use crate::log::LogIdentity;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairOptions {
    /// Log bytes from one entry of a new index to the next. Default 4 KiB, as [`crate::LogConfig::index_interval_bytes`].
    pub index_interval_bytes: u32,
    /// Drop what is damaged for good. Default: no. Needs space for two copies of each segment that has damage.
    pub drop_damage: bool,
    /// Tell what would be done, and do nothing. Default: no.
    pub dry_run: bool,
}

impl Default for RepairOptions {
    fn default() -> Self {
        Self { index_interval_bytes: 4096, drop_damage: false, dry_run: false }
    }
}

/// One thing that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A leftover of an interrupted step, or a derived file that was wrong and is made again at need, was removed.
    Removed {
        /// Its name.
        name: String,
    },
    /// A state file that is damaged was moved aside.
    MovedAside {
        /// Its name.
        name: String,
        /// What it is called now.
        to: String,
    },
    /// A segment's index was made again from the log.
    RebuiltIndex {
        /// The base offset of the segment.
        segment: Offset,
    },
    /// Damage was dropped for good.
    Dropped {
        /// What it was.
        damage: FoundDamage,
        /// The first offset that is still there behind it.
        next: Offset,
        /// The file that keeps the segment as it was; `None` where no bytes were dropped.
        kept_in: Option<String>,
    },
}

/// What was done, in order, and what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What was done, or, in a dry run, would be.
    pub actions: Vec<Action>,
    /// Damage that was left as it is.
    pub left: Vec<FoundDamage>,
}

/// Repairs the directory of one partition. Nobody may have the log open.
///
/// # Errors
/// [`LogError::Io`] and [`LogError::DiskFull`]; what is done by then stays done.
pub fn repair(disk: &dyn Disk, dir: &Path, identity: LogIdentity, options: &RepairOptions) -> Result<Repaired, LogError> {
    let found = inspect(disk, dir, identity, Check::Everything)?;
    act::Repairer::new(disk, dir, identity, options, found)?.run()
}
