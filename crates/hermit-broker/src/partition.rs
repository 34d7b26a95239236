//! A partition as the broker sees it: its log, or why there is none, and its progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use hermit_log::{Appended, Batch, Bounds, Log, LogError};
use hermit_proto::{FramePrefix, FrameSalt, LeaderEpoch, Offset, PREFIX_SIZE, PartitionId, TopicId};

use crate::error::BrokerError;
use crate::metrics::Delivered;
use crate::progress::Progress;
use crate::signal::Signal;

/// One partition. What is wrong with it stays inside it: it answers errors, and the others are served.
#[derive(Debug)]
pub struct Partition {
    topic: TopicId,
    id: PartitionId,
    compacted: AtomicBool,
    log: Result<Log, LogError>,
    progress: Arc<Progress>,
    delivered: Delivered,
}

impl Partition {
    pub(crate) fn new(
        topic: TopicId,
        id: PartitionId,
        compacted: bool,
        log: Result<Log, LogError>,
        progress: Arc<Progress>,
    ) -> Self {
        if let Ok(log) = &log {
            hermit_log::LogListener::advanced(&*progress, log.bounds());
        }
        Self { topic, id, compacted: compacted.into(), log, progress, delivered: Delivered::default() }
    }

    /// The topic's id.
    #[must_use]
    pub const fn topic(&self) -> TopicId {
        self.topic
    }

    /// Its number within the topic.
    #[must_use]
    pub const fn id(&self) -> PartitionId {
        self.id
    }

    /// Whether only the newest record of each key is kept.
    #[must_use]
    pub fn is_compacted(&self) -> bool {
        self.compacted.load(Ordering::Relaxed)
    }

    pub(crate) fn set_compacted(&self, compacted: bool) {
        self.compacted.store(compacted, Ordering::Relaxed);
    }

    /// What ties frame checksums to this partition.
    #[must_use]
    pub const fn salt(&self) -> FrameSalt {
        FrameSalt::new(self.topic, self.id)
    }

    /// The log.
    ///
    /// # Errors
    /// [`BrokerError::PartitionDown`] where it could not be opened; [`BrokerError::UnknownTopic`] where the topic was deleted since.
    pub fn log(&self) -> Result<&Log, BrokerError> {
        if self.progress.is_deleted() {
            return Err(BrokerError::unknown_topic(self.topic));
        }
        self.log.as_ref().map_err(|source| BrokerError::PartitionDown { source: source.clone() })
    }

    /// The log, whether or not the topic was deleted.
    pub(crate) fn any_log(&self) -> Option<&Log> {
        self.log.as_ref().ok()
    }

    /// Counts records from `from` to `next`, exclusive, as handed to a consumer, with the bytes of their frames as they lie in the log: for who serves consumers by a
    /// protocol of its own. The native port counts by itself.
    pub fn count_delivery(&self, from: Offset, next: Offset, bytes: u64) {
        self.delivered.add(from, next, bytes);
    }

    pub(crate) const fn delivered(&self) -> &Delivered {
        &self.delivered
    }

    pub(crate) const fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Where the log begins and ends.
    ///
    /// # Errors
    /// Those of [`Partition::log`].
    pub fn bounds(&self) -> Result<Bounds, BrokerError> {
        Ok(self.log()?.bounds())
    }

    /// How many tasks wait for it to move, for tests of what is left behind.
    #[doc(hidden)]
    #[must_use]
    pub fn waiters(&self) -> usize {
        self.progress.waiters()
    }

    /// What keeps it from taking writes, or from being read, if anything does.
    #[must_use]
    pub fn trouble(&self) -> Option<BrokerError> {
        match self.log() {
            Err(error) => Some(error),
            Ok(_log) => self.progress.failure().map(BrokerError::Log),
        }
    }

    /// Whether the high watermark has reached `until`; an error if it never will.
    pub fn reached(&self, until: Offset) -> Poll<Result<(), BrokerError>> {
        self.progress.reached(until)
    }

