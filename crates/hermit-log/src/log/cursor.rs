//! Going through the log in order, range by range.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use hermit_proto::{FramePrefix, Offset};

use super::Log;
use super::fence::corrupt;
use super::range::Range;
use crate::disk::DiskFile;
use crate::error::LogError;
use crate::fenced::FencedRange;
use crate::scan::FrameReader;
use crate::segment::Segment;
use crate::view::{End, Until};

/// A place in the log from which frames are read in order. It costs no search to go on.
#[derive(Clone, Debug)]
pub struct Cursor {
    pub(super) log: Log,
    pub(super) segment: Option<Arc<Segment>>,
    /// A frame's position, or the end of the segment.
    pub(super) position: u64,
    pub(super) next: Offset,
}

/// Where the next range lies: in a segment, from the cursor's position to `stop`.
struct Next {
    segment: Arc<Segment>,
    stop: u64,
    /// The end of what the reader may see.
    end: End,
}

/// What [`Cursor::next_ready`] comes to.
#[derive(Clone, Debug)]
pub enum Ready {
    /// Nothing follows, up to the high watermark.
    AtEnd,
    /// The disk has to be waited for, or something is wrong: [`Cursor::next`] tells.
    Cold,
    /// The next range.
    Range(Range),
    /// The next range, which is short: its bytes were appended to the buffer.
    Read(Range),
}

impl Cursor {
    /// As [`Cursor::next`], but without waiting for the disk. A range of at most `short_bytes`, where that is all there is, is read on
    /// the way: for so few bytes one copy is cheaper than to ask for them in the page cache, and to send them from there.
    pub fn next_ready(&mut self, max_bytes: u64, short_bytes: u64, buffer: &mut BytesMut) -> Ready {
        let (next, file) = match self.step(Until::HighWatermark) {
            Ok(None) => return Ready::AtEnd,
            Ok(Some(next)) => match next.segment.file() {
                Ok(file) => (next, file),
                Err(_told_by_next) => return Ready::Cold,
            },
            Err(_told_by_next) => return Ready::Cold,
        };
        let len_bytes = next.stop.saturating_sub(self.position);
        if len_bytes <= short_bytes.min(max_bytes) {
            return self.read_short(next, file, len_bytes, buffer).map_or(Ready::Cold, Ready::Read);
        }
        if !file.cached(self.position, len_bytes.min(max_bytes)) {
            return Ready::Cold;
        }
        self.range(next, file, max_bytes).map_or(Ready::Cold, Ready::Range)
    }

    /// All up to `next.stop`, appended to `buffer`; `None`, with nothing changed, where that cannot be had at once.
    fn read_short(&mut self, next: Next, file: Arc<dyn DiskFile>, len_bytes: u64, buffer: &mut BytesMut) -> Option<Range> {
        let size = usize::try_from(len_bytes).ok()?;
        let start = buffer.len();
        buffer.resize(start.checked_add(size)?, 0);
        let range = buffer.get_mut(start..).and_then(|bytes| {
            if file.read_cached_at(bytes, self.position).ok()? != size {
                return None;
            }
            let first = FramePrefix::verify(bytes.first_chunk()?, &next.segment.salt).ok()?;
            let next_offset = self.known_offset_behind(&next.segment, next.stop, next.end)?;
            Some(self.advance(next.segment, file, first.offset(), len_bytes, next_offset))
        });
        if range.is_none() {
            buffer.truncate(start);
        }
        range
    }

    /// The range of the next `len_bytes`, which the cursor then stands behind.
    fn advance(&mut self, segment: Arc<Segment>, file: Arc<dyn DiskFile>, first: Offset, len_bytes: u64, behind: Offset) -> Range {
        let (log, position) = (self.log.clone(), self.position);
        self.position = position.saturating_add(len_bytes);
        self.next = behind;
        Range { log, segment, file, position, len_bytes, first_offset: first, next_offset: behind }
    }

