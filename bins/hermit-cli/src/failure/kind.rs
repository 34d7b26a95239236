//! What an error is to programs: never another word for the same.

use hermit_client::Error;

/// A refusal is what the broker's status says, and what took too long is what stood in its way.
pub(super) fn of(error: &Error) -> String {
    let kind = match error {
        Error::Unreachable { .. } => "unreachable",
        Error::ConnectionLost { .. } => "connection_lost",
        Error::Tls { .. } => "tls",
        Error::InsecureLogin { .. } => "insecure_login",
        Error::Protocol { .. } => "protocol",
        Error::Refused { source, .. } => return snake_case(source.status.name()),
        Error::Timeout { source: Some(source), .. } | Error::DeliveryTimeout { source: Some(source), .. } => return of(source),
        Error::Timeout { .. } | Error::DeliveryTimeout { .. } => "timeout",
        Error::OutcomeUnknown { .. } => "outcome_unknown",
        Error::ProducerFenced { .. } | Error::Fenced { .. } => "fenced",
        Error::Name(_) => "invalid_name",
        Error::UnknownTopic { .. } => "unknown_topic",
        Error::UnknownPartition { .. } => "unknown_partition",
        Error::UnknownGroup { .. } => "unknown_group",
        Error::GroupActive { .. } => "group_active",
        Error::InvalidRecord { .. } => "invalid_record",
        Error::Config { .. } => "invalid_setting",
        Error::Corrupt { .. } | Error::BadRecordSet { .. } => "corrupt",
        Error::OutOfRange { .. } => "out_of_range",
        Error::Diverged { .. } => "diverged",
        Error::ProcessingTimeout { .. } => "processing_timeout",
        _ => "failed",
    };
    kind.to_owned()
}

/// `TopicExists` as `topic_exists`.
pub(crate) fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for character in name.chars() {
        if character.is_ascii_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(character.to_ascii_lowercase());
    }
    snake
}
