//! Changing the settings of a log that is in use.

use super::Log;
use crate::config::{Durability, LogConfig};
use crate::error::LogError;
use crate::view::Until;

impl Log {
    /// Changes the settings, but for the index interval, which holds until the log is opened again.
    ///
    /// From [`Durability::Os`] to [`Durability::Sync`] readers may have been shown what is not flushed: it is flushed before this returns, so that from
    /// then on nothing is shown that a power cut could take back. The other way round everything that was appended is visible at once.
    ///
    /// # Errors
    /// [`LogError::ReadOnly`] where what readers were shown cannot be flushed. The settings hold all the same.
    pub fn set_config(&self, config: LogConfig) -> Result<(), LogError> {
        let inner = &self.inner;
        let mut state = inner.state.lock();
        let (before, now) = (state.config.durability, config.durability);
        state.config = config;
        match (before, now) {
            (Durability::Sync, Durability::Os) => {
                let mut view = inner.view.write();
                let end = view.end(Until::LogEnd);
                view.move_ends(None, Some(end), None, None);
                let bounds = view.bounds();
                drop(view);
                inner.listener.advanced(bounds);
                Ok(())
            }
            (_, Durability::Sync) => {
                // No append moves the high watermark from here on, so that one flush reaches it. Where that has failed before, it is told again: what
                // readers are shown is as unsafe as it was.
                let bounds = inner.view.read().bounds();
                drop(state);
                if bounds.high_watermark > bounds.flushed_end { self.flush() } else { Ok(()) }
            }
            (Durability::Os, Durability::Os) => Ok(()),
        }
    }
}
