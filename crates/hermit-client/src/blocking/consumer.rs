//! Reading records.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hermit_proto::session::AssignmentStrategy;
use hermit_proto::{Offset, PartitionId};
use tokio::task::spawn_blocking;

use super::runtime::waiting;
use super::{Runtime, settings};
use crate::admin::Committed;
use crate::consumer::{
    Acker, AutoCommit, HandlerError, OnDamage, OnLostPosition, Otherwise, Parallel, Position, RebalanceListener, Record, Records,
    Start, Subscription,
};
use crate::error::Result;

/// Reads records, and commits what was processed; see [`crate::Consumer`].
///
/// Close it: a member that is only dropped leaves its group in the background, and not at all when the program ends, or the client and
/// all that was made from it are dropped. Then the others wait for its session timeout.
#[derive(Debug)]
pub struct Consumer {
    inner: crate::Consumer,
    runtime: Arc<Runtime>,
}

impl Consumer {
    /// Adds a partition, to be read from `start`.
    ///
    /// # Errors
    /// As [`crate::Consumer::assign`].
    pub fn assign(&mut self, topic: &str, partition: impl Into<PartitionId>, start: Start) -> Result<()> {
        self.runtime.run(self.inner.assign(topic, partition, start))
    }

    /// Adds all partitions that the topic has now.
    ///
    /// # Errors
    /// As [`crate::Consumer::assign_topic`].
    pub fn assign_topic(&mut self, topic: &str, start: Start) -> Result<()> {
        self.runtime.run(self.inner.assign_topic(topic, start))
    }

    /// Becomes a member of the consumer's group. The client's thread keeps the membership alive meanwhile.
    ///
    /// # Errors
    /// As [`crate::Consumer::subscribe`].
    pub fn subscribe(&mut self, subscription: impl Into<Subscription>) -> Result<()> {
        self.runtime.run(self.inner.subscribe(subscription))
    }

    /// Has a listener told when partitions come and go; see [`crate::Consumer::set_rebalance_listener`].
    pub fn set_rebalance_listener(&mut self, listener: impl RebalanceListener + 'static) {
        self.inner.set_rebalance_listener(listener);
    }

    /// Takes a partition away.
    ///
    /// # Errors
    /// As [`crate::Consumer::unassign`].
    pub fn unassign(&mut self, topic: &str, partition: impl Into<PartitionId>) -> Result<()> {
        self.runtime.enter(|| self.inner.unassign(topic, partition))
    }

    /// The next record, waiting for it. `None` when nothing more can come.
    ///
    /// # Errors
    /// As [`crate::Consumer::recv`].
    pub fn recv(&mut self) -> Result<Option<Record>> {
        self.runtime.run(self.inner.recv())
    }

    /// As [`Consumer::recv`], but not longer than `patience`; `None` also where nothing came by then.
    ///
    /// # Errors
    /// As [`crate::Consumer::recv`].
    pub fn recv_timeout(&mut self, patience: Duration) -> Result<Option<Record>> {
        // Receiving can be cancelled without losing a record.
        self.runtime.run(async { tokio::time::timeout(patience, self.inner.recv()).await.unwrap_or(Ok(None)) })
    }

    /// The next record and those behind it that need no waiting, `max` at most.
    ///
    /// # Errors
    /// As [`crate::Consumer::recv_batch`].
    pub fn recv_batch(&mut self, max: usize) -> Result<Vec<Record>> {
        self.runtime.run(self.inner.recv_batch(max))
    }

    /// The next records, as many as came together, waiting for them: the fastest way to read. `None` when nothing more can come.
    ///
    /// # Errors
    /// As [`crate::Consumer::recv_records`].
    pub fn recv_records(&mut self) -> Result<Option<Records>> {
        self.runtime.run(self.inner.recv_records())
    }

    /// The next records, if that needs no waiting.
    ///
    /// # Errors
    /// As [`crate::Consumer::try_recv_records`].
    pub fn try_recv_records(&mut self) -> Result<Option<Records>> {
        self.runtime.enter(|| self.inner.try_recv_records())
    }

    /// The next record, if that needs no waiting.
    ///
    /// # Errors
    /// As [`crate::Consumer::try_recv`].
    pub fn try_recv(&mut self) -> Result<Option<Record>> {
        self.runtime.enter(|| self.inner.try_recv())
    }

