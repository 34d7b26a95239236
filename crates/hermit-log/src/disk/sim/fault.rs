//! Failures that a test orders.

use std::fmt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::rng::Rng;

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

/// How an operation goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It fails.
    Error(Errno),
    /// A read or write takes this many bytes at most.
    Short(usize),
}

/// A fault that came to pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Struck {
    /// The operation.
    pub op: Op,
    /// What it was done to.
    pub path: PathBuf,
    /// How it went wrong.
    pub effect: Effect,
}

/// An operation that goes wrong: the first so many that match are let through, then so many fail.
///
/// A failing sync drops what was waiting for it: each part of it is durable or not, reading still shows it, and the next
/// sync succeeds — as Linux does it.
#[derive(Debug, Clone)]
pub struct Fault {
    /// `None`: whatever comes.
    op: Option<Op>,
    path_part: String,
    skip: u64,
    times: u64,
    effect: How,
}

#[derive(Debug, Clone)]
enum How {
    Always(Effect),
    /// As such an operation may fail; drawn anew for each.
    Drawn(Rng),
}

/// How an operation of this kind may fail on a disk that is broken or full, or for want of descriptors or memory.
fn draw(op: Op, rng: &mut Rng) -> Effect {
    let one_of = |rng: &mut Rng, errors: &[Errno]| Effect::Error(errors.get(rng.below(errors.len())).copied().unwrap_or(Errno::IO));
    match op {
        Op::Write if rng.one_in(3) => Effect::Short(rng.below(200)),
        Op::Read if rng.one_in(3) => Effect::Short(1 + rng.below(200)),
        Op::Write | Op::Allocate | Op::CreateDir | Op::Rename => one_of(rng, &[Errno::IO, Errno::NOSPC]),
        Op::Create => one_of(rng, &[Errno::IO, Errno::NOSPC, Errno::MFILE]),
        Op::Open | Op::List | Op::Lock => one_of(rng, &[Errno::IO, Errno::MFILE]),
        Op::Map => one_of(rng, &[Errno::IO, Errno::NOMEM]),
        Op::Len | Op::RemoveFile | Op::RemoveDir | Op::SyncDir | Op::SyncAll | Op::Free | Op::Read | Op::Sync | Op::SetLen => {
            Effect::Error(Errno::IO)
        }
    }
}

impl Fault {
    /// The next operation of this kind fails with `error` and, but for syncs, has no effect.
    #[must_use]
    pub const fn error(op: Op, error: Errno) -> Self {
        Self::of(op, Effect::Error(error))
    }

    const fn of(op: Op, effect: Effect) -> Self {
        Self { op: Some(op), path_part: String::new(), skip: 0, times: 1, effect: How::Always(effect) }
    }

    /// The next operation, of whatever kind, goes wrong in a way in which that kind does: errors of the device, no space, no descriptors, fewer
    /// bytes than were asked for. The seed chooses.
    #[must_use]
    pub const fn any(seed: u64) -> Self {
        Self { op: None, path_part: String::new(), skip: 0, times: 1, effect: How::Drawn(Rng::new(seed)) }
    }

    /// As [`Fault::any`], for operations of one kind.
    #[must_use]
    pub const fn any_of(op: Op, seed: u64) -> Self {
        Self { op: Some(op), path_part: String::new(), skip: 0, times: 1, effect: How::Drawn(Rng::new(seed)) }
    }

    /// The next write takes only `bytes` bytes, and says so.
    #[must_use]
    pub const fn short_write(bytes: usize) -> Self {
        Self::of(Op::Write, Effect::Short(bytes))
    }

    /// The next read gives only `bytes` bytes, and says so.
    #[must_use]
    pub const fn short_read(bytes: usize) -> Self {
        Self::of(Op::Read, Effect::Short(bytes))
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
        if self.times == 0 || self.op.is_some_and(|only| only != op) || !path.to_string_lossy().contains(&self.path_part) {
            return None;
        }
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times -= 1;
        Some(match &mut self.effect {
            How::Always(effect) => *effect,
            How::Drawn(rng) => draw(op, rng),
        })
    }

    pub(super) const fn is_spent(&self) -> bool {
        self.times == 0
    }
}
