//! Removing the oldest: by trim, by age, by size. Whole segments go; a prefix always.

use std::io;
use std::sync::Arc;

use hermit_proto::Offset;

use super::{Inner, Log};
#[cfg(doc)]
use crate::config::LogConfig;
use crate::error::LogError;
use crate::names::FileName;
use crate::segment::Segment;
use crate::start;
use crate::view::{End, Until};

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Segments.
    pub segments: usize,
    /// Their bytes; readers that are under way may hold the space until they are done.
    pub bytes: u64,
}

impl Log {
    /// Moves the log start to `to`: what lies before is gone, now and after a power cut, and segments that lie wholly before are removed. An offset
    /// of 2⁶⁴−1 stands for the high watermark: all that can be read goes, and the next offset stays.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] behind the high watermark; [`LogError::Io`] where it could not be made durable.
    pub fn trim(&self, to: Offset) -> Result<Removed, LogError> {
        let inner = &self.inner;
        let _maintaining = inner.maintaining.lock();
        let bounds = self.bounds();
        let to = if to == Offset(u64::MAX) { bounds.high_watermark } else { to };
        if to > bounds.high_watermark {
            return Err(LogError::OutOfRange { offset: to, log_start: bounds.log_start, high_watermark: bounds.high_watermark });
        }
        if to <= bounds.log_start {
            return Ok(Removed::default());
        }
        inner.move_start(to)
    }

    /// Removes what the settings no longer keep, and gives back room that was written ahead and is not used ([`LogConfig::preallocate_bytes`]).
    ///
    /// # Errors
    /// [`LogError::Io`] where it could not be made durable.
    pub fn apply_retention(&self) -> Result<Removed, LogError> {
        let inner = &self.inner;
        inner.give_back_idle_room();
        let _maintaining = inner.maintaining.lock();
        let now = inner.env.time.now();
        let config = self.config();
        if let Some(age) = config.retention_age {
            let oldest_kept = now.saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
            inner.roll_idle(oldest_kept)?;
            let expired = |segment: &Segment| segment.sealed().is_some_and(|sealed| sealed.last_append_time < oldest_kept);
            let start = inner.prefix_end(|segment, _rest| expired(segment));
            if let Some(start) = start {
                let by_age = inner.move_start(start)?;
                let by_bytes = self.retain_bytes(config.retention_bytes)?;
                return Ok(Removed { segments: by_age.segments + by_bytes.segments, bytes: by_age.bytes + by_bytes.bytes });
            }
        }
        self.retain_bytes(config.retention_bytes)
    }

    fn retain_bytes(&self, limit: Option<u64>) -> Result<Removed, LogError> {
        let Some(limit) = limit else { return Ok(Removed::default()) };
        match self.inner.prefix_end(|_segment, rest_bytes| rest_bytes >= limit) {
            Some(start) => self.inner.move_start(start),
            None => Ok(Removed::default()),
        }
    }
}

impl Inner {
    /// Seals the active segment where its newest frame is older than `oldest_kept`, so that it can go.
    fn roll_idle(&self, oldest_kept: u64) -> Result<(), LogError> {
        let mut state = self.state.lock();
        let idle = state.active.as_ref().is_some_and(|active| active.position > 0) && state.last_append_time < oldest_kept;
        if idle && state.writable().is_ok() { self.roll(&mut state) } else { Ok(()) }
    }

    /// The end of the longest prefix of sealed, visible segments for which `goes` holds, given the bytes that would stay behind each.
    fn prefix_end(&self, goes: impl Fn(&Segment, u64) -> bool) -> Option<Offset> {
        let view = self.view.read();
        let visible = view.end(Until::HighWatermark);
        let end = view.end(Until::LogEnd);
        let mut rest_bytes: u64 = view.segments.iter().filter_map(|segment| view.limit_of(segment, end)).sum();
        let mut start = None;
        for segment in &view.segments {
            let Some(sealed) = segment.sealed() else { break };
            rest_bytes = rest_bytes.saturating_sub(sealed.len_bytes);
            if sealed.end > visible.offset || !goes(segment, rest_bytes) {
                break;
            }
            start = Some(sealed.end);
        }
        // A segment before the log start may still be there, because the log ends in it.
        start.filter(|start| *start > view.bounds().log_start)
    }

