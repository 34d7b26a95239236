//! Damage that reading meets: where it ends, and that it is remembered.

use std::io;
use std::sync::Arc;

use hermit_proto::Offset;

use super::Inner;
use crate::disk::DiskFile;
use crate::error::LogError;
use crate::fenced::FencedRange;
use crate::scan::{self, FrameReader, ScanJob};
use crate::segment::Segment;
use crate::view::Until;

pub(super) fn corrupt(range: &FencedRange, from: Offset) -> LogError {
    LogError::Corrupt { from: from.max(range.from), next: range.next }
}

/// What holds where damage can only be left behind by the index, and that cannot be read just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hints {
    /// It is tried again another time.
    Needed,
    /// It was tried for long enough: all behind the damage is lost.
    GivenUp,
}

impl Inner {
    /// Damage that reading has met at `position`: finds its end, and remembers it. An error where it is none when it is read again, or cannot be read.
    pub(super) fn fence(&self, segment: &Arc<Segment>, position: u64) -> Result<FencedRange, LogError> {
        let path = segment.wal.path();
        let failed = |source| LogError::io("read", &path, source);
        let file = segment.file().map_err(failed)?;
        let fenced = self.fence_in(segment, position, None, &*file, Hints::Needed)?;
        fenced.ok_or_else(|| failed(io::Error::other("a frame was damaged when it was read, and is not when read again")))
    }

    /// [`Inner::fence`], as `file` shows the segment; `None` where the frame at `position` is good after all. `expected` is the offset behind the frames before, where
    /// that is known.
    pub(super) fn fence_in(
        &self,
        segment: &Arc<Segment>,
        position: u64,
        expected: Option<Offset>,
        file: &dyn DiskFile,
        need: Hints,
    ) -> Result<Option<FencedRange>, LogError> {
        let read_error = |source| LogError::io("read", &segment.wal.path(), source);
        let entries = segment.entries();
        let hints = entries.as_deref().unwrap_or_default();
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
        let expected = expected.map_or_else(|| self.offset_at(segment, position, limit, file), Ok)?;
        let job = ScanJob {
            base: segment.base,
            salt: &segment.salt,
            position,
            expected,
            next_base,
            index_interval_bytes: self.segment_env.index_interval_bytes,
            hints,
        };
        let damage = scan::first_damage(file, limit, &job, |prefix| segment.admits(prefix)).map_err(read_error)?;
        let Some(damage) = damage else { return Ok(None) };
        // Without its index all of the segment would seem lost, for good.
        if let (None, Hints::Needed, Err(source)) = (damage.next, need, entries) {
            return Err(read_error(source));
        }
        let range = FencedRange {
            segment: segment.base,
            position,
            next_position: damage.next_position,
            from: expected,
            next: damage.next.unwrap_or(end),
        };
        self.remember(segment, range);
        Ok(Some(range))
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
        view.fenced = Arc::new(fenced);
        drop(view);
        tracing::error!(
            dir = %self.dir.display(), from = %range.from, next = %range.next,
            "the log is damaged; what follows can be read, and the log inspected and repaired offline"
        );
        let _fencing = self.fencing.lock();
        // As they are now: another may have added its own meanwhile.
        let fenced = Arc::clone(&self.view.read().fenced);
        if let Err(error) = fenced.write(&*self.env.disk, &self.dir, &self.segment_env.salt) {
            tracing::warn!(dir = %self.dir.display(), error = %crate::error::error_line(&error), "cannot store the damaged ranges; they will be found again");
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
