//! The models of the flusher: what it and the logs hand to each other.

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use parking_lot::{Condvar, Mutex};

use crate::clock::Passed;
use crate::config::{Durability, LogConfig};
use crate::disk::SharedFileSystem;
use crate::error::LogError;
use crate::flusher::{Begun, Flush, Flusher, Next, Start};
use crate::log::{Log, SYNC};

const FLUSHED_EACH: LogConfig =
    LogConfig { durability: Durability::Sync, os_flush_bytes: u64::MAX, os_flush_interval: Duration::from_secs(1) };

/// Every order with up to so many switches that nobody had to make: all would take days.
pub(crate) fn with_switches(most: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(most);
    builder.check(move || {
        parking_lot::time::begin();
        model();
    });
}

/// A flusher with so many threads.
fn flusher(threads: usize) -> Flusher {
    let (flusher, workers) = Flusher::with_workers(threads, Arc::new(Passed));
    for worker in workers {
        thread::spawn(move || worker.run());
    }
    flusher
}

/// The log is the last to hold the flusher, so that its threads end with it.
fn appended_by_two(config: LogConfig, work: fn(&Arc<Log>)) {
    let log = Log::new(config, flusher(1));
    let other = thread::spawn({
        let log = Arc::clone(&log);
        move || work(&log)
    });
    work(&log);
    drop(log);
    other.join().unwrap();
}

fn what_is_appended_is_flushed_and_who_returns_is_waited_for() {
    with_switches(3, || {
        appended_by_two(FLUSHED_EACH, |log| {
            for _ in 0..2 {
                let end = log.append();
                log.wait(end);
            }
        });
    });
}

fn who_asks_for_a_flush_gets_one_that_covers_what_was_there() {
    with_switches(3, || {
        appended_by_two(LogConfig { durability: Durability::Os, ..FLUSHED_EACH }, |log| {
            let end = log.append();
            log.request_flush();
            log.wait(end);
        });
    });
}

fn what_nobody_asks_for_is_flushed_in_time() {
    with_switches(3, || {
        appended_by_two(LogConfig { durability: Durability::Os, ..FLUSHED_EACH }, |log| {
            let end = log.append();
            log.wait(end);
        });
    });
}

/// What has been flushed of logs that are flushed once.
#[derive(Debug, Default)]
struct Seen {
    group_began: bool,
    /// By themselves.
    alone: usize,
    last: bool,
}

#[derive(Debug, Default)]
struct Scene {
    seen: Mutex<Seen>,
    changed: Condvar,
}

impl Scene {
    fn see(&self, what: impl FnOnce(&mut Seen)) {
        what(&mut self.seen.lock());
        self.changed.notify_all();
    }

    fn wait_until(&self, condition: impl Fn(&Seen) -> bool) {
        let mut seen = self.seen.lock();
        while !condition(&seen) {
            self.changed.wait(&mut seen);
        }
    }
}

/// A log with something to flush.
#[derive(Debug)]
struct Dirty {
    scene: Arc<Scene>,
    file_system: Arc<SharedFileSystem>,
    is_last: bool,
}

impl Flush for Dirty {
    fn file_system(&self) -> Option<&Arc<SharedFileSystem>> {
        Some(&self.file_system)
    }

    fn begin(&self, waits: bool) -> Start<'_> {
        if self.is_last && !waits {
            // It came in time for a group.
            self.scene.see(|seen| seen.last = true);
        }
        Start::Begun(Box::new(self))
    }

    fn next(&self) -> Next {
        Next::Nothing
    }
}

impl Begun for &Dirty {
    fn sync(&self) -> Result<(), LogError> {
        parking_lot::time::pass(SYNC);
        self.scene.see(|seen| if self.is_last { seen.last = true } else { seen.alone += 1 });
        Ok(())
    }

    fn finish(&mut self, synced: Result<(), LogError>) {
        synced.expect("it cannot fail");
    }

    fn tidy(self: Box<Self>) {}
}

/// The sync of the file system takes until a log has been flushed that comes meanwhile.
fn a_log_that_comes_while_a_group_is_flushed_does_not_wait_for_its_end() {
    with_switches(3, || {
        let scene = Arc::new(Scene::default());
        let sync = {
            let scene = Arc::clone(&scene);
            move || {
                scene.see(|seen| seen.group_began = true);
                scene.wait_until(|seen| seen.last);
            }
        };
        let file_system = Arc::new(SharedFileSystem(Arc::new(sync)));
        let log = |is_last| -> Arc<dyn Flush> {
            Arc::new(Dirty { scene: Arc::clone(&scene), file_system: Arc::clone(&file_system), is_last })
        };
        let flusher = flusher(2);
        // What a sync takes has to be known: then others wait for a group.
        flusher.request(log(false));
        scene.wait_until(|seen| seen.alone == 1);
        let group = [(); 4].map(|()| log(false));
        for log in &group {
            flusher.request_at(Arc::downgrade(log), SYNC * 100);
        }
        // Who is early takes some of them alone.
        scene.wait_until(|seen| seen.group_began || seen.alone > 1);
        flusher.request(log(true));
        scene.wait_until(|seen| seen.last);
    });
}

/// All of them.
pub(crate) const ALL: &[(&str, fn())] = &[
    ("what is appended is flushed, and who returns is waited for", what_is_appended_is_flushed_and_who_returns_is_waited_for),
    ("who asks for a flush gets one that covers what was there", who_asks_for_a_flush_gets_one_that_covers_what_was_there),
    ("what nobody asks for is flushed in time", what_nobody_asks_for_is_flushed_in_time),
    (
        "a log that comes while a group is flushed does not wait for its end",
        a_log_that_comes_while_a_group_is_flushed_does_not_wait_for_its_end,
    ),
];
