//! All file access of HermitMQ.
//!
//! [`Disk`] is the one way to files: [`RealDisk`] is the operating system, [`sim::SimDisk`] is a deterministic disk in memory that
//! loses, tears and reorders what was not synced, runs full and fails. The contract is that of POSIX, read pessimistically:
//!
//! * what was written to a file survives a power cut only once [`DiskFile::sync_data`] has returned `Ok`;
//! * a directory entry — a new file, a new name, a removal — survives only once [`Disk::sync_dir`] of **its directory** has;
//! * [`FileSystem::sync`] does both for everything on the file system;
//! * until then any part of it may be there or not, in any order;
//! * after a failed sync nobody can say what survived, and a later sync that succeeds says nothing about it.

mod file_system;
mod joint_sync;
mod mapping;
mod real;
pub mod sim;

#[cfg(test)]
mod conformance;

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use file_system::{FileSystem, FileSystemId};
pub(crate) use file_system::{FileSystems, SharedFileSystem};
pub(crate) use joint_sync::{Joining, JointSync};
pub use mapping::Mapping;
pub use real::RealDisk;

/// How a file is opened. Files that are created get mode 0600.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Open {
    /// For reading; the file must exist.
    Read,
    /// For reading and writing; the file must exist.
    ReadWrite,
    /// For reading and writing; fails with `AlreadyExists` where the file exists.
    CreateNew,
    /// For reading and writing; created when it does not exist, left as it is when it does.
    CreateOrOpen,
    /// For reading and writing; created when it does not exist, emptied when it does.
    CreateOrTruncate,
}

impl Open {
    /// Whether the handle may write.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read)
    }
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The name, without its directory.
    pub name: OsString,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// The size in bytes; 0 for a directory.
    pub len_bytes: u64,
}

/// File access. The module's documentation says what survives what.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Creates a directory (mode 0700) and those above it; one that is there is not an error. Nothing is synced: the caller
    /// syncs the directories *above* the new ones.
    ///
    /// # Errors
    /// Those of `mkdir`; `AlreadyExists` or `NotADirectory` where a file is in the way.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// The names in a directory, sorted by name.
    ///
    /// # Errors
    /// Those of reading a directory; `NotFound` where there is none.
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>>;

    /// Opens a file.
    ///
    /// # Errors
    /// Those of `open`.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;

    /// The size of a file in bytes.
    ///
    /// # Errors
    /// `NotFound` where there is none.
    fn file_len(&self, path: &Path) -> io::Result<u64>;

    /// Whether a file or directory of that name exists.
    ///
    /// # Errors
    /// Whatever kept the question from being answered; a missing file is not an error.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Renames a file, replacing what had the new name, as one step. Not synced. Nearly always [`write_atomically`] is meant.
    ///
    /// # Errors
    /// Those of `rename`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name. Handles that are open keep the file. Not synced.
    ///
    /// # Errors
    /// Those of `unlink`.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory. Not synced.
    ///
    /// # Errors
    /// Those of `rmdir`; `DirectoryNotEmpty` where something is in it.
    fn remove_dir(&self, dir: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable (not those in the directories below it, nor its own name in the one above).
    ///
    /// # Errors
    /// Those of `fsync`. What the directory holds after a power cut is then unknown.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Which file system a directory is on; `None` where [`Disk::open_file_system`] cannot be relied on to sync it as a whole.
    ///
    /// # Errors
    /// Those of `stat` and `statfs`.
    fn file_system(&self, dir: &Path) -> io::Result<Option<FileSystemId>>;

    /// Whether what is written over bytes that are durable takes their place on the disk, so that a sync need write nothing else: not so where each write goes to a new place, or where that
    /// is not known.
    ///
    /// # Errors
    /// Those of `statfs`.
    fn overwrites_in_place(&self, dir: &Path) -> io::Result<bool> {
        let _is_not_known = dir;
        Ok(false)
    }

    /// Opens the file system of a directory, to be synced as a whole. Failures to write anything on it are reported from here on.
    ///
    /// # Errors
    /// Those of opening the directory.
    fn open_file_system(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>>;

    /// The bytes that an unprivileged process can still write on the file system of a directory.
    ///
    /// # Errors
    /// Those of `statvfs`.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// The size of the file system of a directory, in bytes.
    ///
    /// # Errors
    /// Those of `statvfs`.
    fn total_bytes(&self, dir: &Path) -> io::Result<u64>;

    /// Takes the exclusive lock on a file, which is created where there is none, and writes this process' id into it. Held until dropped;
    /// the kernel also drops it when the process ends.
    ///
    /// # Errors
    /// `WouldBlock` where somebody else holds it: [`lock_holder`] then tells who. Otherwise those of opening and writing.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>>;
}

/// An exclusive lock that is held while this lives.
pub trait DirLock: Debug + Send + Sync + 'static {}

/// An open file. All methods take a position: there is no cursor to share.
pub trait DiskFile: Debug + Send + Sync + 'static {
    /// Reads up to `buf.len()` bytes; may be short; 0 at the end of the file. An interrupted call is repeated.
    ///
    /// # Errors
    /// Those of `pread`.
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes up to `buf.len()` bytes; may be short. A write beyond the end leaves zeros between. An interrupted call is repeated.
    ///
    /// # Errors
    /// Those of `pwrite`.
    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize>;

    /// Makes the content and the size durable (`fdatasync`); not the file's name, see [`Disk::sync_dir`].
    ///
    /// # Errors
    /// Those of `fdatasync`. It is final: what survives is then unknown, and no later success changes that.
    fn sync_data(&self) -> io::Result<()>;

    /// The size in bytes.
    ///
    /// # Errors
    /// Those of `fstat`.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// Those of [`DiskFile::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or lengthens it with zeros (which take no space).
    ///
    /// # Errors
    /// Those of `ftruncate`.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Takes real space for the first `len` bytes, lengthening the file to that with zeros if it is shorter.
    ///
    /// # Errors
    /// Those of `fallocate`; `StorageFull` where there is not enough.
    fn allocate(&self, len: u64) -> io::Result<()>;

    /// The descriptor, for `sendfile`; `None` where there is none (in the simulation).
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// The first `len` bytes, read-only. Only for files that are complete: nobody may shorten or rewrite the file while the
    /// mapping lives.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file is shorter than `len`; those of `mmap`.
    fn map(&self, len: usize) -> io::Result<Mapping>;

    /// Whether a range can be read without waiting for the disk, as far as that can be told cheaply: it samples. Where the
    /// system cannot tell, the answer is yes.
    fn cached(&self, position: u64, len: u64) -> bool;

    /// Reads what can be read without waiting for the disk: as [`DiskFile::read_at`], but fewer bytes, or none, where the rest would have
    /// to be fetched. Where the system cannot tell, it reads all the same.
    ///
    /// # Errors
    /// Those of reading.
    fn read_cached_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.read_at(buf, position)
    }

    /// Tells the system to read a range ahead. A hint: failure has no meaning.
    fn will_need(&self, position: u64, len: u64);

    /// Tells the system that what is read through this handle says nothing about what comes next: no more is fetched than is asked for. A hint.
    fn no_read_ahead(&self) {}

    /// Tells the system that a range need not stay in the page cache. A hint: failure has no meaning.
    fn drop_cached(&self, position: u64, len: u64);

    /// Reads until `buf` is full or the file ends; answers how much was read.
    ///
    /// # Errors
    /// Those of [`DiskFile::read_at`].
    fn read_full_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let n = self.read_at(rest, position.saturating_add(done as u64))?;
            if n == 0 {
                break;
            }
            done += n;
        }
        Ok(done)
    }

    /// Fills `buf`.
    ///
    /// # Errors
    /// `UnexpectedEof` where the file ends first; those of [`DiskFile::read_at`].
    fn read_exact_at(&self, buf: &mut [u8], position: u64) -> io::Result<()> {
        if self.read_full_at(buf, position)? < buf.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    /// Writes all of `buf`.
    ///
    /// # Errors
    /// Those of [`DiskFile::write_at`], with the number of bytes that the system had taken by then.
    fn write_all_at(&self, buf: &[u8], position: u64) -> Result<(), WriteError> {
        let mut written = 0;
        while let Some(rest) = buf.get(written..).filter(|rest| !rest.is_empty()) {
            match self.write_at(rest, position.saturating_add(written as u64)) {
                Ok(0) => {
                    return Err(WriteError { written, source: io::ErrorKind::WriteZero.into() });
                }
                Ok(n) => written += n,
                Err(source) => return Err(WriteError { written, source }),
            }
        }
        Ok(())
    }
}

