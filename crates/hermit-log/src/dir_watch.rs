//! A failed directory sync is final, whoever asked for it: a trim's may have taken the name of a new segment with it, and the flush
//! that comes next would find nothing left to sync, and succeed.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::disk::{DirLock, Disk, DiskFile, Entry, FileSystem, FileSystemId, Open};
use crate::error::LogError;

/// One log's way to its files: remembers the first directory sync that failed.
#[derive(Debug)]
pub(crate) struct DirWatch {
    disk: Arc<dyn Disk>,
    failed: OnceLock<LogError>,
}

impl DirWatch {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, failed: OnceLock::new() }
    }

    /// Whether every directory sync so far has succeeded: the next answer may rely on those that follow.
    pub(crate) fn is_sound(&self) -> Result<(), LogError> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

impl Disk for DirWatch {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.disk.list(dir)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(path, how)
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
        self.disk.sync_dir(dir).inspect_err(|error| {
            // The caller gets the error itself, with whatever it carries.
            let source = io::Error::new(error.kind(), error.to_string());
            self.failed.get_or_init(|| LogError::io("sync the directory", dir, source));
        })
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
