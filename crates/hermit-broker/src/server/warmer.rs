//! Reading cold ranges ahead, on a few threads of their own: a page that is not in the cache must not hold the reactor.
//!
//! What is faulted in is verified, so that rot is noticed also for clients that check nothing.

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
    cold: Cold,
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
                tracing::error!(%error, "a thread for cold reads cannot be started");
            }
        }
        Self { jobs: sender }
    }

    /// Queues a range. Each consumer has one in the queue at most, which bounds it; what nobody waits for any more costs no read.
    pub(super) fn warm(&self, cold: Cold, waiter: impl Awaits + 'static) {
        if let Err(unsent) = self.jobs.send(Job { cold, waiter: Box::new(waiter) }) {
            unsent.0.waiter.done(Err(LogError::Closed));
        }
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().recv();
        let Ok(Job { cold, waiter }) = job else { return };
        if waiter.is_wanted() {
            waiter.done(cold.read());
        }
    }
}
