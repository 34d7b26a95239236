//! What readers see: the segments and the ends of the log, behind a lock that appends hold for nanoseconds.

use std::sync::Arc;

use hermit_proto::Offset;

use crate::fenced::Fenced;
use crate::segment::Segment;

/// The ends of a log. `log_start ≤ high_watermark ≤ log_end` and `flushed_end ≤ log_end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// The oldest offset that can be read; inclusive.
    pub log_start: Offset,
    /// Consumers see what lies before; exclusive.
    pub high_watermark: Offset,
    /// What lies before is on stable storage; exclusive.
    pub flushed_end: Offset,
    /// The offset that the next record gets; exclusive.
    pub log_end: Offset,
}

/// A place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) offset: Offset,
    /// The base offset of the segment in which `position` is.
    pub(crate) segment: Offset,
    pub(crate) position: u64,
}

#[derive(Debug)]
pub(crate) struct View {
    /// By base offset; the last may be active.
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) fenced: Arc<Fenced>,
    log_start: Offset,
    high_watermark: End,
    flushed_end: End,
    log_end: End,
}

/// Up to where a reader may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    HighWatermark,
    LogEnd,
}

impl View {
    /// A log of which everything is flushed.
    pub(crate) fn new(segments: Vec<Arc<Segment>>, fenced: Fenced, log_start: Offset, end: End) -> Self {
        Self { segments, fenced: Arc::new(fenced), log_start, high_watermark: end, flushed_end: end, log_end: end }
    }

    pub(crate) const fn bounds(&self) -> Bounds {
        Bounds {
            log_start: self.log_start,
            high_watermark: self.high_watermark.offset,
            flushed_end: self.flushed_end.offset,
            log_end: self.log_end.offset,
        }
    }

    pub(crate) const fn flushed_end(&self) -> End {
        self.flushed_end
    }

    pub(crate) const fn end(&self, until: Until) -> End {
        match until {
            Until::HighWatermark => self.high_watermark,
            Until::LogEnd => self.log_end,
        }
    }

    /// The one place where the ends move. `None` leaves one as it is.
    pub(crate) fn move_ends(
        &mut self,
        log_start: Option<Offset>,
        high_watermark: Option<End>,
        flushed_end: Option<End>,
        log_end: Option<End>,
    ) {
        let before = self.bounds();
        self.log_start = log_start.unwrap_or(self.log_start);
        // An end that is there already keeps its segment: it may have entered the next one since the caller looked.
        let moved = |old: End, new: Option<End>| new.filter(|new| new.offset != old.offset).unwrap_or(old);
        self.high_watermark = moved(self.high_watermark, high_watermark);
        self.flushed_end = moved(self.flushed_end, flushed_end);
        self.log_end = moved(self.log_end, log_end);
        let after = self.bounds();
        debug_assert!(
            before.log_start <= after.log_start
                && before.high_watermark <= after.high_watermark
                && before.flushed_end <= after.flushed_end
                && before.log_end <= after.log_end
                && after.log_start <= after.high_watermark
                && after.high_watermark <= after.log_end
                && after.flushed_end <= after.log_end,
            "{before:?} → {after:?}"
        );
    }

    /// A new segment begins at `base`: ends that stand there are now at its first byte, and no longer at the last of the one before.
    pub(crate) fn enter_segment(&mut self, base: Offset) {
        for end in [&mut self.high_watermark, &mut self.flushed_end, &mut self.log_end] {
            if end.offset == base {
                *end = End { offset: base, segment: base, position: 0 };
            }
        }
    }

    /// The segment in which `offset` is, or would be.
    pub(crate) fn segment_of(&self, offset: Offset) -> Option<&Arc<Segment>> {
        let behind = self.segments.partition_point(|segment| segment.base <= offset);
        behind.checked_sub(1).map_or_else(|| self.segments.first(), |at| self.segments.get(at))
    }

    /// The first segment behind `base`.
    pub(crate) fn segment_behind(&self, base: Offset) -> Option<&Arc<Segment>> {
        self.segments.get(self.segments.partition_point(|segment| segment.base <= base))
    }

    /// The position at which a segment ends for a reader who sees until `end`; `None` if it lies wholly behind that.
    pub(crate) fn limit_of(&self, segment: &Segment, end: End) -> Option<u64> {
        match segment.base.cmp(&end.segment) {
            std::cmp::Ordering::Less => segment.sealed().map(|sealed| sealed.len_bytes),
            std::cmp::Ordering::Equal => Some(end.position),
            std::cmp::Ordering::Greater => None,
        }
    }
}
