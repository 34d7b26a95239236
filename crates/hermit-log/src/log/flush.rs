//! Flushing: what was appended becomes durable, and the ends follow.

use std::sync::Arc;
use std::time::Duration;

use hermit_proto::Offset;
use parking_lot::MutexGuard;

use super::preallocate;
use super::turn::Next;
use super::{Flushing, Inner, Log, State};
use crate::config::Durability;
use crate::disk::{Disk, DiskFile, SharedFileSystem};
use crate::error::LogError;
use crate::files::PinnedFile;
use crate::flusher::{Begun, Flush, Start};
use crate::metrics::OneUnderWay;
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
    frames: u64,
    files: Vec<Arc<dyn DiskFile>>,
    sealed: usize,
    sync_dir: bool,
}

/// A flush that has begun. Nobody else flushes this log while it lives.
struct Running<'a> {
    inner: &'a Inner,
    flushing: MutexGuard<'a, Flushing>,
    job: Job,
    began: Duration,
    _under_way: OneUnderWay<'a>,
    /// The sealed segments that it has made durable, once it has succeeded.
    done: Option<Vec<(Arc<Segment>, PinnedFile)>>,
}

impl Log {
    /// Has the flusher flush this log soon; what is appended until then goes with it.
    pub fn request_flush(&self) {
        let mut state = self.inner.state.lock();
        state.turn.asked = true;
        self.inner.tell_flusher(state);
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
    fn file_system(&self) -> Option<&Arc<SharedFileSystem>> {
        self.joint_file_system()
    }

    fn begin(&self, waits: bool) -> Start<'_> {
        if !self.state.lock().is_due(self.env.clock.monotonic()) {
            return Start::Nothing;
        }
        let flushing = if waits { Some(self.flushing.lock()) } else { self.flushing.try_lock() };
        // One that does not wait is one of many that are flushed together, which writes where things lie as well.
        match flushing.map(|flushing| self.begin_flush(flushing, waits)) {
            Some(Ok(Some(running))) => Start::Begun(Box::new(running)),
            // A failure is kept in the log and told to the listener.
            Some(Ok(None) | Err(_)) => Start::Nothing,
            None => Start::Busy,
        }
    }

    fn next(&self) -> Next {
        self.state.lock().next_flush(|| self.env.clock.monotonic())
    }
}

impl Begun for Running<'_> {
    fn sync(&self) -> Result<(), LogError> {
        for file in &self.job.files {
            file.sync_data().map_err(|source| LogError::io("sync a segment of", &self.inner.dir, source))?;
        }
        if self.job.sync_dir {
            let dir = &self.inner.dir;
            self.inner.env.disk.sync_dir(dir).map_err(|source| LogError::io("sync", dir, source))?;
        }
        Ok(())
    }

    fn finish(&mut self, synced: Result<(), LogError>) {
        let (inner, job) = (self.inner, &self.job);
        // Another sync, of the directory or of the whole file system, may have failed meanwhile or before, and left nothing for this one.
        let mut state = inner.state.lock();
        let synced = synced.and_then(|()| inner.watch.is_sound()).and_then(|()| inner.is_sound(&state));
        state.turn.running = false;
        if let Err(error) = synced {
            inner.fail(&mut state, error);
            return;
        }
        state.flushed_bytes = job.appended_bytes;
        let synced_segments: Vec<(Arc<Segment>, PinnedFile)> = state.unsynced.drain(..job.sealed).collect();
        if state.appended_bytes == job.appended_bytes
            && let Some(active) = &mut state.active
        {
            active.file = None;
        }
        let mut view = inner.view.write();
        // The setting may have changed meanwhile, and the high watermark is beyond this flush then.
        let is_news = job.end.offset > view.bounds().high_watermark;
        let visible = (state.config.durability == Durability::Sync && is_news).then_some(job.end);
        view.move_ends(None, visible, Some(job.end), None);
        let bounds = view.bounds();
        drop(view);
        inner.listener.advanced(bounds);
        inner.flushed.notify_all();
        let now = inner.env.clock.monotonic();
        inner.env.times.flush.add(now.saturating_sub(self.began));
        state.note_flushed(job.end, now);
        let waiting = state.turn.waiting_frames;
        state.turn.pace.synced(now, now.saturating_sub(self.began), job.frames, waiting);
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
        self.done = Some(synced_segments);
    }

    fn tidy(mut self: Box<Self>) {
        let Some(sealed) = self.done.take() else { return };
        for (segment, file) in &sealed {
            preallocate::cut_room_of_sealed(segment, &***file);
        }
        if let Err(error) = self.inner.store_snapshot() {
            self.inner.unstored(&error, "the state of producers, which is read from the log at need");
        }
        self.inner.checkpoint(&mut self.flushing, self.job.end, !sealed.is_empty());
    }
}

