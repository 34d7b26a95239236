//! The envelope of small state files: magic, format version, body, CRC-32C over all of that. Written with `disk::write_atomically`.

use std::io;
use std::path::Path;

use hermit_proto::crc32c;

use crate::disk::{Disk, read_file};

const HEAD_SIZE: usize = 8;
const CRC_SIZE: usize = 4;
/// No state file is larger: a million producers have some 200 MB.
const MAX_STATE_FILE_BYTES: u64 = 1 << 30;

/// One kind of state file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
}

impl Kind {
    pub(crate) fn seal(self, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_SIZE + body.len() + CRC_SIZE);
        bytes.extend_from_slice(&self.magic);
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(body);
        let crc = crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// The body, or `None` where the bytes are not a whole file of this kind.
    pub(crate) fn open(self, bytes: &[u8]) -> Option<&[u8]> {
        let (covered, crc) = bytes.split_last_chunk::<CRC_SIZE>()?;
        let body = covered.strip_prefix(&self.magic)?.strip_prefix(&self.version.to_be_bytes())?;
        (*crc == crc32c(covered).to_be_bytes()).then_some(body)
    }

    /// Reads a file: `Ok(None)` where there is none, `Ok(Some(None))` where it is damaged.
    pub(crate) fn read(self, disk: &dyn Disk, path: &Path) -> io::Result<Option<Option<Vec<u8>>>> {
        match read_file(disk, path, MAX_STATE_FILE_BYTES) {
            Ok(bytes) => Ok(Some(self.open(&bytes).map(<[u8]>::to_vec))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Takes numbers off the front of a body; `None` where it ends first.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*head))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*head))
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.u64().map(u64::cast_signed)
    }

    pub(crate) fn u32_signed(&mut self) -> Option<i32> {
        self.u32().map(u32::cast_signed)
    }
}
