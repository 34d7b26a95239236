//! What a failed handshake means.

use std::io;

use rustls::{AlertDescription, CertificateError};

use crate::error::TlsFault;

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
        CertificateError::NotValidForNameContext { presented, .. } => TlsFault::WrongName { names: presented.join(", ").into() },
        other => TlsFault::Other(format!("the broker's certificate is not valid: {other}").into()),
    }
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
