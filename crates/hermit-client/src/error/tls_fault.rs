//! What may be wrong with TLS, in words that say what to do.

use std::sync::Arc;

/// Why there is no TLS: [`Error::Tls`](super::Error::Tls).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsFault {
    /// The broker's certificate was issued by nobody who is believed.
    #[error(
        "its certificate was issued by an authority that is not believed here: name a file with that authority's certificate (`TlsConfig::ca_file`)"
    )]
    UnknownAuthority,
    /// The broker's certificate is for other names.
    #[error(
        "its certificate is for another name{}: connect by a name that it is for, or say it (`TlsConfig::server_name`)",
        listed(names)
    )]
    WrongName {
        /// Those names.
        names: Arc<str>,
    },
    /// The broker shows a certificate that is an authority's own, such as `openssl req -x509` makes by itself.
    #[error("its certificate is that of an authority (CA:TRUE), not of a server: have one issued for it")]
    AuthoritysOwn,
    /// The broker's certificate has expired, or the clock of this machine is wrong.
    #[error("its certificate has expired (by this machine's clock): it has to be renewed")]
    Expired,
    /// The broker's certificate is not valid yet, or the clock of this machine is wrong.
    #[error("its certificate is not valid yet (by this machine's clock)")]
    NotValidYet,
    /// Something else came than TLS, or nothing.
    #[error("it does not answer with TLS: it may not be switched on there, or this is another server's port")]
    NotSpoken,
    /// The broker takes only clients that show a certificate.
    #[error("it asks for a client certificate: show one (`TlsConfig::client_certificate_files`)")]
    ClientCertificateRequired,
    /// The broker does not believe the client's certificate.
    #[error("it does not believe the client certificate ({why})")]
    ClientCertificateRefused {
        /// The alert that it sent.
        why: Arc<str>,
    },
    /// Anything else.
    #[error("{0}")]
    Other(Arc<str>),
}

fn listed(names: &str) -> String {
    if names.is_empty() { String::new() } else { format!(" ({names})") }
}
