//! The client.

use std::sync::Arc;
use std::time::Duration;

use super::{Admin, ConsumerBuilder, ProducerBuilder, Runtime, settings};
use crate::backoff::BackoffConfig;
use crate::error::Result;
use hermit_proto::session::HelloResponse;

/// A connection to a broker, shared by the producers, consumers and admins made from it; see [`crate::Client`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    inner: crate::Client,
    runtime: Arc<Runtime>,
}

impl Client {
    /// Connects to one server with default settings.
    ///
    /// # Errors
    /// As [`ClientBuilder::connect`].
    pub fn connect(server: &str) -> Result<Self> {
        Self::builder().server(server).connect()
    }

    /// A client with other settings.
    #[must_use]
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Settings for a producer.
    #[must_use]
    pub fn producer(&self) -> ProducerBuilder {
        ProducerBuilder { inner: self.inner.producer(), runtime: self.runtime.clone() }
    }

    /// Settings for a consumer.
    #[must_use]
    pub fn consumer(&self) -> ConsumerBuilder {
        ConsumerBuilder { inner: self.inner.consumer(), runtime: self.runtime.clone() }
    }

    /// Topics, offsets, consumer groups, and the broker itself.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin { inner: self.inner.admin(), runtime: self.runtime.clone() }
    }

    /// What the broker said of itself when the present connection was made.
    ///
    /// # Errors
    /// As [`crate::Client::broker`].
    pub fn broker(&self) -> Result<HelloResponse> {
        self.runtime.run(self.inner.broker())
    }

    /// As [`crate::Client::close`].
    ///
    /// # Errors
    /// [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn close(self) -> Result<()> {
        let Self { inner, runtime } = self;
        runtime.run(async {
            inner.close().await;
            Ok(())
        })
    }
}

/// The settings of a [`Client`].
#[derive(Clone, Debug, Default)]
pub struct ClientBuilder {
    inner: crate::ClientBuilder,
}

settings! { ClientBuilder of ClientBuilder:
    server(server: impl AsRef<str>),
    name(name: impl Into<String>),
    connect_timeout(timeout: Duration),
    request_timeout(timeout: Duration),
    heartbeat_interval(interval: Duration),
    backoff(backoff: BackoffConfig),
    max_unit_bytes(bytes: u64),
    password(user: impl AsRef<str>, password: impl AsRef<str>),
    token(token: impl AsRef<str>),
    auth(mechanism: impl Into<String>, initial: impl Into<Vec<u8>>),
}

#[cfg(feature = "tls")]
settings! { ClientBuilder of ClientBuilder:
    tls(tls: crate::TlsConfig),
}

impl ClientBuilder {
    /// Connects, trying each server once.
    ///
    /// # Errors
    /// As [`crate::ClientBuilder::connect`]; [`Error::Runtime`](crate::Error::Runtime); [`Error::WithinRuntime`](crate::Error::WithinRuntime).
    pub fn connect(self) -> Result<Client> {
        let runtime = Runtime::start()?;
        let inner = runtime.run(self.inner.connect())?;
        Ok(Client { inner, runtime })
    }

    /// Starts connecting and returns at once; requests wait for the connection as long as their timeout allows.
    ///
    /// # Errors
    /// As [`crate::ClientBuilder::start`]; [`Error::Runtime`](crate::Error::Runtime).
    pub fn start(self) -> Result<Client> {
        let runtime = Runtime::start()?;
        let inner = runtime.enter(|| self.inner.start())?;
        Ok(Client { inner, runtime })
    }
}
