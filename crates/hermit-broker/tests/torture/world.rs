//! A broker on a simulated disk, with a clock and a flusher that the test drives, and the story of what was done.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use hermit_broker::{Broker, BrokerConfig, BrokerError};
use hermit_log::disk::sim::{Rng, SimDisk, Struck};
use hermit_log::{Clock, Flusher, LogEnv, ManualClock};

pub const DIR: &str = "/data";

/// How long the positions of groups are kept, in the cases in which they expire.
pub const OFFSETS_RETENTION: Duration = Duration::from_secs(10);

pub struct World {
    pub disk: SimDisk,
    pub clock: Arc<ManualClock>,
    pub flusher: Flusher,
    pub expires: bool,
    seed: u64,
    starts: u64,
    /// The failures of the broker's present life.
    pub struck: Vec<Struck>,
    /// Whether the disk was made to run full in its present life.
    pub full: bool,
    story: RefCell<Vec<String>>,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000));
        let flusher = Flusher::manual(Arc::clone(&clock) as Arc<dyn Clock>);
        let (disk, expires) = (SimDisk::new(seed), seed.is_multiple_of(4));
        Self { disk, clock, flusher, expires, seed, starts: 0, struck: Vec::new(), full: false, story: RefCell::default() }
    }

    /// Begins another life of the broker.
    pub fn open(&mut self) -> Result<Broker, BrokerError> {
        self.starts += 1;
        self.struck.clear();
        self.full = false;
        self.flusher = Flusher::manual(Arc::clone(&self.clock) as Arc<dyn Clock>);
        let disk = Arc::new(self.disk.clone());
        let env = LogEnv::new(disk, Arc::clone(&self.clock) as Arc<dyn Clock>, self.flusher.clone(), 64);
        let mut config = BrokerConfig::new(DIR);
        config.recovery_threads = 1;
        config.reserve_bytes = 4096;
        config.limits.disk_low_bytes = 0;
        config.topic_defaults.segment_bytes = hermit_broker::MIN_SEGMENT_BYTES;
        config.offsets_retention = self.expires.then_some(OFFSETS_RETENTION);
        config.id_seed = Some(Rng::new(self.seed ^ self.starts << 40).next_u64());
        Broker::open_with(config, env)
    }

    /// Adds a line to the story of the case.
    pub fn tell(&self, line: String) {
        self.story.borrow_mut().push(format!("{:>6} {line}", self.disk.mutations()));
    }

    /// Takes note of the failures that came to pass.
    pub fn note_struck(&mut self) {
        for struck in self.disk.take_struck() {
            self.tell(format!("FAULT {} {} {:?}", struck.op, struck.path.display(), struck.effect));
            self.struck.push(struck);
        }
    }

    /// Whether anything that was asked for may be refused.
    pub fn may_refuse(&self) -> bool {
        !self.struck.is_empty() || self.full || self.disk.is_off()
    }

    pub fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// What was done, for whoever looks into a failure.
    pub fn story(&self) -> String {
        let trace = self.disk.trace();
        let lines: Vec<_> = trace.lines().collect();
        let from = lines.len().saturating_sub(120);
        format!("--- story\n{}\n--- the end of the disk's trace\n{}", self.story.borrow().join("\n"), lines[from..].join("\n"))
    }
}
