//! What keeps records from being told to who reads, and where that can be gone on behind it.

use hermit_broker::BrokerError;
use hermit_broker::log::LogError;
use hermit_broker::proto::session::{Status, WireError};

use crate::problem::Problem;
use crate::sets::SetHead;

/// Why nothing is told of what is next.
#[derive(Debug)]
pub(crate) enum Untold {
    /// Others have all room.
    NoRoom,
    /// What is next cannot be told; `next` is behind it.
    Skip { next: u64, why: Why, problem: Problem },
    /// The partition cannot be read.
    Failed(Problem),
}

/// What keeps records from being told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// They are damaged.
    Damaged,
    /// There is not that much memory for HTTP.
    TooLarge,
    /// Retention or a trim was faster.
    Deleted,
    /// They were there, and a crash has taken them.
    Lost,
}

impl Untold {
    /// A set that others have checked when it came, and that cannot be read: as damaged as what fails its checksum.
    pub(crate) fn unsound(head: SetHead, error: &dyn std::fmt::Display) -> Self {
        let detail = format!("the record set at offset {} cannot be read: {error}", head.base);
        Self::Skip { next: head.next, why: Why::Damaged, problem: WireError::new(Status::CorruptLog, detail).into() }
    }
}

impl From<Problem> for Untold {
    fn from(problem: Problem) -> Self {
        Self::Failed(problem)
    }
}

impl From<BrokerError> for Untold {
    fn from(error: BrokerError) -> Self {
        match &error {
            BrokerError::Log(LogError::Corrupt { next, .. }) => {
                Self::Skip { next: next.0, why: Why::Damaged, problem: error.into() }
            }
            BrokerError::Log(LogError::OutOfRange { offset, log_start, high_watermark }) => {
                let (next, why) = if offset < log_start { (log_start.0, Why::Deleted) } else { (high_watermark.0, Why::Lost) };
                Self::Skip { next, why, problem: error.into() }
            }
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<LogError> for Untold {
    fn from(error: LogError) -> Self {
        BrokerError::Log(error).into()
    }
}

impl From<Untold> for Problem {
    fn from(untold: Untold) -> Self {
        match untold {
            Untold::NoRoom => Self::throttled(),
            Untold::Skip { problem, .. } | Untold::Failed(problem) => problem,
        }
    }
}