    /// Makes the new start durable, then removes the segments before it. The caller holds `maintaining`.
    fn move_start(self: &Arc<Self>, to: Offset) -> Result<Removed, LogError> {
        let disk = &*self.env.disk;
        match self.prepare_start(to) {
            // What is about to be removed must not be kept by the few bytes which that takes: its indexes make room.
            Err(LogError::DiskFull { .. }) => {
                self.remove_indexes_before(to)?;
                self.prepare_start(to)?;
            }
            prepared => prepared?,
        }
        let mut gone: Vec<Arc<Segment>> = Vec::new();
        let mut view = self.view.write();
        view.move_ends(Some(to), None, None, None);
        let end: End = view.end(Until::LogEnd);
        // The segment that holds the log end stays: its name keeps the offset.
        view.segments.retain(|segment| {
            let goes = segment.base < end.segment && segment.sealed().is_some_and(|sealed| sealed.end <= to);
            if goes {
                gone.push(Arc::clone(segment));
            }
            !goes
        });
        let mut fenced = (*view.fenced).clone();
        fenced.retain_segments(|base| view.segments.iter().any(|segment| segment.base == base));
        view.fenced = Arc::new(fenced);
        drop(view);
        {
            let _state = self.state.lock();
            // As they are now: an append or a flush may have told of later ones meanwhile.
            self.listener.advanced(self.view.read().bounds());
        }
        let mut removed = Removed::default();
        for segment in gone {
            removed.segments += 1;
            removed.bytes += segment.sealed().map_or(0, |sealed| sealed.len_bytes);
            self.unlink(&segment)?;
        }
        if removed.segments > 0 {
            disk.sync_dir(&self.dir).map_err(|source| LogError::io("sync", &self.dir, source))?;
        }
        Ok(removed)
    }

    /// Makes durable what must be so before segments go.
    fn prepare_start(self: &Arc<Self>, to: Offset) -> Result<(), LogError> {
        self.keep_producers()?;
        start::write(&*self.env.disk, &self.dir, &self.segment_env.salt, to)
            .map_err(|source| LogError::io("store the log start in", &self.dir, source))
    }

    /// They are derived: whoever still reads in those segments has them made again, in memory.
    fn remove_indexes_before(&self, to: Offset) -> Result<(), LogError> {
        let view = self.view.read();
        let goes = |segment: &&Arc<Segment>| segment.sealed().is_some_and(|sealed| sealed.end <= to);
        let going: Vec<_> = view.segments.iter().take_while(goes).cloned().collect();
        drop(view);
        for segment in going {
            self.remove_if_there(FileName::Index(segment.base))?;
            segment.index_removed();
        }
        Ok(())
    }

    fn remove_if_there(&self, name: FileName) -> Result<(), LogError> {
        let path = self.dir.join(name.build());
        match self.env.disk.remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(LogError::io("remove", &path, error)),
            _ => Ok(()),
        }
    }

    /// Producer state must outlive the frames it came from.
    pub(super) fn keep_producers(self: &Arc<Self>) -> Result<(), LogError> {
        let mut state = self.state.lock();
        self.load_producers(&mut state)?;
        let end = state.log_end;
        let table = state.producers.clone().filter(|table| !table.is_empty());
        state.snapshot_at_bytes = state.appended_bytes;
        drop(state);
        self.flush()?;
        // Not left to a later flush, as snapshots otherwise are: this one is needed before the frames are gone.
        let Some(table) = table else { return Ok(()) };
        let _flushing = self.flushing.lock();
        let stored = table.store(&*self.env.disk, &self.dir, &self.segment_env.salt, end);
        stored.map_err(|source| LogError::io("store the producers of", &self.dir, source))
    }

    pub(super) fn unlink(&self, segment: &Segment) -> Result<(), LogError> {
        for name in [FileName::Wal(segment.base), FileName::Index(segment.base)] {
            self.remove_if_there(name)?;
        }
        segment.unlinked();
        Ok(())
    }
}
