//! The client: one connection that producers, consumers and admin share.

use std::sync::Arc;
use std::time::Duration;

use hermit_proto::session::HelloResponse;

use crate::admin::Admin;
use crate::backoff::BackoffConfig;
use crate::config::{Auth, ClientConfig};
use crate::conn::Link;
use crate::consumer::ConsumerBuilder;
use crate::error::Result;
use crate::producer::ProducerBuilder;
#[cfg(feature = "tls")]
use crate::tls::{Connector, TlsConfig};

/// A connection to a broker, shared by the producers, consumers and admins made from it. Cheap to clone.
///
/// The connection is made again whenever it breaks, with bounded back-off; producers and consumers go on where they were.
/// It is closed when the client and everything made from it are gone.
#[derive(Clone, Debug)]
pub struct Client {
    link: Link,
}

impl Client {
    /// Connects to one server with default settings.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub async fn connect(server: &str) -> Result<Self> {
        Self::builder().server(server).connect().await
    }

    /// A client with other settings.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Settings for a producer.
    #[must_use]
    pub fn producer(&self) -> ProducerBuilder {
        ProducerBuilder::new(self.link.clone())
    }

    /// Settings for a consumer.
    #[must_use]
    pub fn consumer(&self) -> ConsumerBuilder {
        ConsumerBuilder::new(self.link.clone())
    }

    /// Topics, offsets and committed positions.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(self.link.clone())
    }

    /// Says goodbye to the broker and waits for its answer, at most as long as connecting may take. What was made from the client
    /// should be closed or dropped before: it would connect again.
    pub async fn close(self) {
        self.link.close().await;
    }

    /// What the broker said of itself when the present connection was made.
    ///
    /// # Errors
    /// If there is no connection within the request timeout.
    pub async fn broker(&self) -> Result<HelloResponse> {
        Ok(self.link.session(self.link.deadline()).await?.hello().clone())
    }
}

/// The settings of a [`Client`].
#[derive(Clone, Debug, Default)]
pub struct ClientBuilder {
    config: ClientConfig,
}

impl ClientBuilder {
    /// Adds an address of the broker, `HOST:PORT`. With several, the first that answers is taken.
    #[must_use]
    pub fn server(mut self, server: impl AsRef<str>) -> Self {
        self.config.servers.push(server.as_ref().into());
        self
    }

    /// The client's name in the broker's log. Default: the SDK's name and version.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.config.name = name.into();
        self
    }

    /// How long connecting and the hello may take together, for each server. Default 5 s.
    #[must_use]
    pub const fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect_timeout = timeout;
        self
    }

    /// How long a request may take, reconnecting and trying again included. Default 30 s.
    #[must_use]
    pub const fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = timeout;
        self
    }

    /// How long the connection may be silent before a heartbeat is sent; after three without a sign of life it is given up.
    /// The broker's own interval is taken where that is shorter. Default 10 s.
    #[must_use]
    pub const fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.config.heartbeat_interval = interval;
        self
    }

    /// How long to wait between attempts to connect, and before what the broker refused for now is tried again.
    #[must_use]
    pub const fn backoff(mut self, backoff: BackoffConfig) -> Self {
        self.config.backoff = backoff;
        self
    }

    /// The largest answer or delivery that is accepted from the broker. Default 128 MiB. It must hold the largest frame and a
    /// partition's share of the consumer's prefetch.
    #[must_use]
    pub const fn max_unit_bytes(mut self, bytes: u64) -> Self {
        self.config.max_unit_bytes = bytes;
        self
    }

    /// Logs in as a user, with its password. Beyond loopback it is sent over TLS only. It is kept for reconnecting, shown nowhere, and
    /// overwritten when the client and all that was made from it are gone.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use hermit_client::Client;
    ///
    /// let password = std::env::var("ORDERS_PASSWORD")?;
    /// let client = Client::builder().server("127.0.0.1:9092").password("orders", password).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn password(mut self, user: impl AsRef<str>, password: impl AsRef<str>) -> Self {
        self.config.auth = Auth::password(user.as_ref(), password.as_ref());
        self
    }

    /// Logs in with a token, which names its user. As [`ClientBuilder::password`] otherwise.
    #[must_use]
    pub fn token(mut self, token: impl AsRef<str>) -> Self {
        self.config.auth = Auth::token(token.as_ref());
        self
    }

    /// What the hello says for authentication, for a mechanism that has no method of its own here.
    #[must_use]
    pub fn auth(mut self, mechanism: impl Into<String>, initial: impl Into<Vec<u8>>) -> Self {
        self.config.auth = Auth::other(mechanism.into(), initial.into());
        self
    }

    /// Whether passwords and tokens are sent to other machines over connections that are not encrypted, where everybody on the way can read them. Default: no; the
    /// client then says [`Error::InsecureLogin`](crate::Error::InsecureLogin), and the broker has nothing to refuse. It has to be set to take them, too.
    #[must_use]
    pub const fn insecure_login(mut self, allowed: bool) -> Self {
        self.config.insecure_login = allowed;
        self
    }

    /// Connects with TLS. Default: without. Needs the feature `tls`.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: TlsConfig) -> Self {
        self.config.tls = Some(tls);
        self
    }

    /// Connects, trying each server once.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config); [`Error::Unreachable`](crate::Error::Unreachable) and others, with the cause, if no
    /// server answers. To wait for a broker that is still starting, use [`ClientBuilder::start`].
    pub async fn connect(self) -> Result<Client> {
        let client = self.start()?;
        client.link.first_session().await?;
        Ok(client)
    }

    /// Starts connecting and returns at once; requests wait for the connection as long as their timeout allows. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config).
    pub fn start(self) -> Result<Client> {
        #[cfg_attr(not(feature = "tls"), expect(unused_mut, reason = "only TLS is made from it"))]
        let mut config = self.config;
        config.check()?;
        #[cfg(feature = "tls")]
        if let Some(tls) = &config.tls {
            config.connector = Some(Connector::new(tls)?);
        }
        Ok(Client { link: Link::start(Arc::new(config)) })
    }
}
