//! Read-only views of complete files: the one place of this crate with `unsafe` code.
#![expect(unsafe_code, reason = "memmap2 cannot know that nobody shortens or rewrites the file; the callers' contract says so")]

use std::fs::File;
use std::io;
use std::ops::Deref;

/// The bytes of a file, read-only.
#[derive(Debug)]
pub struct Mapping(Bytes);

#[derive(Debug)]
enum Bytes {
    Heap(Vec<u8>),
    Mapped(memmap2::Mmap),
}

impl Mapping {
    /// A copy on the heap, where there is nothing to map.
    #[must_use]
    pub const fn from_vec(bytes: Vec<u8>) -> Self {
        Self(Bytes::Heap(bytes))
    }

    /// Maps the first `len` bytes of a file that [`DiskFile::map`](super::DiskFile::map) allows to be mapped.
    pub(super) fn of_file(file: &File, len: usize) -> io::Result<Self> {
        if len == 0 {
            return Ok(Self::from_vec(Vec::new()));
        }
        if file.metadata()?.len() < len as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: the memory is valid for reads for as long as the mapping lives, whatever becomes of the descriptor or the name. Its
        // content must not change and the file must not shrink below `len` (a SIGBUS): `DiskFile::map` is for complete files
        // only, which HermitMQ never writes to or shortens again — it replaces and unlinks them, which leaves the mapped inode alone —
        // and the data directory is locked against a second broker. The length was checked just above.
        let map = unsafe { memmap2::MmapOptions::new().len(len).map(file)? };
        Ok(Self(Bytes::Mapped(map)))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Heap(bytes) => bytes,
            Bytes::Mapped(map) => map,
        }
    }
}
