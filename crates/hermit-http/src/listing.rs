//! The entry of a connection in the broker's list, which it gets as soon as there is a broker.

use std::sync::{Arc, OnceLock};

use hermit_broker::{Caller, ConnectionProtocol, ListedConnection};
use tokio::sync::Notify;

use crate::server::Peer;
use crate::stage::{Stage, Standing};

/// The entry, once it is there.
#[derive(Debug)]
pub(crate) struct Listing {
    standing: Arc<Standing>,
    entry: OnceLock<ListedConnection>,
    is_there: Notify,
}

impl Listing {
    pub(crate) fn new(standing: &Arc<Standing>) -> Self {
        Self { standing: Arc::clone(standing), entry: OnceLock::new(), is_there: Notify::new() }
    }

    /// Adds the connection to the list, if it is not on it and there is one.
    pub(crate) fn list(&self, peer: Peer) {
        if self.entry.get().is_some() {
            return;
        }
        if let Stage::Serving(broker) = self.standing.now() {
            let listed = broker.list_connection(peer.address, ConnectionProtocol::Http, peer.encrypted);
            if self.entry.set(listed).is_ok() {
                self.is_there.notify_one();
            }
        }
    }

    /// As whom it has come, this time.
    pub(crate) fn is_of(&self, caller: &Caller) {
        if let Some(entry) = self.entry.get() {
            entry.is_of(caller.name(), caller.client());
        }
    }

    /// Resolves when an administrator wants it closed.
    pub(crate) async fn to_be_closed(&self) {
        loop {
            if let Some(entry) = self.entry.get() {
                return entry.to_be_closed().await;
            }
            self.is_there.notified().await;
        }
    }
}
