//! Where the load goes, and what all loads have in common.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::PathBuf;
use std::sync::Arc;

use hermit_client::{Client, ClientBuilder, Codec, TlsConfig};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Whom the load is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The broker's address, `HOST:PORT`; without meaning where `via` is set.
    pub server: String,
    /// The topic. A producer's is created if it is not there and the broker's settings allow.
    pub topic: String,
    /// How many connections the load is divided among. Each has a task of its own, and a producer or consumer.
    #[serde(default = "one")]
    pub connections: usize,
    /// A PEM file with the authority to believe, for connections over TLS; without one, they go without.
    #[serde(default)]
    pub tls_ca: Option<PathBuf>,
    /// Settings of the connections beyond the address, such as a login; without them, the defaults. Not written down: they may hold secrets.
    #[serde(skip)]
    pub via: Option<Via>,
}

/// Settings of a client, for connections that are made later.
#[derive(Clone, Debug)]
pub struct Via(Arc<ClientBuilder>);

impl Via {
    /// Connections with these settings, servers included.
    #[must_use]
    pub fn new(builder: ClientBuilder) -> Self {
        Self(Arc::new(builder))
    }
}

impl PartialEq for Via {
    /// The same, not only equal: what is in them is not compared.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Via {}

const MAX_CONNECTIONS: usize = 10_000;

const fn one() -> usize {
    1
}

impl Target {
    /// One connection for this topic.
    #[must_use]
    pub fn new(server: impl Into<String>, topic: impl Into<String>) -> Self {
        Self { server: server.into(), topic: topic.into(), connections: 1, tls_ca: None, via: None }
    }

    /// One connection for this topic, with settings that name the server.
    #[must_use]
    pub fn via(via: Via, topic: impl Into<String>) -> Self {
        Self { via: Some(via), ..Self::new("", topic) }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.connections {
            0 => Err(Error::config("connections", "must be above 0")),
            1..=MAX_CONNECTIONS => Ok(()),
            _ => Err(Error::config("connections", format!("must be {MAX_CONNECTIONS} at most"))),
        }
    }

    pub(crate) async fn connect(&self) -> Result<Client> {
        let name = concat!("hermit-load/", env!("CARGO_PKG_VERSION"));
        let builder = match &self.via {
            Some(via) => (*via.0).clone(),
            None => Client::builder().server(&self.server),
        };
        let builder = match &self.tls_ca {
            Some(ca) => builder.tls(TlsConfig::new().ca_file(ca)),
            None => builder,
        };
        Ok(builder.name(name).connect().await?)
    }
}

/// How batches are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Not.
    #[default]
    None,
    /// By lz4.
    Lz4,
    /// By zstd, at the SDK's level.
    Zstd,
}

impl Compression {
    /// As the frames tell it.
    #[must_use]
    pub const fn codec(self) -> Codec {
        match self {
            Self::None => Codec::None,
            Self::Lz4 => Codec::Lz4,
            Self::Zstd => Codec::Zstd,
        }
    }
}

/// The number of a load's first stream, which the others follow: another one for each run, so that a topic can hold the records of many.
pub(crate) fn new_stream() -> u32 {
    let bits = RandomState::new().build_hasher().finish();
    u32::try_from(bits >> 32).unwrap_or_default()
}

/// The `index`-th of `parts` almost equal shares.
pub(crate) fn share(total: u64, index: usize, parts: usize) -> u64 {
    let (index, parts) = (index as u64, parts.max(1) as u64);
    total / parts + u64::from(index < total % parts)
}
