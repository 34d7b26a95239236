//! Whole frames within one segment: for `sendfile`, or into memory.

use std::sync::Arc;

use hermit_proto::{FrameView, Offset};

use super::Log;
use super::fence::corrupt;
use crate::disk::DiskFile;
use crate::error::LogError;
use crate::scan::{Found, FrameReader};
use crate::segment::Segment;

/// Whole frames, back to back, in one file.
#[derive(Clone, Debug)]
pub struct Range {
    pub(super) log: Log,
    pub(super) segment: Arc<Segment>,
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) position: u64,
    pub(super) len_bytes: u64,
    pub(super) first_offset: Offset,
    pub(super) next_offset: Offset,
}

impl Range {
    /// The file, for `sendfile`.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// The position of the first frame in the file.
    #[must_use]
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of all frames.
    #[must_use]
    pub const fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The offset of the first frame.
    #[must_use]
    pub const fn first_offset(&self) -> Offset {
        self.first_offset
    }

    /// The offset behind the last frame, or that of the frame which follows.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        self.next_offset
    }

    /// Appends the bytes to `buffer`, unchecked.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn read_into(&self, buffer: &mut Vec<u8>) -> Result<(), LogError> {
        let start = buffer.len();
        let size = usize::try_from(self.len_bytes).unwrap_or(usize::MAX);
        buffer.resize(start.saturating_add(size), 0);
        let result = buffer.get_mut(start..).map_or(Ok(()), |space| self.file.read_exact_at(space, self.position));
        if let Err(source) = result {
            buffer.truncate(start);
            return Err(LogError::io("read", &self.segment.wal.path(), source));
        }
        Ok(())
    }

    /// Reads the range and checks both checksums of every frame. Damage is fenced, so that it is not served again.
    ///
    /// # Errors
    /// [`LogError::Corrupt`] at the first damaged frame; those before it are good.
    pub fn verify(&self) -> Result<(), LogError> {
        self.each_intact(|_view| {})
    }

    /// Calls `each` with every frame up to the first damaged one, which is fenced, and an error.
    pub(super) fn each_intact(&self, mut each: impl FnMut(&FrameView<'_>)) -> Result<(), LogError> {
        let read_error = |source| LogError::io("read", &self.segment.wal.path(), source);
        let range_end = self.position + self.len_bytes;
        let mut reader = FrameReader::new(&*self.file, range_end);
        let mut position = self.position;
        while position < range_end {
            match reader.frame(position, &self.segment.salt).map_err(read_error)? {
                Found::Frame(view) if self.segment.admits(&view.prefix) => {
                    each(&view);
                    position += view.prefix.frame_bytes();
                }
                Found::End => break,
                Found::Frame(_) | Found::BadBody(_) | Found::Unreadable => {
                    let range = self.log.inner.fence(&self.segment, position)?;
                    return Err(corrupt(&range, range.from));
                }
            }
        }
        Ok(())
    }
}
