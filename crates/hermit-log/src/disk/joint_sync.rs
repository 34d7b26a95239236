//! Threads that each want a file or directory synced, as at start, share one sync of the file system where that costs less.

use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::FileSystem;
use crate::clock::Clock;
use crate::flusher::Crossover;

/// As many syncs at the same time take hardly longer than one.
const AT_A_TIME: usize = 16;

#[derive(Debug)]
pub(crate) struct JointSync {
    file_system: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    rounds: Mutex<Rounds>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Rounds {
    crossover: Crossover,
    /// Threads that want something synced.
    wanting: usize,
    /// The round that begins next.
    next: u64,
    running: bool,
    /// All rounds before this have ended.
    ended: u64,
    /// A sync of the file system has failed: none says anything any more.
    failed: Option<(io::ErrorKind, String)>,
}

impl Rounds {
    fn outcome(&self) -> io::Result<()> {
        self.failed.as_ref().map_or(Ok(()), |(kind, why)| Err(io::Error::new(*kind, why.clone())))
    }
}

impl JointSync {
    pub(super) fn new(file_system: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Self {
        Self { file_system, clock, rounds: Mutex::default(), ended: Condvar::new() }
    }

    pub(crate) const fn file_system(&self) -> &Arc<dyn FileSystem> {
        &self.file_system
    }

    /// Makes durable what the caller has done: by `own`, or by a sync of the file system that begins after this call.
    ///
    /// # Errors
    /// Those of `own`, or of the sync of the file system.
    pub(crate) fn sync(&self, own: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut rounds = self.rounds.lock();
        rounds.wanting += 1;
        let wanting = rounds.wanting;
        let joins = rounds.failed.is_none() && rounds.crossover.joins(self.clock.monotonic(), wanting, AT_A_TIME);
        if joins || rounds.running {
            let outcome = self.join(&mut rounds);
            rounds.wanting -= 1;
            return outcome;
        }
        drop(rounds);
        let began = self.clock.monotonic();
        let outcome = own();
        let mut rounds = self.rounds.lock();
        rounds.crossover.took_own(self.clock.monotonic().saturating_sub(began));
        rounds.wanting -= 1;
        outcome
    }

    fn join(&self, rounds: &mut parking_lot::MutexGuard<'_, Rounds>) -> io::Result<()> {
        // One that is running may have passed by what the caller has written.
        let mine = rounds.next;
        while rounds.ended <= mine && rounds.running {
            self.ended.wait(rounds);
        }
        if rounds.ended <= mine {
            rounds.next = mine + 1;
            rounds.running = true;
            let wanting = rounds.wanting;
            let (outcome, took) = parking_lot::MutexGuard::unlocked(rounds, || {
                let began = self.clock.monotonic();
                (self.file_system.sync(), self.clock.monotonic().saturating_sub(began))
            });
            rounds.crossover.took_whole(self.clock.monotonic(), took, wanting, AT_A_TIME);
            rounds.running = false;
            rounds.ended = mine + 1;
            if let Err(error) = outcome {
                rounds.failed.get_or_insert_with(|| (error.kind(), error.to_string()));
            }
            self.ended.notify_all();
        }
        rounds.outcome()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::io::Errno;

    use super::*;
    use crate::clock::ManualClock;
    use crate::disk::sim::{Fault, Op, SimDisk, Survival};
    use crate::disk::{Disk, Open};

    fn joint(disk: &SimDisk) -> JointSync {
        let joint = JointSync::new(disk.open_file_system(Path::new("/")).unwrap(), Arc::new(ManualClock::new(1)));
        // As if others were at it.
        joint.rounds.lock().wanting = 3;
        joint
    }

    #[test]
    fn what_a_sync_was_asked_for_is_durable_whoever_did_it() {
        const THREADS: u32 = 8;
        const FILES: u32 = 20;
        let disk = SimDisk::new(1);
        let joint = joint(&disk);
        let work = |thread: u32| {
            for number in 0..FILES {
                let path = Path::new("/").join(format!("{thread}-{number}"));
                let file = disk.open(&path, Open::CreateNew).unwrap();
                file.write_all_at(b"x", 0).unwrap();
                joint.sync(|| file.sync_data().and_then(|()| disk.sync_dir(Path::new("/")))).unwrap();
                let image = disk.fork();
                image.crash_with(Survival::Nothing, 1);
                assert_eq!(image.bytes(&path).unwrap(), b"x");
            }
        };
        std::thread::scope(|scope| {
            let work = &work;
            (0..THREADS).for_each(|thread| {
                scope.spawn(move || work(thread));
            });
        });
        assert!(disk.trace().contains("SyncAll"));
        assert_eq!(joint.rounds.lock().wanting, 3);
    }

    #[test]
    fn a_failed_joint_sync_fails_all_that_joined() {
        let disk = SimDisk::new(1);
        let joint = joint(&disk);
        disk.fail(Fault::error(Op::SyncAll, Errno::IO));
        assert!(joint.sync(|| panic!("it joins")).is_err());
        assert!(joint.sync(|| Ok(())).is_ok(), "each by itself from then on");
    }
}
