//! Hello: opening the session.

use hermit_proto::session::{FEATURES, HelloRequest, HelloResponse, Message, SESSION_VERSION, SessionLimits, Status, WireError};
use hermit_proto::{CorrelationId, Unit};

use super::state::{Session, Stage};
use crate::broker::PROGRAM;
use crate::error::to_wire;

impl Session {
    pub(super) fn hello(&mut self, unit: &Unit) {
        let correlation = unit.correlation();
        match HelloRequest::decode(unit.key(), unit.payload())
            .map_err(WireError::from)
            .and_then(|hello| self.open(correlation, &hello))
        {
            Ok(()) => {}
            Err(error) => {
                error.encode(correlation, &mut self.out);
                self.stage = Stage::Closing;
            }
        }
    }

    fn open(&mut self, correlation: CorrelationId, hello: &HelloRequest) -> Result<(), WireError> {
        let Some(version) = hello.choose_version(SESSION_VERSION, SESSION_VERSION) else {
            let message = format!("this release speaks session version {SESSION_VERSION}");
            let version = u64::from(SESSION_VERSION);
            return Err(WireError::new(Status::UnsupportedVersion, message).field("min_version").detail(version).detail(version));
        };
        if !hello.auth_mechanism.is_empty() {
            let message = "this broker authenticates nobody: leave the mechanism out";
            return Err(WireError::new(Status::NotAuthenticated, message).field("auth_mechanism"));
        }
        if let Err(error) = self.entry.open() {
            let told = to_wire(&error);
            self.turned_away = Some(error);
            return Err(told);
        }
        let limits = self.broker.limits();
        let heartbeat = limits.heartbeat_interval.as_millis();
        let response = HelloResponse {
            version,
            features: hello.features & FEATURES,
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
        tracing::debug!(client = %hello.client_name, version, "session opened");
        self.client.clone_from(&hello.client_name);
        self.stage = Stage::Open;
        self.respond(correlation, &response);
        Ok(())
    }
}
