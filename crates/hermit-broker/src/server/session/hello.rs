//! Hello: opening the session, and logging in.

use std::sync::Arc;

use hermit_proto::session::{
    FEATURES, HelloRequest, HelloResponse, MECHANISM_PLAIN, MECHANISM_TOKEN, Message, SESSION_VERSION, SessionLimits, Status,
    WireError,
};
use hermit_proto::{CorrelationId, Unit};
use zeroize::Zeroize as _;

use super::rights::Rights;
use super::state::{LOGIN_TOKEN, Session, Stage};
use crate::access::{Began, Login, LoginError, Origin, Slot, is_local};
use crate::broker::PROGRAM;
use crate::client_name::printable;
use crate::error::to_wire;
use crate::server::connection::Transport;
use crate::server::line_gate::Line;

/// When to try again where a password could not be looked at in time.
const AGAIN_MS: u64 = 1000;

/// A hello whose login is being decided.
#[derive(Debug)]
pub(super) struct LoggingIn {
    correlation: CorrelationId,
    version: u16,
    features: u64,
    slot: Arc<Slot>,
}

impl Session {
    pub(super) fn hello(&mut self, unit: &Unit) {
        let correlation = unit.correlation();
        let begun = HelloRequest::decode(unit.key(), unit.payload())
            .map_err(WireError::from)
            .and_then(|hello| self.begin(correlation, hello));
        if let Err(error) = begun {
            self.close(correlation, &error);
        }
    }

    fn begin(&mut self, correlation: CorrelationId, mut hello: HelloRequest) -> Result<(), WireError> {
        let Some(version) = hello.choose_version(SESSION_VERSION, SESSION_VERSION) else {
            let message = format!("this release speaks session version {SESSION_VERSION}");
            let version = u64::from(SESSION_VERSION);
            return Err(WireError::new(Status::UnsupportedVersion, message).field("min_version").detail(version).detail(version));
        };
        self.client = printable(&hello.client_name);
        let slot = Slot::new(Arc::clone(&self.signal), LOGIN_TOKEN);
        let hello_of = LoggingIn { correlation, version, features: hello.features & FEATURES, slot };
        if !self.broker.access().is_enabled() {
            if !hello.auth_mechanism.is_empty() {
                let message = "this broker authenticates nobody: leave user, password and token out";
                return Err(WireError::new(Status::NotAuthenticated, message).field("auth_mechanism"));
            }
            self.rights = Rights::open();
            return self.open(&hello_of);
        }
        let began = self.log_in(&hello, &hello_of.slot);
        hello.auth.zeroize();
        match began {
            Began::Decided(decided) => self.decided(&hello_of, decided),
            Began::Waits => {
                self.stage = Stage::LoggingIn;
                self.logging_in = Some(hello_of);
                Ok(())
            }
        }
    }

    fn log_in(&self, hello: &HelloRequest, slot: &Arc<Slot>) -> Began {
        let access = self.broker.access();
        let peer = self.transport.peer.ip();
        let mechanism = hello.auth_mechanism.as_str();
        if ![MECHANISM_PLAIN, MECHANISM_TOKEN].contains(&mechanism) {
            return Began::Decided(Err(LoginError::Mechanism));
        }
        // Before the secret is looked at: whoever sent it in the clear is not told whether it was right.
        if !takes_secrets(&self.transport, access.config().insecure_transport_ok) {
            return Began::Decided(Err(LoginError::Unencrypted));
        }
        access.begin(mechanism, &hello.auth, Origin::of(peer), slot)
    }

    /// The outcome of a login is there.
    pub(super) fn login_decided(&mut self) {
        let Some(logging_in) = self.logging_in.take() else { return };
        let Some(decided) = logging_in.slot.take() else {
            self.logging_in = Some(logging_in);
            return;
        };
        if let Err(error) = self.decided(&logging_in, decided) {
            self.close(logging_in.correlation, &error);
        }
    }

    /// The handshake's time is over, and too many others were before this one: that says nothing of the password.
    pub(super) fn login_late(&mut self) {
        if let Some(logging_in) = self.logging_in.take() {
            let error = LoginError::Later(AGAIN_MS);
            self.broker.counters().login((&error).into());
            self.close(logging_in.correlation, &refusal(&error));
        }
    }

