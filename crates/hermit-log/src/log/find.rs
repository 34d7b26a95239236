//! Finding a place in the log: by offset, by time, by leader epoch.

use std::io;
use std::sync::Arc;

use hermit_proto::{LeaderEpoch, Offset};

use super::Log;
use super::cursor::Cursor;
use super::fence::corrupt;
use crate::error::LogError;
use crate::index::IndexEntry;
use crate::scan::FrameReader;
use crate::segment::Segment;
use crate::view::{Bounds, End, Until};

/// The log as it was at one moment.
struct Present {
    segments: Vec<Arc<Segment>>,
    high_watermark: End,
    log_end: End,
    bounds: Bounds,
}

impl Log {
    /// A cursor at the frame that has `offset`, or at the next one where there is none. The high watermark is a valid place: the cursor waits there.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] before the log start or behind the high watermark; [`LogError::Corrupt`] where the frame is damaged.
    pub fn cursor(&self, offset: Offset) -> Result<Cursor, LogError> {
        let bounds = self.bounds();
        if offset < bounds.log_start || offset > bounds.high_watermark {
            return Err(LogError::OutOfRange { offset, log_start: bounds.log_start, high_watermark: bounds.high_watermark });
        }
        self.cursor_until(offset, Until::HighWatermark)
    }

    /// A cursor at the high watermark, found without reading anything.
    #[must_use]
    pub fn cursor_at_end(&self) -> Cursor {
        let view = self.inner.view.read();
        let end = view.end(Until::HighWatermark);
        let segment = view.segment_of(end.segment).filter(|segment| segment.base == end.segment).cloned();
        drop(view);
        let position = if segment.is_some() { end.position } else { 0 };
        Cursor { log: self.clone(), segment, position, next: end.offset }
    }

