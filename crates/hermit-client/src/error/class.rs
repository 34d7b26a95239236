//! How errors are classed: whether trying again helps, who has to act, and what else the SDK decides by.

use std::time::Duration;

use hermit_proto::session::{Operation, Status};

use super::{Error, ProtocolFault, TlsFault};

/// Who has to act for an [`Error`] to go away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The application: the same call fails again.
    Caller,
    /// The broker, or whoever runs it.
    Broker,
    /// The way between.
    Network,
    /// Stored data are damaged, or no longer what the position was taken from.
    Data,
}

impl Error {
    /// Whether the same call may succeed later, unchanged. Producers and consumers have tried already for as long as
    /// they were told to.
    ///
    /// ```
    /// use hermit_client::Error;
    ///
    /// assert!(!Error::NoGroup.is_retryable());
    /// ```
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. }
            | Self::ConnectionLost { .. }
            | Self::Timeout { .. }
            | Self::DeliveryTimeout { .. }
            | Self::WouldWait { .. } => true,
            Self::Refused { source, .. } => source.is_retryable(),
            // A session that ends, as the broker stops, took the call with it.
            Self::Protocol { source: ProtocolFault::Ended(source), .. } => source.is_retryable(),
            _ => false,
        }
    }

    /// Who has to act.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            Self::Unreachable { .. } | Self::ConnectionLost { .. } | Self::Timeout { .. } => Fault::Network,
            Self::Protocol { .. } => Fault::Broker,
            Self::Tls { source, .. } => match source {
                TlsFault::Expired | TlsFault::NotValidYet | TlsFault::AuthoritysOwn => Fault::Broker,
                TlsFault::Other(_) => Fault::Network,
                _ => Fault::Caller,
            },
            Self::Refused { source, .. } => status_fault(source.status),
            Self::DeliveryTimeout { source, .. } => source.as_ref().map_or(Fault::Network, |source| source.fault()),
            Self::OutcomeUnknown { source } => source.fault(),
            Self::Corrupt { .. } | Self::BadRecordSet { .. } | Self::OutOfRange { .. } | Self::Diverged { .. } => Fault::Data,
            Self::Name(_)
            | Self::UnknownTopic { .. }
            | Self::UnknownPartition { .. }
            | Self::InvalidRecord { .. }
            | Self::Encode(_)
            | Self::Config { .. }
            | Self::InsecureLogin { .. }
            | Self::NotAssigned { .. }
            | Self::UnknownGroup { .. }
            | Self::GroupActive { .. }
            | Self::ProducerFenced { .. }
            | Self::WouldWait { .. }
            | Self::WithinRuntime
            | Self::Runtime { .. }
            | Self::NoGroup
            | Self::Fenced { .. }
            | Self::ProcessingTimeout { .. }
            | Self::Handler { .. }
            | Self::Closed { .. } => Fault::Caller,
        }
    }

    /// The status of the broker's refusal, if this is one.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match self {
            Self::Refused { source, .. } => Some(source.status),
            _ => None,
        }
    }

    /// Whether the connection, not the request, is what failed.
    pub(crate) const fn is_transport(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::ConnectionLost { .. } | Self::Protocol { .. } | Self::Tls { .. })
    }

    /// Whether the broker does not believe who the client says it is, or the client may not even say it. The same words are refused again.
    pub(crate) fn is_refused_login(&self) -> bool {
        matches!(self, Self::InsecureLogin { .. })
            || matches!(self, Self::Refused { operation: Operation::Hello, source } if source.status == Status::NotAuthenticated)
    }

    /// How long the broker looks at no login from here; `None` where that is not what it said.
    pub(crate) fn login_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { operation: Operation::Hello, source } if source.status == Status::TooManyLogins => {
                Some(Duration::from_millis(source.details.first().copied().unwrap_or(0)))
            }
            _ => None,
        }
    }
}

const fn status_fault(status: Status) -> Fault {
    match status {
        Status::Malformed
        | Status::NotAuthenticated
        | Status::NotAuthorized
        | Status::TlsRequired
        | Status::UnknownTopic
        | Status::UnknownPartition
        | Status::TopicExists
        | Status::InvalidName
        | Status::InvalidConfig
        | Status::InternalTopic
        | Status::InvalidPattern
        | Status::TooLarge
        | Status::TooManyRecords
        | Status::KeyRequired
        | Status::RecordSetNotAllowed
        | Status::UnsupportedFrame
        | Status::Rejected
        | Status::FencedProducer
        | Status::CommitBeyondEnd
        | Status::UnknownGroup
        | Status::UnknownMember
        | Status::StaleGeneration
        | Status::GroupActive
        | Status::InconsistentStrategy
        | Status::UnknownUser
        | Status::UserExists
        | Status::UnknownToken
        | Status::TokenExists
        | Status::LastAdministrator
        | Status::TooManyLogins => Fault::Caller,
        Status::CorruptFrame => Fault::Network,
        Status::CorruptLog | Status::Diverged | Status::OffsetOutOfRange => Fault::Data,
        _ => Fault::Broker,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hermit_proto::session::WireError;

    #[test]
    fn a_call_whose_session_ended_for_now_may_be_tried_again() {
        let ended = |status| {
            let source = ProtocolFault::Ended(WireError::new(status, "the session ends"));
            Error::Protocol { server: "here".into(), source }
        };
        assert!(ended(Status::ShuttingDown).is_retryable());
        assert!(!ended(Status::Malformed).is_retryable());
    }
}
