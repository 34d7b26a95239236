//! A disk on which something happens in between.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hermit_log::disk::sim::SimDisk;
use hermit_log::disk::{DirLock, Disk, DiskFile, Entry, FileSystem, FileSystemId, Mapping, Open};

/// When it happens: before the file is opened, written, or synced, or after it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    Open,
    Write,
    Sync,
    Read,
}

type BadSector = (PathBuf, Range<u64>);
type Hook = (On, PathBuf, Box<dyn FnOnce() + Send>);

/// What is to happen, once.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Arc<Mutex<Option<Hook>>>, Arc<Mutex<Option<BadSector>>>);

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

impl Hooks {
    /// Has something happen the next time that the file is opened or synced; any file where the path is empty.
    pub(crate) fn once(&self, on: On, path: impl Into<PathBuf>, what: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some((on, path.into(), Box::new(what)));
    }

    /// From now on this part of a file cannot be read; `None`: all can.
    pub(crate) fn set_bad_sector(&self, bad: Option<(PathBuf, Range<u64>)>) {
        *self.1.lock().unwrap() = bad;
    }

    fn bad_sector_in(&self, path: &Path, bytes: Range<u64>) -> Option<Range<u64>> {
        let bad = self.1.lock().unwrap().clone();
        bad.filter(|(of, bad)| of == path && bad.start < bytes.end && bytes.start < bad.end).map(|(_, bad)| bad)
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.0.lock().unwrap().is_some()
    }

    fn strike(&self, on: On, path: &Path) {
        let is_due = |hook: &mut Hook| hook.0 == on && (hook.1.as_os_str().is_empty() || hook.1 == path);
        let hook = self.0.lock().unwrap().take_if(is_due);
        if let Some((_, _, what)) = hook {
            what();
        }
    }
}

#[derive(Debug)]
pub(crate) struct Hooked {
    pub(crate) disk: SimDisk,
    pub(crate) hooks: Hooks,
}

#[derive(Debug)]
struct HookedFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    hooks: Hooks,
}

impl Disk for Hooked {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.disk.list(dir)
    }
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        self.hooks.strike(On::Open, path);
        Ok(Arc::new(HookedFile { file: self.disk.open(path, how)?, path: path.to_owned(), hooks: self.hooks.clone() }))
    }
    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.disk.file_len(path)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn file_system(&self, dir: &Path) -> io::Result<Option<FileSystemId>> {
        self.disk.file_system(dir)
    }
    fn overwrites_in_place(&self, dir: &Path) -> io::Result<bool> {
        self.disk.overwrites_in_place(dir)
    }
    fn open_file_system(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        self.disk.open_file_system(dir)
    }
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_bytes(dir)
    }
    fn total_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.total_bytes(dir)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>> {
        self.disk.lock(path)
    }
}

impl DiskFile for HookedFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let bad = self.hooks.bad_sector_in(&self.path, position..position.saturating_add(buf.len() as u64));
        let read = match bad {
            Some(bad) if bad.start <= position => return Err(rustix::io::Errno::IO.into()),
            // As `pread` does: what comes before.
            Some(bad) => self.file.read_at(&mut buf[..usize::try_from(bad.start - position).unwrap()], position),
            None => self.file.read_at(buf, position),
        };
        self.hooks.strike(On::Read, &self.path);
        read
    }
    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        self.hooks.strike(On::Write, &self.path);
        self.file.write_at(buf, position)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.hooks.strike(On::Sync, &self.path);
        self.file.sync_data()
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }
    fn map(&self, len: usize) -> io::Result<Mapping> {
        self.file.map(len)
    }
    fn cached(&self, position: u64, len: u64) -> bool {
        self.file.cached(position, len)
    }
    fn read_cached_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_cached_at(buf, position)
    }
    fn will_need(&self, position: u64, len: u64) {
        self.file.will_need(position, len);
    }
    fn drop_cached(&self, position: u64, len: u64) {
        self.file.drop_cached(position, len);
    }
}
