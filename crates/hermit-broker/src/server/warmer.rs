//! Reading cold ranges ahead, on a few threads of their own: a page that is not in the cache must not hold the reactor.
//!
//! What is faulted in is verified, so that rot is noticed also for clients that check nothing.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use hermit_log::LogError;
use parking_lot::Mutex;

use super::reader::{Cold, Warmed};
use crate::limits::WARMER_THREADS;

/// Who waits for a cold read.
pub(super) trait Awaits: Send {
    /// Whether anybody still does.
    fn is_wanted(&self) -> bool;

    /// Hands over what came of it.
    fn done(self: Box<Self>, warmed: Warmed);
}

struct Job {
    /// The directory of the log that is read.
    dir: PathBuf,
    read: Box<dyn FnOnce() -> Warmed + Send>,
    waiter: Box<dyn Awaits>,
}

/// The threads. They end when nobody has the broker any more.
#[derive(Debug)]
pub(crate) struct Warmer {
    jobs: Sender<Job>,
}

impl Warmer {
    pub(crate) fn start() -> Self {
        let (sender, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..WARMER_THREADS {
            let receiver = Arc::clone(&receiver);
            let spawned = std::thread::Builder::new().name(format!("hermit-warm-{number}")).spawn(move || work(&receiver));
            if let Err(error) = spawned {
                tracing::error!(error = %crate::error::line(&error), "a thread for cold reads cannot be started");
            }
        }
        Self { jobs: sender }
    }

    /// Queues a range. Each consumer has one in the queue at most, which bounds it; what nobody waits for any more costs no read.
    pub(super) fn warm(&self, cold: Cold, waiter: impl Awaits + 'static) {
        let dir = cold.dir().to_owned();
        self.queue(Job { dir, read: Box::new(move || cold.read()), waiter: Box::new(waiter) });
    }

    fn queue(&self, job: Job) {
        if let Err(unsent) = self.jobs.send(job) {
            unsent.0.waiter.done(Err(LogError::Closed));
        }
    }
}

/// A panic is a fault of this read, and answered as one: the thread has others to serve. Nothing is left half-changed by it: the read
/// works on a cursor of its own.
fn guarded(path: PathBuf, read: impl FnOnce() -> Warmed) -> Warmed {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_panic| {
        tracing::error!(dir = %path.display(), "a cold read panicked");
        let source = Arc::new(io::Error::other("a fault in the broker"));
        Err(LogError::Io { operation: "read", path, source })
    })
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().recv();
        let Ok(Job { dir, read, waiter }) = job else { return };
        if waiter.is_wanted() {
            waiter.done(guarded(dir, read));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::reader::Read;
    use hermit_proto::Offset;
    use std::time::Duration;

    struct Tells(Sender<Warmed>);

    impl Awaits for Tells {
        fn is_wanted(&self) -> bool {
            true
        }

        fn done(self: Box<Self>, warmed: Warmed) {
            self.0.send(warmed).unwrap();
        }
    }

    #[test]
    fn a_read_that_panics_is_answered_and_others_are_read() {
        let warmer = Warmer::start();
        let (told, answers) = channel();
        let queue = |read: fn() -> Warmed| {
            warmer.queue(Job { dir: "/log".into(), read: Box::new(read), waiter: Box::new(Tells(told.clone())) });
        };
        let answer = || answers.recv_timeout(Duration::from_secs(20)).expect("a reader waits for ever");
        for _ in 0..=WARMER_THREADS {
            queue(|| panic!("a fault in the broker, for this test"));
            assert!(matches!(answer(), Err(LogError::Io { .. })));
        }
        queue(|| Ok(Read::NothingBefore(Offset(7))));
        assert!(matches!(answer(), Ok(Read::NothingBefore(Offset(7)))));
    }
}
