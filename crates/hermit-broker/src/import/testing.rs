//! Old files, made for tests.

use std::path::Path;

use hermit_log::disk::{Disk, Open};
use hermit_proto::Header;

/// An old frame.
pub(super) fn frame(offset: u64, key: &[u8], payload: &[u8], record_count: u32) -> Vec<u8> {
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
    let header = Header { magic: 1, timestamp: offset, offset, key_size: size(key), payload_size: size(payload), record_count };
    [&header.encode()[..], key, payload].concat()
}

/// A file that is there for good.
pub(super) fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) {
    let dir = path.parent().unwrap();
    disk.create_dir_all(dir).unwrap();
    let file = disk.open(path, Open::CreateOrTruncate).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    for above in dir.ancestors() {
        disk.sync_dir(above).unwrap();
    }
}
