//! The settings of a consumer.

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
    /// Where the group has committed.
    Committed {
        /// Where, if it never did.
        or: Otherwise,
    },
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

/// The settings of a [`Consumer`].
#[derive(Clone, Debug)]
pub struct ConsumerBuilder {
    pub(super) link: Link,
    pub(super) group: Option<String>,
    pub(super) prefetch_bytes: u64,
    pub(super) max_unpacked_bytes: usize,
    pub(super) on_damage: OnDamage,
    pub(super) on_lost_position: OnLostPosition,
}

impl ConsumerBuilder {
    pub(crate) const fn new(link: Link) -> Self {
        Self {
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
    /// One frame more can come for each.
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
        Ok(Consumer::new(self))
    }
}
