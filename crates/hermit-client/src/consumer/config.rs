//! The settings of a consumer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hermit_proto::session::{AssignmentStrategy, OffsetQuery};
use hermit_proto::{GroupName, Offset};

use super::Consumer;
use crate::conn::Link;
use crate::error::{Error, Result};

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the oldest record.
    Earliest,
    /// Behind the newest record.
    Latest,
    /// At this offset.
    Offset(Offset),
    /// So many records before the end, or at the oldest if there are fewer. Counts offsets: in a compacted topic, where some are missing, fewer
    /// records come.
    Last(u64),
    /// At the first record that the broker appended at this time or later, in ns since the Unix epoch ([`Record::append_time`]; see also
    /// [`Start::at`]). Behind the newest record if there is none.
    ///
    /// [`Record::append_time`]: crate::Record::append_time
    Time(u64),
    /// Where the group has committed.
    Committed {
        /// Where, if it never did.
        or: Otherwise,
    },
}

impl Start {
    /// [`Start::Time`]; times before 1970 stand for the oldest record.
    #[must_use]
    pub fn at(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::Time(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Where reading begins if the group has not committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Otherwise {
    /// At the oldest record.
    #[default]
    Earliest,
    /// Behind the newest record.
    Latest,
}

impl Otherwise {
    pub(super) const fn query(self) -> OffsetQuery {
        match self {
            Self::Earliest => OffsetQuery::Earliest,
            Self::Latest => OffsetQuery::Latest,
        }
    }
}

/// What to do about a position that the log does not reach any more: [`Error::Diverged`] and [`Error::OutOfRange`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLostPosition {
    /// Report it, and stop that partition until [`Consumer::seek`].
    #[default]
    Fail,
    /// Go on at the oldest record, with a warning in the log.
    Earliest,
    /// Go on behind the newest record, with a warning in the log.
    Latest,
    /// Go on where the epoch of the position ended — behind the last record that is still the same — with a warning in the log.
    EpochEnd,
}

/// What to do about damaged records: [`Error::Corrupt`] and [`Error::BadRecordSet`], which are reported either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Stop that partition before them until [`Consumer::seek`].
    #[default]
    Stop,
    /// Go on behind them.
    Skip,
}

/// What is committed by itself, for a consumer with a group. Never what was only received, or only handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoCommit {
    /// Nothing.
    #[default]
    Off,
    /// A record counts as processed when the application asks for the next one (or the next batch), or acknowledges it
    /// ([`Consumer::ack`]). For applications that process one record, or one batch, after the other.
    Processed,
    /// A record counts as processed when it is acknowledged, by [`Consumer::ack`] or an [`Acker`](crate::Acker): for applications that
    /// process several at a time. Committed is the longest run of records of each partition that are.
    Acknowledged,
}

/// What the membership in a group needs to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupConfig {
    pub(super) session_timeout: Duration,
    pub(super) processing_timeout: Duration,
    pub(super) strategy: AssignmentStrategy,
    pub(super) uncommitted: Otherwise,
    pub(super) commits_start: bool,
    pub(super) auto_commit: AutoCommit,
    pub(super) auto_commit_interval: Duration,
    pub(super) request_timeout: Duration,
}

/// The settings of a [`Consumer`].
#[derive(Clone, Debug)]
pub struct ConsumerBuilder {
    pub(super) link: Link,
    pub(super) group: Option<String>,
    pub(super) prefetch_bytes: u64,
    pub(super) max_unpacked_bytes: usize,
    pub(super) on_damage: OnDamage,
    pub(super) on_lost_position: OnLostPosition,
    pub(super) group_config: GroupConfig,
}

impl ConsumerBuilder {
    pub(crate) fn new(link: Link) -> Self {
        Self {
            group_config: GroupConfig {
                session_timeout: Duration::from_secs(10),
                processing_timeout: Duration::from_secs(300),
                strategy: AssignmentStrategy::Balanced,
                uncommitted: Otherwise::Earliest,
                commits_start: false,
                auto_commit: AutoCommit::Off,
                auto_commit_interval: Duration::from_secs(1),
                request_timeout: link.config().request_timeout,
            },
            link,
            group: None,
            prefetch_bytes: 8 << 20,
            max_unpacked_bytes: 128 << 20,
            on_damage: OnDamage::Stop,
            on_lost_position: OnLostPosition::Fail,
        }
    }

