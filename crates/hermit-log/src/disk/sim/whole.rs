//! The simulated file system as a whole.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;

use super::fault::Op;
use super::file::{record, tell};
use super::is_power_cut;
use super::state::{State, power_cut};
use crate::disk::FileSystem;

/// Dead, as all handles, after a crash.
#[derive(Debug)]
struct SimFileSystem {
    state: Arc<Mutex<State>>,
    generation: u64,
    dir: PathBuf,
    /// The failures to write back that it was told of, or was opened after.
    told: AtomicU64,
}

pub(super) fn open(state: &Arc<Mutex<State>>, generation: u64, failures: u64, dir: &Path) -> Arc<dyn FileSystem> {
    Arc::new(SimFileSystem { state: Arc::clone(state), generation, dir: dir.to_owned(), told: failures.into() })
}

impl FileSystem for SimFileSystem {
    fn dir(&self) -> &Path {
        &self.dir
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.generation != self.generation {
            return Err(power_cut());
        }
        let result = match state.begin(Op::SyncAll, &self.dir) {
            Ok(step) => {
                if !step.is_cut() {
                    state.sync_all();
                }
                let told = tell(&self.told, state.failures);
                state.finish(step, told)
            }
            Err(error) => {
                if !is_power_cut(&error) {
                    state.fail_sync_of_all();
                }
                Err(error)
            }
        };
        record(&mut state, Op::SyncAll, &self.dir, "", &result);
        result
    }
}
