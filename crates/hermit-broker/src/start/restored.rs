//! After a backup was put back: what the broker has given out since is in no file any more, and must not be given out again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hermit_log::disk::Disk;
use hermit_proto::LeaderEpoch;

use super::{clean, rebuild};
use crate::error::BrokerError;
use crate::layout;
use crate::manifest::{self, Facts, Manifest, State};

/// Moves leader epoch and producer ids past all that may have been given out since the directory was copied, as for a damaged manifest. Gives the epoch behind which the
/// next start begins.
pub(crate) fn move_on(disk: &Arc<dyn Disk>, dir: &Path, now: Duration) -> Result<LeaderEpoch, BrokerError> {
    let path = dir.join(layout::MANIFEST);
    let bytes = manifest::load(&**disk, dir).map_err(|error| BrokerError::io("read", path.clone(), error))?;
    let stop = clean::last_stop(&**disk, dir, bytes.as_deref());
    let facts = super::facts(dir, bytes.as_deref(), stop, true)?;
    let Some(Facts { mut state, damage: None, .. }) = facts else {
        // The next start makes the manifest good, and moves them itself.
        let mut state = State::default();
        rebuild::jump(&mut state, now);
        return Ok(state.epoch);
    };
    // Before the manifest, which it would not fit. And a segment has one epoch only: after a stop that was not a clean one the next start begins new ones.
    clean::remove(&**disk, dir).map_err(|error| BrokerError::io("remove", dir.join(layout::CLEAN), error))?;
    rebuild::jump(&mut state, now);
    let epoch = state.epoch;
    Manifest::create(Arc::clone(disk), dir, state).map_err(|error| BrokerError::io("write", path, error))?;
    Ok(epoch)
}
