//! Closing: one log, or many at once.

use std::sync::Arc;

use super::{Flushing, Inner, Log, State};
use crate::disk::{SharedFileSystem, write_atomically};
use crate::error::LogError;
use crate::flusher::Flush;
use crate::names;
use crate::segment::Sealed;

impl Log {
    /// Flushes logs, those on one file system with one sync, where there are several and it can be. Answers the first failure.
    ///
    /// # Errors
    /// [`LogError::ReadOnly`] of a log of which a flush has failed; the others are flushed all the same, but for those that were to be durable by the same sync.
    pub fn flush_all(logs: &[Self]) -> Result<(), LogError> {
        if let Some(first) = logs.first() {
            for log in logs {
                log.inner.state.lock().turn.asked = true;
            }
            let together = logs.iter().map(|log| Arc::clone(&log.inner) as Arc<dyn Flush>).collect();
            first.inner.env.flusher.flush_together(together);
        }
        // Those that were being flushed already, and what was appended since.
        logs.iter().map(Self::flush).fold(Ok(()), Result::and)
    }

    /// Flushes and stores what makes the next start quick. Later appends are refused; readers go on.
    ///
    /// # Errors
    /// What kept the log from being flushed. Then the stop was not clean.
    pub fn close(&self) -> Result<(), LogError> {
        self.inner.close(true)
    }

    /// As [`Log::close`], with a few syncs for all. Answers what came of each, in their order.
    ///
    /// # Errors
    /// Those of [`Log::close`], for each log.
    pub fn close_all(logs: &[Self]) -> Vec<Result<(), LogError>> {
        // Told again by those that have failed.
        drop(Self::flush_all(logs));
        let joint: Vec<_> = logs.iter().map(|log| log.inner.joint_file_system()).collect();
        let mut closed: Vec<_> = logs.iter().zip(&joint).map(|(log, joint)| log.inner.close(joint.is_none())).collect();
        let mut synced: Vec<(&Arc<SharedFileSystem>, Result<(), LogError>)> = Vec::new();
        for (file_system, closed) in joint.iter().zip(&mut closed).filter(|(_, closed)| closed.is_ok()) {
            let Some(file_system) = *file_system else { continue };
            let known = synced.iter().position(|(known, _)| Arc::ptr_eq(known, file_system)).unwrap_or_else(|| {
                synced.push((file_system, file_system.sync()));
                synced.len() - 1
            });
            *closed = synced.get(known).map_or(Ok(()), |(_, outcome)| outcome.clone());
        }
        closed
    }

    /// Ends as with the process that has it: nothing more is written, nothing is flushed, and later appends are refused. Readers go on. For tests of
    /// what a start finds then.
    pub fn abandon(&self) {
        // In their order, so that whatever is under way ends first.
        let _maintaining = self.inner.maintaining.lock();
        let _flushing = self.inner.flushing.lock();
        let mut state = self.inner.state.lock();
        state.closed = true;
        state.failed.get_or_insert(LogError::Closed);
        self.inner.flushed.notify_all();
        drop(self.inner.lock.lock().take());
    }
}

impl Inner {
    /// What is stored is durable only where `settles`.
    fn close(self: &Arc<Self>, settles: bool) -> Result<(), LogError> {
        loop {
            self.flush()?;
            let mut flushing = self.flushing.lock();
            let mut state = self.state.lock();
            state.writable()?;
            // An append may have slipped in between.
            if state.log_end == self.view.read().flushed_end().offset {
                state.closed = true;
                self.flushed.notify_all();
                return self.store_for_restart(&mut flushing, &mut state, settles);
            }
        }
    }

    fn store_for_restart(&self, flushing: &mut Flushing, state: &mut State, settles: bool) -> Result<(), LogError> {
        let failed = |source| LogError::io("store the state of", &self.dir, source);
        let disk = &*self.env.disk;
        if let Some(active) = &mut state.active {
            if active.has_room() {
                let file = active.cut_room().map_err(failed)?;
                if settles {
                    file.sync_data().map_err(failed)?;
                }
            }
            let facts = Sealed { end: state.log_end, len_bytes: active.position, last_append_time: state.last_append_time };
            active.segment.store_index(disk, facts).map_err(failed)?;
        }
        let producers = state.producers.as_ref().filter(|table| !table.is_empty());
        if let Some(table) = producers {
            table.store(disk, &self.dir, &self.segment_env.salt, state.log_end).map_err(failed)?;
        }
        let end = self.view.read().flushed_end();
        let mut lock = self.lock.lock();
        let checkpoint = &mut flushing.checkpoint;
        // The mark of a clean stop comes last.
        let stored = if settles || lock.is_some() {
            checkpoint.settle(disk, end.offset, end.segment, end.position)
        } else {
            checkpoint.prepare(disk, end.offset, end.segment, end.position)
        };
        stored.map_err(failed)?;
        if lock.is_some() {
            write_atomically(disk, &self.dir, names::CLEAN, &[]).map_err(failed)?;
            lock.take();
        }
        Ok(())
    }
}
