//! A broker on a disk in memory, with a clock that stands still.

use std::path::Path;
use std::sync::Arc;

use hermit_log::disk::Disk as _;
use hermit_log::disk::sim::SimDisk;
use hermit_log::{Clock, Flusher, LogEnv, ManualClock};

use crate::{Broker, BrokerConfig, BrokerError};

/// The data directory.
pub(super) const DIR: &str = "/data";

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) disk: SimDisk,
    clock: Arc<dyn Clock>,
    /// Nothing is flushed but by its steps.
    pub(crate) flusher: Flusher,
}

impl World {
    pub(crate) fn new() -> Self {
        let disk = SimDisk::new(0);
        disk.create_dir_all(Path::new(DIR)).expect("the disk has no faults");
        Self::on(disk)
    }

    pub(crate) fn on(disk: SimDisk) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000)) as Arc<dyn Clock>;
        Self { disk, flusher: Flusher::manual(Arc::clone(&clock)), clock }
    }

    pub(crate) fn env(&self) -> LogEnv {
        LogEnv::new(Arc::new(self.disk.clone()), Arc::clone(&self.clock), self.flusher.clone(), 64)
    }

    pub(crate) fn config(start: u64) -> BrokerConfig {
        let mut config = BrokerConfig::new(DIR);
        config.recovery_threads = 1;
        config.reserve_bytes = 0;
        config.limits.disk_low_bytes = 0;
        config.limits.disk_high_bytes = 0;
        // A directory may tell of more: it is refused, then, or served, but costs no more than this to look at.
        config.limits.max_partitions = 64;
        config.topic_defaults.segment_bytes = crate::MIN_SEGMENT_BYTES;
        config.id_seed = Some(start);
        config
    }

    /// Opens the broker; another `start` number for each start on the same disk.
    pub(crate) fn open(&self, start: u64) -> Result<Broker, BrokerError> {
        Broker::open_with(Self::config(start), self.env())
    }
}
