//! Requests that block, for example on syncing directories: done on the runtime's blocking threads, answered when done.

use std::sync::Arc;

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::state::BACKGROUND_TOKEN;
use crate::signal::Signal;

/// Requests of one session that may be under way at a time.
const MAX_RUNNING: usize = 16;

/// Those of them that take computing time, or search in logs.
const MAX_SEARCHES: usize = 4;

/// What is under way.
#[derive(Debug)]
pub(super) struct Background {
    running: usize,
    searches: usize,
    done: Arc<Mutex<Vec<(BytesMut, bool)>>>,
    signal: Arc<Signal>,
}

impl Background {
    pub(super) fn new(signal: Arc<Signal>) -> Self {
        Self { running: 0, searches: 0, done: Arc::default(), signal }
    }

    /// Does `work`, which gives the answer's bytes.
    pub(super) fn run(&mut self, work: impl FnOnce(&mut BytesMut) + Send + 'static) {
        self.running += 1;
        let answer =
            Answer { done: Arc::clone(&self.done), signal: Arc::clone(&self.signal), bytes: BytesMut::new(), is_search: false };
        // The answer is handed over when it is dropped, so that a panic in `work` leaves nobody waiting.
        drop(tokio::task::spawn_blocking(move || {
            let mut answer = answer;
            work(&mut answer.bytes);
        }));
    }

    /// The same for work that takes computing time, or searches in logs: `gate` lets few through at a time, first come, first served, so that the
    /// other threads of the broker get theirs.
    pub(super) fn search(&mut self, gate: Arc<Semaphore>, work: impl FnOnce(&mut BytesMut) + Send + 'static) {
        self.running += 1;
        self.searches += 1;
        let answer =
            Answer { done: Arc::clone(&self.done), signal: Arc::clone(&self.signal), bytes: BytesMut::new(), is_search: true };
        drop(tokio::spawn(async move {
            // It is never closed.
            let permit = gate.acquire_owned().await;
            drop(tokio::task::spawn_blocking(move || {
                let mut answer = answer;
                work(&mut answer.bytes);
                drop(permit);
            }));
        }));
    }

    /// Takes over the answers that are there.
    pub(super) fn collect(&mut self, out: &mut BytesMut) {
        for (answer, is_search) in self.done.lock().drain(..) {
            self.running = self.running.saturating_sub(1);
            self.searches = self.searches.saturating_sub(usize::from(is_search));
            out.extend_from_slice(&answer);
        }
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.running > 0
    }

    pub(super) const fn has_room(&self) -> bool {
        self.running < MAX_RUNNING && self.searches < MAX_SEARCHES
    }
}

struct Answer {
    done: Arc<Mutex<Vec<(BytesMut, bool)>>>,
    signal: Arc<Signal>,
    bytes: BytesMut,
    is_search: bool,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.done.lock().push((std::mem::take(&mut self.bytes), self.is_search));
        self.signal.wake(BACKGROUND_TOKEN);
    }
}
