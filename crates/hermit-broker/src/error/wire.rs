//! The one place where an error becomes a status on the wire.

use hermit_log::{LogError, ProducerError};
use hermit_proto::session::{Status, WireError};

use super::{BrokerError, Counted, line};

/// The status alone.
pub(crate) fn status_of(error: &BrokerError) -> Status {
    to_wire(error).status
}

/// The refusal that a client of version 2 gets: status, the field at fault, and the numbers that the status promises.
pub(crate) fn to_wire(error: &BrokerError) -> WireError {
    let wire = |status| WireError::new(status, line(error));
    match error {
        BrokerError::UnknownTopic { .. } => wire(Status::UnknownTopic).field("topic"),
        BrokerError::UnknownPartition { partitions, .. } => {
            wire(Status::UnknownPartition).field("partition").detail((*partitions).into())
        }
        BrokerError::FewerPartitions { has, .. } => wire(Status::InvalidConfig).field("partitions").detail((*has).into()),
        BrokerError::TopicExists { .. } => wire(Status::TopicExists).field("topic"),
        BrokerError::Name(name) => name.clone().into(),
        BrokerError::InvalidConfig { field, .. } => wire(Status::InvalidConfig).field(*field),
        BrokerError::InternalTopic { .. } => wire(Status::InternalTopic).field("topic"),
        BrokerError::PartitionDown { .. } => wire(Status::ReadOnly).field("partition"),
        BrokerError::Log(log) => log_to_wire(log, &line(error)),
        BrokerError::RecordSet { .. } => wire(Status::Malformed).field("frame"),
        BrokerError::RecordSetNotAllowed { .. } => wire(Status::RecordSetNotAllowed).field("frame"),
        BrokerError::Rejected { message } => WireError::new(Status::Rejected, message.as_str()).field("frames"),
        BrokerError::LowSpace { .. } => wire(Status::DiskFull),
        BrokerError::CommitBeyondEnd { high_watermark, .. } => {
            wire(Status::CommitBeyondEnd).field("offset").detail(high_watermark.0)
        }
        BrokerError::Diverged { end, .. } => wire(Status::Diverged).field("leader_epoch").detail(end.0),
        BrokerError::UnknownProducer { .. } => wire(Status::UnknownProducer).field("producer_id"),
        BrokerError::UnknownGroup { .. } => wire(Status::UnknownGroup).field("group"),
        BrokerError::UnknownMember { .. } => wire(Status::UnknownMember).field("member"),
        BrokerError::UnknownVersion { .. } => wire(Status::Malformed).field("version"),
        BrokerError::StaleGeneration { .. } => wire(Status::StaleGeneration).field("generation"),
        BrokerError::GroupActive { .. } => wire(Status::GroupActive).field("group"),
        BrokerError::InconsistentStrategy { .. } => wire(Status::InconsistentStrategy).field("strategy"),
        BrokerError::InvalidPattern { .. } => wire(Status::InvalidPattern).field("patterns"),
        BrokerError::SubscribedName { source } => WireError::from(source.clone()).field("topics"),
        BrokerError::AnswerTooLarge { bytes, limit_bytes } => {
            wire(Status::TooLarge).field("group").detail(*limit_bytes).detail(*bytes)
        }
        BrokerError::TooMany { what, limit } => match what {
            Counted::Connections | Counted::ConnectionsOfAddress => wire(Status::TooManyConnections).detail(*limit),
            Counted::Subscriptions => wire(Status::TooManySubscriptions).detail(*limit),
            Counted::Partitions => wire(Status::InvalidConfig).field("partitions").detail(*limit),
            Counted::GroupMembers | Counted::ActiveGroups | Counted::MembershipBytes => {
                wire(Status::TooManyMembers).field("group").detail(*limit)
            }
            Counted::PatternBytes => wire(Status::TooManyMembers).field("patterns").detail(*limit),
            Counted::MemberSubscriptions => wire(Status::TooLarge).field("topics").detail(*limit),
            Counted::TotalPartitions => wire(Status::TooLarge).field("partitions").detail(*limit),
            Counted::Users => wire(Status::TooLarge).field("user").detail(*limit),
            Counted::Tokens => wire(Status::TooLarge).field("label").detail(*limit),
            Counted::Rules => wire(Status::TooLarge).field("rules").detail(*limit),
            Counted::Producers => wire(Status::TooManyProducers).detail(*limit),
            Counted::Positions => wire(Status::TooLarge).detail(*limit),
            Counted::GroupPositions => wire(Status::TooLarge).field("group").detail(*limit),
        },
        BrokerError::NotAuthorized { field, .. } => wire(Status::NotAuthorized).field(*field),
        BrokerError::UnknownUser { .. } => wire(Status::UnknownUser).field("user"),
        BrokerError::UserExists { .. } => wire(Status::UserExists).field("user"),
        BrokerError::UnknownToken { .. } => wire(Status::UnknownToken).field("label"),
        BrokerError::TokenExists { .. } => wire(Status::TokenExists).field("label"),
        BrokerError::LastAdministrator => wire(Status::LastAdministrator),
        BrokerError::AccessReadOnly { .. } => wire(Status::ReadOnly),
        BrokerError::ShuttingDown => wire(Status::ShuttingDown),
        BrokerError::Io { .. } if error.is_disk_full() => wire(Status::DiskFull),
        BrokerError::ManifestReadOnly { .. } => wire(Status::ReadOnly),
        BrokerError::Io { .. }
        | BrokerError::Locked { .. }
        | BrokerError::NewerFormat { .. }
        | BrokerError::ClockBehind { .. }
        | BrokerError::NoDataDirectory { .. }
        | BrokerError::NotImported { .. }
        | BrokerError::ManifestRecord(_)
        | BrokerError::Limits(_)
        | BrokerError::Random(_) => wire(Status::Internal),
    }
}

