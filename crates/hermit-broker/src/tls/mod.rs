//! TLS: which certificate the broker shows, whom it believes, and whether it takes anything else.

#[cfg(feature = "tls")]
mod certificate;
#[cfg(feature = "tls")]
mod load;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

#[cfg(feature = "tls")]
pub(crate) use active::{Active, Tls};
#[cfg(feature = "tls")]
pub(crate) use certificate::Facts;
#[cfg(feature = "tls")]
use load::load;
#[cfg(not(feature = "tls"))]
pub(crate) use without::Tls;
#[cfg(not(feature = "tls"))]
use without::load;

use crate::broker::Broker;
use crate::error::BrokerError;

/// TLS on the ports of a broker: whoever begins with a TLS handshake gets it, on the same port as all others. TLS 1.2 and 1.3.
///
/// Needs the feature `tls`; without it, a broker with this setting does not open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// A PEM file with the broker's certificate, and behind it those that lead to its authority. Setting `tls_cert`.
    pub certificate: PathBuf,
    /// A PEM file with the private key that belongs to it, not encrypted. Setting `tls_key`.
    pub key: PathBuf,
    /// A PEM file with the authorities whose client certificates are believed. Default: none, so that clients are not asked for a certificate. Setting
    /// `tls_client_ca`.
    pub client_ca: Option<PathBuf>,
    /// Whether clients must show a certificate. Default: no; one that is shown must be valid in either case. Setting `tls_client_auth`.
    pub require_client_certificate: bool,
    /// Whether connections without TLS are closed. Default: no. Setting `tls`.
    pub required: bool,
}

impl TlsConfig {
    /// TLS with a certificate and its key, for whoever wants it.
    #[must_use]
    pub fn new(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self {
            certificate: certificate.into(),
            key: key.into(),
            client_ca: None,
            require_client_certificate: false,
            required: false,
        }
    }

    /// Reads the files as a broker does at its start, and changes nothing.
    ///
    /// # Errors
    /// As [`Broker::reload_tls`].
    pub fn check(&self) -> Result<(), BrokerError> {
        load(self).map(drop)
    }
}

/// The certificate that a broker shows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsReport {
    /// Whom it names.
    pub subject: String,
    /// When it begins to be valid.
    pub not_before: SystemTime,
    /// When it ends to be valid. Clients do not believe it any more then.
    pub not_after: SystemTime,
}

impl TlsReport {
    /// Says which certificate is shown from now on, and loudly where clients will not believe it.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is nothing to tell without TLS"))]
    fn tell(&self, config: &TlsConfig, now: SystemTime) {
        let (path, subject) = (config.certificate.display(), &self.subject);
        if now < self.not_before {
            tracing::warn!(%path, subject, "the TLS certificate is not valid yet: clients will not believe it");
        }
        match self.not_after.duration_since(now) {
            Ok(left) if left > SOON => {
                tracing::info!(%path, subject, valid_days = left.as_secs() / SECONDS_PER_DAY, "this TLS certificate is shown");
            }
            Ok(left) => {
                tracing::warn!(%path, subject, valid_days = left.as_secs() / SECONDS_PER_DAY, "the TLS certificate expires soon: renew it");
            }
            Err(_past) => tracing::warn!(%path, subject, "the TLS certificate has expired: clients will not believe it"),
        }
    }
}

const SECONDS_PER_DAY: u64 = 24 * 3600;
/// How long before its end a certificate is warned of.
const SOON: Duration = Duration::from_secs(7 * SECONDS_PER_DAY);

impl Broker {
    /// Reads certificate, key and authorities anew. Handshakes that begin from now on see them; connections that are there go on.
    ///
    /// TLS can be begun with, and made optional or required, in the same way.
    ///
    /// # Errors
    /// [`BrokerError::InvalidConfig`], which names the setting: a file cannot be read or holds something else, or the key does not belong to the certificate.
    /// Everything is then as it was.
    pub fn reload_tls(&self, config: &TlsConfig) -> Result<TlsReport, BrokerError> {
        self.tls().load(config, self.wall_clock())
    }
}

#[cfg(feature = "tls")]
mod active {
    use std::num::NonZero;
    use std::sync::Arc;
    use std::time::SystemTime;

    use parking_lot::RwLock;
    use rustls::ServerConfig;
    use tokio::sync::Semaphore;

    use super::load::load;
    use super::{TlsConfig, TlsReport};
    use crate::error::BrokerError;

    /// What new handshakes see.
    #[derive(Debug)]
    pub(crate) struct Active {
        pub(crate) server: Arc<ServerConfig>,
        pub(crate) required: bool,
        not_after: SystemTime,
    }

    /// TLS of one broker.
    #[derive(Debug)]
    pub(crate) struct Tls {
        active: RwLock<Option<Arc<Active>>>,
        /// Handshakes that are computed at a time.
        handshakes: Arc<Semaphore>,
    }

    impl Tls {
        pub(crate) fn open(config: Option<&TlsConfig>, now: SystemTime) -> Result<Self, BrokerError> {
            let tls = Self::off();
            if let Some(config) = config {
                tls.load(config, now)?;
            }
            Ok(tls)
        }

        pub(crate) fn off() -> Self {
            // A handshake costs up to some milliseconds of computing. Half of the processors are left to the connections that are there.
            let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
            Self { active: RwLock::new(None), handshakes: Arc::new(Semaphore::new((cores / 2).max(1))) }
        }

        pub(crate) fn load(&self, config: &TlsConfig, now: SystemTime) -> Result<TlsReport, BrokerError> {
            let (server, report) = load(config)?;
            report.tell(config, now);
            *self.active.write() = Some(Arc::new(Active { server, required: config.required, not_after: report.not_after }));
            Ok(report)
        }

        pub(crate) fn active(&self) -> Option<Arc<Active>> {
            self.active.read().clone()
        }

        /// When the certificate ends to be valid that is shown.
        pub(crate) fn certificate_end(&self) -> Option<SystemTime> {
            self.active.read().as_ref().map(|active| active.not_after)
        }

        pub(crate) fn is_required(&self) -> bool {
            self.active.read().as_ref().is_some_and(|active| active.required)
        }

        pub(crate) const fn handshakes(&self) -> &Arc<Semaphore> {
            &self.handshakes
        }
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use std::time::SystemTime;

    use super::{TlsConfig, TlsReport};
    use crate::error::BrokerError;

    /// No TLS.
    #[derive(Debug)]
    pub(crate) struct Tls;

    impl Tls {
        pub(crate) fn open(config: Option<&TlsConfig>, now: SystemTime) -> Result<Self, BrokerError> {
            config.map_or(Ok(()), |config| Self.load(config, now).map(drop))?;
            Ok(Self)
        }

        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(super) fn load(&self, config: &TlsConfig, _now: SystemTime) -> Result<TlsReport, BrokerError> {
            load(config)
        }

        #[expect(clippy::unused_self, reason = "as with the feature")]
        pub(crate) const fn certificate_end(&self) -> Option<SystemTime> {
            None
        }
    }

    pub(super) fn load(_config: &TlsConfig) -> Result<TlsReport, BrokerError> {
        let rule = "this build has no TLS: build hermit-broker with the feature `tls`".into();
        Err(BrokerError::InvalidConfig { field: "tls", rule })
    }
}