    /// The group that positions are committed for.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Bytes that may be received and not yet handed out, over all partitions. Default 8 MiB, at least 4 KiB for each partition.
    /// One frame more can come for each. Beside these, a connection keeps up to four used buffers, 8 MiB at most, while large deliveries come.
    #[must_use]
    pub const fn prefetch_bytes(mut self, bytes: u64) -> Self {
        self.prefetch_bytes = bytes;
        self
    }

    /// The largest record set, unpacked, that is read. Default 128 MiB. A larger one is reported as
    /// [`Error::BadRecordSet`].
    #[must_use]
    pub const fn max_unpacked_bytes(mut self, bytes: usize) -> Self {
        self.max_unpacked_bytes = bytes;
        self
    }

    /// What to do about damaged records. Default [`OnDamage::Stop`].
    #[must_use]
    pub const fn on_damage(mut self, policy: OnDamage) -> Self {
        self.on_damage = policy;
        self
    }

    /// What to do about a position that the log does not reach any more. Default [`OnLostPosition::Fail`].
    #[must_use]
    pub const fn on_lost_position(mut self, policy: OnLostPosition) -> Self {
        self.on_lost_position = policy;
        self
    }

    /// For members of a group: after so long without a heartbeat the broker takes the member for dead and gives its partitions to others.
    /// Default 10 s, within the broker's bounds. Shorter finds the dead sooner, and takes slow networks and stopped processes for dead.
    #[must_use]
    pub const fn session_timeout(mut self, timeout: Duration) -> Self {
        self.group_config.session_timeout = timeout;
        self
    }

    /// For members of a group: how long the application may hold records without asking for more or acknowledging any, and how long it
    /// may take to give up a partition. Default 5 min, within the broker's bounds. After that the member leaves, and its records go to others;
    /// the application is told by [`Error::ProcessingTimeout`] when it comes back, and the consumer joins again.
    #[must_use]
    pub const fn processing_timeout(mut self, timeout: Duration) -> Self {
        self.group_config.processing_timeout = timeout;
        self
    }

    /// For members of a group: how partitions are divided. All members have to ask for the same. Default [`AssignmentStrategy::Balanced`].
    #[must_use]
    pub const fn strategy(mut self, strategy: AssignmentStrategy) -> Self {
        self.group_config.strategy = strategy;
        self
    }

    /// For members of a group: where reading begins in partitions that the group has not committed. Default [`Otherwise::Earliest`]. With
    /// [`Otherwise::Latest`] that place is committed at once, so that the next owner does not begin at a later end.
    #[must_use]
    pub const fn uncommitted_start(mut self, start: Otherwise) -> Self {
        self.group_config.uncommitted = start;
        self.group_config.commits_start = matches!(start, Otherwise::Latest);
        self
    }

    /// What is committed by itself: at intervals, before a partition is given up, and by [`Consumer::close`]. Default
    /// [`AutoCommit::Off`]. Needs a group.
    #[must_use]
    pub const fn auto_commit(mut self, mode: AutoCommit) -> Self {
        self.group_config.auto_commit = mode;
        self
    }

    /// How often commits are made by [`ConsumerBuilder::auto_commit`]. Default 1 s. Records processed since the last one come again
    /// after a crash.
    #[must_use]
    pub const fn auto_commit_interval(mut self, interval: Duration) -> Self {
        self.group_config.auto_commit_interval = interval;
        self
    }

    /// Makes the consumer; it reads nothing until partitions are assigned.
    ///
    /// # Errors
    /// [`Error::Name`] for the group; [`Error::Config`].
    pub fn build(self) -> Result<Consumer> {
        if let Some(group) = &self.group {
            GroupName::new_public(group)?;
        }
        if self.prefetch_bytes == 0 {
            return Err(Error::Config { setting: "prefetch_bytes", problem: "must be above 0".to_owned() });
        }
        let timeouts = [
            ("session_timeout", self.group_config.session_timeout),
            ("processing_timeout", self.group_config.processing_timeout),
            ("auto_commit_interval", self.group_config.auto_commit_interval),
        ];
        if let Some((setting, _)) = timeouts.into_iter().find(|(_, timeout)| timeout.as_millis() == 0) {
            return Err(Error::Config { setting, problem: "must be 1 ms or longer".to_owned() });
        }
        if self.group.is_none() && self.group_config.auto_commit != AutoCommit::Off {
            let problem = "there is no group to commit for; name one with `ConsumerBuilder::group`".to_owned();
            return Err(Error::Config { setting: "auto_commit", problem });
        }
        Ok(Consumer::new(self))
    }
}
