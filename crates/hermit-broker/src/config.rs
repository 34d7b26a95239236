//! What an embedder tells the broker.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hermit_log::LogConfig;

use crate::access::AccessConfig;
use crate::error::BrokerError;
use crate::hooks::Hooks;
use crate::limits::Limits;
use crate::start::StartProgress;
use crate::tls::TlsConfig;
use crate::topic::TopicSettings;

/// The settings of a broker.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// Where everything is kept. Created where it is missing. No default.
    pub data_dir: PathBuf,
    /// All limits.
    pub limits: Limits,
    /// Settings of topics whose creator does not say otherwise.
    pub topic_defaults: TopicSettings,
    /// Partitions of topics whose creator does not say how many. Default 1. Version-1 producers always get 1.
    pub default_partitions: u32,
    /// Whether producing to a topic that is not there creates it. Default: yes. Reading and committing never do.
    pub create_topics: bool,
    /// Settings of all logs that topics cannot change: producer state, index, compaction memory.
    pub log: LogConfig,
    /// Partitions that are opened at a time at start. Default 32: most of the time each waits for the disk. 1 opens them on the calling thread, in order.
    pub recovery_threads: usize,
    /// Threads that sync. Default 4. Each syncs one partition at a time; where many were written to, one syncs them all together.
    pub flush_threads: usize,
    /// Time between two rounds of retention and compaction. Default 60 s. The free space is looked at every second.
    pub maintenance_interval: Duration,
    /// Bytes of closed segments that the scrub reads and verifies in a second, at most. Default 8 MiB; 0: there is no scrub. It gives way to what
    /// clients do, and leaves the page cache as it was.
    pub scrub_bytes_per_second: u64,
    /// Time from one pass of the scrub over all partitions to the next: no segment is read more often. Default 7 days, at least 1 s. A restart
    /// goes on where the last pass was.
    pub scrub_interval: Duration,
    /// Time after which the positions of a group are deleted, counted from the last commit, from when the last member left, or from the broker's start, whatever was
    /// last; never while it has members. Default: none, so that they are kept for ever.
    pub offsets_retention: Option<Duration>,
    /// Space kept in a file, to be given back when the disk is full, so that topics can be deleted then. Default 4 MiB; 0: none.
    pub reserve_bytes: u64,
    /// Makes ids from a seed instead of the system's randomness, for simulations that must replay. Each start on a directory needs
    /// another seed. Default: none.
    pub id_seed: Option<u64>,
    /// Files of all logs that are open at a time. Default 2,048. Connections need descriptors besides.
    pub max_open_files: usize,
    /// Who may do what. Default: everybody everything.
    pub access: AccessConfig,
    /// What clients are told of the settings, as names and values, in the order of the manual: whoever starts the broker knows by which names
    /// its settings go. No secrets: every client may ask. Default: none.
    pub described_settings: Vec<(String, String)>,
    /// TLS, on the same ports. Default: none. Needs the feature `tls`.
    pub tls: Option<TlsConfig>,
    /// Is told how far [`Broker::open`](crate::Broker::open) is. Default: nobody is.
    pub start_progress: Option<Arc<StartProgress>>,
    /// What an embedder has added. Default: nothing.
    pub hooks: Option<Arc<dyn Hooks>>,
}

impl BrokerConfig {
    /// The defaults, in a directory.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            limits: Limits::default(),
            topic_defaults: TopicSettings::default(),
            default_partitions: 1,
            create_topics: true,
            log: LogConfig::default(),
            recovery_threads: 32,
            flush_threads: 4,
            maintenance_interval: Duration::from_secs(60),
            scrub_bytes_per_second: 8 << 20,
            scrub_interval: Duration::from_secs(7 * 24 * 3600),
            offsets_retention: None,
            reserve_bytes: 4 << 20,
            id_seed: None,
            max_open_files: 2048,
            access: AccessConfig::default(),
            described_settings: Vec::new(),
            tls: None,
            start_progress: None,
            hooks: None,
        }
    }

    /// Checks the settings against each other.
    ///
    /// # Errors
    /// The first one that is not allowed.
    pub fn check(&self) -> Result<(), BrokerError> {
        self.limits.check()?;
        self.topic_defaults.check()?;
        self.access.check()?;
        if self.offsets_retention.is_some_and(|retention| retention.is_zero()) {
            let rule = "0 would delete all positions at once; leave it out to keep them for ever".into();
            return Err(BrokerError::InvalidConfig { field: "offsets_retention", rule });
        }
        if self.scrub_interval < Duration::from_secs(1) {
            let rule = "it must be at least 1 s; to switch the scrub off, set scrub_bytes_per_second to 0".into();
            return Err(BrokerError::InvalidConfig { field: "scrub_interval", rule });
        }
        if self.default_partitions == 0 || self.default_partitions > self.limits.max_partitions {
            let rule = format!("{} is outside 1 to max_partitions ({})", self.default_partitions, self.limits.max_partitions);
            return Err(BrokerError::InvalidConfig { field: "default_partitions", rule });
        }
        Ok(())
    }
}
