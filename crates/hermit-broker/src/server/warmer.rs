//! Reading cold ranges ahead, on a few threads of their own: a page that is not in the cache must not hold the reactor.
//!
//! What is faulted in is verified, so that rot is noticed also for clients that check nothing.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use hermit_log::LogError;
use parking_lot::Mutex;

use super::reader::{Cold, Warmed};
use crate::limits::WARMER_THREADS;

struct Job {
    cold: Cold,
    done: Box<dyn FnOnce(Warmed) + Send>,
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
                tracing::error!(%error, "a thread for cold reads cannot be started");
            }
        }
        Self { jobs: sender }
    }

    /// Queues a range. Each consumer has one in the queue at most, which bounds it.
    pub(super) fn warm(&self, cold: Cold, done: impl FnOnce(Warmed) + Send + 'static) {
        if let Err(unsent) = self.jobs.send(Job { cold, done: Box::new(done) }) {
            (unsent.0.done)(Err(LogError::Closed));
        }
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().recv();
        let Ok(Job { cold, done }) = job else { return };
        done(cold.read());
    }
}
