//! The broker that clients go to, and as whom.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{Client, ClientBuilder};
use hermit_proto::v1::Handshake;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A broker on this machine that does not take a connection by then is away.
const CONNECTS_WITHIN: Duration = Duration::from_secs(2);

/// Where clients connect to.
#[derive(Debug, Clone)]
pub struct Target {
    address: SocketAddr,
}

impl Target {
    /// A broker that asks nobody who he is.
    #[must_use]
    pub fn open(address: SocketAddr) -> Self {
        Self { address }
    }

    fn builder(&self) -> ClientBuilder {
        Client::builder().server(self.address.to_string()).name("hermit-torture")
    }

    /// A client of the SDK; the broker may be away just now.
    ///
    /// # Errors
    ///
    /// When there is no runtime.
    pub fn client(&self) -> Result<Client> {
        Ok(self.builder().start()?)
    }

    /// A client that tries no longer than that.
    ///
    /// # Errors
    ///
    /// When there is no runtime.
    pub fn impatient_client(&self, request_timeout: Duration) -> Result<Client> {
        Ok(self.builder().request_timeout(request_timeout).start()?)
    }

    /// A connection of version 1; `None` while the broker is away.
    pub(super) async fn v1(&self, handshake: &Handshake) -> Option<TcpStream> {
        timeout(CONNECTS_WITHIN, self.try_v1(handshake)).await.ok()?.ok()
    }

    async fn try_v1(&self, handshake: &Handshake) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await.context("the broker is away")?;
        stream.set_nodelay(true)?;
        let mut bytes = Vec::new();
        handshake.encode(&mut bytes);
        stream.write_all(&bytes).await?;
        Ok(stream)
    }
}
