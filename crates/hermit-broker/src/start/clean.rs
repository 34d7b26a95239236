//! The marker of a clean stop. It tells what the manifest was then, so that one that lost its end is noticed.

use std::io;
use std::path::Path;

use hermit_log::disk::{Disk, read_file, write_atomically};
use hermit_proto::crc32c;

use crate::layout;

const VERSION: u8 = 1;
const LENGTH_AT: usize = 1;
const MANIFEST_CRC_AT: usize = LENGTH_AT + 8;
const CRC_AT: usize = MANIFEST_CRC_AT + 4;
/// Version (u8), size (u64) and CRC-32C (u32) of the manifest, CRC-32C of all that.
const SIZE: usize = CRC_AT + 4;

fn encode(manifest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SIZE);
    bytes.push(VERSION);
    bytes.extend_from_slice(&(manifest.len() as u64).to_be_bytes());
    bytes.extend_from_slice(&crc32c(manifest).to_be_bytes());
    let crc = crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_be_bytes());
    bytes
}

/// How the last broker stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastStop {
    /// Cleanly, with this very manifest.
    Clean,
    /// Cleanly, but the manifest is another one now.
    OtherManifest,
    /// Not cleanly.
    Unclean,
}

/// Reads the marker.
pub(super) fn last_stop(disk: &dyn Disk, data_dir: &Path, manifest: Option<&[u8]>) -> LastStop {
    let Ok(marker) = read_file(disk, &data_dir.join(layout::CLEAN), SIZE as u64) else { return LastStop::Unclean };
    if manifest.is_some_and(|manifest| encode(manifest) == marker) {
        return LastStop::Clean;
    }
    let sound = marker.split_last_chunk().is_some_and(|(covered, crc)| crc32c(covered) == u32::from_be_bytes(*crc));
    if sound { LastStop::OtherManifest } else { LastStop::Unclean }
}

/// Removes the marker, before anything is written.
pub(super) fn remove(disk: &dyn Disk, data_dir: &Path) -> io::Result<()> {
    match disk.remove_file(&data_dir.join(layout::CLEAN)) {
        Ok(()) => disk.sync_dir(data_dir),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Writes the marker, after everything else.
pub(crate) fn write(disk: &dyn Disk, data_dir: &Path, manifest: &[u8]) -> io::Result<()> {
    write_atomically(disk, data_dir, layout::CLEAN, &encode(manifest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_log::disk::sim::SimDisk;

    #[test]
    fn a_marker_holds_for_its_manifest_only_and_a_damaged_one_for_none() {
        let disk = SimDisk::new(1);
        let dir = Path::new("/data");
        disk.create_dir_all(dir).unwrap();
        assert_eq!(last_stop(&disk, dir, Some(b"m")), LastStop::Unclean);
        write(&disk, dir, b"m").unwrap();
        assert_eq!(last_stop(&disk, dir, Some(b"m")), LastStop::Clean);
        assert_eq!(last_stop(&disk, dir, Some(b"")), LastStop::OtherManifest);
        assert_eq!(last_stop(&disk, dir, None), LastStop::OtherManifest);
        for bit in 0..SIZE * 8 {
            let mut damaged = encode(b"m");
            damaged[bit / 8] ^= 1 << (bit % 8);
            write_atomically(&disk, dir, layout::CLEAN, &damaged).unwrap();
            assert_eq!(last_stop(&disk, dir, Some(b"m")), LastStop::Unclean, "bit {bit}");
        }
        remove(&disk, dir).unwrap();
        assert_eq!(last_stop(&disk, dir, Some(b"m")), LastStop::Unclean);
    }
}
