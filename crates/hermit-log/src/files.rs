//! Descriptors are few: one set of open files for all partitions, of which the least recently used are closed.
//!
//! "Least recently used" is approximated by a clock: each use sets a flag, and a hand that goes round closes the first file whose
//! flag is still clear since it last passed. So a use of an open file takes no lock that is shared between files.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Bound, Deref};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;

use crate::disk::{Disk, DiskFile, Open};

#[cfg(test)]
mod tests;

/// The open files of all partitions. Clones are the same set.
#[derive(Debug, Clone)]
pub struct FileCache {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    capacity: usize,
    clock: Mutex<Clock>,
    next_id: AtomicU64,
    opens: AtomicU64,
}

#[derive(Debug, Default)]
struct Clock {
    /// The open files by id. A slot's own lock is never waited for while this one is held.
    open: BTreeMap<u64, Arc<Slot>>,
    /// The id at which the hand stands.
    hand: u64,
    /// Files that were unlinked while somebody read them, with their sizes in bytes.
    unlinked: Vec<(Weak<dyn DiskFile>, u64)>,
}

#[derive(Debug)]
struct Slot {
    held: RwLock<Held>,
    used: AtomicBool,
    pins: AtomicU32,
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    Closed,
    Open(Arc<dyn DiskFile>),
    Unlinked,
}

/// A file that is opened when it is needed.
#[derive(Debug)]
pub struct CachedFile {
    cache: FileCache,
    id: u64,
    how: Open,
    slot: Arc<Slot>,
}

/// A file that the cache does not close while this lives.
#[derive(Debug)]
pub struct PinnedFile {
    file: Arc<dyn DiskFile>,
    slot: Arc<Slot>,
}

impl FileCache {
    /// A set that keeps at most `capacity` files open, not counting those that are pinned or in a reader's hands.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, capacity: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                disk,
                capacity: capacity.max(1),
                clock: Mutex::default(),
                next_id: AtomicU64::new(0),
                opens: AtomicU64::new(0),
            }),
        }
    }

    /// The disk on which the files are.
    #[must_use]
    pub fn disk(&self) -> &Arc<dyn Disk> {
        &self.shared.disk
    }

    /// A file that exists; it is opened at the first use, to be written to only where `writes`.
    #[must_use]
    pub fn file(&self, path: impl Into<PathBuf>, writes: bool) -> CachedFile {
        self.slot(path.into(), if writes { Open::ReadWrite } else { Open::Read })
    }

    /// Creates a file, which must not exist, for reading and writing. Neither file nor directory is synced.
    ///
    /// # Errors
    /// Those of creating it; `AlreadyExists` where it is there.
    pub fn create(&self, path: impl Into<PathBuf>) -> io::Result<CachedFile> {
        let file = self.slot(path.into(), Open::ReadWrite);
        file.open(Open::CreateNew)?;
        Ok(file)
    }

    fn slot(&self, path: PathBuf, how: Open) -> CachedFile {
        CachedFile {
            cache: self.clone(),
            id: self.shared.next_id.fetch_add(1, Ordering::Relaxed),
            how,
            slot: Arc::new(Slot {
                held: RwLock::new(Held { path, state: State::Closed }),
                used: AtomicBool::new(false),
                pins: AtomicU32::new(0),
            }),
        }
    }

    /// How often a file was opened: where this rises fast, the capacity is too small.
    #[must_use]
    pub fn open_count(&self) -> u64 {
        self.shared.opens.load(Ordering::Relaxed)
    }

    /// How many files the cache holds open.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.shared.clock.lock().open.len()
    }

    /// Bytes of unlinked files that come free only when their last readers are done.
    #[must_use]
    pub fn unlinked_bytes(&self) -> u64 {
        let mut clock = self.shared.clock.lock();
        clock.unlinked.retain(|(file, _)| file.strong_count() > 0);
        clock.unlinked.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Closes files until `spare` more can be opened. Pinned files stay.
    fn make_room(&self, spare: usize) {
        let mut closed = Vec::new();
        let mut clock = self.shared.clock.lock();
        // Twice round: the first time clears the flags.
        let mut steps = clock.open.len() * 2;
        while clock.open.len() + spare > self.shared.capacity && steps > 0 {
            steps -= 1;
            closed.extend(clock.step());
        }
        drop(clock);
        // Closing a file whose last name is gone frees its blocks, which takes time: not under the lock.
        drop(closed);
    }

    /// Closes one file, whatever the capacity is. Answers whether there was one to close.
    fn make_way(&self) -> bool {
        let mut clock = self.shared.clock.lock();
        let steps = clock.open.len() * 2;
        let closed = (0..steps).find_map(|_| clock.step());
        drop(clock);
        closed.is_some()
    }
}

