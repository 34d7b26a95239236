//! From PEM files to what a handshake needs. Everything is checked that can be before a client comes.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use zeroize::Zeroizing;

use super::certificate::Facts;
use super::{TlsConfig, TlsReport};
use crate::error::BrokerError;

/// Most bytes of a PEM file: some hundred authorities.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Sessions that clients may come back to without a full handshake.
const RESUMABLE_SESSIONS: usize = 1024;

pub(super) fn load(config: &TlsConfig) -> Result<(Arc<ServerConfig>, TlsReport), BrokerError> {
    let chain = certificates("tls_cert", &config.certificate)?;
    let facts = facts("tls_cert", &config.certificate, &chain)?;
    let key = private_key(&config.key)?;
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| wrong("tls", &error.to_string()))?;
    let builder = match &config.client_ca {
        None if config.require_client_certificate => {
            return Err(wrong(
                "tls_client_auth",
                "client certificates are required, and `tls_client_ca` names no authority to believe",
            ));
        }
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(path)?), provider);
            let verifier = if config.require_client_certificate { verifier } else { verifier.allow_unauthenticated() };
            let verifier = verifier.build().map_err(|error| in_file("tls_client_ca", path, &error.to_string()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut server = builder.with_single_cert(chain, key).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            let certificate = config.certificate.display();
            in_file("tls_key", &config.key, &format!("the key does not belong to the certificate in {certificate}"))
        }
        rustls::Error::InvalidCertificate(_) => in_file("tls_cert", &config.certificate, &error.to_string()),
        error => in_file("tls_key", &config.key, &error.to_string()),
    })?;
    if config.client_ca.is_some() {
        // A session that is come back to shows no certificate again, which may have expired meanwhile.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
    } else {
        server.session_storage = ServerSessionMemoryCache::new(RESUMABLE_SESSIONS);
    }
    let Facts { subject, not_before, not_after } = facts;
    Ok((Arc::new(server), TlsReport { subject, not_before, not_after }))
}

/// What the first of a chain says, where all of it can be read.
fn facts(field: &'static str, path: &Path, chain: &[CertificateDer<'_>]) -> Result<Facts, BrokerError> {
    let mut first = None;
    for (at, certificate) in chain.iter().enumerate() {
        let facts = Facts::read(certificate).ok_or_else(|| in_file(field, path, &format!("certificate {} is no X.509", at + 1)))?;
        first.get_or_insert(facts);
    }
    first.ok_or_else(|| in_file(field, path, "there is no certificate in it (looking for `BEGIN CERTIFICATE`)"))
}

fn certificates(field: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, BrokerError> {
    let bytes = read(field, path)?;
    let all = CertificateDer::pem_slice_iter(&bytes).collect::<Result<Vec<_>, _>>();
    all.map_err(|error| in_file(field, path, &format!("this is no PEM: {}", plain(&error))))
}

fn authorities(path: &Path) -> Result<RootCertStore, BrokerError> {
    let field = "tls_client_ca";
    let all = certificates(field, path)?;
    facts(field, path, &all)?;
    let mut store = RootCertStore::empty();
    for certificate in all {
        store.add(certificate).map_err(|error| in_file(field, path, &error.to_string()))?;
    }
    Ok(store)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, BrokerError> {
    let field = "tls_key";
    PrivateKeyDer::from_pem_slice(&read(field, path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => in_file(
            field,
            path,
            "there is no private key in it (PKCS#8, PKCS#1 or SEC1 in PEM; not one encrypted with a passphrase)",
        ),
        error => in_file(field, path, &format!("this is no PEM: {}", plain(&error))),
    })
}

/// Without what stands in the file: that may be a key.
fn plain(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no end",
        pem::Error::IllegalSectionStart { .. } => "a section has no proper beginning",
        pem::Error::Base64Decode(_) => "a section is not in base64",
        _ => "it cannot be read",
    }
}

fn read(field: &'static str, path: &Path) -> Result<Zeroizing<Vec<u8>>, BrokerError> {
    let unreadable = |error: io::Error| in_file(field, path, &format!("it cannot be read: {error}"));
    let mut bytes = Zeroizing::new(Vec::new());
    File::open(path).and_then(|file| file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(in_file(field, path, &format!("it has more than {MAX_FILE_BYTES} bytes")));
    }
    Ok(bytes)
}

fn in_file(field: &'static str, path: &Path, problem: &str) -> BrokerError {
    wrong(field, &format!("{}: {problem}", path.display()))
}

fn wrong(field: &'static str, rule: &str) -> BrokerError {
    BrokerError::InvalidConfig { field, rule: rule.into() }
}
