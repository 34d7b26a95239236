//! Flushing: what was appended becomes durable, and the ends follow.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hermit_proto::Offset;

use super::{Flushing, Inner, Log};
use crate::config::Durability;
use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::files::PinnedFile;
use crate::flusher::Flush;
use crate::segment::Segment;
use crate::view::End;

/// Checkpoints cost a write each; one that is older by this much costs a start some reading.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// Producer state is snapshotted at least so often, so that loading it reads no more of the log.
const SNAPSHOT_INTERVAL_BYTES: u64 = 64 << 20;

/// What one flush covers.
struct Job {
    end: End,
    appended_bytes: u64,
    files: Vec<Arc<dyn DiskFile>>,
    sealed: usize,
    sync_dir: bool,
}

impl Log {
    /// Has the flusher flush this log soon; what is appended until then goes with it.
    pub fn request_flush(&self) {
        let inner = &self.inner;
        if !inner.is_queued(&inner.queued) {
            inner.env.flusher.request(Arc::clone(inner) as Arc<dyn Flush>);
        }
    }

    /// Flushes here and now.
    ///
    /// # Errors
    /// [`LogError::ReadOnly`] where a flush has failed, now or before: that is final.
    pub fn flush(&self) -> Result<(), LogError> {
        self.inner.flush()
    }

    /// Waits until all before `offset` is on stable storage.
    ///
    /// # Errors
    /// [`LogError::ReadOnly`] and [`LogError::Closed`] where that will not be; [`LogError::OutOfRange`] behind the log end.
    pub fn wait_flushed(&self, offset: Offset) -> Result<(), LogError> {
        let inner = &self.inner;
        let bounds = self.bounds();
        if offset > bounds.log_end {
            return Err(LogError::OutOfRange { offset, log_start: bounds.log_start, high_watermark: bounds.high_watermark });
        }
        if inner.env.flusher.is_manual() {
            return self.flush();
        }
        self.request_flush();
        let mut state = inner.state.lock();
        while inner.view.read().flushed_end().offset < offset {
            state.writable()?;
            inner.flushed.wait(&mut state);
        }
        Ok(())
    }
}

impl Flush for Inner {
    fn flush_queued(&self) {
        // Before looking at the log end: an append that comes later finds the flag clear and asks again.
        self.queued.store(false, Ordering::Release);
        self.queued_later.store(false, Ordering::Release);
        // The failure is kept in the log and told to the listener.
        drop(self.flush());
    }
}

impl Inner {
    pub(super) fn flush(&self) -> Result<(), LogError> {
        let mut flushing = self.flushing.lock();
        let Some(job) = self.begin_flush()? else { return Ok(()) };
        let synced = self.sync(&job);
        let mut state = self.state.lock();
        if let Err(error) = synced {
            self.fail(&mut state, error);
            return state.writable();
        }
        state.flushed_bytes = job.appended_bytes;
        let synced_segments: Vec<(Arc<Segment>, PinnedFile)> = state.unsynced.drain(..job.sealed).collect();
        if state.appended_bytes == job.appended_bytes
            && let Some(active) = &mut state.active
        {
            active.file = None;
        }
        let mut view = self.view.write();
        // The setting may have changed meanwhile, and the high watermark is beyond this flush then.
        let is_news = job.end.offset > view.bounds().high_watermark;
        let visible = (state.config.durability == Durability::Sync && is_news).then_some(job.end);
        view.move_ends(None, visible, Some(job.end), None);
        let bounds = view.bounds();
        drop(view);
        self.listener.advanced(bounds);
        self.flushed.notify_all();
        let due = state.producers.as_ref().filter(|table| {
            !table.is_empty()
                && state.log_end == job.end.offset
                && state.appended_bytes - state.snapshot_at_bytes >= SNAPSHOT_INTERVAL_BYTES
        });
        if let Some(table) = due.cloned() {
            state.snapshot = Some((job.end.offset, table));
            state.snapshot_at_bytes = state.appended_bytes;
        }
        drop(state);
        let rolled = !synced_segments.is_empty();
        drop(synced_segments);
        if let Err(error) = self.store_snapshot() {
            tracing::warn!(dir = %self.dir.display(), %error, "cannot store producer state; it is read from the log at need");
        }
        self.checkpoint(&mut flushing, job.end, rolled);
        Ok(())
    }

    /// Takes what there is to flush, or `None`.
    fn begin_flush(&self) -> Result<Option<Job>, LogError> {
        let mut state = self.state.lock();
        if state.failed.is_some() {
            state.writable()?;
        }
        if state.appended_bytes == state.flushed_bytes && state.unsynced.is_empty() && !state.unsynced_dir {
            return Ok(None);
        }
        let sealed = state.unsynced.len();
        // They stay pinned until this flush is done, and need no name: a segment may have been removed since it was sealed.
        let active = state.active.as_ref().and_then(|active| active.file.as_ref());
        let files = state.unsynced.iter().map(|(_, file)| file).chain(active).map(|file| Arc::clone(file)).collect();
        let end = self.view.read().end(crate::view::Until::LogEnd);
        let sync_dir = std::mem::take(&mut state.unsynced_dir);
        Ok(Some(Job { end, appended_bytes: state.appended_bytes, files, sealed, sync_dir }))
    }

    fn sync(&self, job: &Job) -> Result<(), LogError> {
        for file in &job.files {
            file.sync_data().map_err(|source| LogError::io("sync a segment of", &self.dir, source))?;
        }
        if job.sync_dir {
            self.env.disk.sync_dir(&self.dir).map_err(|source| LogError::io("sync", &self.dir, source))?;
        }
        // Last: another sync of the directory may have failed meanwhile, and left nothing for this one.
        self.watch.is_sound()
    }

    /// Stores the waiting snapshot of producer state, once all that it tells of is flushed: what a power cut could take back must not
    /// be called a duplicate.
    pub(super) fn store_snapshot(&self) -> Result<(), LogError> {
        let flushed_end = self.view.read().flushed_end().offset;
        let snapshot = self.state.lock().snapshot.take_if(|(end, _)| *end <= flushed_end);
        let Some((end, table)) = snapshot else { return Ok(()) };
        let stored = table.store(&*self.env.disk, &self.dir, end);
        stored.map_err(|source| {
            self.state.lock().snapshot.get_or_insert((end, table));
            LogError::io("store the producers of", &self.dir, source)
        })
    }

    fn checkpoint(&self, flushing: &mut Flushing, end: End, now_due: bool) {
        let now = self.env.clock.monotonic();
        let due = now_due || flushing.checkpointed_at.is_none_or(|at| now.saturating_sub(at) >= CHECKPOINT_INTERVAL);
        if !due {
            return;
        }
        let disk: &dyn Disk = &*self.env.disk;
        match flushing.checkpoint.write(disk, end.offset, end.segment, end.position, false) {
            Ok(()) => flushing.checkpointed_at = Some(now),
            Err(error) => {
                tracing::warn!(dir = %self.dir.display(), %error, "cannot store the checkpoint; the next start reads more");
            }
        }
    }
}