/// A write that failed part of the way.
#[derive(Debug, thiserror::Error)]
#[error("write failed after {written} bytes")]
pub struct WriteError {
    /// The bytes that the system had taken before the failure; they are in the file.
    pub written: usize,
    /// What went wrong.
    #[source]
    pub source: io::Error,
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        error.source
    }
}

/// Inside the `WouldBlock` error of [`Disk::lock`]: who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is locked by {}", path.display(), holder(*pid))]
pub struct LockHeld {
    /// The file.
    pub path: PathBuf,
    /// The process that holds it, as far as the file tells.
    pub pid: Option<u32>,
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// The lock's holder, where `error` is that of a lock held by somebody else.
#[must_use]
pub fn lock_holder(error: &io::Error) -> Option<&LockHeld> {
    error.get_ref()?.downcast_ref()
}

fn lock_held(path: &Path, pid: Option<u32>) -> io::Error {
    io::Error::new(io::ErrorKind::WouldBlock, LockHeld { path: path.to_owned(), pid })
}

/// What a state file that is being written is called until it is complete: `<name>.tmp`. Such a file is never read, and removed at start.
pub const TMP_SUFFIX: &str = ".tmp";

/// Replaces the file `name` in `dir` by one that holds `bytes`, so that a power cut at any time leaves the old or the new content:
/// written aside, synced, renamed, and the directory synced. This is the only way in which small state files are written.
///
/// # Errors
/// Whatever failed. Where that was the last step, the new content is in place, but may not survive a power cut.
pub fn write_atomically(disk: &dyn Disk, dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let tmp = dir.join(format!("{name}{TMP_SUFFIX}"));
    let written = write_synced(disk, &tmp, bytes).and_then(|()| disk.rename(&tmp, &dir.join(name)));
    if let Err(error) = written {
        // A leftover is harmless; the failure that is worth reporting is the first.
        drop(disk.remove_file(&tmp));
        return Err(error);
    }
    disk.sync_dir(dir)
}

pub(crate) fn write_synced(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = disk.open(path, Open::CreateOrTruncate)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()
}

/// The content of a whole file that is known to be small.
///
/// # Errors
/// `FileTooLarge` where it has more than `limit_bytes`; those of opening and reading.
pub fn read_file(disk: &dyn Disk, path: &Path, limit_bytes: u64) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Open::Read)?;
    let len = file.len()?;
    if len > limit_bytes {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let len = usize::try_from(len).map_err(|_too_large| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut bytes = vec![0; len];
    let read = file.read_full_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}
