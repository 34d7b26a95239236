//! What keeps an import from being done.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hermit_log::LogError;
use hermit_proto::{PartitionId, TopicName};

use super::findings::Problem;
use crate::error::BrokerError;

/// Why nothing was imported. The old files are as they were.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// There is nothing to import.
    #[error("{} holds no data of an older HermitMQ: no directory like orders_0 with a .wal file in it", path.display())]
    NothingThere {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The data directory is one of a broker already.
    #[error("{} is the data directory of a broker already: import into a new one", path.display())]
    Occupied {
        /// The data directory.
        path: PathBuf,
    },
    /// Something has to be put right first.
    #[error("nothing was imported; put this right, and start again:{}", list(problems))]
    Problems {
        /// What.
        problems: Vec<Problem>,
    },
    /// There is not enough space for a second copy.
    #[error(
        "{} has {free_bytes} free bytes; the import needs {need_bytes}, and {margin_bytes} more to work with: free some, or import with `hermit-cli log import` into a data directory on another disk",
        path.display()
    )]
    NoSpace {
        /// The data directory.
        path: PathBuf,
        /// What the imported data will take.
        need_bytes: u64,
        /// What must be left besides.
        margin_bytes: u64,
        /// What is free.
        free_bytes: u64,
    },
    /// The old files are not what they were a moment ago.
    #[error("topic {topic}, partition {partition} changed while it was read: stop the older broker first")]
    Changed {
        /// The topic.
        topic: TopicName,
        /// The partition.
        partition: PartitionId,
    },
    /// An import from elsewhere was begun there.
    #[error("an import from {} into {} did not come to its end: do that again, or remove {}", from.display(), path.display(), path.display())]
    OtherBegun {
        /// The data directory.
        path: PathBuf,
        /// Where the other import takes its data from.
        from: PathBuf,
    },
    /// What an interrupted import has left cannot be told.
    #[error("{} is damaged: remove it and, where {} holds nothing else, the directory `partitions`; then start again", path.display(), path.parent().unwrap_or(path).display())]
    Marker {
        /// The file.
        path: PathBuf,
    },
    /// The system refused a file operation.
    #[error("cannot {operation} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The new log refused.
    #[error("cannot write the imported log: {0}")]
    Log(#[from] LogError),
    /// The data directory cannot be used, for example because a broker runs on it.
    #[error(transparent)]
    Broker(#[from] BrokerError),
}

impl ImportError {
    pub(super) fn io(operation: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { operation, path: path.into(), source: Arc::new(source) }
    }
}

fn list(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("\n  - {problem}")).collect()
}
