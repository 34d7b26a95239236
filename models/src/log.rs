//! A log as far as it and the flusher agree upon when it is flushed: with the product's flusher and its [`Turn`], and a sync that only takes its time.
//! What is done under which lock is as in `crates/hermit-log/src/log/flush.rs`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

#[path = "../../crates/hermit-log/src/log/turn.rs"]
mod turn;

use self::turn::Turn;
use crate::clock::{Clock as _, Passed};
use crate::config::LogConfig;
use crate::disk::SharedFileSystem;
use crate::error::LogError;
use crate::flusher::{Begun, Flush, Flusher, Start};

pub(crate) use self::turn::Next;

/// What a sync takes.
pub(crate) const SYNC: Duration = Duration::from_millis(8);

#[derive(Debug)]
struct State {
    appended_bytes: u64,
    flushed_bytes: u64,
    config: LogConfig,
    failed: Option<LogError>,
    turn: Turn,
}

/// A log of frames of one byte.
#[derive(Debug)]
pub(crate) struct Log {
    state: Mutex<State>,
    flushing: Mutex<()>,
    flushed: Condvar,
    flusher: Flusher,
}

#[derive(Debug)]
struct Running<'a> {
    log: &'a Log,
    _flushing: MutexGuard<'a, ()>,
    end: u64,
    frames: u64,
    began: Duration,
}

impl Log {
    pub(crate) fn new(config: LogConfig, flusher: Flusher) -> Arc<Self> {
        let state = State { appended_bytes: 0, flushed_bytes: 0, config, failed: None, turn: Turn::default() };
        Arc::new(Self { state: Mutex::new(state), flushing: Mutex::default(), flushed: Condvar::new(), flusher })
    }

    /// Appends a frame; answers the end behind it.
    pub(crate) fn append(self: &Arc<Self>) -> u64 {
        let mut state = self.state.lock();
        state.appended_bytes += 1;
        state.turn.waiting_frames += 1;
        let end = state.appended_bytes;
        self.tell_flusher(state);
        end
    }

    /// Waits as the clients do: without asking for a flush.
    pub(crate) fn wait(&self, end: u64) {
        let mut state = self.state.lock();
        while state.flushed_bytes < end {
            self.flushed.wait(&mut state);
        }
    }

    /// Asks for a flush that waits for nothing.
    pub(crate) fn request_flush(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.turn.asked = true;
        self.tell_flusher(state);
    }

    fn tell_flusher(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let next = state.next_flush(|| Passed.monotonic());
        drop(state);
        match next {
            Next::Nothing => {}
            Next::Now => self.flusher.request(Arc::clone(self) as Arc<dyn Flush>),
            Next::At(due) => {
                let log: Arc<dyn Flush> = Arc::clone(self) as _;
                self.flusher.request_at(Arc::downgrade(&log), due);
            }
        }
    }
}

impl Flush for Log {
    fn file_system(&self) -> Option<&Arc<SharedFileSystem>> {
        None
    }

    fn begin(&self, waits: bool) -> Start<'_> {
        if !self.state.lock().is_due(Passed.monotonic()) {
            return Start::Nothing;
        }
        let flushing = if waits { Some(self.flushing.lock()) } else { self.flushing.try_lock() };
        let Some(flushing) = flushing else { return Start::Busy };
        let mut state = self.state.lock();
        state.turn.asked = false;
        state.turn.unflushed_since = None;
        if state.appended_bytes == state.flushed_bytes {
            return Start::Nothing;
        }
        let frames = std::mem::take(&mut state.turn.waiting_frames);
        state.turn.pace.begun(frames);
        state.turn.running = true;
        let end = state.appended_bytes;
        Start::Begun(Box::new(Running { log: self, _flushing: flushing, end, frames, began: Passed.monotonic() }))
    }

    fn next(&self) -> Next {
        self.state.lock().next_flush(|| Passed.monotonic())
    }
}

impl Begun for Running<'_> {
    fn sync(&self) -> Result<(), LogError> {
        parking_lot::time::pass(SYNC);
        Ok(())
    }

    fn finish(&mut self, synced: Result<(), LogError>) {
        synced.expect("it cannot fail");
        let mut state = self.log.state.lock();
        state.turn.running = false;
        state.flushed_bytes = self.end;
        self.log.flushed.notify_all();
        let now = Passed.monotonic();
        let waiting = state.turn.waiting_frames;
        state.turn.pace.synced(now, now.saturating_sub(self.began), self.frames, waiting);
    }

    fn tidy(self: Box<Self>) {}
}