impl Clock {
    /// Moves the hand by one file, which is closed unless it was used since the hand last passed, or is pinned, or in use right now.
    fn step(&mut self) -> Option<Arc<dyn DiskFile>> {
        let next = self.open.range((Bound::Excluded(self.hand), Bound::Unbounded)).next();
        let (&id, slot) = next.or_else(|| self.open.iter().next())?;
        self.hand = id;
        if slot.used.swap(false, Ordering::Relaxed) {
            return None;
        }
        let file = slot.close_if_free()?;
        self.open.remove(&id);
        Some(file)
    }
}

impl Slot {
    fn close_if_free(&self) -> Option<Arc<dyn DiskFile>> {
        let mut held = self.held.try_write()?;
        // Under the lock: whoever pins counts first and then looks for the file, so that it finds it or opens it again.
        if self.pins.load(Ordering::SeqCst) > 0 {
            return None;
        }
        held.close()
    }
}

impl Held {
    fn close(&mut self) -> Option<Arc<dyn DiskFile>> {
        if !matches!(self.state, State::Open(_)) {
            return None;
        }
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Open(file) => Some(file),
            State::Closed | State::Unlinked => None,
        }
    }
}

fn unlinked() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the file was removed")
}

impl CachedFile {
    /// The open file. Whoever holds it may go on reading when the cache has closed it or its name is gone.
    ///
    /// # Errors
    /// Those of opening it; `NotFound` after [`CachedFile::unlinked`].
    pub fn get(&self) -> io::Result<Arc<dyn DiskFile>> {
        // Before looking: a hand that passes in between then leaves the file open.
        self.slot.used.store(true, Ordering::Relaxed);
        match &self.slot.held.read().state {
            State::Open(file) => return Ok(Arc::clone(file)),
            State::Unlinked => return Err(unlinked()),
            State::Closed => {}
        }
        self.open(self.how)
    }

    /// The open file, which the cache keeps open meanwhile: for files with something un-synced. A write-back that failed is reported
    /// only to descriptors that were open at the time.
    ///
    /// # Errors
    /// As [`CachedFile::get`].
    pub fn get_pinned(&self) -> io::Result<PinnedFile> {
        self.slot.pins.fetch_add(1, Ordering::SeqCst);
        match self.get() {
            Ok(file) => Ok(PinnedFile { file, slot: Arc::clone(&self.slot) }),
            Err(error) => {
                self.slot.pins.fetch_sub(1, Ordering::SeqCst);
                Err(error)
            }
        }
    }

    fn open(&self, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        self.cache.make_room(1);
        let mut held = self.slot.held.write();
        match &held.state {
            State::Open(file) => return Ok(Arc::clone(file)),
            State::Unlinked => return Err(unlinked()),
            State::Closed => {}
        }
        let file = loop {
            match self.cache.shared.disk.open(&held.path, how) {
                // Others took the descriptors: a file that can be opened again later gives way.
                Err(error) if out_of_descriptors(&error) && self.cache.make_way() => {}
                result => break result?,
            }
        };
        self.cache.shared.opens.fetch_add(1, Ordering::Relaxed);
        held.state = State::Open(Arc::clone(&file));
        self.slot.used.store(true, Ordering::Relaxed);
        self.cache.shared.clock.lock().open.insert(self.id, Arc::clone(&self.slot));
        drop(held);
        Ok(file)
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.slot.held.read().path.clone()
    }

    /// The file has another name now, under which it is opened from now on.
    pub fn renamed(&self, to: &Path) {
        to.clone_into(&mut self.slot.held.write().path);
    }

    /// Closes the file until it is next used.
    pub fn close(&self) {
        let mut held = self.slot.held.write();
        let file = held.close();
        self.cache.shared.clock.lock().open.remove(&self.id);
        drop(held);
        drop(file);
    }

    /// The file's name is gone, and perhaps belongs to another file: it is never opened again. Who has it open may go on reading.
    pub fn unlinked(&self) {
        let mut held = self.slot.held.write();
        let file = held.close();
        held.state = State::Unlinked;
        let mut clock = self.cache.shared.clock.lock();
        clock.open.remove(&self.id);
        if let Some(file) = &file
            && Arc::strong_count(file) > 1
            && let Ok(bytes) = file.len()
        {
            clock.unlinked.retain(|(file, _)| file.strong_count() > 0);
            clock.unlinked.push((Arc::downgrade(file), bytes));
        }
        drop(clock);
        drop(held);
        drop(file);
    }
}

fn out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        let slot = self.cache.shared.clock.lock().open.remove(&self.id);
        drop(slot);
    }
}

impl Deref for PinnedFile {
    type Target = Arc<dyn DiskFile>;

    fn deref(&self) -> &Self::Target {
        &self.file
    }
}

impl Drop for PinnedFile {
    fn drop(&mut self) {
        self.slot.pins.fetch_sub(1, Ordering::SeqCst);
    }
}
