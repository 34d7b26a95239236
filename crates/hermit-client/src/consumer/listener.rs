//! How the application follows what its group gives it and takes from it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use hermit_proto::{Generation, Offset, PartitionId};

use super::Position;

/// A partition by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: PartitionId,
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic `{}`, partition {}", self.topic, self.partition)
    }
}

impl From<&Position> for TopicPartition {
    fn from(position: &Position) -> Self {
        Self { topic: position.topic.clone(), partition: position.partition }
    }
}

/// Is told when partitions come and go: see [`Consumer::set_rebalance_listener`](crate::Consumer::set_rebalance_listener).
///
/// It is called on the application's own task, from within `recv`, `recv_batch`, `try_recv`, `process_parallel` and `close`, never at the same
/// time as another call, and with no lock held: it may do what it likes but block for long, and cannot reach the consumer itself. What it wants of
/// the consumer it says through its argument.
pub trait RebalanceListener: Send {
    /// The consumer got partitions. No record of them was handed out yet.
    fn on_assigned(&mut self, assigned: &mut Assigned) {
        let _nothing = assigned;
    }

    /// The group wants partitions back, or the consumer is being closed. No record of them is handed out any more, and the application is
    /// done with those it was handed: it has come back, or acknowledged them. After this what is owed is committed, and only then another
    /// member gets them.
    fn on_revoked(&mut self, revoked: &mut Revoked) {
        let _nothing = revoked;
    }

    /// Partitions are gone already, or may be: the member was fenced, or was silent for longer than its session, and others may be reading them again
    /// from the committed positions on. What was not committed perhaps cannot be any more.
    fn on_lost(&mut self, lost: &[TopicPartition]) {
        let _nothing = lost;
    }
}

/// Partitions that a consumer got.
#[derive(Debug)]
pub struct Assigned {
    pub(super) positions: Vec<Position>,
    pub(super) seeks: Vec<(TopicPartition, Offset)>,
}

impl Assigned {
    /// The partitions, and where reading them begins.
    #[must_use]
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// Begins elsewhere, for applications that keep their positions themselves.
    pub fn seek(&mut self, partition: TopicPartition, offset: impl Into<Offset>) {
        self.seeks.push((partition, offset.into()));
    }
}

/// Partitions that a consumer has to give up.
#[derive(Debug)]
pub struct Revoked {
    pub(super) positions: Vec<Position>,
    /// One for each position.
    pub(super) generations: Vec<Generation>,
    pub(super) commits: Vec<Position>,
}

impl Revoked {
    /// The partitions, and the places behind the last records handed out.
    #[must_use]
    pub fn positions(&self) -> &[Position] {
        &self.positions
    }

    /// The partitions, and since which generations they were this member's: see [`Record::generation`](crate::Record::generation).
    pub fn generations(&self) -> impl Iterator<Item = (TopicPartition, Generation)> {
        self.positions.iter().map(TopicPartition::from).zip(self.generations.iter().copied())
    }

    /// Has a position committed before its partition is given up.
    pub fn commit(&mut self, position: impl Into<Position>) {
        self.commits.push(position.into());
    }

    /// Has everything committed that was handed out.
    pub fn commit_all(&mut self) {
        self.commits.clone_from(&self.positions);
    }
}

/// A listener in a consumer. Behind a lock that is never taken, so that a consumer can be shared though its listener cannot.
pub(super) struct Listener(Mutex<Box<dyn RebalanceListener>>);

impl Listener {
    pub(super) fn new(listener: impl RebalanceListener + 'static) -> Self {
        Self(Mutex::new(Box::new(listener)))
    }

    pub(super) fn get(&mut self) -> &mut dyn RebalanceListener {
        &mut **self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}
