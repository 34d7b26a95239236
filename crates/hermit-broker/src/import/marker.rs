//! The file `importing`: there while an import is under way, with the ids of the topics that it makes.
//!
//! What is in the directories of those topics counts only once there is a manifest, which is written last. So a start that finds this file either
//! finds a manifest too, and the import is complete; or it finds none, and removes what those ids name — and nothing else — to begin anew.

use std::io;
use std::path::Path;

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

/// Version (u8), ids (u128 each), CRC-32C over all that.
fn encode(ids: &[TopicId]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    ids.iter().for_each(|id| bytes.extend_from_slice(&id.0.to_be_bytes()));
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_be_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Option<Vec<TopicId>> {
    let (covered, crc) = bytes.split_last_chunk::<CRC_BYTES>()?;
    let (version, ids) = covered.split_first()?;
    (crc32c(covered) == u32::from_be_bytes(*crc) && *version == VERSION).then_some(())?;
    let (ids, rest) = ids.as_chunks::<ID_BYTES>();
    rest.is_empty().then(|| ids.iter().map(|id| TopicId(u128::from_be_bytes(*id))).collect())
}

/// Records that an import of topics with these ids begins.
pub(super) fn write(disk: &dyn Disk, data_dir: &Path, ids: &[TopicId]) -> Result<(), ImportError> {
    write_atomically(disk, data_dir, layout::IMPORTING, &encode(ids))
        .map_err(|error| ImportError::io("write", data_dir.join(layout::IMPORTING), error))
}

/// The ids of the import that is under way; `None` where there is none.
pub(super) fn read(disk: &dyn Disk, data_dir: &Path) -> Result<Option<Vec<TopicId>>, ImportError> {
    let path = data_dir.join(layout::IMPORTING);
    match read_file(disk, &path, MAX_BYTES) {
        Ok(bytes) => decode(&bytes).map(Some).ok_or(ImportError::Marker { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ImportError::io("read", path, error)),
    }
}

/// The import is complete, or was taken back.
pub(super) fn remove(disk: &dyn Disk, data_dir: &Path) -> io::Result<()> {
    match disk.remove_file(&data_dir.join(layout::IMPORTING)) {
        Ok(()) => disk.sync_dir(data_dir),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes what an import that did not come to its end has made.
pub(super) fn take_back(disk: &dyn Disk, data_dir: &Path, ids: &[TopicId]) -> Result<(), ImportError> {
    let partitions = layout::partitions_dir(data_dir);
    let entries = match disk.list(&partitions) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(ImportError::io("list", partitions, error)),
    };
    let is_ours = |name: &str| layout::parse_partition_dir(name).is_some_and(|(topic, _)| ids.contains(&topic));
    for entry in entries.iter().filter(|entry| entry.is_dir && entry.name.to_str().is_some_and(is_ours)) {
        let dir = partitions.join(&entry.name);
        remove_dir(disk, &dir).map_err(|error| ImportError::io("remove", dir, error))?;
    }
    if !entries.is_empty() {
        disk.sync_dir(&partitions).map_err(|error| ImportError::io("sync", &partitions, error))?;
    }
    remove(disk, data_dir).map_err(|error| ImportError::io("remove", data_dir.join(layout::IMPORTING), error))
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
        let ids = [TopicId(7), TopicId(u128::MAX)];
        let bytes = encode(&ids);
        assert_eq!(decode(&bytes).as_deref(), Some(&ids[..]));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), None, "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "cut at {len}");
        }
    }
}
