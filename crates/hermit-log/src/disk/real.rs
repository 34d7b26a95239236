//! The operating system's files.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, IoSliceMut, Read};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, OnceLock};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, statfs, statvfs, syncfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::system::uname;

use super::{DirLock, Disk, DiskFile, Entry, FileSystem, FileSystemId, Mapping, Open, lock_held};

/// Bytes between two probes of [`DiskFile::cached`]: read-ahead and write-back move in steps of at least this much.
const PROBE_STEP_BYTES: u64 = 64 << 10;

/// Owner only: messages are nobody else's business.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// The real disk. Costs nothing to make and to clone.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl RealDisk {
    /// The operating system's files.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Disk for RealDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // Removed since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let is_dir = metadata.is_dir();
            entries.push(Entry { name: entry.file_name(), is_dir, len_bytes: if is_dir { 0 } else { metadata.len() } });
        }
        entries.sort_unstable();
        Ok(entries)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(open(path, how)?)))
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::rename(from, to)?)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn file_system(&self, dir: &Path) -> io::Result<Option<FileSystemId>> {
        static TRUSTED: OnceLock<bool> = OnceLock::new();
        let trusted = *TRUSTED.get_or_init(|| syncfs_tells_failures(uname().release().to_bytes()));
        if !trusted || !SYNCED_AS_A_WHOLE.contains(&magic_of(dir)?) {
            return Ok(None);
        }
        Ok(Some(fs::metadata(dir)?.dev()))
    }

    fn overwrites_in_place(&self, dir: &Path) -> io::Result<bool> {
        Ok([EXT4_MAGIC, XFS_MAGIC].contains(&magic_of(dir)?))
    }

    fn open_file_system(&self, dir: &Path) -> io::Result<Arc<dyn FileSystem>> {
        let handle = File::open(dir)?;
        Ok(Arc::new(RealFileSystem { dir: dir.to_owned(), handle, is_ext4: magic_of(dir)? == EXT4_MAGIC }))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = statvfs(dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn total_bytes(&self, dir: &Path) -> io::Result<u64> {
        let stat = statvfs(dir)?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DirLock>> {
        let mut file = open(path, Open::CreateOrOpen)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The holder may be between locking and writing: then nobody is named.
                let pid = match file.by_ref().take(32).read_to_string(&mut text) {
                    Ok(_) => text.trim().parse().ok(),
                    Err(_unreadable) => None,
                };
                return Err(lock_held(path, pid));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Written over what is there, not cut first: on a full disk somebody else would take the block. Without any, the lock holds as well:
        // the number is for people.
        let holder = format!("{}\n", process::id());
        match file.write_all_at(holder.as_bytes(), 0).and_then(|()| file.set_len(holder.len() as u64)) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => file.set_len(0)?,
            named => named?,
        }
        Ok(Box::new(RealLock { _file: file }))
    }
}

const EXT4_MAGIC: i64 = 0xEF53;
const XFS_MAGIC: i64 = 0x5846_5342;
const BTRFS_MAGIC: i64 = 0x9123_683E;
const F2FS_MAGIC: i64 = 0xF2F5_2010;

/// Others may pass a sync of their files on and not one of the whole, as FUSE does.
const SYNCED_AS_A_WHOLE: [i64; 4] = [EXT4_MAGIC, XFS_MAGIC, BTRFS_MAGIC, F2FS_MAGIC];

fn magic_of(dir: &Path) -> io::Result<i64> {
    Ok(statfs(dir)?.f_type)
}

/// Before Linux 5.8 `syncfs` succeeded whatever could not be written.
fn syncfs_tells_failures(release: &[u8]) -> bool {
    let mut numbers = release.split(|byte| !byte.is_ascii_digit()).map(|digits| str::from_utf8(digits).ok()?.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= (5, 8),
        _ => false,
    }
}

/// Failures to write are told to descriptors that were open at the time, so this one stays open.
#[derive(Debug)]
struct RealFileSystem {
    dir: PathBuf,
    handle: File,
    is_ext4: bool,
}

impl FileSystem for RealFileSystem {
    fn dir(&self) -> &Path {
        &self.dir
    }

    fn sync(&self) -> io::Result<()> {
        uninterrupted(|| Ok(syncfs(&self.handle)?))?;
        // Without a journal ext4 empties the disk's cache before the last metadata have got there. A sync of any file empties it again.
        if self.is_ext4 { self.handle.sync_all() } else { Ok(()) }
    }
}

/// Unlocked when the descriptor closes.
#[derive(Debug)]
struct RealLock {
    _file: File,
}

impl DirLock for RealLock {}

// The standard library opens with O_CLOEXEC and repeats an interrupted `open`.
fn open(path: &Path, how: Open) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(how.writes()).mode(FILE_MODE);
    match how {
        Open::Read | Open::ReadWrite => {}
        Open::CreateNew => {
            options.create_new(true);
        }
        Open::CreateOrOpen => {
            options.create(true);
        }
        Open::CreateOrTruncate => {
            options.create(true).truncate(true);
        }
    }
    options.open(path)
}

