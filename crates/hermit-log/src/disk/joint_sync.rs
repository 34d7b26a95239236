//! Threads that each want a file or directory synced, as at start, share one sync of the file system where that costs less.

use std::io;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::SharedFileSystem;
use crate::clock::Clock;
use crate::error::LogError;
use crate::flusher::Crossover;

/// As many syncs at the same time take hardly longer than one.
const AT_A_TIME: usize = 16;

#[derive(Debug)]
pub(crate) struct JointSync {
    file_system: Arc<SharedFileSystem>,
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
}

/// One log's way to syncs that it shares with others, from before it writes anything.
#[derive(Debug)]
pub(crate) struct Joining<'a> {
    joint: Option<&'a JointSync>,
}

impl Joining<'_> {
    /// Makes durable what the caller has done: by `own`, or by a sync that others want too.
    ///
    /// # Errors
    /// Those of `own`, or of a sync of the file system, by whomever, while this log had something to lose.
    pub(crate) fn sync(&self, own: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let Some(joint) = self.joint else { return own() };
        joint.sync(own)?;
        self.is_sound().map_err(io::Error::other)
    }

    /// Whether no sync that failed may have taken something with it that was written since this began.
    ///
    /// # Errors
    /// That of the sync.
    pub(crate) fn is_sound(&self) -> Result<(), LogError> {
        self.joint.map_or(Ok(()), |joint| joint.file_system.is_sound())
    }
}

impl JointSync {
    pub(super) fn new(file_system: SharedFileSystem, clock: Arc<dyn Clock>) -> Self {
        Self { file_system: Arc::new(file_system), clock, rounds: Mutex::default(), ended: Condvar::new() }
    }

    /// For a log that is opened. Where a sync of the whole has failed before, it has nothing to lose by that, and syncs by itself.
    pub(crate) fn begin(joint: Option<&Self>) -> Joining<'_> {
        Joining { joint: joint.filter(|joint| joint.file_system.is_sound().is_ok()) }
    }

    pub(crate) const fn file_system(&self) -> &Arc<SharedFileSystem> {
        &self.file_system
    }

    /// Makes durable what the caller has done: by `own`, or by a sync of the file system that begins after this call.
    ///
    /// # Errors
    /// Those of `own`, or of the sync of the file system.
    fn sync(&self, own: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut rounds = self.rounds.lock();
        rounds.wanting += 1;
        let wanting = rounds.wanting;
        let joins = self.file_system.is_sound().is_ok() && rounds.crossover.joins(self.clock.monotonic(), wanting, AT_A_TIME);
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
            self.ended.notify_all();
            return outcome.map_err(io::Error::other);
        }
        self.file_system.is_sound().map_err(io::Error::other)
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
        let joint =
            JointSync::new(SharedFileSystem::new(disk.open_file_system(Path::new("/")).unwrap()), Arc::new(ManualClock::new(1)));
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
        let before = JointSync::begin(Some(&joint));
        assert!(before.sync(|| panic!("it joins")).is_err());
        assert!(before.sync(|| Ok(())).is_err(), "what it had written may be lost");
        assert!(JointSync::begin(Some(&joint)).sync(|| Ok(())).is_ok(), "each by itself from then on");
    }
}
