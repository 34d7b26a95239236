//! How the broker fares, in numbers: for whoever exports them, or embeds the broker. How they are shown is not known here.

mod counters;
mod lag;
mod process;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use hermit_log::{Durations, LogFigures};
use hermit_proto::session::ScrubFigures;
use hermit_proto::{Offset, PartitionId};

pub use counters::{ByName, FreedMetrics};
pub(crate) use counters::{ConnectionEnd, Counters};
pub(crate) use lag::LagCache;
pub use lag::{GroupLag, GroupMetrics};
pub use process::ProcessMetrics;

use crate::broker::Broker;
use crate::partition::Partition;
use crate::server::ConnectionCounts;
use crate::topic::Topic;

/// A broker's numbers at one moment. What is called a count has not fallen since the broker was opened; a partition's counts begin with the partition, and
/// those of a topic that is deleted and made again are another topic's.
#[derive(Clone, Debug)]
pub struct BrokerMetrics {
    /// When the broker was opened, in ns since the Unix epoch by its clock.
    pub started_at: u64,
    /// All topics, the internal ones too, in the order of their names.
    pub topics: Vec<TopicMetrics>,
    /// All groups, in the order of their names.
    pub groups: Vec<GroupMetrics>,
    /// Groups that are not in `groups`, as together they have too many positions.
    pub groups_left_out: u64,
    /// How long appends and flushes took.
    pub times: TimeMetrics,
    /// Connections.
    pub connections: ConnectionMetrics,
    /// Count of logins that were good, by kind.
    pub logins: ByName,
    /// Count of logins that were not, by what was wrong.
    pub failed_logins: ByName,
    /// Count of requests of version 2 that were refused, and of subscriptions that ended by an error, by the name of the status; those that there were.
    pub refusals: ByName,
    /// Memory for what was received and not yet handed on.
    pub memory: MemoryMetrics,
    /// When the certificate ends to be valid that the native port shows; `None` without TLS.
    pub certificate_end: Option<SystemTime>,
    /// The file system of the data directory; `None` where it cannot be told.
    pub disk: Option<DiskMetrics>,
    /// The start.
    pub recovery: RecoveryMetrics,
    /// Retention, trims, compaction and scrub.
    pub upkeep: UpkeepMetrics,
}

/// A topic's numbers.
#[derive(Clone, Debug)]
pub struct TopicMetrics {
    /// The topic.
    pub topic: Arc<Topic>,
    /// Its partitions, in the order of their numbers.
    pub partitions: Vec<PartitionMetrics>,
}

/// A partition's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMetrics {
    /// Its number.
    pub partition: PartitionId,
    /// What it can do.
    pub health: Health,
    /// Its log; all 0 where that could not be opened.
    pub log: LogFigures,
    /// Count of records that were handed to consumers; a record that two read counts twice. Gaps that a compaction left count with them.
    pub delivered_records: u64,
    /// Count of the bytes of their frames, as they lie in the log.
    pub delivered_bytes: u64,
}

/// What can be done with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// All.
    Good,
    /// It takes no writes until a restart, as a write or a sync has failed.
    ReadOnly,
    /// It could not be opened.
    Down,
}

/// How long things took.
#[derive(Clone, Debug, Default)]
pub struct TimeMetrics {
    /// See [`LogTimes::append`](hermit_log::LogTimes::append).
    pub append: Durations,
    /// See [`LogTimes::flush`](hermit_log::LogTimes::flush).
    pub flush: Durations,
    /// How long the oldest flush is under way that has not ended; zero where none is.
    pub oldest_flush: Duration,
}

/// Connections.
#[derive(Clone, Debug)]
pub struct ConnectionMetrics {
    /// How many there are, and what became of those that were too many.
    pub now: ConnectionCounts,
    /// Most that may be open.
    pub max_open: u64,
    /// Count of those that were taken from the system.
    pub accepted: u64,
    /// Count of times that the system gave none where one was waiting: out of descriptors, mostly.
    pub not_taken_in: u64,
    /// Count of those that have ended, by why.
    pub ended: ByName,
}

/// The budget for what was received and not yet handed on.
#[derive(Clone, Copy, Debug)]
pub struct MemoryMetrics {
    /// Bytes in use.
    pub used_bytes: u64,
    /// The budget, in bytes.
    pub max_bytes: u64,
}

/// The file system of the data directory.
#[derive(Clone, Copy, Debug)]
pub struct DiskMetrics {
    /// Bytes that can be written.
    pub free_bytes: u64,
    /// Its size, in bytes.
    pub total_bytes: u64,
    /// Below so many free bytes produce requests are refused; 0: never.
    pub low_bytes: u64,
    /// Whether they are refused now.
    pub is_low: bool,
    /// Bytes of files that were deleted while somebody read them; they come free later.
    pub held_bytes: u64,
}

/// What the start did.
#[derive(Clone, Copy, Debug)]
pub struct RecoveryMetrics {
    /// Whether the last broker had stopped cleanly, or there was none.
    pub clean: bool,
    /// Partitions that were opened.
    pub partitions: u64,
    /// Bytes of logs that were read and checked.
    pub bytes: u64,
    /// How long opening the partitions took.
    pub time: Duration,
}

