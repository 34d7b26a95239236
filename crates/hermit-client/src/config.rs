//! How a client reaches its broker.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::backoff::BackoffConfig;
use crate::error::{Error, Result};
#[cfg(feature = "tls")]
use crate::tls::{Connector, TlsConfig};

/// The settings of a [`Client`](crate::Client); see [`ClientBuilder`](crate::ClientBuilder).
#[derive(Clone, Debug)]
pub(crate) struct ClientConfig {
    pub(crate) servers: Vec<Arc<str>>,
    pub(crate) name: String,
    pub(crate) auth: Auth,
    pub(crate) connect_timeout: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) heartbeat_interval: Duration,
    pub(crate) backoff: BackoffConfig,
    pub(crate) max_unit_bytes: u64,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<TlsConfig>,
    /// Made from `tls` when the client is started.
    #[cfg(feature = "tls")]
    pub(crate) connector: Option<Connector>,
}

/// What the hello says for authentication. Reserved: the broker of this release asks for none.
#[derive(Clone, Default)]
pub(crate) struct Auth {
    pub(crate) mechanism: String,
    pub(crate) initial: Vec<u8>,
}

impl fmt::Debug for Auth {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Auth").field("mechanism", &self.mechanism).finish_non_exhaustive()
    }
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            name: concat!("hermit-client/", env!("CARGO_PKG_VERSION")).to_owned(),
            auth: Auth::default(),
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            heartbeat_interval: Duration::from_secs(10),
            backoff: BackoffConfig::default(),
            max_unit_bytes: 128 << 20,
            #[cfg(feature = "tls")]
            tls: None,
            #[cfg(feature = "tls")]
            connector: None,
        }
    }
}

impl ClientConfig {
    pub(crate) fn check(&self) -> Result<()> {
        let problem = |setting, problem: &str| Err(Error::Config { setting, problem: problem.to_owned() });
        if self.servers.is_empty() {
            return problem("servers", "name at least one server, such as 127.0.0.1:9092");
        }
        if let Some(server) = self.servers.iter().find(|server| !has_port(server)) {
            return problem("servers", &format!("`{server}` has no port; write it as HOST:PORT, such as {server}:9092"));
        }
        if self.connect_timeout.is_zero() {
            return problem("connect_timeout", "must be longer than 0");
        }
        if self.request_timeout.is_zero() {
            return problem("request_timeout", "must be longer than 0");
        }
        if self.heartbeat_interval.is_zero() {
            return problem("heartbeat_interval", "must be longer than 0");
        }
        if self.backoff.min.is_zero() || self.backoff.max < self.backoff.min {
            return problem("backoff", "`min` must be longer than 0, and `max` not below it");
        }
        Ok(())
    }
}

fn has_port(server: &str) -> bool {
    server.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_need_a_port() {
        let with = |servers: &[&str]| ClientConfig { servers: servers.iter().map(|s| (*s).into()).collect(), ..Default::default() };
        assert!(with(&["127.0.0.1:9092", "[::1]:9092", "broker.example:1"]).check().is_ok());
        for bad in [&[][..], &["localhost"], &["localhost:"], &[":9092"], &["a:70000"], &["ok:1", "bad"]] {
            assert!(matches!(with(bad).check(), Err(Error::Config { setting: "servers", .. })), "{bad:?}");
        }
    }

    #[test]
    fn what_is_printed_of_a_client_holds_no_secret() {
        let auth = Auth { mechanism: "plain".into(), initial: b"hunter2".to_vec() };
        let printed = format!("{:?} {:?}", ClientConfig { auth: auth.clone(), ..Default::default() }, auth);
        assert!(printed.contains("plain"), "{printed}");
        assert!(!printed.contains("hunter2") && !printed.contains("104, 117, 110"), "{printed}");
    }

    #[test]
    fn times_of_zero_are_refused() {
        let good = ClientConfig { servers: vec!["a:1".into()], ..Default::default() };
        let bad = [
            ClientConfig { connect_timeout: Duration::ZERO, ..good.clone() },
            ClientConfig { request_timeout: Duration::ZERO, ..good.clone() },
            ClientConfig { heartbeat_interval: Duration::ZERO, ..good.clone() },
            ClientConfig { backoff: BackoffConfig { min: Duration::from_secs(2), max: Duration::from_secs(1) }, ..good },
        ];
        for config in bad {
            assert!(matches!(config.check(), Err(Error::Config { .. })), "{config:?}");
        }
    }
}
