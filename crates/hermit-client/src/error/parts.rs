//! What an [`Error`](super::Error) carries that says more: how a partition was lost, how the protocol was broken, what is wrong with a record.

use std::sync::Arc;

use hermit_proto::session::{BodyError, Operation, WireError};
use hermit_proto::{CorrelationId, DeframeError};

/// How a member lost a partition: [`Error::Fenced`](super::Error::Fenced).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fencing {
    /// The broker did not know the member any more, and another has the partition now.
    #[error(
        "the broker had not heard of the member for longer than the session timeout, or had waited for the partition for longer than \
         the processing timeout, or was restarted"
    )]
    Expired,
    /// The group gave the partition to another member.
    #[error("the group gave it to another member")]
    Moved,
    /// Another member, or somebody with a tool, has committed meanwhile.
    #[error("another position was committed meanwhile")]
    Overtaken,
}

/// How a peer broke the protocol.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolFault {
    /// The stream cannot be cut into units.
    #[error(transparent)]
    Deframe(#[from] DeframeError),
    /// An answer does not have the form of its operation.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// More came than credit was given for.
    #[error("subscription {subscription} got more than its credit")]
    CreditExceeded {
        /// The subscription.
        subscription: CorrelationId,
    },
    /// A delivery contradicts itself or what was asked.
    #[error("a delivery for subscription {subscription} cannot be right: {problem}")]
    Delivery {
        /// The subscription.
        subscription: CorrelationId,
        /// What is wrong.
        problem: &'static str,
    },
    /// An answer contradicts the request.
    #[error("the answer to {operation} cannot be right: {problem}")]
    Answer {
        /// What was asked.
        operation: Operation,
        /// What is wrong.
        problem: &'static str,
    },
    /// The session was ended by the broker.
    #[error("the session was ended: {0}")]
    Ended(WireError),
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordFault {
    /// Larger than the limit.
    #[error("it has {size_bytes} bytes, the limit is {limit_bytes}")]
    TooLarge {
        /// Its size when encoded, at most.
        size_bytes: u64,
        /// The broker's limit for a frame, or the producer's for buffered bytes.
        limit_bytes: u64,
    },
    /// A compacted topic keeps the newest record of each key.
    #[error("the topic is compacted: give the record a key")]
    KeyRequired,
    /// A compacted topic's frames have no room for headers.
    #[error("the topic is compacted: its records cannot have headers")]
    HeadersNotAllowed,
    /// What the encoding of record sets cannot hold.
    #[error("{0}")]
    Encoding(Arc<str>),
}