    /// The offset of the next frame, as far as it is known: no frame before it follows.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        self.next
    }

    /// The longest run of frames that lies in one segment, before the high watermark, and within `max_bytes` — but always at least one
    /// frame. `None` where the cursor is at the high watermark.
    ///
    /// # Errors
    /// [`LogError::Corrupt`]: go on with a new cursor at its `next`. [`LogError::OutOfRange`] where retention was faster.
    pub fn next(&mut self, max_bytes: u64) -> Result<Option<Range>, LogError> {
        self.next_until(max_bytes, Until::HighWatermark)
    }

    pub(super) fn next_until(&mut self, max_bytes: u64, until: Until) -> Result<Option<Range>, LogError> {
        match self.try_next(max_bytes, until) {
            // The segment's file is gone: retention or compaction was faster than this reader.
            Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                *self = match until {
                    Until::HighWatermark => self.log.cursor(self.next)?,
                    Until::LogEnd => self.log.cursor_until(self.next, until)?,
                };
                self.try_next(max_bytes, until)
            }
            result => result,
        }
    }

    fn try_next(&mut self, max_bytes: u64, until: Until) -> Result<Option<Range>, LogError> {
        while let Some(next) = self.step(until)? {
            let file = next.segment.file().map_err(|source| LogError::io("read", &next.segment.wal.path(), source))?;
            match self.range(next, file, max_bytes) {
                // Nothing is lost that a reader could be told of, who would be sent back to here.
                Err(LogError::Corrupt { next, .. }) if next <= self.next && self.skip_fenced() => {}
                result => return result.map(Some),
            }
        }
        Ok(None)
    }

    /// Goes to the segment in which the next range lies, without reading anything.
    fn step(&mut self, until: Until) -> Result<Option<Next>, LogError> {
        loop {
            let (end, limit, fenced, behind) = {
                let view = self.log.inner.view.read();
                let end = view.end(until);
                if self.segment.is_none() {
                    self.segment = view.segment_of(self.next).cloned();
                    self.position = 0;
                }
                let Some(segment) = &self.segment else { return Ok(None) };
                let behind = view.segment_behind(segment.base).cloned();
                (end, view.limit_of(segment, end), Arc::clone(&view.fenced), behind)
            };
            let Some(segment) = self.segment.clone() else { return Ok(None) };
            // A segment behind the end, or a sealed one that was replaced while this reader has it.
            let Some(limit) = limit else { return Ok(None) };
            let damage = fenced.next_in(segment.base, self.position);
            if let Some(range) = damage.filter(|range| range.position <= self.position && self.next < range.next) {
                return Err(corrupt(&range, self.next));
            }
            // Damage that hides no offset.
            if damage.is_some() && self.skip_fenced() {
                continue;
            }
            if self.position >= limit {
                if segment.base >= end.segment {
                    return Ok(None);
                }
                let Some(behind) = behind else { return Ok(None) };
                self.next = self.next.max(behind.base);
                self.segment = Some(behind);
                self.position = 0;
                continue;
            }
            let stop = damage.filter(|range| range.position > self.position).map_or(limit, |range| limit.min(range.position));
            return Ok(Some(Next { segment, stop, end }));
        }
    }

    /// The range from the cursor to `next.stop`, or to an index entry before it.
    fn range(&mut self, next: Next, file: Arc<dyn DiskFile>, max_bytes: u64) -> Result<Range, LogError> {
        let Next { segment, stop, end } = next;
        let read_error = |source| LogError::io("read", &segment.wal.path(), source);
        let mut reader = FrameReader::prefixes(&*file, stop);
        let first = reader.prefix(self.position, &segment.salt).map_err(read_error)?;
        let Some(first) = first.filter(|first| segment.admits(first)) else {
            let range = self.log.inner.fence(&segment, self.position)?;
            return Err(corrupt(&range, self.next));
        };
        let mut range_end = stop;
        if stop - self.position > max_bytes {
            let one_frame = self.position + first.frame_bytes();
            let entry = segment.floor_of_position(self.position + max_bytes).map_err(read_error)?;
            range_end = entry.map_or(one_frame, |entry| u64::from(entry.position)).clamp(one_frame.min(stop), stop);
        }
        let mut behind = self.known_offset_behind(&segment, range_end, end);
        if behind.is_none() {
            behind = reader.prefix(range_end, &segment.salt).map_err(read_error)?.map(|prefix| prefix.offset());
        }
        let (range_end, behind) = match behind {
            Some(behind) => (range_end, behind),
            // The entry led astray, or the next frame is damaged: one frame is always right.
            None => (self.position + first.frame_bytes(), first.next_offset()),
        };
        Ok(self.advance(segment, file, first.offset(), range_end - self.position, behind))
    }

    /// The offset of the frame at `position`, which is where a range ends, where no frame has to be asked for it.
    fn known_offset_behind(&self, segment: &Segment, position: u64, end: End) -> Option<Offset> {
        // First: what is missing at the end of a segment lies before that end.
        let fenced = self.log.inner.view.read().fenced.next_in(segment.base, position).filter(|range| range.position == position);
        if let Some(range) = fenced {
            return Some(range.from);
        }
        if segment.base == end.segment && position == end.position {
            return Some(end.offset);
        }
        segment.sealed().filter(|sealed| sealed.len_bytes == position).map(|sealed| sealed.end)
    }

    /// Calls `each` with the prefix of every readable frame until it answers false.
    pub(super) fn each_prefix(&mut self, until: Until, mut each: impl FnMut(&FramePrefix) -> bool) -> Result<(), LogError> {
        loop {
            let range = match self.next_until(1 << 20, until) {
                Ok(Some(range)) => range,
                Ok(None) => return Ok(()),
                Err(LogError::Corrupt { next, .. }) => {
                    *self = self.log.cursor_past_damage(next.max(self.next), until)?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let read_error = |source| LogError::io("read", &range.segment.wal.path(), source);
            let range_end = range.position + range.len_bytes;
            let mut reader = FrameReader::new(&*range.file, range_end);
            let mut position = range.position;
            while position < range_end {
                let Some(prefix) = reader.prefix(position, &range.segment.salt).map_err(read_error)? else {
                    // Known damage from here on: what lies behind it is read next.
                    let damage = self.log.inner.fence(&range.segment, position)?;
                    if damage.next > self.next || damage.next_position < self.position {
                        *self = self.log.cursor_past_damage(damage.next, until)?;
                    }
                    break;
                };
                if !each(&prefix) {
                    return Ok(());
                }
                position += prefix.frame_bytes();
            }
        }
    }

    /// Steps over the damage at the cursor, and answers whether that led on.
    fn skip_fenced(&mut self) -> bool {
        let Some(segment) = &self.segment else { return false };
        let fenced = self.log.inner.view.read().fenced.next_in(segment.base, self.position);
        let is_here = |range: &FencedRange| range.position <= self.position && self.position < range.next_position;
        let Some(range) = fenced.filter(is_here) else { return false };
        self.position = range.next_position;
        self.next = self.next.max(range.next);
        true
    }
}
