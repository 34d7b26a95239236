//! The broker that clients go to, and as whom.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use hermit_client::{Client, ClientBuilder};
use hermit_proto::Secret;
use hermit_proto::session::HelloRequest;
use hermit_proto::v1::Handshake;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A broker on this machine that does not take a connection by then is away.
const CONNECTS_WITHIN: Duration = Duration::from_secs(2);

/// What a client says who it is.
#[derive(Debug, Clone)]
pub enum Login {
    /// A user, and its password.
    Password(String, Secret),
    /// A token.
    Token(Secret),
}

impl Login {
    /// The hello that says so.
    #[must_use]
    pub fn hello(&self) -> HelloRequest {
        let hello = HelloRequest::new("hermit-torture");
        match self {
            Self::Password(user, password) => hello.with_password(user, password),
            Self::Token(token) => hello.with_token(token),
        }
    }
}

/// Where clients connect to.
#[derive(Debug, Clone)]
pub struct Target {
    address: SocketAddr,
    login: Option<Login>,
}

impl Target {
    /// A broker that asks nobody who he is.
    #[must_use]
    pub fn open(address: SocketAddr) -> Self {
        Self { address, login: None }
    }

    /// The same broker, for somebody who logs in. Clients of version 1 cannot.
    #[must_use]
    pub fn login(&self, login: Login) -> Self {
        Self { address: self.address, login: Some(login) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn builder(&self) -> ClientBuilder {
        let builder = Client::builder().server(self.address.to_string()).name("hermit-torture");
        match &self.login {
            None => builder,
            Some(Login::Password(user, password)) => builder.password(user, password.expose()),
            Some(Login::Token(token)) => builder.token(token.expose()),
        }
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