    /// Processes records with several handlers at a time, each on a thread of its own, until `shutdown` returns or nothing more
    /// can come; see [`crate::Consumer::process_parallel`]. `shutdown` is called on a thread too, which lives until it returns: it may
    /// wait for a signal or a channel.
    ///
    /// ```no_run
    /// use hermit_client::Parallel;
    /// use hermit_client::blocking::Client;
    ///
    /// # fn example(stop: std::sync::mpsc::Receiver<()>) -> hermit_client::Result<()> {
    /// let client = Client::connect("127.0.0.1:9092")?;
    /// let mut consumer = client.consumer().group("billing").build()?;
    /// consumer.subscribe("orders")?;
    /// let handler = |record: hermit_client::Record| -> std::io::Result<()> {
    ///     println!("{:?}", record.value);
    ///     Ok(())
    /// };
    /// consumer.process_parallel(Parallel::new(16), handler, move || drop(stop.recv()))?;
    /// consumer.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`crate::Consumer::process_parallel`].
    pub fn process_parallel<E: Into<HandlerError>>(
        &mut self,
        config: Parallel,
        handler: impl Fn(Record) -> Result<(), E> + Send + Sync + 'static,
        shutdown: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let handler = Arc::new(handler);
        let handle = move |record| {
            let handler = handler.clone();
            async move {
                let handled = spawn_blocking(move || waiting(|| handler(record)).map_err(Into::into)).await;
                handled.unwrap_or_else(|panicked| Err(HandlerError::from(panicked)))
            }
        };
        self.runtime.run(async {
            let stopped = spawn_blocking(|| waiting(shutdown));
            // One that panics stops too.
            self.inner.process_parallel(config, handle, async { drop(stopped.await) }).await
        })
    }

    /// A record is processed; see [`AutoCommit`].
    ///
    /// # Errors
    /// As [`crate::Consumer::ack`].
    pub fn ack(&self, record: &Record) -> Result<()> {
        self.runtime.enter(|| self.inner.ack(record))
    }

    /// All of these records are processed.
    ///
    /// # Errors
    /// As [`crate::Consumer::ack_records`].
    pub fn ack_records(&self, records: &Records) -> Result<()> {
        self.runtime.enter(|| self.inner.ack_records(records))
    }

    /// To acknowledge records from other threads.
    ///
    /// # Errors
    /// As [`crate::Consumer::acker`].
    pub fn acker(&self) -> Result<Acker> {
        self.inner.acker()
    }

    /// Commits every partition up to the last record handed out.
    ///
    /// # Errors
    /// As [`crate::Consumer::commit`].
    pub fn commit(&self) -> Result<()> {
        self.runtime.run(self.inner.commit())
    }

    /// Commits a record as processed, and with it all before it in its partition.
    ///
    /// # Errors
    /// As [`crate::Consumer::commit_through`].
    pub fn commit_through(&self, record: &Record) -> Result<()> {
        self.runtime.run(self.inner.commit_through(record))
    }

    /// Commits positions, of assigned partitions.
    ///
    /// # Errors
    /// As [`crate::Consumer::commit_positions`].
    pub fn commit_positions(&self, positions: &[Position]) -> Result<()> {
        self.runtime.run(self.inner.commit_positions(positions))
    }