#[derive(Debug)]
struct RealFile(File);

fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

impl RealFile {
    fn advise(&self, position: u64, len: u64, advice: Advice) {
        // Length 0 means "to the end of the file" to the kernel, and nothing to us.
        if let Some(len) = NonZeroU64::new(len) {
            let _refusal_has_no_meaning = fadvise(&self.0, position, Some(len), advice);
        }
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        uninterrupted(|| self.0.read_at(buf, position))
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        uninterrupted(|| self.0.write_at(buf, position))
    }

    fn sync_data(&self) -> io::Result<()> {
        // An interrupted sync has not failed: nothing was reported as lost. The standard library repeats it.
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        uninterrupted(|| Ok(fallocate(&self.0, FallocateFlags::empty(), 0, len)?))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn map(&self, len: usize) -> io::Result<Mapping> {
        Mapping::of_file(&self.0, len)
    }

    fn cached(&self, position: u64, len: u64) -> bool {
        let Some(last) = len.checked_sub(1).and_then(|last| position.checked_add(last)) else {
            return true;
        };
        let mut probe = position;
        loop {
            let mut byte = [0];
            // A read, an end of file, a file system that cannot tell: in all other cases there is nothing to wait for that this can see.
            if let Err(Errno::AGAIN) = preadv2(&self.0, &mut [IoSliceMut::new(&mut byte)], probe, ReadWriteFlags::NOWAIT) {
                return false;
            }
            if probe == last {
                return true;
            }
            probe = probe.saturating_add(PROBE_STEP_BYTES).min(last);
        }
    }

    fn read_cached_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        match preadv2(&self.0, &mut [IoSliceMut::new(buf)], position, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(read),
            Err(Errno::AGAIN) => Ok(0),
            // A file system that cannot tell, or a signal.
            Err(_) => self.read_at(buf, position),
        }
    }

    fn will_need(&self, position: u64, len: u64) {
        self.advise(position, len, Advice::WillNeed);
    }

    fn no_read_ahead(&self) {
        let _refusal_has_no_meaning = fadvise(&self.0, 0, None, Advice::Random);
    }

    fn drop_cached(&self, position: u64, len: u64) {
        self.advise(position, len, Advice::DontNeed);
    }
}

#[cfg(test)]
mod tests {
    use super::syncfs_tells_failures;

    #[test]
    fn syncfs_is_trusted_from_the_release_that_tells_failures() {
        for trusted in ["5.8.0", "5.10.1-generic", "6.18.44-fc-v657", "10.0"] {
            assert!(syncfs_tells_failures(trusted.as_bytes()), "{trusted}");
        }
        for old in ["5.7.19", "4.19.0-27-amd64", "", "x", "6"] {
            assert!(!syncfs_tells_failures(old.as_bytes()), "{old}");
        }
    }
}
