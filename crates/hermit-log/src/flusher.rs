//! Group commit: a few threads flush all logs that wait for it. While one flush runs, the next gathers.

mod crossover;
mod queue;

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::Clock;
use crate::disk::FileSystem;
use crate::error::LogError;
pub(crate) use crate::log::Next;
pub(crate) use crossover::Crossover;
use queue::{Queue, Work};

/// Something that can be flushed.
pub(crate) trait Flush: std::fmt::Debug + Send + Sync {
    /// Where it can be flushed together with others.
    fn file_system(&self) -> Option<&Arc<dyn FileSystem>>;
    /// Begins a flush of what was appended before the call; `None` where it is not time for one.
    fn begin(&self) -> Option<Box<dyn Begun + '_>>;
    /// When it wants the next flush. Whoever asks sees to it.
    fn next(&self) -> Next;
}

/// A flush that has begun. Failures are the log's to remember.
pub(crate) trait Begun {
    /// Makes durable what it covers, by itself.
    fn sync(&self) -> Result<(), LogError>;
    /// All that it covers is durable, or never will be for certain.
    fn finish(&mut self, synced: Result<(), LogError>);
    /// Does what nobody waits for.
    fn tidy(self: Box<Self>);
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
    /// Held while several logs are flushed together: two groups could wait for each other's logs.
    grouping: Mutex<()>,
}

/// Stops the threads when it is dropped.
#[derive(Debug)]
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.queue.lock().stop();
        self.0.wake.notify_all();
    }
}

impl Flusher {
    /// Starts `threads` threads, at least one. One per partition that is to be flushed at the same time is enough; where many are, they are flushed
    /// together.
    ///
    /// # Errors
    /// Those of starting a thread.
    pub fn start(threads: usize, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        let threads = threads.max(1);
        let mut flusher = Self::with(clock, threads);
        let owner = Arc::new(Owner(Arc::clone(&flusher.shared)));
        for number in 0..threads {
            let shared = Arc::clone(&flusher.shared);
            std::thread::Builder::new().name(format!("flush-{number}")).spawn(move || shared.work())?;
        }
        flusher.owner = Some(owner);
        Ok(flusher)
    }

    /// No threads: [`Flusher::step`] does what they would.
    #[must_use]
    pub fn manual(clock: Arc<dyn Clock>) -> Self {
        Self::with(clock, 1)
    }

    fn with(clock: Arc<dyn Clock>, threads: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                clock,
                queue: Mutex::new(Queue::new(threads)),
                wake: Condvar::new(),
                grouping: Mutex::default(),
            }),
            owner: None,
        }
    }

    /// Whether nothing is flushed but by [`Flusher::step`].
    #[must_use]
    pub const fn is_manual(&self) -> bool {
        self.owner.is_none()
    }

    /// Flushes the log that has waited longest, if one is due. Answers whether there was one.
    pub fn step(&self) -> bool {
        let log = self.shared.queue.lock().pop(self.shared.clock.monotonic());
        log.is_some_and(|log| {
            self.shared.flush_one(&log);
            true
        })
    }

    /// Steps until nothing is due.
    pub fn run_until_idle(&self) {
        while self.step() {}
    }

    /// Flushes logs together, those of a file system with one sync, where that can be. Some may be left out, as they are being flushed already.
    pub(crate) fn flush_together(&self, logs: Vec<Arc<dyn Flush>>) {
        for group in queue::by_file_system(logs) {
            self.shared.flush_group(&group);
        }
        self.shared.wake.notify_one();
    }

    pub(crate) fn request(&self, log: Arc<dyn Flush>) {
        let wakes = self.shared.queue.lock().push(log, self.shared.clock.monotonic());
        if wakes {
            self.shared.wake.notify_one();
        }
    }

    pub(crate) fn request_at(&self, log: Weak<dyn Flush>, due: Duration) {
        let is_next = self.shared.queue.lock().push_later(log, due);
        if is_next {
            self.shared.wake.notify_one();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            match queue.next(self.clock.monotonic()) {
                Work::One(log) => {
                    drop(queue);
                    let began = self.clock.monotonic();
                    let flushed = self.flush_one(&log);
                    let took = self.clock.monotonic().saturating_sub(began);
                    // Before the lock: dropping the last handle of a log must not happen under it.
                    drop(log);
                    queue = self.queue.lock();
                    queue.one_done(flushed.then_some(took));
                }
                Work::Group(logs) => {
                    drop(queue);
                    let took = self.flush_group(&logs);
                    let count = logs.len();
                    drop(logs);
                    queue = self.queue.lock();
                    queue.group_done(self.clock.monotonic(), took, count);
                }
                Work::Later(due) => {
                    let wait = due.saturating_sub(self.clock.monotonic());
                    self.wake.wait_for(&mut queue, wait);
                }
                Work::Nothing => self.wake.wait(&mut queue),
                Work::End => return,
            }
        }
    }

    /// Answers whether there was anything to flush.
    fn flush_one(&self, log: &Arc<dyn Flush>) -> bool {
        let begun = log.begin();
        let flushed = begun.is_some();
        if let Some(mut begun) = begun {
            let synced = begun.sync();
            begun.finish(synced);
            begun.tidy();
        }
        self.see_to(log);
        flushed
    }

    /// Flushes logs of one file system with one sync. Answers how long that took.
    fn flush_group(&self, logs: &[Arc<dyn Flush>]) -> Duration {
        let Some(file_system) = logs.first().and_then(|log| log.file_system()) else {
            logs.iter().for_each(|log| {
                self.flush_one(log);
            });
            return Duration::ZERO;
        };
        let _one_group_at_a_time = self.grouping.lock();
        let mut begun: Vec<Box<dyn Begun + '_>> = logs.iter().filter_map(|log| log.begin()).collect();
        let began = self.clock.monotonic();
        let synced = if begun.is_empty() { Ok(()) } else { file_system.sync() };
        let synced = synced.map_err(|source| LogError::io("sync the file system of", file_system.dir(), source));
        let took = self.clock.monotonic().saturating_sub(began);
        for log in &mut begun {
            log.finish(synced.clone());
        }
        begun.into_iter().for_each(Begun::tidy);
        logs.iter().for_each(|log| self.see_to(log));
        took
    }

    /// Takes note of when the log wants its next flush. Whoever calls this looks into the queue next, or has somebody look.
    fn see_to(&self, log: &Arc<dyn Flush>) {
        match log.next() {
            Next::Nothing => {}
            Next::Now => {
                self.queue.lock().push(Arc::clone(log), self.clock.monotonic());
            }
            Next::At(due) => {
                self.queue.lock().push_later(Arc::downgrade(log), due);
            }
        }
    }
}
