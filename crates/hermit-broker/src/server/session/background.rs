//! Requests that block, for example on syncing directories: done on the runtime's blocking threads, answered when done.

use std::sync::Arc;

use bytes::BytesMut;
use parking_lot::Mutex;

use super::state::BACKGROUND_TOKEN;
use crate::signal::Signal;

/// Requests of one session that may be under way at a time.
const MAX_RUNNING: usize = 16;

/// What is under way.
#[derive(Debug)]
pub(super) struct Background {
    running: usize,
    done: Arc<Mutex<Vec<BytesMut>>>,
    signal: Arc<Signal>,
}

impl Background {
    pub(super) fn new(signal: Arc<Signal>) -> Self {
        Self { running: 0, done: Arc::default(), signal }
    }

    /// Does `work`, which gives the answer's bytes.
    pub(super) fn run(&mut self, work: impl FnOnce(&mut BytesMut) + Send + 'static) {
        self.running += 1;
        let answer = Answer { done: Arc::clone(&self.done), signal: Arc::clone(&self.signal), bytes: BytesMut::new() };
        // The answer is handed over when it is dropped, so that a panic in `work` leaves nobody waiting.
        drop(tokio::task::spawn_blocking(move || {
            let mut answer = answer;
            work(&mut answer.bytes);
        }));
    }

    /// Takes over the answers that are there.
    pub(super) fn collect(&mut self, out: &mut BytesMut) {
        for answer in self.done.lock().drain(..) {
            self.running = self.running.saturating_sub(1);
            out.extend_from_slice(&answer);
        }
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.running > 0
    }

    pub(super) const fn has_room(&self) -> bool {
        self.running < MAX_RUNNING
    }
}

struct Answer {
    done: Arc<Mutex<Vec<BytesMut>>>,
    signal: Arc<Signal>,
    bytes: BytesMut,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.done.lock().push(std::mem::take(&mut self.bytes));
        self.signal.wake(BACKGROUND_TOKEN);
    }
}
