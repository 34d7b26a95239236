//! A broker on a simulated disk, with a clock and a flusher that the test drives.

use std::sync::Arc;

use hermit_broker::{Broker, BrokerConfig, BrokerError};
use hermit_log::disk::sim::SimDisk;
use hermit_log::{Clock, Flusher, LogEnv, ManualClock};

pub struct World {
    pub disk: SimDisk,
    pub clock: Arc<ManualClock>,
    pub flusher: Flusher,
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self::on(SimDisk::new(seed), &Arc::new(ManualClock::new(1_700_000_000_000_000_000)))
    }

    pub fn on(disk: SimDisk, clock: &Arc<ManualClock>) -> Self {
        let clock = Arc::clone(clock);
        let flusher = Flusher::manual(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { disk, clock, flusher }
    }

    /// Opens the broker; another `start` number for each start on the same history.
    pub fn open(&self, start: u64) -> Result<Broker, BrokerError> {
        let disk = Arc::new(self.disk.clone());
        let env = LogEnv::new(disk, Arc::clone(&self.clock) as Arc<dyn Clock>, self.flusher.clone(), 64);
        let mut config = BrokerConfig::new("/data");
        config.recovery_threads = 1;
        config.reserve_bytes = 4096;
        config.limits.disk_low_bytes = 0;
        config.topic_defaults.segment_bytes = hermit_broker::MIN_SEGMENT_BYTES;
        config.id_seed = Some(self.disk.mutations() << 8 | start);
        Broker::open_with(config, env)
    }
}
