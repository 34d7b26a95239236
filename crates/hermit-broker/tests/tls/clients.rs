//! Clients with TLS, and a bridge that gives it to clients without.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use hermit_broker::{BrokerConfig, TlsConfig};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};

use crate::pki::{Authority, Pair, file};
use crate::support::{Server, config, within};

pub(crate) const BOTH: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// Settings of a broker in `dir` with a certificate of that authority.
pub(crate) fn secured(dir: &Path, authority: &Authority) -> BrokerConfig {
    let mut config = config(&dir.join("data"));
    config.tls = Some(shown(dir, &authority.broker()));
    config
}

/// Writes a pair to files.
pub(crate) fn shown(dir: &Path, pair: &Pair) -> TlsConfig {
    TlsConfig::new(file(dir, "cert.pem", &pair.certificate), file(dir, "key.pem", &pair.key))
}

/// What a client believes, shows and speaks.
pub(crate) fn client(
    authority: &Authority,
    shows: Option<&Pair>,
    versions: &[&'static SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider())).with_protocol_versions(versions).unwrap();
    let builder = builder.with_root_certificates(roots);
    Arc::new(match shows {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap();
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![certificate], key).unwrap()
        }
    })
}

pub(crate) fn name() -> ServerName<'static> {
    ServerName::from(IpAddr::from(Ipv4Addr::LOCALHOST))
}

pub(crate) async fn try_connect(server: &Server, client: &Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    within(TlsConnector::from(Arc::clone(client)).connect(name(), server.connect().await)).await
}

pub(crate) async fn connect(server: &Server, client: &Arc<ClientConfig>) -> TlsStream<TcpStream> {
    try_connect(server, client).await.unwrap()
}

/// Why a connection that was let in at first ends, and what came before.
pub(crate) async fn end(stream: &mut TlsStream<TcpStream>) -> (Vec<u8>, std::io::Result<()>) {
    let mut rest = Vec::new();
    let end = within(stream.read_to_end(&mut rest)).await;
    (rest, end.map(drop))
}

/// Lets clients without TLS come to the broker with it: they connect to the bridge.
pub(crate) async fn bridge(server: &mut Server, client: Arc<ClientConfig>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target: SocketAddr = std::mem::replace(&mut server.address, listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut plain, _)) = listener.accept().await {
            let connector = TlsConnector::from(Arc::clone(&client));
            tokio::spawn(async move {
                let socket = TcpStream::connect(target).await?;
                plain.set_nodelay(true)?;
                socket.set_nodelay(true)?;
                let mut secure = connector.connect(name(), socket).await?;
                tokio::io::copy_bidirectional_with_sizes(&mut plain, &mut secure, 64 << 10, 64 << 10).await
            });
        }
    });
}
