//! A deterministic disk in memory that is as hostile as a real one may be, for tests of crash safety.
//!
//! It keeps two states apart: what the running process sees, and what is on the platter. [`SimDisk::crash`] cuts the power: of what was
//! not synced each sector and each directory entry survives or not, as a seed decides. [`SimDisk::kill`] ends the process only:
//! everything is still there, and still not durable. Faults are ordered with [`SimDisk::fail`], and the power can be made to go
//! at the n-th change with [`SimDisk::cut_after`].
//!
//! ```
//! use hermit_log::disk::{Disk, DiskFile, Open, sim::{SimDisk, Survival}};
//! use std::path::Path;
//!
//! let disk = SimDisk::new(7);
//! let file = disk.open(Path::new("/log"), Open::CreateNew)?;
//! file.write_at(b"synced", 0)?;
//! file.sync_data()?;
//! disk.sync_dir(Path::new("/"))?;
//! file.write_at(b", not synced", 6)?;
//! disk.crash_with(Survival::Nothing, 1);
//! assert_eq!(disk.bytes(Path::new("/log")).as_deref(), Some(&b"synced"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```

mod content;
mod fault;
mod file;
mod names;
mod ops;
mod rng;
mod rot;
mod state;
mod whole;

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

pub use fault::{Effect, Fault, Op, Struck};
pub use rng::Rng;
pub use state::Survival;
use state::{PowerCut, State};

/// Whether an operation failed because the simulated power was cut, or the handle is older than the last crash.
#[must_use]
pub fn is_power_cut(error: &io::Error) -> bool {
    // Some keep what an error said, and not the error.
    error.get_ref().is_some_and(|inner| inner.is::<PowerCut>() || inner.to_string() == PowerCut.to_string())
}

/// The simulated disk. Clones are the same disk; [`SimDisk::fork`] makes another.
#[derive(Debug, Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

impl SimDisk {
    /// An empty disk with a root directory. The seed decides only what a failed sync leaves behind; crashes bring their own.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from_state(State::new(seed))
    }

    fn from_state(state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Another disk in the same state — durable or not — on which the process has died. It has no faults and no cut ahead, and counts
    /// mutations from 0. Costs little: contents are shared until written to.
    #[must_use]
    pub fn fork(&self) -> Self {
        let mut image = self.state.lock().image();
        image.kill();
        Self::from_state(image)
    }

    /// Cuts the power and brings it back. The seed chooses the kind of [`Survival`] and the survivors. Handles and locks are dead.
    pub fn crash(&self, seed: u64) {
        let mut rng = Rng::new(seed);
        let survival = match rng.below(8) {
            0 => Survival::Nothing,
            1 => Survival::Everything,
            2 => Survival::InOrder,
            _ => Survival::Mixed,
        };
        self.state.lock().crash(survival, rng);
    }

    /// As [`SimDisk::crash`], with a given kind of survival.
    pub fn crash_with(&self, survival: Survival, seed: u64) {
        self.state.lock().crash(survival, Rng::new(seed));
    }

    /// Ends the process, as SIGKILL does: handles and locks are dead, what was written is there, and no more durable than it was.
    pub fn kill(&self) {
        self.state.lock().kill();
    }

    /// The power goes at the `n`-th mutation from the disk's start (0 is the first): it takes effect without being durable, and like
    /// everything after it until [`SimDisk::crash`] it fails with an error that [`is_power_cut`] knows.
    pub fn cut_after(&self, n: u64) {
        self.state.lock().cut_at = Some(n);
    }

    /// How many operations so far changed, or would have changed, something on the disk.
    #[must_use]
    pub fn mutations(&self) -> u64 {
        self.state.lock().mutations
    }

    /// How many operations of any kind there were so far, so that a test can order a failure of each.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// The ordered failures that came to pass since this was last asked.
    #[must_use]
    pub fn take_struck(&self) -> Vec<Struck> {
        std::mem::take(&mut self.state.lock().struck)
    }

    /// Whether the power is off: after [`SimDisk::cut_after`] has taken effect, until [`SimDisk::crash`].
    #[must_use]
    pub fn is_off(&self) -> bool {
        !self.state.lock().powered
    }

    /// From now on keeps an image of the disk as it is just after each mutation, so that one run can be cut everywhere.
    pub fn keep_images(&self) {
        self.state.lock().images = Some(Vec::new());
    }

    /// The images since [`SimDisk::keep_images`], each a disk of its own as from [`SimDisk::fork`], with what
    /// [`SimDisk::mutations`] was at that moment. Operations that an ordered fault failed have none. No more are kept.
    #[must_use]
    pub fn take_images(&self) -> Vec<(u64, Self)> {
        let images = self.state.lock().images.take().unwrap_or_default();
        images
            .into_iter()
            .map(|(mutations, mut image)| {
                image.kill();
                (mutations, Self::from_state(image))
            })
            .collect()
    }

    /// Orders a failure. Of several that match an operation, the one ordered first strikes.
    pub fn fail(&self, fault: Fault) {
        self.state.lock().faults.push(fault);
    }

    /// What files have waiting is written back without anybody's asking, and that fails: each part of it is durable or not, and nothing waits any more. The next
    /// sync of such a file by a handle that was open then fails, and so does the next of the whole; those after them succeed.
    pub fn fail_writeback(&self) {
        self.state.lock().fail_writeback();
    }

    /// Forgets all ordered failures.
    pub fn heal(&self) {
        self.state.lock().faults.clear();
    }

    /// Sets the size of the disk. A write that needs more is short, and then fails with `StorageFull`; `None` is no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state.lock().capacity_bytes = bytes;
    }

    /// Bytes of all files that have a name or an open handle.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// What was done, one line for each mutation and each failure.
    #[must_use]
    pub fn trace(&self) -> String {
        self.state.lock().trace.join("\n")
    }
}
