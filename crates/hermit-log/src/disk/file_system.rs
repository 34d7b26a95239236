//! Syncing a whole file system at once: for many dirty files that costs less than a sync for each.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::Disk;
use super::joint_sync::JointSync;
use crate::clock::Clock;

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
        let opened = Arc::new(JointSync::new(disk.open_file_system(dir).ok()?, Arc::clone(&self.clock)));
        known.insert(id, Arc::clone(&opened));
        Some(opened)
    }
}
