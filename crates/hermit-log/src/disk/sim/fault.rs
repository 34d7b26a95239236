//! Failures that a test orders.

use std::fmt;
use std::path::Path;

use rustix::io::Errno;

/// The kinds of operation, for faults and for the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// `create_dir_all`.
    CreateDir,
    /// `list`.
    List,
    /// Opening a file that exists.
    Open,
    /// Opening that creates or empties a file.
    Create,
    /// `file_len`, `exists`, and a handle's `len`.
    Len,
    /// `rename`.
    Rename,
    /// `remove_file`.
    RemoveFile,
    /// `remove_dir`.
    RemoveDir,
    /// `sync_dir`.
    SyncDir,
    /// [`FileSystem::sync`](crate::disk::FileSystem::sync).
    SyncAll,
    /// `free_bytes`.
    Free,
    /// `lock`.
    Lock,
    /// `read_at`.
    Read,
    /// `write_at`.
    Write,
    /// `sync_data`.
    Sync,
    /// `set_len`.
    SetLen,
    /// `allocate`.
    Allocate,
    /// `map`.
    Map,
}

impl Op {
    /// Whether it changes what is on the disk, or could survive a power cut: only these are counted and cut.
    #[must_use]
    pub const fn mutates(self) -> bool {
        match self {
            Self::CreateDir
            | Self::Create
            | Self::Rename
            | Self::RemoveFile
            | Self::RemoveDir
            | Self::SyncDir
            | Self::SyncAll
            | Self::Lock
            | Self::Write
            | Self::Sync
            | Self::SetLen
            | Self::Allocate => true,
            Self::List | Self::Open | Self::Len | Self::Free | Self::Read | Self::Map => false,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Effect {
    Error(Errno),
    /// A read or write takes this many bytes at most.
    Short(usize),
}

/// An operation that goes wrong: the first so many that match are let through, then so many fail.
///
/// A failing sync drops what was waiting for it: each part of it is durable or not, reading still shows it, and the next
/// sync succeeds — as Linux does it.
#[derive(Debug, Clone)]
pub struct Fault {
    op: Op,
    path_part: String,
    skip: u64,
    times: u64,
    effect: Effect,
}

impl Fault {
    /// The next operation of this kind fails with `error` and, but for syncs, has no effect.
    #[must_use]
    pub const fn error(op: Op, error: Errno) -> Self {
        Self { op, path_part: String::new(), skip: 0, times: 1, effect: Effect::Error(error) }
    }

    /// The next write takes only `bytes` bytes, and says so.
    #[must_use]
    pub const fn short_write(bytes: usize) -> Self {
        Self { op: Op::Write, path_part: String::new(), skip: 0, times: 1, effect: Effect::Short(bytes) }
    }

    /// The next read gives only `bytes` bytes, and says so.
    #[must_use]
    pub const fn short_read(bytes: usize) -> Self {
        Self { op: Op::Read, path_part: String::new(), skip: 0, times: 1, effect: Effect::Short(bytes) }
    }

    /// Only paths that contain `part` match.
    #[must_use]
    pub fn on(mut self, part: &str) -> Self {
        part.clone_into(&mut self.path_part);
        self
    }

    /// Lets the first `count` matching operations through.
    #[must_use]
    pub const fn after(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Fails `count` operations instead of one.
    #[must_use]
    pub const fn times(mut self, count: u64) -> Self {
        self.times = count;
        self
    }

    /// Fails all operations from then on.
    #[must_use]
    pub const fn forever(self) -> Self {
        self.times(u64::MAX)
    }

    /// What this fault does to the operation, counting it.
    pub(super) fn strike(&mut self, op: Op, path: &Path) -> Option<Effect> {
        if self.times == 0 || self.op != op || !path.to_string_lossy().contains(&self.path_part) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times -= 1;
        Some(self.effect)
    }

    pub(super) const fn is_spent(&self) -> bool {
        self.times == 0
    }
}
