//! The file `importing`: there from before an import writes anything until it is complete. It tells where the old data are, and the ids of the
//! topics that the import makes.
//!
//! What is in the directories of those topics counts only once there is a manifest, which is written last. So a start that finds this file either
//! finds a manifest too, and the import is complete; or it finds none, and what those ids name — and nothing else — is removed, to begin anew.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use hermit_log::disk::{Disk, read_file, write_atomically};
use hermit_proto::{TopicId, crc32c};

use super::ImportError;
use crate::error::BrokerError;
use crate::layout;

const VERSION: u8 = 1;
const ID_BYTES: usize = 16;
const CRC_BYTES: usize = 4;
/// Room for more topics than a broker takes partitions.
const MAX_BYTES: u64 = 16 << 20;

/// An import that has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marker {
    /// The old data directory; `None`: the data directory itself, wherever that is by now.
    from: Option<PathBuf>,
    ids: Vec<TopicId>,
}

/// The path from the root, as far as it can be told.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_no_current_dir| path.to_owned())
}

impl Marker {
    pub(super) fn new(old_dir: &Path, data_dir: &Path, ids: Vec<TopicId>) -> Self {
        let from = absolute(old_dir);
        Self { from: (from != absolute(data_dir)).then_some(from), ids }
    }

    /// Where the old data are.
    pub(super) fn from(&self, data_dir: &Path) -> PathBuf {
        self.from.clone().unwrap_or_else(|| data_dir.to_owned())
    }

    /// Whether it is an import of that directory.
    pub(super) fn is_from(&self, old_dir: &Path, data_dir: &Path) -> bool {
        absolute(&self.from(data_dir)) == absolute(old_dir)
    }

    /// Version (u8), size of the path (u32), path, ids (u128 each), CRC-32C over all that.
    fn encode(&self) -> Vec<u8> {
        let path = self.from.as_ref().map_or(&[][..], |from| from.as_os_str().as_bytes());
        let mut bytes = vec![VERSION];
        // The system's paths are far shorter.
        bytes.extend_from_slice(&u32::try_from(path.len()).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend_from_slice(path);
        self.ids.iter().for_each(|id| bytes.extend_from_slice(&id.0.to_be_bytes()));
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (covered, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
        let (version, rest) = covered.split_first()?;
        (crc32c(covered) == u32::from_be_bytes(*crc) && *version == VERSION).then_some(())?;
        let (size, rest) = rest.split_first_chunk()?;
        let (path, ids) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*size)).ok()?)?;
        let (ids, rest) = ids.as_chunks::<ID_BYTES>();
        rest.is_empty().then_some(())?;
        let from = (!path.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(path)));
        Some(Self { from, ids: ids.iter().map(|id| TopicId(u128::from_be_bytes(*id))).collect() })
    }
}

/// Records that an import begins.
pub(super) fn write(disk: &dyn Disk, data_dir: &Path, marker: &Marker) -> Result<(), ImportError> {
    write_atomically(disk, data_dir, layout::IMPORTING, &marker.encode())
        .map_err(|error| ImportError::io("write", data_dir.join(layout::IMPORTING), error))
}

/// The import that is under way; `None` where there is none.
pub(super) fn read(disk: &dyn Disk, data_dir: &Path) -> Result<Option<Marker>, ImportError> {
    let path = data_dir.join(layout::IMPORTING);
    match read_file(disk, &path, MAX_BYTES) {
        Ok(bytes) => Marker::decode(&bytes).map(Some).ok_or(ImportError::Marker { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ImportError::io("read", path, error)),
    }
}

/// The import is complete.
pub(super) fn remove(disk: &dyn Disk, data_dir: &Path) -> io::Result<()> {
    match disk.remove_file(&data_dir.join(layout::IMPORTING)) {
        Ok(()) => disk.sync_dir(data_dir),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes what an import that did not come to its end has made. The marker stays, so that nobody starts an empty broker there.
pub(super) fn take_back(disk: &dyn Disk, data_dir: &Path, marker: &Marker) -> Result<(), ImportError> {
    let partitions = layout::partitions_dir(data_dir);
    let entries = match disk.list(&partitions) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(ImportError::io("list", partitions, error)),
    };
    let is_ours = |name: &str| layout::parse_partition_dir(name).is_some_and(|(topic, _)| marker.ids.contains(&topic));
    for entry in entries.iter().filter(|entry| entry.is_dir && entry.name.to_str().is_some_and(is_ours)) {
        let dir = partitions.join(&entry.name);
        remove_dir(disk, &dir).map_err(|error| ImportError::io("remove", dir, error))?;
    }
    // Also where nothing is left: an earlier try may have removed it and not come to this.
    disk.sync_dir(&partitions).map_err(|error| ImportError::io("sync", &partitions, error))
}

fn remove_dir(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for entry in disk.list(dir)? {
        disk.remove_file(&dir.join(entry.name))?;
    }
    disk.remove_dir(dir)
}

/// Before a broker opens the directory: an import that is complete is concluded; one that is not, or was never begun, refuses the start.
///
/// `is_fresh`: no broker of this release has ever been there.
pub(crate) fn guard(disk: &dyn Disk, data_dir: &Path, has_manifest: bool, is_fresh: bool) -> Result<(), BrokerError> {
    if has_manifest {
        return remove(disk, data_dir).map_err(|error| BrokerError::io("remove", data_dir.join(layout::IMPORTING), error));
    }
    refuse_old(disk, data_dir, is_fresh)
}

/// Refuses a directory without a manifest that holds old data, or an import that did not come to its end.
pub(crate) fn refuse_old(disk: &dyn Disk, data_dir: &Path, is_fresh: bool) -> Result<(), BrokerError> {
    let exists = |name: &str| {
        let path = data_dir.join(name);
        disk.exists(&path).map_err(|error| BrokerError::io("look for", path, error))
    };
    let begun = exists(layout::IMPORTING)? && !exists(layout::MANIFEST)?;
    if begun || (is_fresh && is_old(disk, data_dir)?) {
        return Err(BrokerError::NotImported { path: data_dir.to_owned(), begun });
    }
    Ok(())
}

/// Whether a directory holds at least one old partition.
pub(crate) fn is_old(disk: &dyn Disk, dir: &Path) -> Result<bool, BrokerError> {
    super::old_dir::is_old(disk, dir).map_err(|error| BrokerError::io("list", dir, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_marker_names_nothing() {
        let ids = vec![TopicId(7), TopicId(u128::MAX)];
        let marker = Marker::new("/old".as_ref(), "/new".as_ref(), ids);
        let bytes = marker.encode();
        assert_eq!(Marker::decode(&bytes), Some(marker));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Marker::decode(&damaged), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(Marker::decode(&bytes[..len]), None, "cut at {len}");
        }
    }

    #[test]
    fn an_import_within_one_directory_moves_with_it() {
        let marker = Marker::new("/a".as_ref(), "/a".as_ref(), Vec::new());
        assert!(marker.is_from("/b".as_ref(), "/b".as_ref()));
        let marker = Marker::new("/a".as_ref(), "/b".as_ref(), Vec::new());
        assert!(marker.is_from("/a".as_ref(), "/c".as_ref()) && !marker.is_from("/c".as_ref(), "/c".as_ref()));
    }
}