/// What is done from time to time.
#[derive(Clone, Copy, Debug)]
pub struct UpkeepMetrics {
    /// What retention removed.
    pub retention: FreedMetrics,
    /// What trims removed.
    pub trims: FreedMetrics,
    /// What compaction removed.
    pub compaction: FreedMetrics,
    /// Count of rounds of compaction, by partition.
    pub compaction_rounds: u64,
    /// Count of frames that compaction removed.
    pub compaction_frames: u64,
    /// The scrub.
    pub scrub: ScrubFigures,
}

/// What consumers were given of a partition. One relaxed addition each for a delivery, which may hold a thousand records.
#[derive(Debug, Default)]
pub(crate) struct Delivered {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Delivered {
    /// Records from `from` to `next`, exclusive.
    pub(crate) fn add(&self, from: Offset, next: Offset, bytes: u64) {
        self.records.fetch_add(next.0.saturating_sub(from.0), Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Broker {
    /// How the broker fares. Looks at every partition and at every group, and may read logs for the groups' lag: it takes some milliseconds for each 1,000
    /// of them, and may wait for the disk, so that asynchronous code calls it from a thread of its own. It takes no lock for long that clients wait for.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use hermit_broker::{Broker, BrokerConfig};
    ///
    /// let broker = Broker::open(BrokerConfig::new(dir.path()))?;
    /// broker.create_topic("orders", 2, &Default::default())?;
    /// let metrics = broker.metrics();
    /// let orders = metrics.topics.iter().find(|topic| topic.topic.meta.name.as_str() == "orders");
    /// let sizes = orders.map(|orders| orders.partitions.iter().map(|partition| partition.log.size_bytes).sum::<u64>());
    /// assert_eq!(sizes, Some(0));
    /// # broker.close()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn metrics(&self) -> BrokerMetrics {
        let counters = self.counters();
        let (groups, groups_left_out) = self.group_metrics();
        let (logins, failed_logins) = counters.logins();
        let (accepted, not_taken_in, ended) = counters.connections();
        let [retention, trims, compaction] = counters.freed();
        let (compaction_rounds, compaction_frames) = counters.compaction();
        let report = self.report();
        let recovered = report.partitions.iter().filter_map(|partition| partition.recovery.as_ref().ok());
        let times = self.log_times();
        BrokerMetrics {
            started_at: self.started_at(),
            topics: self.topics().into_iter().map(TopicMetrics::of).collect(),
            groups,
            groups_left_out,
            times: TimeMetrics { append: times.append.read(), flush: times.flush.read(), oldest_flush: self.oldest_flush() },
            connections: ConnectionMetrics {
                now: self.connection_counts(),
                max_open: self.limits_in_force().max_connections as u64,
                accepted,
                not_taken_in,
                ended,
            },
            logins,
            failed_logins,
            refusals: counters.refusals(),
            memory: MemoryMetrics { used_bytes: self.inflight_bytes(), max_bytes: self.limits().max_inflight_bytes },
            certificate_end: self.tls().certificate_end(),
            disk: self.disk_metrics(),
            recovery: RecoveryMetrics {
                clean: report.clean,
                partitions: report.partitions.iter().filter(|partition| partition.recovery.is_ok()).count() as u64,
                bytes: recovered.map(|recovery| recovery.scanned_bytes).fold(0, u64::saturating_add),
                time: report.opening_time,
            },
            upkeep: UpkeepMetrics {
                retention,
                trims,
                compaction,
                compaction_rounds,
                compaction_frames,
                scrub: self.scrub_status(),
            },
        }
    }

    fn disk_metrics(&self) -> Option<DiskMetrics> {
        let (disk, dir) = (self.disk(), &self.config().data_dir);
        Some(DiskMetrics {
            free_bytes: disk.free_bytes(dir).ok()?,
            total_bytes: disk.total_bytes(dir).ok()?,
            low_bytes: self.limits_in_force().disk_low_bytes,
            is_low: self.is_low_on_space(),
            held_bytes: self.held_bytes(),
        })
    }
}

impl TopicMetrics {
    fn of(topic: Arc<Topic>) -> Self {
        let partitions = topic.partitions().iter().map(|partition| partition.metrics()).collect();
        Self { topic, partitions }
    }
}

impl Partition {
    /// Its numbers.
    #[must_use]
    pub fn metrics(&self) -> PartitionMetrics {
        let (delivered, log) = (self.delivered(), self.any_log());
        let health = match log {
            None => Health::Down,
            Some(_) if self.progress().is_failed() => Health::ReadOnly,
            Some(_) => Health::Good,
        };
        PartitionMetrics {
            partition: self.id(),
            health,
            log: log.map(hermit_log::Log::figures).unwrap_or_default(),
            delivered_records: delivered.records.load(Ordering::Relaxed),
            delivered_bytes: delivered.bytes.load(Ordering::Relaxed),
        }
    }
}
