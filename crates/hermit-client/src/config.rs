//! How a client reaches its broker.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

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
    /// Whether what `auth` holds may be read on its way to another machine.
    pub(crate) insecure_login: bool,
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

/// What the hello says for authentication. Overwritten when the last client that needs it is gone.
#[derive(Clone, Default)]
pub(crate) struct Auth {
    pub(crate) mechanism: String,
    pub(crate) initial: Zeroizing<Vec<u8>>,
    /// Why it cannot be sent, without the secret: the setting, and the rule.
    problem: Option<(&'static str, &'static str)>,
}

impl Auth {
    pub(crate) fn other(mechanism: String, initial: Vec<u8>) -> Self {
        Self { mechanism, initial: Zeroizing::new(initial), problem: None }
    }

    /// SASL's PLAIN (RFC 4616): an empty authorization identity, the user and the password, with a NUL before each of the two.
    pub(crate) fn password(user: &str, password: &str) -> Self {
        let problem = if user.is_empty() || password.is_empty() {
            Some(("password", "neither the user nor the password may be empty"))
        } else if user.contains('\0') || password.contains('\0') {
            Some(("password", "neither the user nor the password may hold a NUL character"))
        } else {
            None
        };
        // With its whole room from the start: what grows leaves copies behind.
        let mut initial = Zeroizing::new(Vec::with_capacity(user.len().saturating_add(password.len()).saturating_add(2)));
        for part in [user, password] {
            initial.push(0);
            initial.extend_from_slice(part.as_bytes());
        }
        Self { mechanism: "PLAIN".to_owned(), initial, problem }
    }

    pub(crate) fn token(token: &str) -> Self {
        let problem = token.is_empty().then_some(("token", "is empty"));
        Self { mechanism: "TOKEN".to_owned(), initial: Zeroizing::new(token.as_bytes().to_vec()), problem }
    }
}

impl ClientConfig {
    /// Whether the hello may go to `peer` without TLS: what another machine's network carries, everybody on the way reads, and the broker's refusal comes too late.
    pub(crate) fn may_log_in_unencrypted(&self, peer: IpAddr) -> bool {
        self.auth.initial.is_empty() || self.insecure_login || peer.to_canonical().is_loopback()
    }
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
            insecure_login: false,
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
        if let Some((setting, rule)) = self.auth.problem {
            return problem(setting, rule);
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
        for auth in [Auth::other("X".into(), b"hunter2".to_vec()), Auth::password("ann", "hunter2"), Auth::token("hunter2")] {
            let printed = format!("{:?} {:?}", ClientConfig { auth: auth.clone(), ..Default::default() }, auth);
            assert!(printed.contains(&auth.mechanism), "{printed}");
            assert!(!printed.contains("hunter2") && !printed.contains("104, 117, 110"), "{printed}");
        }
    }

    #[test]
    fn secrets_go_unencrypted_to_this_machine_alone() {
        let with = |auth, insecure_login| ClientConfig { auth, insecure_login, ..Default::default() };
        let may = |config: &ClientConfig, peer: &str| config.may_log_in_unencrypted(peer.parse().unwrap());
        for auth in [Auth::password("ann", "s3 cret"), Auth::token("hmt_x"), Auth::other("X".into(), vec![1])] {
            for local in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
                assert!(may(&with(auth.clone(), false), local), "{local}");
            }
            for remote in ["10.0.0.1", "192.168.1.1", "2001:db8::1", "fe80::1", "::ffff:10.0.0.1", "0.0.0.0"] {
                assert!(!may(&with(auth.clone(), false), remote), "{remote}");
                assert!(may(&with(auth.clone(), true), remote) && may(&with(Auth::default(), false), remote), "{remote}");
            }
        }
    }

    #[test]
    fn a_password_goes_by_sasl_plain() {
        let auth = Auth::password("ann", "s3 cret");
        assert_eq!((auth.mechanism.as_str(), auth.initial.as_slice()), ("PLAIN", &b"\0ann\0s3 cret"[..]));
        let with = |auth| ClientConfig { servers: vec!["a:1".into()], auth, ..Default::default() }.check();
        with(auth).unwrap();
        with(Auth::token("hmt_x")).unwrap();
        for bad in [
            Auth::password("", "x"),
            Auth::password("x", ""),
            Auth::password("a\0b", "x"),
            Auth::password("a", "x\0"),
            Auth::token(""),
        ] {
            assert!(matches!(with(bad), Err(Error::Config { setting: "password" | "token", .. })));
        }
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