impl Inner {
    pub(super) fn flush(self: &Arc<Self>) -> Result<(), LogError> {
        let Some(running) = self.begin_flush(self.flushing.lock(), true)? else { return Ok(()) };
        let mut running = Box::new(running);
        let synced = running.sync();
        running.finish(synced);
        running.tidy();
        let state = self.state.lock();
        let outcome = if state.failed.is_some() { state.writable() } else { Ok(()) };
        self.tell_flusher(state);
        outcome
    }

    /// Has the flusher come when it is time to.
    pub(super) fn tell_flusher(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let next = state.next_flush(|| self.env.clock.monotonic());
        drop(state);
        match next {
            Next::Nothing => {}
            Next::Now => self.env.flusher.request(Arc::clone(self) as Arc<dyn Flush>),
            Next::At(due) => {
                let log: Arc<dyn Flush> = Arc::clone(self) as _;
                self.env.flusher.request_at(Arc::downgrade(&log), due);
            }
        }
    }

    /// Takes what there is to flush, or `None`.
    fn begin_flush<'a>(&'a self, flushing: MutexGuard<'a, Flushing>, is_alone: bool) -> Result<Option<Running<'a>>, LogError> {
        let mut state = self.state.lock();
        state.turn.asked = false;
        state.turn.unflushed_since = None;
        if state.failed.is_some() {
            state.writable()?;
        }
        if state.is_flushed() {
            return Ok(None);
        }
        let began = self.env.clock.monotonic();
        if is_alone {
            let flush_bytes = state.appended_bytes - state.flushed_bytes;
            self.preallocate(&mut state, flush_bytes, began);
        }
        let sealed = state.unsynced.len();
        // They stay pinned until this flush is done, and need no name: a segment may have been removed since it was sealed.
        let active = state.active.as_ref().and_then(|active| active.file.as_ref());
        let files = state.unsynced.iter().map(|(_, file)| file).chain(active).map(|file| Arc::clone(file)).collect();
        let end = self.view.read().end(crate::view::Until::LogEnd);
        let sync_dir = std::mem::take(&mut state.unsynced_dir);
        let frames = std::mem::take(&mut state.turn.waiting_frames);
        state.turn.pace.begun(frames);
        state.turn.running = true;
        let job = Job { end, appended_bytes: state.appended_bytes, frames, files, sealed, sync_dir };
        drop(state);
        Ok(Some(Running { inner: self, flushing, job, began, _under_way: self.env.times.flushing.begin(began), done: None }))
    }

    /// Stores the waiting snapshot of producer state, once all that it tells of is flushed: what a power cut could take back must not
    /// be called a duplicate.
    pub(super) fn store_snapshot(&self) -> Result<(), LogError> {
        let flushed_end = self.view.read().flushed_end().offset;
        let snapshot = self.state.lock().snapshot.take_if(|(end, _)| *end <= flushed_end);
        let Some((end, table)) = snapshot else { return Ok(()) };
        let stored = table.store(&*self.env.disk, &self.dir, &self.segment_env.salt, end);
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
                self.unstored(&error, "the checkpoint, without which the next start reads more");
            }
        }
    }
}
