//! In whose name clients of version 1 act, who cannot say who they are: that of the user which the settings name.

use std::sync::Arc;

use hermit_proto::TopicName;
use hermit_proto::session::AccessOperations;

use crate::access::{Authority, Credential, Principal, Watch};
use crate::broker::Broker;
use crate::error::BrokerError;
use crate::server::connection::End;
use crate::signal::Signal;

/// What a connection needs for as long as it lives.
#[derive(Debug)]
pub(super) struct Guard {
    group: Option<String>,
    topic: TopicName,
    operation: AccessOperations,
    /// The epoch in which it was allowed.
    epoch: u64,
    /// Wakes the connection at each change.
    _watch: Option<Watch>,
}

impl Guard {
    /// Checks what a handshake asks for.
    pub(super) fn new(
        broker: &Broker,
        group: Option<&str>,
        topic: &TopicName,
        operation: AccessOperations,
        signal: &Arc<Signal>,
    ) -> Result<Self, End> {
        let access = broker.access();
        // Before the look, so that no change is missed.
        let watch = access.is_enabled().then(|| access.watch(signal, 0));
        let guard = Self { group: group.map(str::to_owned), topic: topic.clone(), operation, epoch: access.epoch(), _watch: watch };
        guard.look(broker)?;
        Ok(guard)
    }

    /// Whether what was allowed still is. One load where nothing has changed.
    pub(super) fn check(&mut self, broker: &Broker) -> Result<(), End> {
        let epoch = broker.access().epoch();
        if self.epoch != epoch {
            self.epoch = epoch;
            self.look(broker)?;
        }
        Ok(())
    }

    fn look(&self, broker: &Broker) -> Result<(), End> {
        let authority = authority(broker)?;
        if let Some(group) = &self.group {
            authority.check_group(group, AccessOperations::CONSUME)?;
        }
        authority.check_topic(self.topic.as_str(), self.operation, "topic")?;
        Ok(())
    }
}

/// The user as whom clients of version 1 act; empty where nobody logs in.
pub(in crate::server) fn user(broker: &Broker) -> &str {
    let config = broker.access().config();
    config.v1_principal.as_ref().filter(|_user| config.enabled).map_or("", |user| user.as_str())
}

/// What clients of version 1 may do.
///
/// # Errors
/// They may not even come: nobody is named, or who is named may not log in.
pub(super) fn authority(broker: &Broker) -> Result<Authority, End> {
    let access = broker.access();
    if !access.is_enabled() {
        return Ok(Authority::open());
    }
    let Some(user) = &access.config().v1_principal else {
        return Err(End::Refused("clients of version 1 cannot log in, and no `v1_principal` is set as whom they act".into()));
    };
    let authority = Authority::of(Principal::User(user.clone()), access);
    if authority.holds(&Credential::None, access) {
        Ok(authority)
    } else {
        Err(End::Refused(format!("clients of version 1 act as user {user}, whom there is not, or who is disabled")))
    }
}

/// Whether a producer may create the topic that it names.
pub(super) fn check_create(broker: &Broker, topic: &TopicName) -> Result<(), End> {
    let created = authority(broker)?.check_topic(topic.as_str(), AccessOperations::CREATE, "topic");
    created.map_err(|error: BrokerError| error.into())
}
