//! What can go wrong with a log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermit_proto::{FrameError, Offset, ProducerEpoch, ProducerId, Sequence};

/// An error of the log. It can be cloned, because what makes a log read-only answers every later call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    /// The system refused a file operation.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// There is no space; the log is as it was, and the append may be tried again once there is.
    #[error("no space left to write {}; free some, and try again", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// The log takes no more appends until it is opened again.
    #[error("the log is read-only until a restart, because of an earlier failure")]
    ReadOnly {
        /// The failure.
        source: Arc<Self>,
    },
    /// A log is there already, and is not to be begun anew.
    #[error("{} holds a log already; choose an empty directory", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// The log was closed or deleted.
    #[error("the log is closed")]
    Closed,
    /// There is nothing at that offset.
    #[error("offset {offset} is not within {log_start} to {high_watermark}")]
    OutOfRange {
        /// As asked for.
        offset: Offset,
        /// The oldest that can be read.
        log_start: Offset,
        /// The end of what can be read, exclusive.
        high_watermark: Offset,
    },
    /// The bytes on disk are damaged; what follows can be read.
    #[error("the log is damaged from offset {from}; reading goes on at {next}")]
    Corrupt {
        /// The first damaged offset.
        from: Offset,
        /// The next readable one.
        next: Offset,
    },
    /// A frame of a batch is not well-formed.
    #[error("frame {index} of the batch is bad")]
    Frame {
        /// Which, from 0.
        index: usize,
        /// What is wrong with it.
        source: FrameError,
    },
    /// A compacted log takes single-record frames with a key only.
    #[error("frame {index} of the batch: a compacted log takes single records with a key")]
    KeyRequired {
        /// Which, from 0.
        index: usize,
    },
    /// The batch is larger than a segment can be.
    #[error("a batch of {bytes} bytes is over the limit of {limit_bytes}")]
    BatchTooLarge {
        /// The batch.
        bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The partition's 2⁶⁴ offsets are used up.
    #[error("no offsets are left")]
    OffsetsExhausted,
    /// The sequence check of an idempotent producer refused the batch.
    #[error(transparent)]
    Producer(#[from] ProducerError),
}

/// Why the sequence check refused a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    /// Batches are missing between what the log has and this one.
    #[error("producer {id}: sequence {got} where {expected} was expected")]
    OutOfSequence {
        /// Who.
        id: ProducerId,
        /// What would have been taken.
        expected: Sequence,
        /// What came.
        got: Sequence,
    },
    /// The log does not remember this producer, so it cannot tell whether the batch is a double.
    #[error("producer {id} is not known here, or was forgotten after its idle time")]
    Unknown {
        /// Who.
        id: ProducerId,
    },
    /// A newer incarnation of the producer has taken over.
    #[error("producer {id}: epoch {got} is fenced by {current}")]
    Fenced {
        /// Who.
        id: ProducerId,
        /// The epoch that counts.
        current: ProducerEpoch,
        /// The epoch that came.
        got: ProducerEpoch,
    },
}

/// An error with its causes on one line, for logs and for who is told of it. A cause that the text before has told already is left out.
#[must_use]
pub fn error_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

impl LogError {
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::DiskFull { path: path.to_owned() };
        }
        Self::Io { operation, path: path.to_owned(), source: Arc::new(source) }
    }

    /// Whether the same call may succeed later without anybody changing it.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(self, Self::DiskFull { .. })
    }
}
