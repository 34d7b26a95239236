//! The log start, where a trim or retention has set it: written durably *before* anything is removed, so that whatever part of the removals
//! survives a power cut, what lies before is not there any more.

use std::io;
use std::path::Path;

use hermit_proto::{FrameSalt, Offset};

use crate::disk::{Disk, write_atomically};
use crate::names;
use crate::state_file::{Kind, Reader};

pub(crate) const KIND: Kind = Kind { magic: *b"HSTA", version: 2 };

/// `Ok(None)`: there is none. `Ok(Some(None))`: it is damaged.
pub(crate) fn read(disk: &dyn Disk, dir: &Path, salt: &FrameSalt) -> io::Result<Option<Option<Offset>>> {
    let body = KIND.read(disk, &dir.join(names::START), salt)?;
    Ok(body.map(|body| body.and_then(|body| Reader(&body).u64()).map(Offset)))
}

pub(crate) fn write(disk: &dyn Disk, dir: &Path, salt: &FrameSalt, start: Offset) -> io::Result<()> {
    write_atomically(disk, dir, names::START, &KIND.seal(&start.0.to_be_bytes(), salt))
}
