//! Group commit: a few threads flush all logs that wait for it. While one flush runs, the next gathers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::Clock;

/// Something that can be flushed.
pub(crate) trait Flush: std::fmt::Debug + Send + Sync {
    /// Flushes what was appended before the call; failures are the log's to remember.
    fn flush_queued(&self);
}

/// The threads that flush logs. Clones are the same threads; they end when the last clone is gone.
#[derive(Clone, Debug)]
pub struct Flusher {
    shared: Arc<Shared>,
    owner: Option<Arc<Owner>>,
}

#[derive(Debug)]
struct Shared {
    clock: Arc<dyn Clock>,
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    ready: VecDeque<Arc<dyn Flush>>,
    /// By the time at which they are due; the number tells equal times apart.
    later: BTreeMap<(Duration, u64), Weak<dyn Flush>>,
    numbered: u64,
    stopped: bool,
}

/// Stops the threads when it is dropped.
#[derive(Debug)]
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.queue.lock().stopped = true;
        self.0.wake.notify_all();
    }
}

impl Flusher {
    /// Starts `threads` threads, at least one. One per partition that is to be flushed at the same time is enough; file systems join
    /// such flushes into one.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn start(threads: usize, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let mut flusher = Self::manual(clock);
        let owner = Arc::new(Owner(Arc::clone(&flusher.shared)));
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&flusher.shared);
            std::thread::Builder::new().name(format!("flush-{number}")).spawn(move || shared.work())?;
        }
        flusher.owner = Some(owner);
        Ok(flusher)
    }

    /// No threads: [`Flusher::step`] does what they would.
    #[must_use]
    pub fn manual(clock: Arc<dyn Clock>) -> Self {
        Self { shared: Arc::new(Shared { clock, queue: Mutex::default(), wake: Condvar::new() }), owner: None }
    }

    /// Whether nothing is flushed but by [`Flusher::step`].
    #[must_use]
    pub const fn is_manual(&self) -> bool {
        self.owner.is_none()
    }

    /// Flushes the log that has waited longest, if one is due. Answers whether there was one.
    pub fn step(&self) -> bool {
        let next = self.shared.queue.lock().take(self.shared.clock.monotonic());
        match next {
            Some(log) => {
                log.flush_queued();
                true
            }
            None => false,
        }
    }

    /// Steps until nothing is due.
    pub fn run_until_idle(&self) {
        while self.step() {}
    }

    pub(crate) fn request(&self, log: Arc<dyn Flush>) {
        self.shared.queue.lock().ready.push_back(log);
        self.shared.wake.notify_one();
    }

    pub(crate) fn request_in(&self, log: Weak<dyn Flush>, delay: Duration) {
        let mut queue = self.shared.queue.lock();
        queue.numbered += 1;
        let due = (self.shared.clock.monotonic() + delay, queue.numbered);
        queue.later.insert(due, log);
        drop(queue);
        self.shared.wake.notify_one();
    }
}

impl Queue {
    fn take(&mut self, now: Duration) -> Option<Arc<dyn Flush>> {
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            // A log that is gone was closed, and flushed by that.
            if let Some(log) = entry.remove().upgrade() {
                self.ready.push_back(log);
            }
        }
        self.ready.pop_front()
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            let now = self.clock.monotonic();
            if let Some(log) = queue.take(now) {
                drop(queue);
                log.flush_queued();
                // Before the lock: dropping the last handle of a log must not happen under it.
                drop(log);
                queue = self.queue.lock();
            } else if queue.stopped {
                return;
            } else if let Some(((due, _), _)) = queue.later.first_key_value() {
                let wait = due.saturating_sub(now);
                self.wake.wait_for(&mut queue, wait);
            } else {
                self.wake.wait(&mut queue);
            }
        }
    }
}
