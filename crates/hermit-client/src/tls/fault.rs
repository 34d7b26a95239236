//! What a failed handshake means.

use std::io;

use rustls::{AlertDescription, CertificateError};

use crate::error::TlsFault;

/// How rustls shows webpki's error for an authority's certificate at the end of a chain. It has no variant of its own, and a test sees that it stays so.
const AUTHORITYS_OWN: &str = "CaUsedAsEndEntity";

/// Why TLS failed, if it is TLS that did.
pub(crate) fn fault_of(error: &io::Error) -> Option<TlsFault> {
    let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    Some(match error {
        rustls::Error::InvalidCertificate(problem) => of_certificate(problem),
        rustls::Error::AlertReceived(alert) => of_alert(*alert),
        rustls::Error::InvalidMessage(_) => TlsFault::NotSpoken,
        rustls::Error::General(problem) => TlsFault::Other(problem.as_str().into()),
        error => TlsFault::Other(error.to_string().into()),
    })
}

/// The same within a handshake, where a broker that knows no TLS just closes.
pub(crate) fn handshake_fault(error: &io::Error) -> Option<TlsFault> {
    let closed = matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe);
    fault_of(error).or_else(|| closed.then_some(TlsFault::NotSpoken))
}

fn of_certificate(problem: &CertificateError) -> TlsFault {
    match problem {
        CertificateError::UnknownIssuer => TlsFault::UnknownAuthority,
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => TlsFault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => TlsFault::NotValidYet,
        CertificateError::NotValidForName => TlsFault::WrongName { names: "".into() },
        CertificateError::NotValidForNameContext { presented, .. } => {
            TlsFault::WrongName { names: presented.iter().map(|name| plain_name(name)).collect::<Vec<_>>().join(", ").into() }
        }
        other if other.to_string().contains(AUTHORITYS_OWN) => TlsFault::AuthoritysOwn,
        other => TlsFault::Other(format!("the broker's certificate is not valid: {other}").into()),
    }
}

/// Of `DnsName("a.example")`, as rustls shows a name, what is in it.
fn plain_name(shown: &str) -> &str {
    let inner = shown.split_once('(').and_then(|(_kind, inner)| inner.strip_suffix(')'));
    inner.map_or(shown, |inner| inner.trim_matches('"'))
}

fn of_alert(alert: AlertDescription) -> TlsFault {
    match alert {
        AlertDescription::CertificateRequired => TlsFault::ClientCertificateRequired,
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => TlsFault::ClientCertificateRefused { why: format!("{alert:?}").into() },
        other => TlsFault::Other(format!("the broker refuses the handshake: {other:?}").into()),
    }
}
