//! A batch: whole version-2 frames whose producer's half has been checked, ready to be appended in one write.

use bytes::BytesMut;
use hermit_proto::{Attributes, FrameError, FrameLimits, FramePrefix, FrameView, Offset, PREFIX_SIZE};

use crate::error::LogError;

/// One frame of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchFrame {
    /// Header and extension as the producer made them.
    pub prefix: FramePrefix,
    /// Where the frame begins within the batch, in bytes.
    pub start: usize,
    /// The offset that the append gave it, or that it had from an earlier append of the same sequences.
    pub offset: Offset,
    /// Whether it was appended before and is not written again.
    pub duplicate: bool,
}

impl BatchFrame {
    /// Bytes of the whole frame.
    #[must_use]
    pub fn size(&self) -> usize {
        // The batch holds the whole frame in memory, so its size fits.
        usize::try_from(self.prefix.frame_bytes()).unwrap_or(usize::MAX)
    }
}

/// Frames that belong in one append. Made only by checking them, outside any lock.
#[derive(Debug)]
pub struct Batch {
    bytes: BytesMut,
    frames: Vec<BatchFrame>,
}

impl Batch {
    /// Takes whole frames, back to back, and checks sizes, fields and body checksums.
    ///
    /// # Errors
    /// [`LogError::Frame`] with the index of the first bad frame; a cut one counts as bad.
    pub fn parse(bytes: BytesMut, limits: &FrameLimits) -> Result<Self, LogError> {
        let mut frames = Vec::new();
        let mut rest: &[u8] = &bytes;
        while !rest.is_empty() {
            let index = frames.len();
            let bad = |source| LogError::Frame { index, source };
            let (view, behind) = FrameView::split(rest, limits).map_err(bad)?;
            if view.prefix.has(Attributes::CONTROL) {
                return Err(bad(FrameError::Contradiction("control frames are the broker's")));
            }
            view.verify_body().map_err(bad)?;
            let start = bytes.len() - rest.len();
            frames.push(BatchFrame { prefix: view.prefix, start, offset: Offset::ZERO, duplicate: false });
            rest = behind;
        }
        Ok(Self { bytes, frames })
    }

    /// The frames, in order. Their offsets are set by the append.
    #[must_use]
    pub fn frames(&self) -> &[BatchFrame] {
        &self.frames
    }

    /// All bytes; the broker's fields are set by the append.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there is no frame.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(crate) fn parts_mut(&mut self) -> (&mut [u8], &mut [BatchFrame]) {
        (&mut self.bytes, &mut self.frames)
    }

    /// The buffer back, for the next batch.
    #[must_use]
    pub fn into_bytes(self) -> BytesMut {
        self.bytes
    }
}

/// The prefix of the frame at `start`.
pub(crate) fn prefix_at(bytes: &mut [u8], start: usize) -> Option<&mut [u8; PREFIX_SIZE]> {
    bytes.get_mut(start..)?.first_chunk_mut()
}
