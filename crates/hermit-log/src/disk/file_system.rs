//! Syncing a whole file system at once: for many dirty files that costs less than a sync for each.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::Disk;
use super::joint_sync::JointSync;
use crate::clock::Clock;
use crate::error::LogError;

/// Tells file systems apart.
pub type FileSystemId = u64;

/// A file system, held open.
pub trait FileSystem: Debug + Send + Sync + 'static {
    /// The directory by which it was opened.
    fn dir(&self) -> &Path;

    /// Makes everything durable that was done on the file system before the call, by anybody: contents, sizes and names.
    ///
    /// # Errors
    /// Those of `syncfs`: of whatever could not be written since this was opened, whoever wrote it. As after [`super::DiskFile::sync_data`], what survives is
    /// then unknown, of all that was not durable before.
    fn sync(&self) -> io::Result<()>;
}

/// A file system that logs share.
///
/// A failure to write is told once, to whoever syncs next, and what could not be written passes for written from then on: the next sync finds nothing to do,
/// and succeeds. So the first failure is kept, and no sync of the whole is asked for anything after it.
#[derive(Debug)]
pub(crate) struct SharedFileSystem {
    file_system: Arc<dyn FileSystem>,
    /// Of two syncs at the same time only one would be told.
    syncing: Mutex<()>,
    failed: OnceLock<LogError>,
}

impl SharedFileSystem {
    pub(crate) fn new(file_system: Arc<dyn FileSystem>) -> Self {
        Self { file_system, syncing: Mutex::default(), failed: OnceLock::new() }
    }

    /// Makes everything durable, as [`FileSystem::sync`] does.
    ///
    /// # Errors
    /// That of the first sync that has failed, now or before.
    pub(crate) fn sync(&self) -> Result<(), LogError> {
        let _told_by_this_one = self.syncing.lock();
        self.is_sound()?;
        self.file_system.sync().map_err(|source| {
            let error = LogError::io("sync the file system of", self.file_system.dir(), source);
            self.failed.get_or_init(|| error).clone()
        })
    }

    /// Whether no sync of the whole has failed.
    ///
    /// # Errors
    /// That of the sync that has.
    pub(crate) fn is_sound(&self) -> Result<(), LogError> {
        self.failed.get().map_or(Ok(()), |error| Err(error.clone()))
    }
}

/// The file systems on which logs are. Clones are the same set.
#[derive(Clone, Debug)]
pub(crate) struct FileSystems {
    clock: Arc<dyn Clock>,
    known: Arc<Mutex<BTreeMap<FileSystemId, Arc<JointSync>>>>,
}

impl FileSystems {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, known: Arc::default() }
    }

    /// The file system of `dir`, where it can be synced as a whole. Opened once, before anything is written that its sync is to answer for.
    pub(crate) fn of(&self, disk: &dyn Disk, dir: &Path) -> Option<Arc<JointSync>> {
        // Where it cannot be told, files are synced one by one.
        let id = disk.file_system(dir).ok()??;
        let mut known = self.known.lock();
        if let Some(found) = known.get(&id) {
            return Some(Arc::clone(found));
        }
        let opened = Arc::new(JointSync::new(SharedFileSystem::new(disk.open_file_system(dir).ok()?), Arc::clone(&self.clock)));
        known.insert(id, Arc::clone(&opened));
        Some(opened)
    }
}