    fn decided(&mut self, hello: &LoggingIn, decided: Result<Login, LoginError>) -> Result<(), WireError> {
        let rights = decided.and_then(|login| {
            let kind = login.kind;
            let rights = Rights::of(login, self.broker.access(), &self.signal).ok_or(LoginError::Wrong)?;
            self.broker.counters().login(kind.into());
            tracing::debug!(address = %self.address, user = %rights.told().principal, ?kind, "logged in");
            Ok(rights)
        });
        match rights {
            Ok(rights) => {
                self.rights = rights;
                self.open(hello)
            }
            Err(error) => {
                self.broker.counters().login((&error).into());
                if let Line::Write { left_out } = self.broker.lines().refused_logins.line() {
                    tracing::info!(address = %self.address, client = %self.client, reason = ?error, left_out, "a login was refused");
                }
                Err(refusal(&error))
            }
        }
    }

    fn open(&mut self, hello: &LoggingIn) -> Result<(), WireError> {
        if let Err(error) = self.entry.open() {
            let told = to_wire(&error);
            self.turned_away = Some(error);
            return Err(told);
        }
        let limits = self.broker.limits();
        let heartbeat = limits.heartbeat_interval.as_millis();
        let response = HelloResponse {
            version: hello.version,
            features: hello.features,
            broker: PROGRAM.into(),
            broker_id: self.broker.broker_id(),
            instance: self.broker.instance(),
            limits: SessionLimits {
                max_frame_bytes: limits.max_frame_bytes,
                max_records: limits.max_record_count,
                max_request_bytes: limits.max_request_bytes,
                max_subscriptions: limits.max_subscriptions,
                heartbeat_interval_ms: u32::try_from(heartbeat).unwrap_or(u32::MAX),
            },
        };
        if let Some(listed) = &self.listed {
            listed.is_of(self.rights.user(), &self.client);
        }
        tracing::debug!(client = %self.client, version = hello.version, "session opened");
        self.stage = Stage::Open;
        self.respond(hello.correlation, &response);
        Ok(())
    }
}

/// Whether a password or token may come this way.
fn takes_secrets(transport: &Transport, insecure_ok: bool) -> bool {
    transport.encrypted || is_local(transport.peer.ip()) || insecure_ok
}

/// How a refused login is told. Not whether there is such a user, in words or otherwise.
fn refusal(error: &LoginError) -> WireError {
    let refused = |field, message: &str| WireError::new(Status::NotAuthenticated, message).field(field);
    match error {
        LoginError::Mechanism => {
            let message =
                format!("log in: this broker takes the mechanisms {MECHANISM_PLAIN} (user and password) and {MECHANISM_TOKEN}");
            refused("auth_mechanism", &message)
        }
        LoginError::Unencrypted => refused(
            "auth_mechanism",
            "from other machines, secrets are taken over TLS only, and this one was not looked at: connect with TLS",
        ),
        LoginError::Malformed => refused("auth", "the authentication data do not have the form of their mechanism"),
        LoginError::Wrong => refused("auth", "user, password or token is wrong, or the user may not log in"),
        LoginError::Later(wait_ms) => {
            let message = format!("too many logins fail, or wait: nothing was looked at; try again in {wait_ms} ms");
            WireError::new(Status::TooManyLogins, message).detail(*wait_ms)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_from_this_machine_or_over_tls() {
        let from = |peer: &str, encrypted| Transport { peer: peer.parse().unwrap(), encrypted, client_certificate: None };
        for local in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(takes_secrets(&from(local, false), false), "{local}");
        }
        for remote in ["10.0.0.1:1", "192.168.1.1:1", "[fe80::1]:1", "[::ffff:10.0.0.1]:1", "0.0.0.0:1"] {
            assert!(!takes_secrets(&from(remote, false), false), "{remote}");
            assert!(takes_secrets(&from(remote, true), false) && takes_secrets(&from(remote, false), true), "{remote}");
        }
    }
}
