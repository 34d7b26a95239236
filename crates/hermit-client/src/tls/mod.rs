//! TLS to the broker: whom it believes, and what it shows.

mod connector;
mod fault;

use std::fmt;
use std::path::PathBuf;

pub(crate) use connector::Connector;
pub(crate) use fault::{fault_of, handshake_fault};

/// TLS for a client: [`ClientBuilder::tls`](crate::ClientBuilder::tls). By default, the authorities of the operating system are believed, no client certificate is shown, and
/// the broker's certificate must be for the host of its address. That it is checked cannot be switched off.
///
/// Files are read when the client is started.
///
/// ```no_run
/// use hermit_client::{Client, TlsConfig};
///
/// # async fn run() -> hermit_client::Result<()> {
/// let tls = TlsConfig::new().ca_file("ca.pem").client_certificate_files("me.pem", "me.key");
/// let client = Client::builder().server("broker.example:9092").tls(tls).connect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct TlsConfig {
    /// Whom to believe instead of the system's authorities.
    authorities: Vec<Pem>,
    identity: Option<Identity>,
    server_name: Option<String>,
}

impl TlsConfig {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Believes the authorities in a PEM file, and no longer those of the operating system. Several files add up.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.authorities.push(Pem::File(path.into()));
        self
    }

    /// As [`TlsConfig::ca_file`], with what stands in the file.
    #[must_use]
    pub fn ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.authorities.push(Pem::Bytes(pem.into()));
        self
    }

    /// Shows a certificate to brokers that ask for one: a PEM file with it, and behind it those that lead to its authority, and one with its private key, not encrypted.
    #[must_use]
    pub fn client_certificate_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some(Identity { certificate: Pem::File(certificate.into()), key: Pem::File(key.into()) });
        self
    }

    /// As [`TlsConfig::client_certificate_files`], with what stands in the files.
    #[must_use]
    pub fn client_certificate_pem(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some(Identity { certificate: Pem::Bytes(certificate.into()), key: Pem::Bytes(key.into()) });
        self
    }

    /// The name that the broker's certificate must be for, where that is not the host of its address: a host name, or an IP address.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }
}

#[derive(Clone, Debug)]
struct Identity {
    certificate: Pem,
    key: Pem,
}

#[derive(Clone)]
enum Pem {
    File(PathBuf),
    Bytes(Vec<u8>),
}

impl fmt::Debug for Pem {
    /// Without what stands in it: that may be a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
        }
    }
}
