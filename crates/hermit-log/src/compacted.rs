//! Up to where a log was ever compacted: gaps before are no damage, whatever the settings say now. Stored durably *before* a compaction's first
//! swap.

use std::io;
use std::path::Path;

use hermit_proto::{FrameSalt, Offset};

use crate::disk::{Disk, write_atomically};
use crate::names;
use crate::state_file::{Kind, Reader};

pub(crate) const KIND: Kind = Kind { magic: *b"HCMP", version: 2 };

/// `Ok(None)`: it never was. A file that is damaged does not tell how far: up to any offset, then.
pub(crate) fn read(disk: &dyn Disk, dir: &Path, salt: &FrameSalt) -> io::Result<Option<Offset>> {
    let body = KIND.read(disk, &dir.join(names::COMPACTED), salt)?;
    Ok(body.map(|body| body.and_then(|body| Reader(&body).u64()).map_or(Offset(u64::MAX), Offset)))
}

pub(crate) fn write(disk: &dyn Disk, dir: &Path, salt: &FrameSalt, end: Offset) -> io::Result<()> {
    write_atomically(disk, dir, names::COMPACTED, &KIND.seal(&end.0.to_be_bytes(), salt))
}
