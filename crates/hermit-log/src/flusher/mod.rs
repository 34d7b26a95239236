//! Group commit: a few threads flush all logs that wait for it. While one flush runs, the next gathers.

mod crossover;
mod queue;

use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::Clock;
use crate::disk::SharedFileSystem;
use crate::error::LogError;
pub(crate) use crate::log::Next;
pub(crate) use crossover::Crossover;
use queue::{Queue, Work};

/// Something that can be flushed.
pub(crate) trait Flush: std::fmt::Debug + Send + Sync {
    /// Where it can be flushed together with others: a file system of which no sync has failed.
    fn file_system(&self) -> Option<&Arc<SharedFileSystem>>;
    /// Begins a flush of what was appended before the call. Unless it `waits`, not where another would have to end first what this one needs.
    fn begin(&self, waits: bool) -> Start<'_>;
    /// When it wants the next flush. Whoever asks sees to it.
    fn next(&self) -> Next;
}

/// What came of beginning a flush.
pub(crate) enum Start<'a> {
    Begun(Box<dyn Begun + 'a>),
    /// It is not time for one, or there is nothing to flush.
    Nothing,
    Busy,
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

/// One of the threads.
#[derive(Debug)]
pub(crate) struct Worker(Arc<Shared>);

impl Worker {
    /// Flushes until the last handle of the flusher is gone.
    pub(crate) fn run(self) {
        self.0.work();
    }
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
        let (flusher, workers) = Self::with_workers(threads, clock);
        for (number, worker) in workers.into_iter().enumerate() {
            std::thread::Builder::new().name(format!("flush-{number}")).spawn(move || worker.run())?;
        }
        Ok(flusher)
    }

    /// What the threads are to run.
    pub(crate) fn with_workers(threads: usize, clock: Arc<dyn Clock>) -> (Self, Vec<Worker>) {
        let threads = threads.max(1);
        let mut flusher = Self::with(clock, threads);
        flusher.owner = Some(Arc::new(Owner(Arc::clone(&flusher.shared))));
        let workers = (0..threads).map(|_| Worker(Arc::clone(&flusher.shared))).collect();
        (flusher, workers)
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
        let begun = log.begin(true);
        let flushed = matches!(begun, Start::Begun(_));
        if let Start::Begun(mut begun) = begun {
            let synced = begun.sync();
            begun.finish(synced);
            begun.tidy();
        }
        self.see_to(log);
        flushed
    }

    /// Flushes logs of one file system with one sync. Answers how long that took, where there was anything to flush.
    fn flush_group(&self, logs: &[Arc<dyn Flush>]) -> Option<Duration> {
        let Some(file_system) = logs.first().and_then(|log| log.file_system()) else {
            logs.iter().for_each(|log| {
                self.flush_one(log);
            });
            return None;
        };
        let one_group_at_a_time = self.grouping.lock();
        let (mut begun, mut busy, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for log in logs {
            match log.begin(false) {
                Start::Begun(one) => {
                    begun.push(one);
                    rest.push(log);
                }
                Start::Nothing => rest.push(log),
                // Those that have begun wait for nobody.
                Start::Busy => busy.push(log),
            }
        }
        let is_any = !begun.is_empty();
        let began = self.clock.monotonic();
        let synced = if is_any { file_system.sync() } else { Ok(()) };
        let took = self.clock.monotonic().saturating_sub(began);
        for log in &mut begun {
            log.finish(synced.clone());
        }
        begun.into_iter().for_each(Begun::tidy);
        drop(one_group_at_a_time);
        rest.into_iter().for_each(|log| self.see_to(log));
        busy.into_iter().for_each(|log| {
            self.flush_one(log);
        });
        is_any.then_some(took)
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::clock::ManualClock;
    use crate::disk::Disk;
    use crate::disk::sim::SimDisk;

    type Said = Arc<Mutex<Vec<String>>>;

    /// A log that says what is done with it. One that is busy is so until somebody waits for it.
    #[derive(Debug)]
    struct Talker {
        name: &'static str,
        is_busy: bool,
        file_system: Arc<SharedFileSystem>,
        said: Said,
    }

    impl Flush for Talker {
        fn file_system(&self) -> Option<&Arc<SharedFileSystem>> {
            Some(&self.file_system)
        }
        fn begin(&self, waits: bool) -> Start<'_> {
            if self.is_busy && !waits { Start::Busy } else { Start::Begun(Box::new(self)) }
        }
        fn next(&self) -> Next {
            Next::Nothing
        }
    }

    impl Begun for &Talker {
        fn sync(&self) -> Result<(), LogError> {
            self.said.lock().push(format!("{} syncs", self.name));
            Ok(())
        }
        fn finish(&mut self, synced: Result<(), LogError>) {
            synced.unwrap();
            self.said.lock().push(format!("{} is done", self.name));
        }
        fn tidy(self: Box<Self>) {}
    }

    #[test]
    fn a_group_waits_for_none_of_its_logs() {
        let file_system = SimDisk::new(1).open_file_system(Path::new("/")).unwrap();
        let (file_system, said) = (Arc::new(SharedFileSystem::new(file_system)), Said::default());
        let logs = [("one", false), ("two", true), ("three", false)].map(|(name, is_busy)| {
            let talker = Talker { name, is_busy, file_system: Arc::clone(&file_system), said: Arc::clone(&said) };
            Arc::new(talker) as Arc<dyn Flush>
        });
        Flusher::manual(Arc::new(ManualClock::new(1))).flush_together(logs.to_vec());
        assert_eq!(*said.lock(), ["one is done", "three is done", "two syncs", "two is done"]);
    }
}
