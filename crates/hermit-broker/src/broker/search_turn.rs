//! Turns to search in logs, for who serves clients by a protocol of its own.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::Broker;

/// Leave to search in a log, until this is dropped; see [`Broker::search_turn`].
#[derive(Debug)]
pub struct SearchTurn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Broker {
    /// Waits for a turn to search in a log, or to read one, on a thread that may block: as many have one at a time as there are processors, those of the native port among them, first come, first
    /// served, so that other requests find threads, too.
    pub async fn search_turn(&self) -> SearchTurn {
        // It is never closed.
        SearchTurn { _permit: Arc::clone(self.searches()).acquire_owned().await.ok() }
    }
}
