//! Reading: ranges of whole frames within one segment, for `sendfile` or into memory.

use std::io;
use std::sync::Arc;

use hermit_proto::{FramePrefix, FrameView, LeaderEpoch, Offset};

use super::{Inner, Log};
use crate::disk::DiskFile;
use crate::error::LogError;
use crate::fenced::FencedRange;
use crate::index::IndexEntry;
use crate::scan::{self, Found, FrameReader, ScanJob};
use crate::segment::Segment;
use crate::view::{End, Until};

/// A place in the log from which frames are read in order. It costs no search to go on.
#[derive(Clone, Debug)]
pub struct Cursor {
    log: Log,
    segment: Option<Arc<Segment>>,
    /// A frame's position, or the end of the segment.
    position: u64,
    next: Offset,
}

/// Whole frames, back to back, in one file.
#[derive(Clone, Debug)]
pub struct Range {
    log: Log,
    segment: Arc<Segment>,
    file: Arc<dyn DiskFile>,
    position: u64,
    len_bytes: u64,
    first_offset: Offset,
    next_offset: Offset,
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
            match reader.prefix(position, &segment.salt).map_err(read_error)? {
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
        let (segments, end, bounds) = {
            let view = self.inner.view.read();
            (view.segments.clone(), view.end(Until::HighWatermark), view.bounds())
        };
        let behind = segments.partition_point(|segment| segment.sealed().is_some_and(|sealed| sealed.last_append_time < time));
        for segment in segments.iter().skip(behind) {
            let read_error = |source| LogError::io("read", &segment.wal.path(), source);
            let Some(limit) = self.inner.view.read().limit_of(segment, end) else { break };
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
        let (segments, end) = {
            let view = self.inner.view.read();
            (view.segments.clone(), view.end(Until::LogEnd))
        };
        // Epochs rise from segment to segment.
        let mut low = 0;
        let mut high = segments.len();
        while low < high {
            let middle = low + (high - low) / 2;
            // The next one that can be told: of a segment that is damaged all through, the epoch is not known.
            let mut known = None;
            for (at, segment) in segments.iter().enumerate().take(high).skip(middle) {
                let limit = self.inner.view.read().limit_of(segment, end).unwrap_or(0);
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
            let limit = self.inner.view.read().limit_of(segment, end).unwrap_or(0);
            if segment.epoch(limit).map_err(|source| LogError::io("read", &segment.wal.path(), source))?.is_some() {
                return Ok(Some(segment.base));
            }
        }
        Ok(Some(end.offset))
    }
}

fn corrupt(range: &FencedRange, from: Offset) -> LogError {
    LogError::Corrupt { from: from.max(range.from), next: range.next }
}

impl Inner {
    /// Damage that reading has met at `position`: finds its end, and remembers it.
    pub(super) fn fence(&self, segment: &Arc<Segment>, position: u64) -> Result<FencedRange, LogError> {
        let read_error = |source| LogError::io("read", &segment.wal.path(), source);
        let file = segment.file().map_err(read_error)?;
        let hints = segment.entries().unwrap_or_default();
        let (next_base, limit, end) = {
            let view = self.view.read();
            let next_base = view.segment_behind(segment.base).map(|next| next.base);
            // Where nothing leads on behind the damage, it ends with the segment, with what may be seen of that, or where known damage begins.
            let known = view.fenced.next_in(segment.base, position).filter(|range| range.position > position);
            let visible = view.end(Until::HighWatermark);
            let visible =
                if visible.segment == segment.base && visible.position > position { visible } else { view.end(Until::LogEnd) };
            let (limit, end) = match (known, segment.sealed()) {
                (Some(range), _) => (range.position, range.from),
                (None, Some(sealed)) => (sealed.len_bytes, sealed.end),
                (None, None) => (visible.position, visible.offset),
            };
            (next_base, limit, end)
        };
        let expected = self.offset_at(segment, position, limit, &*file)?;
        let job = ScanJob {
            base: segment.base,
            salt: &segment.salt,
            position,
            expected,
            next_base,
            index_interval_bytes: self.segment_env.index_interval_bytes,
            hints: &hints,
        };
        let damage = scan::first_damage(&*file, limit, &job).map_err(read_error)?;
        let range = FencedRange {
            segment: segment.base,
            position,
            next_position: damage.next_position,
            from: expected,
            next: damage.next.unwrap_or(end),
        };
        self.remember(segment, range);
        Ok(range)
    }

    fn remember(&self, segment: &Arc<Segment>, range: FencedRange) {
        let mut view = self.view.write();
        // Compaction may have put another file in its place, or retention removed it.
        if !view.segments.iter().any(|other| Arc::ptr_eq(other, segment)) {
            return;
        }
        let mut fenced = (*view.fenced).clone();
        if !fenced.add(range) {
            return;
        }
        view.fenced = Arc::new(fenced.clone());
        drop(view);
        tracing::error!(
            dir = %self.dir.display(), from = %range.from, next = %range.next,
            "the log is damaged; what follows can be read, and the log inspected and repaired offline"
        );
        if let Err(error) = fenced.write(&*self.env.disk, &self.dir) {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot store the damaged ranges; they will be found again");
        }
    }

    /// The offset that the frame at `position` should have: that behind the frames before it.
    fn offset_at(&self, segment: &Segment, position: u64, limit: u64, file: &dyn DiskFile) -> Result<Offset, LogError> {
        let read_error = |source| LogError::io("read", &segment.wal.path(), source);
        let fenced = Arc::clone(&self.view.read().fenced);
        let floor =
            position.checked_sub(1).map(|before| segment.floor_of_position(before)).transpose().map_err(read_error)?.flatten();
        let mut at = floor.map_or(0, |entry| u64::from(entry.position));
        let mut offset = floor.map_or(segment.base, |entry| entry.offset(segment.base));
        let mut reader = FrameReader::short(file, limit);
        while at < position {
            if let Some(range) = fenced.next_in(segment.base, at).filter(|range| range.position <= at && at < range.next_position) {
                at = range.next_position;
                offset = range.next;
                continue;
            }
            let Some(prefix) = reader.prefix(at, &segment.salt).map_err(read_error)? else { break };
            at += prefix.frame_bytes();
            offset = prefix.next_offset();
        }
        Ok(offset)
    }
}

impl Cursor {
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
            return self.range(segment, stop, end, max_bytes).map(Some);
        }
    }

