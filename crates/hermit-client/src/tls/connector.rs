//! From PEM to handshakes.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Identity, Pem, TlsConfig};
use crate::error::{Error, Result};

/// Bytes that are asked of the socket at a time: four large records. TLS itself would ask for 4 KiB.
const READ_BYTES: usize = 64 << 10;

/// Shakes hands with brokers.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: TlsConnector,
    server_name: Option<ServerName<'static>>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

impl Connector {
    /// Reads what is in files.
    ///
    /// # Errors
    /// [`Error::Config`], which names what is wrong.
    pub(crate) fn new(config: &TlsConfig) -> Result<Self> {
        let server_name = config.server_name.as_deref().map(|name| {
            let problem = |_invalid| wrong("tls_server_name", format!("`{name}` is no host name, and no IP address"));
            ServerName::try_from(name.to_owned()).map_err(problem)
        });
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(|error| wrong("tls", error.to_string()))?
            .with_root_certificates(roots(&config.authorities)?);
        let client = match &config.identity {
            None => builder.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let (chain, key) = (certificates("tls_cert", certificate)?, private_key(key)?);
                builder.with_client_auth_cert(chain, key).map_err(|error| match error {
                    rustls::Error::InconsistentKeys(_) => {
                        wrong("tls_key", "the key does not belong to the client certificate".into())
                    }
                    error => wrong("tls_cert", error.to_string()),
                })?
            }
        };
        Ok(Self { tls: TlsConnector::from(Arc::new(client)), server_name: server_name.transpose()? })
    }

    /// Shakes hands with the broker at `server`, `HOST:PORT`.
    pub(crate) async fn shake(&self, server: &str, socket: TcpStream) -> io::Result<TlsStream<BufReader<TcpStream>>> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => {
                let host = server.rsplit_once(':').map_or(server, |(host, _port)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let problem = |_invalid| {
                    format!("no certificate can be for `{host}`: say the name that it is for (`TlsConfig::server_name`)")
                };
                let name = ServerName::try_from(host.to_owned()).map_err(problem);
                name.map_err(|problem| io::Error::other(rustls::Error::General(problem)))?
            }
        };
        self.tls.connect(name, BufReader::with_capacity(READ_BYTES, socket)).await
    }
}

fn roots(authorities: &[Pem]) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for pem in authorities {
        for certificate in certificates("tls_ca", pem)? {
            store.add(certificate).map_err(|error| in_pem("tls_ca", pem, &error.to_string()))?;
        }
    }
    if authorities.is_empty() {
        let found = rustls_native_certs::load_native_certs();
        // Some that cannot be read are no reason to do without the others.
        store.add_parsable_certificates(found.certs);
        if store.is_empty() {
            let why = found.errors.first().map_or_else(String::new, |error| format!(" ({error})"));
            return Err(wrong("tls_ca", format!("the operating system knows no authorities{why}: name a file with yours")));
        }
    }
    Ok(store)
}

fn certificates(setting: &'static str, pem: &Pem) -> Result<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = match pem {
        Pem::File(path) => CertificateDer::pem_file_iter(path).and_then(Iterator::collect),
        Pem::Bytes(bytes) => CertificateDer::pem_slice_iter(bytes).collect(),
    };
    match all {
        Ok(all) if all.is_empty() => Err(in_pem(setting, pem, "there is no certificate in it (looking for `BEGIN CERTIFICATE`)")),
        Ok(all) => Ok(all),
        Err(error) => Err(in_pem(setting, pem, &plain(&error))),
    }
}

fn private_key(pem: &Pem) -> Result<PrivateKeyDer<'static>> {
    let key = match pem {
        Pem::File(path) => PrivateKeyDer::from_pem_file(path),
        Pem::Bytes(bytes) => PrivateKeyDer::from_pem_slice(bytes),
    };
    key.map_err(|error| match error {
        pem::Error::NoItemsFound => {
            let problem = "there is no private key in it (PKCS#8, PKCS#1 or SEC1 in PEM; not one encrypted with a passphrase)";
            in_pem("tls_key", pem, problem)
        }
        error => in_pem("tls_key", pem, &plain(&error)),
    })
}

/// Without what stands in the file: that may be a key.
fn plain(error: &pem::Error) -> String {
    match error {
        pem::Error::Io(error) => format!("it cannot be read: {error}"),
        pem::Error::MissingSectionEnd { .. } => "this is no PEM: a section has no end".into(),
        pem::Error::IllegalSectionStart { .. } => "this is no PEM: a section has no proper beginning".into(),
        pem::Error::Base64Decode(_) => "this is no PEM: a section is not in base64".into(),
        _ => "this is no PEM".into(),
    }
}

fn in_pem(setting: &'static str, pem: &Pem, problem: &str) -> Error {
    match pem {
        Pem::File(path) => wrong(setting, format!("{}: {problem}", path.display())),
        Pem::Bytes(_) => wrong(setting, problem.into()),
    }
}

const fn wrong(setting: &'static str, problem: String) -> Error {
    Error::Config { setting, problem }
}