    pub(super) fn cursor_until(&self, offset: Offset, until: Until) -> Result<Cursor, LogError> {
        loop {
            let (segment, limit) = {
                let view = self.inner.view.read();
                let segment = view.segment_of(offset).cloned();
                let limit = segment.as_ref().and_then(|segment| view.limit_of(segment, view.end(until)));
                (segment, limit)
            };
            let at_start = Cursor { log: self.clone(), segment: None, position: 0, next: offset };
            let (Some(segment), Some(limit)) = (segment, limit) else { return Ok(at_start) };
            match self.locate(&segment, limit, offset) {
                Ok((position, next)) => return Ok(Cursor { segment: Some(segment), position, next, ..at_start }),
                // The segment was removed or replaced meanwhile.
                Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound && self.is_gone(&segment) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn is_gone(&self, segment: &Arc<Segment>) -> bool {
        !self.inner.view.read().segments.iter().any(|other| Arc::ptr_eq(other, segment))
    }

    /// The position of the frame that has `offset`, or of the first behind it, and that frame's offset, or `offset` at the end.
    fn locate(&self, segment: &Arc<Segment>, limit: u64, offset: Offset) -> Result<(u64, Offset), LogError> {
        if segment.sealed().is_some_and(|sealed| offset >= sealed.end) {
            return Ok((limit, offset));
        }
        let read_error = |source| LogError::io("read", &segment.wal.path(), source);
        let floor = segment.floor_of_offset(offset).map_err(read_error)?;
        let floor = self.proven(segment, floor, limit)?;
        self.walk(segment, floor, limit, offset)
    }

    /// The position of an index entry. 0 where it leads astray, because its page rotted before it was sealed, or because the frame
    /// there is damaged: the log itself is walked then.
    fn proven(&self, segment: &Segment, entry: Option<IndexEntry>, limit: u64) -> Result<u64, LogError> {
        let Some(entry) = entry.filter(|entry| entry.position > 0) else { return Ok(0) };
        let position = u64::from(entry.position);
        let read_error = |source| LogError::io("read", &segment.wal.path(), source);
        let file = segment.file().map_err(read_error)?;
        let prefix = FrameReader::prefixes(&*file, limit).prefix(position, &segment.salt).map_err(read_error)?;
        Ok(prefix.filter(|prefix| prefix.offset() == entry.offset(segment.base)).map_or(0, |_| position))
    }

    /// A cursor at `offset`, or at the first place behind it that is not damaged.
    pub(super) fn cursor_past_damage(&self, mut offset: Offset, until: Until) -> Result<Cursor, LogError> {
        loop {
            match self.cursor_until(offset, until) {
                Err(LogError::Corrupt { next, .. }) if next > offset => offset = next,
                result => return result,
            }
        }
    }

    fn walk(&self, segment: &Arc<Segment>, from: u64, limit: u64, offset: Offset) -> Result<(u64, Offset), LogError> {
        let read_error = |source| LogError::io("read", &segment.wal.path(), source);
        let file = segment.file().map_err(read_error)?;
        let fenced = Arc::clone(&self.inner.view.read().fenced);
        let mut reader = FrameReader::short(&*file, limit);
        let mut position = from;
        while position < limit {
            if let Some(range) = fenced.next_in(segment.base, position).filter(|range| range.position <= position) {
                // No frame before it reaches `offset`.
                if offset < range.next {
                    return Err(corrupt(&range, offset));
                }
                if range.next_position <= position {
                    break;
                }
                position = range.next_position;
                continue;
            }
            let prefix = reader.prefix(position, &segment.salt).map_err(read_error)?;
            match prefix.filter(|prefix| segment.admits(prefix)) {
                Some(prefix) if prefix.next_offset() > offset => {
                    return Ok((position, prefix.offset().min(offset).max(prefix.offset())));
                }
                Some(prefix) => position += prefix.frame_bytes(),
                None => {
                    let range = self.inner.fence(segment, position)?;
                    if offset < range.next {
                        return Err(corrupt(&range, offset));
                    }
                    position = range.next_position.max(position + 1);
                }
            }
        }
        Ok((limit, offset))
    }

    /// The first offset appended at `time` (nanoseconds since the Unix epoch) or later; the log end where there is none.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn find_time(&self, time: u64) -> Result<Offset, LogError> {
        self.on_present(|present| self.find_time_in(present, time))
    }

    /// Answers what `find` does with the segments, which it may find removed or replaced: then it looks at those that are there by now.
    fn on_present<T>(&self, find: impl Fn(&Present) -> Result<T, LogError>) -> Result<T, LogError> {
        loop {
            let present = {
                let view = self.inner.view.read();
                let [high_watermark, log_end] = [Until::HighWatermark, Until::LogEnd].map(|until| view.end(until));
                Present { segments: view.segments.clone(), high_watermark, log_end, bounds: view.bounds() }
            };
            let is_gone = || present.segments.iter().any(|segment| self.is_gone(segment));
            match find(&present) {
                Err(LogError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound && is_gone() => {}
                // The log start has passed a segment that was looked at.
                Err(LogError::OutOfRange { .. }) if is_gone() => {}
                result => return result,
            }
        }
    }

    fn find_time_in(&self, present: &Present, time: u64) -> Result<Offset, LogError> {
        let Present { segments, high_watermark: end, bounds, .. } = present;
        let behind = segments.partition_point(|segment| segment.sealed().is_some_and(|sealed| sealed.last_append_time < time));
        for segment in segments.iter().skip(behind) {
            let read_error = |source| LogError::io("read", &segment.wal.path(), source);
            let Some(limit) = self.inner.view.read().limit_of(segment, *end) else { break };
            let position = self.proven(segment, segment.floor_of_time(time).map_err(read_error)?, limit)?;
            let mut cursor = Cursor { log: self.clone(), segment: Some(Arc::clone(segment)), position, next: segment.base };
            let mut found = None;
            cursor.each_prefix(Until::HighWatermark, |prefix| {
                if prefix.extension.append_time >= time {
                    found = Some(prefix.offset());
                }
                found.is_none()
            })?;
            if let Some(offset) = found {
                return Ok(offset.max(bounds.log_start));
            }
            if position >= limit {
                continue;
            }
        }
        Ok(bounds.high_watermark)
    }

    /// The offset at which an epoch ended, exclusive: where the first frame of a later one stands, or would. `None` for the current one
    /// and those to come.
    ///
    /// # Errors
    /// [`LogError::Io`].
    pub fn epoch_end(&self, epoch: LeaderEpoch) -> Result<Option<Offset>, LogError> {
        if epoch >= self.leader_epoch() {
            return Ok(None);
        }
        self.on_present(|present| self.epoch_end_in(present, epoch).map(Some))
    }

    fn epoch_end_in(&self, present: &Present, epoch: LeaderEpoch) -> Result<Offset, LogError> {
        let Present { segments, log_end: end, .. } = present;
        // Epochs rise from segment to segment.
        let mut low = 0;
        let mut high = segments.len();
        while low < high {
            let middle = low + (high - low) / 2;
            // The next one that can be told: of a segment that is damaged all through, the epoch is not known.
            let mut known = None;
            for (at, segment) in segments.iter().enumerate().take(high).skip(middle) {
                let limit = self.inner.view.read().limit_of(segment, *end).unwrap_or(0);
                let of_segment = segment.epoch(limit).map_err(|source| LogError::io("read", &segment.wal.path(), source))?;
                if let Some(of_segment) = of_segment {
                    known = Some((at, of_segment));
                    break;
                }
            }
            match known {
                Some((at, of_segment)) if of_segment <= epoch => low = at + 1,
                _ => high = middle,
            }
        }
        // What cannot be told apart counts as the earlier epoch's: that it ended is said only of what is known.
        for segment in segments.iter().skip(low) {
            let limit = self.inner.view.read().limit_of(segment, *end).unwrap_or(0);
            if segment.epoch(limit).map_err(|source| LogError::io("read", &segment.wal.path(), source))?.is_some() {
                return Ok(segment.base);
            }
        }
        Ok(end.offset)
    }
}
