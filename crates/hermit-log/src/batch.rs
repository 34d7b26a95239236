//! A batch: whole version-2 frames whose producer's half has been checked, ready to be appended in one write.

use bytes::BytesMut;
use hermit_proto::{Attributes, FrameError, FrameLimits, FramePrefix, FrameView, Offset, PREFIX_SIZE, ProducedFrame};

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

/// Frames that belong in one append. Made only by checking them, or from their parts, outside any lock.
#[derive(Debug, Default)]
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
        let mut batch = Self::default();
        batch.parse_into(bytes, limits)?;
        Ok(batch)
    }

    /// As [`Batch::parse`], in the room of an earlier batch, whose bytes and frames are forgotten.
    ///
    /// # Errors
    /// As [`Batch::parse`]; the batch is empty then.
    pub fn parse_into(&mut self, bytes: BytesMut, limits: &FrameLimits) -> Result<(), LogError> {
        self.release();
        let parsed = Self::parse_frames(&bytes, 0, &mut self.frames, limits);
        match parsed {
            Ok(()) => self.bytes = bytes,
            Err(_) => self.frames.clear(),
        }
        parsed
    }

    /// As [`Batch::parse`], behind the frames that are there. The bytes are copied: for frames that are small, which then cost one append together.
    ///
    /// # Errors
    /// As [`Batch::parse`], counting from the first of these frames; the batch is as before.
    pub fn parse_more(&mut self, bytes: &[u8], limits: &FrameLimits) -> Result<(), LogError> {
        let count = self.frames.len();
        let parsed = Self::parse_frames(bytes, self.bytes.len(), &mut self.frames, limits);
        match parsed {
            Ok(()) => self.bytes.extend_from_slice(bytes),
            Err(_) => self.frames.truncate(count),
        }
        parsed
    }

    /// Forgets all but the first `count` frames.
    pub fn truncate(&mut self, count: usize) {
        if let Some(first) = self.frames.get(count) {
            self.bytes.truncate(first.start);
            self.frames.truncate(count);
        }
    }

    /// Checks `bytes`, whose first is to be at `at` in the batch.
    fn parse_frames(bytes: &[u8], at: usize, frames: &mut Vec<BatchFrame>, limits: &FrameLimits) -> Result<(), LogError> {
        let mut rest = bytes;
        let count = frames.len();
        while !rest.is_empty() {
            let index = frames.len() - count;
            let bad = |source| LogError::Frame { index, source };
            let (view, behind) = FrameView::split(rest, limits).map_err(bad)?;
            refuse_control(&view.prefix).map_err(bad)?;
            view.verify_body().map_err(bad)?;
            let start = at + bytes.len() - rest.len();
            frames.push(BatchFrame { prefix: view.prefix, start, offset: Offset::ZERO, duplicate: false });
            rest = behind;
        }
        Ok(())
    }

    /// Forgets the frames, and gives their bytes back, as they may be part of a larger buffer.
    pub fn release(&mut self) {
        self.bytes = BytesMut::new();
        self.frames.clear();
    }

    /// Adds a frame whose body checksum is made here, and so needs no check. Within the room that the batch has, nothing is allocated.
    ///
    /// # Errors
    /// What is wrong with its sizes and fields; the batch is as before.
    pub fn push(&mut self, frame: &ProducedFrame<'_>, limits: &FrameLimits) -> Result<(), FrameError> {
        let encoded = frame.prefix()?;
        let prefix = FramePrefix::decode(&encoded);
        prefix.check(limits)?;
        refuse_control(&prefix)?;
        let start = self.bytes.len();
        let key = frame.key.unwrap_or_default();
        self.bytes.reserve(PREFIX_SIZE.saturating_add(key.len()).saturating_add(frame.payload.len()));
        self.bytes.extend_from_slice(&encoded);
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(frame.payload);
        self.frames.push(BatchFrame { prefix, start, offset: Offset::ZERO, duplicate: false });
        Ok(())
    }

    /// Forgets the frames. The room stays, for the next ones.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
    }

    /// Bytes of memory that it holds, whether or not they are used.
    #[must_use]
    pub fn room_bytes(&self) -> usize {
        self.bytes.capacity().saturating_add(self.frames.capacity().saturating_mul(size_of::<BatchFrame>()))
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

fn refuse_control(prefix: &FramePrefix) -> Result<(), FrameError> {
    if prefix.has(Attributes::CONTROL) {
        return Err(FrameError::Contradiction("control frames are the broker's"));
    }
    Ok(())
}

/// The prefix of the frame at `start`.
pub(crate) fn prefix_at(bytes: &mut [u8], start: usize) -> Option<&mut [u8; PREFIX_SIZE]> {
    bytes.get_mut(start..)?.first_chunk_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_made_here_are_those_that_a_check_accepts() {
        let limits = FrameLimits { max_body_bytes: 6, max_record_count: 5 };
        let mut batch = Batch::default();
        for _ in 0..2 {
            batch.clear();
            batch.push(&ProducedFrame::message(7, Some(b"key"), b"abc"), &limits).unwrap();
            batch.push(&ProducedFrame { record_count: 5, ..ProducedFrame::message(8, None, b"") }, &limits).unwrap();
            for bad in [
                ProducedFrame::message(9, Some(b"key"), b"abcd"),
                ProducedFrame { record_count: 6, ..ProducedFrame::message(9, None, b"") },
                ProducedFrame {
                    record_count: 0,
                    attributes: Attributes(Attributes::CONTROL),
                    ..ProducedFrame::message(9, None, b"")
                },
            ] {
                batch.push(&bad, &limits).unwrap_err();
            }
            let parsed = Batch::parse(BytesMut::from(batch.as_bytes()), &limits).unwrap();
            let parts = |batch: &Batch| batch.frames().iter().map(|frame| (frame.prefix, frame.start)).collect::<Vec<_>>();
            assert_eq!(parts(&parsed), parts(&batch));
            assert_eq!(batch.frames().len(), 2);
        }
    }

    #[test]
    fn frames_behind_others_are_taken_all_or_not_at_all() {
        let limits = FrameLimits::default();
        let frames: Vec<_> = (0..5).map(|n| ProducedFrame::message(n, None, &[7; 9]).to_vec().unwrap()).collect();
        let mut batch = Batch::default();
        batch.parse_more(&frames[..2].concat(), &limits).unwrap();
        let mut bad = frames[2..4].concat();
        *bad.last_mut().unwrap() ^= 1;
        let refused = batch.parse_more(&bad, &limits).unwrap_err();
        assert!(matches!(refused, LogError::Frame { index: 1, .. }), "{refused}");
        batch.parse_more(&frames[2..].concat(), &limits).unwrap();
        let whole = Batch::parse(BytesMut::from(&*frames.concat()), &limits).unwrap();
        let starts = |batch: &Batch| batch.frames().iter().map(|frame| frame.start).collect::<Vec<_>>();
        assert_eq!((batch.as_bytes(), starts(&batch)), (whole.as_bytes(), starts(&whole)));
        batch.truncate(9);
        batch.truncate(3);
        assert_eq!((batch.as_bytes(), batch.frames().len()), (&*frames[..3].concat(), 3));
    }
}
