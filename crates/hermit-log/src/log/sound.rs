//! What a sync of the whole file system that failed means for a log, whether it was about this one or not.

use std::sync::Arc;

use super::{Inner, State};
use crate::disk::SharedFileSystem;
use crate::error::LogError;

impl Inner {
    /// Before anything is written that is to be flushed.
    pub(super) fn begin_writing(&self, state: &mut State) {
        if state.is_flushed() && !state.turn.running {
            state.is_past_failure = self.joint_file_system().is_none();
        }
    }

    /// Whether no sync of the whole file system, which may have been about other logs, has failed while this log had something to lose. What it left looks
    /// as if it had been written.
    pub(super) fn is_sound(&self, state: &State) -> Result<(), LogError> {
        match &self.file_system {
            Some(file_system) if !state.is_past_failure => file_system.is_sound(),
            _ => Ok(()),
        }
    }

    /// The file system, where a sync of the whole says anything.
    pub(super) fn joint_file_system(&self) -> Option<&Arc<SharedFileSystem>> {
        self.file_system.as_ref().filter(|file_system| file_system.is_sound().is_ok())
    }
}
