//! Handles and locks of the simulated disk.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;

use super::content::Change;
use super::fault::Op;
use super::names::NodeId;
use super::state::{FileNode, State, Step, power_cut};
use crate::disk::{DirLock, DiskFile, Mapping};

/// No simulated file grows beyond this: a test that writes further has lost its way.
const MAX_FILE_BYTES: usize = 1 << 30;

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) generation: u64,
    pub(super) node: NodeId,
    pub(super) path: PathBuf,
    pub(super) writes: bool,
    /// The failures to write back that it was told of, or was opened after.
    pub(super) told: AtomicU64,
}

fn size(position: u64, len: usize) -> io::Result<usize> {
    usize::try_from(position)
        .ok()
        .and_then(|position| position.checked_add(len))
        .filter(|end| *end <= MAX_FILE_BYTES)
        .ok_or_else(|| Errno::FBIG.into())
}

impl SimFile {
    fn run<T>(&self, op: Op, detail: &str, act: impl FnOnce(&mut State, Step) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.state.lock();
        if state.generation != self.generation {
            return Err(power_cut());
        }
        let begun = state.begin(op, &self.path);
        let result = match begun {
            Ok(_) if op.mutates() && !self.writes && op != Op::Sync => Err(Errno::BADF.into()),
            Ok(step) => {
                let result = act(&mut state, step);
                state.finish(step, result)
            }
            Err(error) => {
                if op == Op::Sync && !super::is_power_cut(&error) {
                    state.fail_sync(self.node);
                }
                Err(error)
            }
        };
        record(&mut state, op, &self.path, detail, &result);
        result
    }

    fn change(&self, state: &mut State, change: Change) -> io::Result<()> {
        let sequence = state.sequence();
        state.file(self.node)?.content.change(sequence, change);
        Ok(())
    }
}

/// Each handle is told of a failure once.
pub(super) fn tell(told: &AtomicU64, failures: u64) -> io::Result<()> {
    if told.swap(failures, Ordering::Relaxed) < failures { Err(Errno::IO.into()) } else { Ok(()) }
}

/// Reads are left out: they change nothing and would hide what does.
pub(super) fn record<T>(state: &mut State, op: Op, path: &Path, detail: &str, result: &io::Result<T>) {
    if !op.mutates() && result.is_ok() {
        return;
    }
    let number = state.mutations;
    let outcome = match result {
        Ok(_) => String::new(),
        Err(error) => format!(": {error}"),
    };
    state.trace.push(format!("{number:>5} {op} {}{detail}{outcome}", path.display()));
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.run(Op::Read, "", |state, step| {
            let live = &state.file(self.node)?.content.live;
            let rest = usize::try_from(position).ok().and_then(|at| live.get(at..)).unwrap_or_default();
            let n = buf.len().min(rest.len()).min(step.limit);
            if let (Some(target), Some(source)) = (buf.get_mut(..n), rest.get(..n)) {
                target.copy_from_slice(source);
            }
            Ok(n)
        })
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        let detail = format!(" {} bytes at {position}", buf.len());
        self.run(Op::Write, &detail, |state, step| {
            let len = state.file(self.node)?.content.live.len();
            // What lies below the end has its space; of the rest as much is written as there is space for.
            let free = usize::try_from(state.free_bytes()).unwrap_or(usize::MAX);
            let position = size(position, 0)?;
            let room = len.saturating_add(free).saturating_sub(position);
            if room == 0 && !buf.is_empty() {
                return Err(Errno::NOSPC.into());
            }
            let n = buf.len().min(room).min(step.limit);
            let bytes = buf.get(..n).unwrap_or(buf);
            size(position as u64, n)?;
            self.change(state, Change::Write { position, bytes: bytes.into() })?;
            Ok(n)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.run(Op::Sync, "", |state, step| {
            // Where the power goes during the sync, anything may have reached the disk: the crash chooses.
            if !step.is_cut() {
                state.file(self.node)?.content.sync();
            }
            tell(&self.told, state.file(self.node)?.failures)
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.run(Op::Len, "", |state, _| Ok(state.file(self.node)?.content.live.len() as u64))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.run(Op::SetLen, &format!(" {len}"), |state, _| self.change(state, Change::SetLen(size(len, 0)?)))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.run(Op::Allocate, &format!(" {len}"), |state, _| {
            let now = state.file(self.node)?.content.live.len() as u64;
            let grows = len.saturating_sub(now);
            if grows > state.free_bytes() {
                return Err(Errno::NOSPC.into());
            }
            if grows > 0 {
                self.change(state, Change::SetLen(size(len, 0)?))?;
            }
            Ok(())
        })
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn map(&self, len: usize) -> io::Result<Mapping> {
        self.run(Op::Map, "", |state, _| {
            let live = &state.file(self.node)?.content.live;
            let bytes = live.get(..len).ok_or(io::ErrorKind::UnexpectedEof)?;
            Ok(Mapping::from_vec(bytes.to_vec()))
        })
    }

    fn cached(&self, _position: u64, _len: u64) -> bool {
        true
    }

    fn will_need(&self, _position: u64, _len: u64) {}

    fn drop_cached(&self, _position: u64, _len: u64) {}
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.generation == self.generation
            && let Ok(FileNode { open, .. }) = state.file(self.node)
        {
            *open = open.saturating_sub(1);
        }
    }
}

#[derive(Debug)]
pub(super) struct SimLock {
    pub(super) state: Arc<Mutex<State>>,
    pub(super) generation: u64,
    pub(super) node: NodeId,
}

impl DirLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        if state.generation == self.generation {
            state.locks.remove(&self.node);
        }
    }
}
