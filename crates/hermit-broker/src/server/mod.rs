//! Serving both native protocols over TCP, on one port.

mod accept;
mod connection;
mod door;
#[cfg(feature = "tls")]
mod handshake;
mod line_gate;
mod reader;
#[cfg(feature = "tls")]
mod secure;
mod sendfile;
mod session;
mod stream;
#[cfg(feature = "tls")]
mod tls_port;
mod turn;
mod v1;
mod warmer;

use std::time::Duration;

use tokio::net::TcpListener;

pub use door::ConnectionCounts;
pub(crate) use door::Door;
pub(crate) use line_gate::{Line, LineGate, Lines};
#[cfg(feature = "tls")]
pub use tls_port::{TlsPort, TlsStream};
pub(crate) use warmer::Warmer;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing {
    //! What the fuzz targets need of the server.
    pub use super::session::fuzzing::requests;
    pub use super::v1::fuzzing::{v1_consumer, v1_stream};
}

use crate::broker::{Broker, Phase};
use crate::error::BrokerError;

/// Time that tasks have to notice that they are cut off.
const CUT_TIMEOUT: Duration = Duration::from_secs(2);

impl Broker {
    /// Serves a listener until [`Broker::shutdown`]. Several listeners can be served at a time.
    pub async fn serve(&self, listener: TcpListener) {
        accept::serve(self, listener).await;
    }

    /// Stops gracefully: takes no new connections and requests, answers what was asked, within [`Limits::drain_timeout`], then closes the
    /// data directory, see [`Broker::close`].
    ///
    /// [`Limits::drain_timeout`]: crate::Limits::drain_timeout
    ///
    /// # Errors
    /// As [`Broker::close`].
    pub async fn shutdown(&self) -> Result<(), BrokerError> {
        self.advance(Phase::Draining);
        let (mut connections, mut held) = (self.connection_count(), self.held());
        let drained = async {
            let _senders_live =
                connections.wait_for(|count| *count == 0).await.is_ok() && held.wait_for(|count| *count == 0).await.is_ok();
        };
        if tokio::time::timeout(self.limits_in_force().drain_timeout, drained).await.is_err() {
            let requests = *self.held().borrow();
            tracing::warn!(
                connections = self.connections(),
                other_requests = requests,
                "not all connections, and requests by other protocols, could be drained in time; they are cut off"
            );
            self.advance(Phase::Cutting);
            let cut = connections.wait_for(|count| *count == 0);
            let _in_time = tokio::time::timeout(CUT_TIMEOUT, cut).await;
        }
        let broker = self.clone();
        match tokio::task::spawn_blocking(move || broker.close()).await {
            Ok(closed) => closed,
            Err(_panicked) => self.close(),
        }
    }
}