fn log_to_wire(error: &LogError, message: &str) -> WireError {
    let wire = |status| WireError::new(status, message);
    match error {
        LogError::DiskFull { .. } => wire(Status::DiskFull),
        LogError::ReadOnly { .. } | LogError::OffsetsExhausted => wire(Status::ReadOnly),
        LogError::Closed => wire(Status::ShuttingDown),
        LogError::OutOfRange { log_start, high_watermark, .. } => {
            wire(Status::OffsetOutOfRange).field("offset").detail(log_start.0).detail(high_watermark.0)
        }
        LogError::Corrupt { from, next } => wire(Status::CorruptLog).detail(from.0).detail(next.0),
        LogError::Frame { source, .. } => WireError { message: message.into(), ..WireError::from(*source) },
        LogError::KeyRequired { .. } => wire(Status::KeyRequired).field("frame"),
        LogError::BatchTooLarge { bytes, limit_bytes } => {
            wire(Status::TooLarge).field("frames").detail(*limit_bytes).detail(*bytes)
        }
        LogError::Producer(producer) => match producer {
            ProducerError::OutOfSequence { expected, got, .. } => wire(Status::OutOfOrderSequence)
                .field("first_sequence")
                .detail(u64::from(expected.0.cast_unsigned()))
                .detail(u64::from(got.0.cast_unsigned())),
            ProducerError::Unknown { .. } => wire(Status::UnknownProducer).field("producer_id"),
            ProducerError::Fenced { .. } => wire(Status::FencedProducer).field("producer_epoch"),
        },
        // A failed read or write of this one call; what makes the log read-only says so at the next.
        LogError::Io { .. } | LogError::InUse { .. } => wire(Status::Internal),
        #[expect(unreachable_patterns, reason = "the log's errors may grow")]
        _ => wire(Status::Internal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;
    use std::sync::Arc;

    #[test]
    fn only_what_time_cures_is_retryable() {
        let full = || BrokerError::io("write", "x", io::ErrorKind::StorageFull.into());
        for error in [
            full(),
            BrokerError::LowSpace { free_bytes: 1, low_bytes: 2 },
            BrokerError::Log(LogError::DiskFull { path: "x".into() }),
            BrokerError::ShuttingDown,
            BrokerError::TooMany { what: Counted::Connections, limit: 1 },
        ] {
            assert!(error.is_retryable(), "{error}");
        }
        let read_only = LogError::ReadOnly { source: Arc::new(LogError::Closed) };
        for error in [
            BrokerError::unknown_topic("x"),
            BrokerError::Log(read_only),
            BrokerError::io("read", "x", io::ErrorKind::Other.into()),
            BrokerError::TooMany { what: Counted::Partitions, limit: 1 },
        ] {
            assert!(!error.is_retryable(), "{error}");
        }
    }

    #[test]
    fn causes_are_told_once() {
        let error = BrokerError::Log(LogError::ReadOnly { source: Arc::new(LogError::Closed) });
        let text = to_wire(&error).message;
        assert_eq!(text, "the log is read-only until a restart, because of an earlier failure: the log is closed");
        let error = BrokerError::io("read", "x", io::Error::other("no luck"));
        assert_eq!((error.to_string().as_str(), line(&error).as_str()), ("cannot read x", "cannot read x: no luck"));
        let error = BrokerError::PartitionDown { source: LogError::Closed };
        assert_eq!((error.to_string().contains("closed"), line(&error).matches("closed").count()), (false, 1));
    }
}