    /// Waits until the high watermark has reached `until`.
    ///
    /// # Errors
    /// What keeps it from ever getting there: a failed sync, or the topic's deletion.
    pub async fn wait_for(&self, until: Offset) -> Result<(), BrokerError> {
        let waiting = Waiting { progress: &self.progress, signal: Arc::new(Signal::new()) };
        loop {
            if let Poll::Ready(reached) = self.progress.wait(until, &waiting.signal, 0) {
                return reached;
            }
            waiting.signal.notified().await;
        }
    }

    /// The leader epoch that the record at `offset` was written under, or will be.
    pub(crate) fn epoch_of(&self, offset: Offset) -> Result<LeaderEpoch, BrokerError> {
        let prefix = self.prefix_of(offset)?;
        prefix.map_or_else(|| Ok(self.log()?.leader_epoch()), |prefix| Ok(prefix.extension.leader_epoch))
    }

    /// When the first record at `offset` or behind it was appended, in ns since the Unix epoch; `None` where there is none yet.
    pub(crate) fn appended_at(&self, offset: Offset) -> Result<Option<u64>, BrokerError> {
        Ok(self.prefix_of(offset)?.map(|prefix| prefix.extension.append_time))
    }

    /// What stands before the first frame at `offset` or behind it; `None` at the high watermark.
    fn prefix_of(&self, offset: Offset) -> Result<Option<FramePrefix>, BrokerError> {
        let log = self.log()?;
        if offset >= log.bounds().high_watermark {
            return Ok(None);
        }
        let Some(range) = log.cursor(offset)?.next(1)? else { return Ok(None) };
        let mut prefix = [0; PREFIX_SIZE];
        let read = range.file().read_exact_at(&mut prefix, range.position());
        read.map_err(|error| BrokerError::io("read", log.dir(), error))?;
        let prefix = FramePrefix::verify(&prefix, &self.salt()).map_err(|source| LogError::Frame { index: 0, source })?;
        Ok(Some(prefix))
    }

    /// Checks that a position was not made in a history that has been lost since.
    ///
    /// # Errors
    /// [`BrokerError::Diverged`] tells where that history ended.
    pub(crate) fn check_epoch(&self, offset: Offset, leader_epoch: LeaderEpoch) -> Result<(), BrokerError> {
        if leader_epoch == LeaderEpoch::UNKNOWN {
            return Ok(());
        }
        match self.log()?.epoch_end(leader_epoch)? {
            Some(end) if offset > end => Err(BrokerError::Diverged { offset, leader_epoch, end }),
            _ => Ok(()),
        }
    }
}

/// Forgets the waiter also when the future is dropped half-way.
struct Waiting<'a> {
    progress: &'a Progress,
    signal: Arc<Signal>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.progress.forget(&self.signal, 0);
    }
}

/// An append that is in the log, and on its way to the disk.
#[derive(Debug)]
pub struct Ticket {
    partition: Arc<Partition>,
    appended: Appended,
}

impl Ticket {
    pub(crate) fn append(partition: &Arc<Partition>, batch: &mut Batch) -> Result<Self, BrokerError> {
        let appended = partition.log()?.append(batch)?;
        Ok(Self { partition: Arc::clone(partition), appended })
    }

    /// What the log said.
    #[must_use]
    pub const fn appended(&self) -> &Appended {
        &self.appended
    }

    /// The partition it went to.
    #[must_use]
    pub const fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// Whether it is as durable as the topic promises; an error if it never will be.
    pub fn poll(&self) -> Poll<Result<(), BrokerError>> {
        self.partition.reached(self.appended.next_offset)
    }

    /// Blocks until it is as durable as the topic promises. Not for asynchronous code, nor with a manual flusher.
    ///
    /// # Errors
    /// What keeps it from becoming so.
    pub fn wait(&self) -> Result<(), BrokerError> {
        if let Poll::Ready(done) = self.poll() {
            return done;
        }
        self.partition.log()?.wait_flushed(self.appended.next_offset)?;
        Ok(())
    }

    /// Waits until it is as durable as the topic promises.
    ///
    /// # Errors
    /// What keeps it from becoming so.
    pub async fn committed(&self) -> Result<(), BrokerError> {
        self.partition.wait_for(self.appended.next_offset).await
    }
}