    /// What the group has committed for an assigned partition.
    ///
    /// # Errors
    /// As [`crate::Consumer::committed`].
    pub fn committed(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Option<Committed>> {
        self.runtime.run(self.inner.committed(topic, partition))
    }

    /// The partitions that are assigned.
    pub fn assignment(&self) -> impl Iterator<Item = (&str, PartitionId)> {
        self.inner.assignment()
    }

    /// Where reading goes on in a partition.
    ///
    /// # Errors
    /// As [`crate::Consumer::position`].
    pub fn position(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Position> {
        self.inner.position(topic, partition)
    }

    /// Where reading goes on in all partitions.
    #[must_use]
    pub fn positions(&self) -> Vec<Position> {
        self.inner.positions()
    }

    /// Goes on at another offset.
    ///
    /// # Errors
    /// As [`crate::Consumer::seek`].
    pub fn seek(&mut self, topic: &str, partition: impl Into<PartitionId>, offset: impl Into<Offset>) -> Result<()> {
        self.runtime.enter(|| self.inner.seek(topic, partition, offset))
    }

    /// Goes on where `start` says.
    ///
    /// # Errors
    /// As [`crate::Consumer::seek_to`].
    pub fn seek_to(&mut self, topic: &str, partition: impl Into<PartitionId>, start: Start) -> Result<()> {
        self.runtime.run(self.inner.seek_to(topic, partition, start))
    }

    /// Goes on at the first record that was appended at `time` or later.
    ///
    /// # Errors
    /// As [`crate::Consumer::seek_to_time`].
    pub fn seek_to_time(&mut self, topic: &str, partition: impl Into<PartitionId>, time: SystemTime) -> Result<()> {
        self.runtime.run(self.inner.seek_to_time(topic, partition, time))
    }

    /// Hands out nothing more of a partition until [`Consumer::resume`].
    ///
    /// # Errors
    /// As [`crate::Consumer::pause`].
    pub fn pause(&mut self, topic: &str, partition: impl Into<PartitionId>) -> Result<()> {
        self.runtime.enter(|| self.inner.pause(topic, partition))
    }

    /// Hands out records of a partition again.
    ///
    /// # Errors
    /// As [`crate::Consumer::resume`].
    pub fn resume(&mut self, topic: &str, partition: impl Into<PartitionId>) -> Result<()> {
        self.runtime.enter(|| self.inner.resume(topic, partition))
    }

    /// Whether a partition is paused.
    ///
    /// # Errors
    /// As [`crate::Consumer::is_paused`].
    pub fn is_paused(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<bool> {
        self.inner.is_paused(topic, partition)
    }

    /// Commits what is owed, and leaves the group.
    ///
    /// # Errors
    /// As [`crate::Consumer::close`].
    pub fn close(self) -> Result<()> {
        self.runtime.run(self.inner.close())
    }

    /// Ends a partition before `end`.
    ///
    /// # Errors
    /// As [`crate::Consumer::stop_at`].
    pub fn stop_at(&mut self, topic: &str, partition: impl Into<PartitionId>, end: impl Into<Offset>) -> Result<()> {
        self.runtime.enter(|| self.inner.stop_at(topic, partition, end))
    }

    /// Ends all partitions where they end now.
    ///
    /// # Errors
    /// As [`crate::Consumer::stop_at_present_end`].
    pub fn stop_at_present_end(&mut self) -> Result<()> {
        self.runtime.run(self.inner.stop_at_present_end())
    }

    /// Records between the position and the end of a partition, as far as is known.
    ///
    /// # Errors
    /// As [`crate::Consumer::lag`].
    pub fn lag(&self, topic: &str, partition: impl Into<PartitionId>) -> Result<Option<u64>> {
        self.inner.lag(topic, partition)
    }
}

/// As [`Consumer::recv`], one after the other, until nothing more can come.
impl Iterator for Consumer {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.recv().transpose()
    }
}

/// The settings of a [`Consumer`].
#[derive(Clone, Debug)]
pub struct ConsumerBuilder {
    pub(super) inner: crate::ConsumerBuilder,
    pub(super) runtime: Arc<Runtime>,
}

settings! { ConsumerBuilder of ConsumerBuilder:
    group(group: impl Into<String>),
    prefetch_bytes(bytes: u64),
    max_unpacked_bytes(bytes: usize),
    on_damage(policy: OnDamage),
    on_lost_position(policy: OnLostPosition),
    session_timeout(timeout: Duration),
    processing_timeout(timeout: Duration),
    strategy(strategy: AssignmentStrategy),
    uncommitted_start(start: Otherwise),
    auto_commit(mode: AutoCommit),
    auto_commit_interval(interval: Duration),
}

impl ConsumerBuilder {
    /// Makes the consumer.
    ///
    /// # Errors
    /// As [`crate::ConsumerBuilder::build`].
    pub fn build(self) -> Result<Consumer> {
        let inner = self.runtime.enter(|| self.inner.build())?;
        Ok(Consumer { inner, runtime: self.runtime })
    }
}
