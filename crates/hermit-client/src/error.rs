//! The one error type of the SDK.

mod class;
mod parts;
mod tls_fault;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hermit_proto::session::{EncodeError, Operation, ResponseError, WireError};
use hermit_proto::{FrameError, LeaderEpoch, NameError, Offset, PartitionId, ProducerEpoch, ProducerId};

pub use class::Fault;
pub use parts::{Fencing, ProtocolFault, RecordFault};
pub use tls_fault::TlsFault;

/// The result of the SDK's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Cheap to clone, since all records of a batch share one.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection could be made.
    #[error("cannot reach {server}: {}", plain(source))]
    Unreachable {
        /// The address tried.
        server: Arc<str>,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// The connection broke while something was asked, or before.
    #[error("the connection to {server} broke: {}", plain(source))]
    ConnectionLost {
        /// The broker's address.
        server: Arc<str>,
        /// What broke it.
        source: Arc<io::Error>,
    },
    /// TLS could not be had. It is tried again, as a broker that cannot be reached is.
    #[error("no TLS with {server}: {source}")]
    Tls {
        /// The broker's address.
        server: Arc<str>,
        /// Why not.
        source: TlsFault,
    },
    /// The broker is on another machine, the connection is not encrypted, and so the password or token was not sent. It is not tried again.
    #[error(
        "{server} is on another machine, and without TLS everybody on the way could read the password or token: it was not sent; connect with TLS"
    )]
    InsecureLogin {
        /// The broker's address.
        server: Arc<str>,
    },
    /// The broker sent what the protocol does not allow; the connection was closed.
    #[error("{server} broke the protocol: {source}")]
    Protocol {
        /// The broker's address.
        server: Arc<str>,
        /// How.
        source: ProtocolFault,
    },
    /// The broker refused.
    #[error("{operation} was refused: {source}")]
    Refused {
        /// What was asked.
        operation: Operation,
        /// The broker's answer.
        source: Arc<WireError>,
    },
    /// No answer in time.
    #[error("no {awaited} within {after:?}{}", because(source))]
    Timeout {
        /// What was waited for.
        awaited: &'static str,
        /// How long.
        after: Duration,
        /// What stood in the way last, if that is known.
        source: Option<Arc<Self>>,
    },
    /// The records were not stored within the delivery timeout.
    #[error("the record was not stored within the delivery timeout of {after:?}{}", because(source))]
    DeliveryTimeout {
        /// The delivery timeout.
        after: Duration,
        /// What stood in the way last.
        source: Option<Arc<Self>>,
    },
    /// The records may be stored, or not: sending them again could double them.
    #[error("the record may be stored or not; sending it again may double it: {source}")]
    OutcomeUnknown {
        /// What hid the outcome.
        source: Arc<Self>,
    },
    /// Another incarnation of the producer has taken its place: nothing more is sent. Whether what was in flight is stored says
    /// [`Error::OutcomeUnknown`] where it is not known.
    #[error(
        "producer {id}, epoch {epoch} was fenced: a newer incarnation of it writes; stop this one, or build a producer of another identity"
    )]
    ProducerFenced {
        /// The producer id.
        id: ProducerId,
        /// The epoch of the fenced incarnation.
        epoch: ProducerEpoch,
    },
    /// What would have to be waited for, and the call does not wait.
    #[error("the call would have to wait for {awaited}")]
    WouldWait {
        /// For what.
        awaited: &'static str,
    },
    /// The blocking client was called from within an async runtime.
    #[error("the blocking client was called from within an async runtime, which it would hold up: use the async one there")]
    WithinRuntime,
    /// The blocking client's runtime could not be started.
    #[error("cannot start the client's thread: {source}")]
    Runtime {
        /// Why not.
        source: Arc<io::Error>,
    },
    /// A name breaks the rule for names.
    #[error(transparent)]
    Name(#[from] NameError),
    /// There is no topic of that name.
    #[error("there is no topic `{topic}`")]
    UnknownTopic {
        /// The name.
        topic: Arc<str>,
    },
    /// The topic has no such partition.
    #[error("topic `{topic}` has no partition {partition}; its partitions are 0 to {}", count.saturating_sub(1))]
    UnknownPartition {
        /// The topic.
        topic: Arc<str>,
        /// The partition asked for.
        partition: PartitionId,
        /// How many the topic has.
        count: u32,
    },
    /// The record cannot be sent as it is.
    #[error("the record cannot be sent to topic `{topic}`: {source}")]
    InvalidRecord {
        /// The topic.
        topic: Arc<str>,
        /// What is wrong with it.
        source: RecordFault,
    },
    /// A request does not fit its encoding.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A setting cannot be used.
    #[error("setting `{setting}`: {problem}")]
    Config {
        /// Its name.
        setting: &'static str,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Stored records are damaged and cannot be read.
    #[error("topic `{topic}`, partition {partition}: the records from offset {first} up to {next} (exclusive) are damaged")]
    Corrupt {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: PartitionId,
        /// The first damaged offset.
        first: Offset,
        /// Where reading can go on.
        next: Offset,
        /// What the consumer found, if it was the consumer and not the broker.
        source: Option<FrameError>,
    },
    /// The frame is as its producer made it, but what it holds is no record set.
    #[error(
        "topic `{topic}`, partition {partition}: the record set from offset {first} up to {next} (exclusive) cannot be read: {problem}"
    )]
    BadRecordSet {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: PartitionId,
        /// The first offset of the frame.
        first: Offset,
        /// Where reading can go on.
        next: Offset,
        /// What is wrong.
        problem: Arc<str>,
    },
    /// The position does not lie within the partition.
    #[error(
        "topic `{topic}`, partition {partition}: position {position} is out of range, the partition holds {log_start} up to \
         {high_watermark} (exclusive)"
    )]
    OutOfRange {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: PartitionId,
        /// The position asked for.
        position: Offset,
        /// The oldest offset.
        log_start: Offset,
        /// The end of what can be read (exclusive).
        high_watermark: Offset,
    },
    /// The log lost its tail since the position was taken, and other records may stand there now.
    #[error(
        "topic `{topic}`, partition {partition}: position {position} was taken under leader epoch {leader_epoch}, which ended at \
         offset {epoch_end}: records behind that were lost"
    )]
    Diverged {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: PartitionId,
        /// The position.
        position: Offset,
        /// The epoch it was taken under.
        leader_epoch: LeaderEpoch,
        /// Where that epoch ended (exclusive).
        epoch_end: Offset,
    },
    /// The partition is not assigned to this consumer.
    #[error("topic `{topic}`, partition {partition} is not assigned to this consumer")]
    NotAssigned {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: PartitionId,
    },
    /// The group has neither members nor positions.
    #[error("there is no group `{group}`: nobody is in it, and it has no committed positions")]
    UnknownGroup {
        /// The group.
        group: Arc<str>,
    },
    /// Only the members of a group commit for it while it has any, and it is not deleted.
    #[error("group `{group}` has members: stop its consumers first, or wait until their session timeout has passed")]
    GroupActive {
        /// The group.
        group: Arc<str>,
    },
    /// The partition is not this member's any more. What it did not commit is read again, here or by another member.
    #[error(
        "topic `{topic}`, partition {partition} is not this member's any more, and what it did not commit is read again: {reason}"
    )]
    Fenced {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: PartitionId,
        /// How it came to this.
        reason: Fencing,
    },
    /// The application held records and did not come back. The consumer left the group, so that others could go on, and joins it again with
    /// this call.
    #[error(
        "the application held records for longer than the processing timeout of {after:?}, so the consumer left the group: raise \
         `processing_timeout`, or process fewer records at a time"
    )]
    ProcessingTimeout {
        /// The processing timeout.
        after: Duration,
    },
    /// A handler failed, or panicked. What it and others did not process is not committed.
    #[error("topic `{topic}`, partition {partition}: the handler of the record at offset {offset} failed: {source}")]
    Handler {
        /// The topic.
        topic: Arc<str>,
        /// The partition.
        partition: PartitionId,
        /// The record's offset.
        offset: Offset,
        /// What the handler returned.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// Commits need a group.
    #[error("the consumer has no group; name one with `ConsumerBuilder::group`")]
    NoGroup,
    /// The client, producer or consumer was closed.
    #[error("the {what} was closed")]
    Closed {
        /// "client", "producer", …
        what: &'static str,
    },
}

impl Error {
    pub(crate) fn refused(operation: Operation, source: WireError) -> Self {
        Self::Refused { operation, source: Arc::new(source) }
    }

    pub(crate) fn answer(operation: Operation, server: &Arc<str>, error: ResponseError) -> Self {
        match error {
            ResponseError::Refused(source) => Self::refused(operation, source),
            ResponseError::Malformed(source) => Self::Protocol { server: server.clone(), source: source.into() },
        }
    }
}

fn because(source: &Option<Arc<Error>>) -> String {
    source.as_ref().map_or_else(String::new, |source| format!(": {source}"))
}

/// An I/O error in words, without the system's number behind them.
fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::UnexpectedEof => "the broker closed it".to_owned(),
        _ => error.to_string(),
    }
}
