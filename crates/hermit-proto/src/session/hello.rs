//! Hello: the first request of a session.

use std::fmt;

use super::body::{BodyError, BodyReader, BodyWriter};
use super::message::{Message, Request, Response};
use super::operation::Operation;
use crate::secret::Secret;

/// The session version that this release speaks.
pub const SESSION_VERSION: u16 = 1;

/// Feature bits: what both ends have is in force. None is given yet.
pub const FEATURES: u64 = 0;

/// Authentication by user and password, as SASL's PLAIN (RFC 4616): authorization id, NUL, user, NUL, password. The authorization id is empty,
/// or the user.
pub const MECHANISM_PLAIN: &str = "PLAIN";

/// Authentication by a token: its text.
pub const MECHANISM_TOKEN: &str = "TOKEN";

/// Says who calls, and what it can do.
#[derive(Clone, PartialEq, Eq)]
pub struct HelloRequest {
    /// Lowest session version the client speaks.
    pub min_version: u16,
    /// Highest session version the client speaks.
    pub max_version: u16,
    /// Feature bits the client has.
    pub features: u64,
    /// Name of the client, for logs.
    pub client_name: String,
    /// Name of the authentication mechanism; empty for none.
    pub auth_mechanism: String,
    /// What the mechanism sends first.
    pub auth: Vec<u8>,
}

impl HelloRequest {
    /// A hello of this release, without authentication.
    #[must_use]
    pub fn new(client_name: impl Into<String>) -> Self {
        Self {
            min_version: SESSION_VERSION,
            max_version: SESSION_VERSION,
            features: FEATURES,
            client_name: client_name.into(),
            auth_mechanism: String::new(),
            auth: Vec::new(),
        }
    }

    /// The same, with a user and a password.
    #[must_use]
    pub fn with_password(mut self, user: &str, password: &Secret) -> Self {
        self.auth_mechanism = MECHANISM_PLAIN.into();
        self.auth = ["", user, password.expose()].join("\0").into_bytes();
        self
    }

    /// The same, with a token.
    #[must_use]
    pub fn with_token(mut self, token: &Secret) -> Self {
        self.auth_mechanism = MECHANISM_TOKEN.into();
        self.auth = token.expose().into();
        self
    }

    /// The highest version that lies in the client's range and in `min..=max`.
    #[must_use]
    pub fn choose_version(&self, min: u16, max: u16) -> Option<u16> {
        let highest = self.max_version.min(max);
        (highest >= self.min_version.max(min)).then_some(highest)
    }
}

impl fmt::Debug for HelloRequest {
    /// Without what the mechanism sends.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelloRequest")
            .field("min_version", &self.min_version)
            .field("max_version", &self.max_version)
            .field("features", &self.features)
            .field("client_name", &self.client_name)
            .field("auth_mechanism", &self.auth_mechanism)
            .field("auth", &format_args!("{} bytes", self.auth.len()))
            .finish()
    }
}

impl Message for HelloRequest {
    const OPERATION: Operation = Operation::Hello;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u16(self.min_version);
        body.u16(self.max_version);
        body.u64(self.features);
        body.string("client_name", &self.client_name);
        body.string("auth_mechanism", &self.auth_mechanism);
        body.bytes("auth", &self.auth);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            min_version: body.u16("min_version")?,
            max_version: body.u16("max_version")?,
            features: body.u64("features")?,
            client_name: body.string("client_name")?.to_owned(),
            auth_mechanism: body.string("auth_mechanism")?.to_owned(),
            auth: body.bytes("auth")?.to_vec(),
        })
    }
}

impl Request for HelloRequest {
    type Response = HelloResponse;
}

/// What the client has to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Most bytes of key and payload together in one data frame.
    pub max_frame_bytes: u32,
    /// Most records in one data frame.
    pub max_records: u32,
    /// Most bytes of key and payload together in one produce request; others have 1 MiB at most
    /// ([`MAX_PLAIN_REQUEST_BYTES`](super::MAX_PLAIN_REQUEST_BYTES)).
    pub max_request_bytes: u32,
    /// Most subscriptions in one session.
    pub max_subscriptions: u32,
    /// Milliseconds without a byte from the client after which it should send a heartbeat; the broker closes a
    /// session that has been silent for three times as long. 0: never.
    pub heartbeat_interval_ms: u32,
}

/// Opens the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloResponse {
    /// The session version in force.
    pub version: u16,
    /// The feature bits in force.
    pub features: u64,
    /// Name and version of the broker's program.
    pub broker: String,
    /// Names the data directory: the same for its whole life.
    pub broker_id: u128,
    /// Another one after each start of the broker.
    pub instance: u64,
    /// What the client has to keep to.
    pub limits: SessionLimits,
}

impl Message for HelloResponse {
    const OPERATION: Operation = Operation::Hello;

    fn write(&self, body: &mut BodyWriter<'_>) {
        body.u16(self.version);
        body.u64(self.features);
        body.string("broker", &self.broker);
        body.u128(self.broker_id);
        body.u64(self.instance);
        body.u32(self.limits.max_frame_bytes);
        body.u32(self.limits.max_records);
        body.u32(self.limits.max_request_bytes);
        body.u32(self.limits.max_subscriptions);
        body.u32(self.limits.heartbeat_interval_ms);
    }

    fn read(body: &mut BodyReader<'_>) -> Result<Self, BodyError> {
        Ok(Self {
            version: body.u16("version")?,
            features: body.u64("features")?,
            broker: body.string("broker")?.to_owned(),
            broker_id: body.u128("broker_id")?,
            instance: body.u64("instance")?,
            limits: SessionLimits {
                max_frame_bytes: body.u32("max_frame_bytes")?,
                max_records: body.u32("max_records")?,
                max_request_bytes: body.u32("max_request_bytes")?,
                max_subscriptions: body.u32("max_subscriptions")?,
                heartbeat_interval_ms: body.u32("heartbeat_interval_ms")?,
            },
        })
    }
}

impl Response for HelloResponse {}
