//! Offsets that are left out on purpose: a log that begins behind 0, and a range that is lost where the log was copied from.

use std::path::Path;
use std::sync::Arc;

use hermit_proto::{FrameSalt, Offset};

use super::open::create_dir;
use super::{Active, Inner, Log, LogEnv, LogIdentity, State};
use crate::checkpoint::{Checkpoint, CheckpointWriter};
use crate::error::LogError;
use crate::fenced::FencedRange;
use crate::names::FileName;
use crate::segment::Sealed;
use crate::start;
use crate::view::{Bounds, End, Until};

impl Log {
    /// Prepares `dir`, which is created where there is none, for a log whose first offset is `first`: [`Log::open`] and [`Log::open_in`] then find it empty, and
    /// beginning there. Durable when this returns. Nobody may have the log open; doing it again, also with another offset, is allowed
    /// until something was appended.
    ///
    /// # Errors
    /// [`LogError::InUse`] where there are frames, or state of producers; [`LogError::Io`] and [`LogError::DiskFull`].
    pub fn create_at(env: &LogEnv, dir: &Path, identity: LogIdentity, first: Offset) -> Result<(), LogError> {
        let disk = &*env.disk;
        create_dir(disk, dir)?;
        let listed = disk.list(dir).map_err(|source| LogError::io("list", dir, source))?;
        let holds = listed.iter().any(|entry| match FileName::parse(&entry.name) {
            Some(FileName::Wal(_)) => entry.len_bytes > 0,
            Some(FileName::Producers(_)) => true,
            _ => false,
        });
        if holds {
            return Err(LogError::InUse { dir: dir.to_owned() });
        }
        for entry in &listed {
            if matches!(FileName::parse(&entry.name), Some(FileName::Wal(_))) {
                let path = dir.join(&entry.name);
                disk.remove_file(&path).map_err(|source| LogError::io("remove", &path, source))?;
            }
        }
        let salt = FrameSalt::new(identity.topic, identity.partition);
        start::write(disk, dir, &salt, first).map_err(|source| LogError::io("store the log start in", dir, source))?;
        // Whichever of the two files rots, the other keeps the log from beginning at 0.
        let mut checkpoint = CheckpointWriter::new(dir, salt, Checkpoint::read(disk, dir, &salt), false);
        let settled = checkpoint.settle_both(disk, first, first, 0);
        settled.map_err(|source| LogError::io("store the checkpoint of", dir, source))
    }

    /// The next record gets the offset `to`. Those from the log end up to it are lost, for good: readers are told [`LogError::Corrupt`] there, with `to` as what comes
    /// next; in a log without any segment, the log start moves instead. Flushes first, and is durable when it returns. `to` being the log end is nothing to do.
    ///
    /// For copying a log that has holes; each such range costs a segment.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] before the log end; otherwise those of an append.
    pub fn skip_to(&self, to: Offset) -> Result<(), LogError> {
        let inner = &self.inner;
        let _maintaining = inner.maintaining.lock();
        {
            let mut state = inner.state.lock();
            state.writable()?;
            if to == state.log_end {
                return Ok(());
            }
            // The range is kept with a segment that is not yet sealed.
            if state.active.is_none() && !inner.view.read().segments.is_empty() {
                inner.roll(&mut state)?;
            }
        }
        loop {
            inner.flush()?;
            let mut flushing = inner.flushing.lock();
            let mut state = inner.state.lock();
            state.writable()?;
            inner.watch.is_sound()?;
            let bounds = self.bounds();
            if to < state.log_end {
                let Bounds { log_start, high_watermark, .. } = bounds;
                return Err(LogError::OutOfRange { offset: to, log_start, high_watermark });
            }
            // An append may have slipped in between.
            if state.log_end != bounds.flushed_end || state.unsynced_dir {
                continue;
            }
            // Room behind a range that is lost would be taken for part of it, where a power cut leaves it half given back.
            inner.settle_end(&mut state)?;
            let end = inner.leave_gap(&mut state, to).inspect_err(|error| {
                // The range may be there or not: nothing is to be appended where it may begin.
                if inner.watch.is_sound().is_err() {
                    inner.fail(&mut state, error.clone());
                }
            })?;
            let disk = &*inner.env.disk;
            let settled = flushing.checkpoint.settle_both(disk, to, end.segment, end.position);
            return settled.map_err(|source| LogError::io("store the checkpoint of", &inner.dir, source));
        }
    }
}

impl Inner {
    /// Moves all ends to `to`. All before is flushed.
    fn leave_gap(self: &Arc<Self>, state: &mut State, to: Offset) -> Result<End, LogError> {
        let disk = &*self.env.disk;
        let (end, gap) = match &state.active {
            None => {
                start::write(disk, &self.dir, &self.segment_env.salt, to)
                    .map_err(|source| LogError::io("store the log start in", &self.dir, source))?;
                (End { offset: to, segment: to, position: 0 }, None)
            }
            Some(Active { segment, position, .. }) => {
                let position = *position;
                let from = state.log_end;
                let gap = FencedRange { segment: segment.base, position, next_position: position, from, next: to };
                (End { offset: to, segment: segment.base, position }, Some(gap))
            }
        };
        let fencing = self.fencing.lock();
        if let Some(gap) = gap {
            // The one step that counts: a start that finds the range goes on behind it.
            let mut fenced = (*self.view.read().fenced).clone();
            fenced.add(gap);
            fenced
                .write(disk, &self.dir, &self.segment_env.salt)
                .map_err(|source| LogError::io("store the lost range in", &self.dir, source))?;
        }
        let mut view = self.view.write();
        if let Some(gap) = gap {
            let mut fenced = (*view.fenced).clone();
            fenced.add(gap);
            view.fenced = Arc::new(fenced);
        }
        if let Some(sealed) = state.active.take() {
            let last_append_time = state.last_append_time;
            sealed.segment.seal(Sealed { end: to, len_bytes: sealed.position, last_append_time });
        }
        state.log_end = to;
        let start = gap.is_none().then_some(to);
        // What waited for the log end of a log that is not empty finds the range; its place stays.
        view.move_ends(start, Some(end), Some(end), Some(end));
        let bounds = view.bounds();
        drop(view);
        drop(fencing);
        self.listener.advanced(bounds);
        self.flushed.notify_all();
        debug_assert_eq!(self.view.read().end(Until::LogEnd).offset, to, "all ends have moved");
        Ok(end)
    }
}
