//! What has to be done from time to time, and free space, which is looked at with it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{Broker, Phase};
use crate::error::BrokerError;
use crate::events::Event;
use crate::server::Line;

/// A flush that takes longer is told of.
const FLUSH_PATIENCE: Duration = Duration::from_secs(10);

impl Broker {
    /// One round of retention and compaction over all partitions, and a look at the free space. [`Broker::open`] starts a thread that
    /// does this; with [`Broker::open_with`] it is the caller's to do.
    pub fn maintain(&self) {
        self.check_flushes();
        self.check_space();
        self.tick_groups();
        self.tidy_positions();
        self.tell_waiting();
        for topic in self.topics() {
            for partition in &topic.partitions {
                if *self.inner.phase.borrow() >= Phase::Closed {
                    return;
                }
                let Ok(log) = partition.log() else { continue };
                let id = partition.id();
                match self.inner.reserve.with(|| log.apply_retention().map_err(BrokerError::Log)) {
                    Ok(removed) => self.counters().retained(removed),
                    Err(error) => {
                        self.counters().retention_failed();
                        if let Line::Write { left_out } = self.lines().upkeep.line() {
                            tracing::warn!(topic = %topic.meta.name, partition = %id, error = %crate::error::line(&error), left_out, "retention failed");
                        }
                    }
                }
                if !topic.meta.settings.compaction {
                    continue;
                }
                match log.compact() {
                    Ok(compacted) => self.counters().compacted(&compacted),
                    Err(error) => {
                        self.counters().compaction_failed();
                        let error = BrokerError::Log(error);
                        if let Line::Write { left_out } = self.lines().upkeep.line() {
                            tracing::warn!(topic = %topic.meta.name, partition = %id, error = %crate::error::line(&error), left_out, "compaction failed");
                        }
                    }
                }
            }
        }
        if self.is_low_on_space() {
            // Retention may have freed enough.
            self.check_space();
        } else {
            self.inner.reserve.refill();
        }
    }

    /// Says where a flush does not come to its end: all who wait for it hear nothing until then, and no error either.
    pub fn check_flushes(&self) {
        let oldest = self.oldest_flush();
        let hangs = oldest > FLUSH_PATIENCE;
        if self.inner.flush_hangs.swap(hangs, Ordering::Relaxed) == hangs {
            return;
        }
        if hangs {
            tracing::warn!(seconds = oldest.as_secs(), "the disk does not end a flush: producers of sync topics wait");
        } else {
            tracing::info!("flushes get on again");
        }
    }

    /// Looks at the free space: below the low threshold produce requests are refused, from the high one on they are taken again. Without a threshold they are
    /// taken.
    pub fn check_space(&self) {
        let limits = self.limits_in_force();
        if limits.disk_low_bytes == 0 && !self.is_low_on_space() {
            return;
        }
        let free_bytes = match self.inner.env.disk.free_bytes(&self.inner.config.data_dir) {
            Ok(free_bytes) => {
                self.inner.space_unknown.store(false, Ordering::Relaxed);
                free_bytes
            }
            Err(error) => {
                // Once, not at each look.
                if !self.inner.space_unknown.swap(true, Ordering::Relaxed) {
                    tracing::warn!(error = %crate::error::line(&error), "the free space cannot be told");
                }
                return;
            }
        };
        let low_space = &self.inner.low_space;
        if free_bytes < limits.disk_low_bytes && !low_space.swap(true, Ordering::Relaxed) {
            let (low_bytes, held_bytes) = (limits.disk_low_bytes, self.held_bytes());
            tracing::error!(free_bytes, low_bytes, held_bytes, "the disk is nearly full: produce requests are refused");
            self.tell(|| Event::LowSpace { free_bytes });
        } else if (limits.disk_low_bytes == 0 || free_bytes >= limits.disk_high_bytes) && low_space.swap(false, Ordering::Relaxed) {
            tracing::info!(free_bytes, "there is space again: produce requests are taken");
            self.tell(|| Event::SpaceAgain { free_bytes });
        }
    }

    /// Whether produce requests are refused for want of space.
    pub(crate) fn is_low_on_space(&self) -> bool {
        self.inner.low_space.load(Ordering::Relaxed)
    }
}
