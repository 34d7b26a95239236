//! Which connections there are, by whatever protocol, for who looks at them and closes them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::broker::Broker;
use crate::client_name::printable;

/// What a connection speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionProtocol {
    /// Not known yet: it is within its handshake.
    Handshake,
    /// The native protocol, version 1.
    Native1,
    /// The native protocol, version 2.
    Native2,
    /// HTTP.
    Http,
}

impl ConnectionProtocol {
    /// Its name: `handshake`, `native-1`, `native-2` or `http`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Native1 => "native-1",
            Self::Native2 => "native-2",
            Self::Http => "http",
        }
    }
}

/// What is known of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Names it: never the same again until the broker is started anew, and rising.
    pub id: u64,
    /// From where it came.
    pub peer: SocketAddr,
    /// When it came, by the broker's clock, in ns since the Unix epoch.
    pub since: u64,
    /// What it speaks.
    pub protocol: ConnectionProtocol,
    /// Whether through TLS.
    pub encrypted: bool,
    /// As whom it has logged in, last; empty where nobody has.
    pub user: String,
    /// What the client calls itself; empty where it did not say.
    pub client: String,
}

/// All connections that are there.
#[derive(Debug, Default)]
pub(crate) struct Roster(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    last: u64,
    by_id: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    info: ConnectionInfo,
    close: Arc<Notify>,
}

/// The entry of a connection in the broker's list, until this is dropped; see [`Broker::list_connection`].
#[derive(Debug)]
pub struct ListedConnection {
    roster: Arc<Roster>,
    id: u64,
    close: Arc<Notify>,
}

impl ListedConnection {
    /// Takes down what it speaks, and whether through TLS.
    pub fn speaks(&self, protocol: ConnectionProtocol, encrypted: bool) {
        self.change(|info| (info.protocol, info.encrypted) = (protocol, encrypted));
    }

    /// Takes down as whom it has logged in, and what the client calls itself: 255 bytes of it, without what is not seen.
    pub fn is_of(&self, user: &str, client: &str) {
        self.change(|info| {
            // Most say the same again, for each request of theirs.
            if info.user != user {
                user.clone_into(&mut info.user);
            }
            if info.client != client {
                info.client = printable(client);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut ConnectionInfo)) {
        if let Some(entry) = self.roster.0.lock().by_id.get_mut(&self.id) {
            change(&mut entry.info);
        }
    }

    /// Resolves when somebody wants it closed, which whoever serves it then does.
    pub fn to_be_closed(&self) -> impl Future<Output = ()> + Send + use<> {
        let close = Arc::clone(&self.close);
        async move { close.notified().await }
    }
}

impl Drop for ListedConnection {
    fn drop(&mut self) {
        self.roster.0.lock().by_id.remove(&self.id);
    }
}

impl Broker {
    /// Adds a connection to the list that administrators see: those of the native port are on it, and those that an embedder serves by a protocol of its own.
    #[must_use]
    pub fn list_connection(&self, peer: SocketAddr, protocol: ConnectionProtocol, encrypted: bool) -> ListedConnection {
        let (roster, close, since) = (Arc::clone(self.roster()), Arc::new(Notify::new()), self.clock().now());
        let mut entries = roster.0.lock();
        entries.last += 1;
        let id = entries.last;
        let info = ConnectionInfo { id, peer, since, protocol, encrypted, user: String::new(), client: String::new() };
        entries.by_id.insert(id, Entry { info, close: Arc::clone(&close) });
        drop(entries);
        ListedConnection { roster, id, close }
    }

    /// Connections whose ids are greater than `after`, `most` of them at most, in the order of their ids, which is that in which they came; and whether there are more.
    #[must_use]
    pub fn listed_connections(&self, after: u64, most: usize) -> (Vec<ConnectionInfo>, bool) {
        let entries = self.roster().0.lock();
        let mut behind = entries.by_id.range(after.saturating_add(1)..).map(|(_, entry)| entry.info.clone());
        let listed = behind.by_ref().take(most).collect();
        (listed, behind.next().is_some())
    }

    /// Has a connection closed, whatever it is doing; answers whether it was there. Its client may come again.
    #[must_use]
    pub fn close_connection(&self, id: u64) -> bool {
        let entries = self.roster().0.lock();
        entries.by_id.get(&id).is_some_and(|entry| {
            entry.close.notify_one();
            true
        })
    }
}