    /// The range from the cursor to `stop`, or to an index entry before it.
    fn range(&mut self, segment: Arc<Segment>, stop: u64, end: End, max_bytes: u64) -> Result<Range, LogError> {
        let read_error = |source| LogError::io("read", &segment.wal.path(), source);
        let file = segment.file().map_err(read_error)?;
        let mut reader = FrameReader::prefixes(&*file, stop);
        let Some(first) = reader.prefix(self.position, &segment.salt).map_err(read_error)? else {
            let range = self.log.inner.fence(&segment, self.position)?;
            return Err(corrupt(&range, self.next));
        };
        let mut range_end = stop;
        if stop - self.position > max_bytes {
            let one_frame = self.position + first.frame_bytes();
            let entry = segment.floor_of_position(self.position + max_bytes).map_err(read_error)?;
            range_end = entry.map_or(one_frame, |entry| u64::from(entry.position)).clamp(one_frame.min(stop), stop);
        }
        let next_offset = self.offset_behind(&segment, &mut reader, range_end, end).map_err(read_error)?;
        let (range_end, next_offset) = match next_offset {
            Some(next) => (range_end, next),
            // The entry led astray, or the next frame is damaged: one frame is always right.
            None => (self.position + first.frame_bytes(), first.next_offset()),
        };
        let range = Range {
            log: self.log.clone(),
            file,
            position: self.position,
            len_bytes: range_end - self.position,
            first_offset: first.offset(),
            next_offset,
            segment,
        };
        self.position = range_end;
        self.next = next_offset;
        Ok(range)
    }

    /// The offset of the frame at `position`, which is where a range ends.
    fn offset_behind(
        &self,
        segment: &Segment,
        reader: &mut FrameReader<'_>,
        position: u64,
        end: End,
    ) -> io::Result<Option<Offset>> {
        if segment.base == end.segment && position == end.position {
            return Ok(Some(end.offset));
        }
        if let Some(sealed) = segment.sealed().filter(|sealed| sealed.len_bytes == position) {
            return Ok(Some(sealed.end));
        }
        let fenced = self.log.inner.view.read().fenced.next_in(segment.base, position).filter(|range| range.position == position);
        if let Some(range) = fenced {
            return Ok(Some(range.from));
        }
        Ok(reader.prefix(position, &segment.salt)?.map(|prefix| prefix.offset()))
    }

    /// Calls `each` with the prefix of every readable frame until it answers false.
    pub(super) fn each_prefix(&mut self, until: Until, mut each: impl FnMut(&FramePrefix) -> bool) -> Result<(), LogError> {
        loop {
            let range = match self.next_until(1 << 20, until) {
                Ok(Some(range)) => range,
                Ok(None) => return Ok(()),
                Err(LogError::Corrupt { next, .. }) => {
                    if next <= self.next && self.segment.is_some() {
                        self.skip_fenced();
                    } else {
                        *self = self.log.cursor_past_damage(next, until)?;
                    }
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

    /// Steps over damage that hides an unknown number of offsets.
    fn skip_fenced(&mut self) {
        let Some(segment) = &self.segment else { return };
        let fenced = self.log.inner.view.read().fenced.next_in(segment.base, self.position);
        if let Some(range) = fenced {
            self.position = self.position.max(range.next_position);
            self.next = self.next.max(range.next);
        }
    }
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
                Found::Frame(view) => {
                    each(&view);
                    position += view.prefix.frame_bytes();
                }
                Found::End => break,
                Found::BadBody(_) | Found::Unreadable => {
                    let range = self.log.inner.fence(&self.segment, position)?;
                    return Err(corrupt(&range, range.from));
                }
            }
        }
        Ok(())
    }
}
