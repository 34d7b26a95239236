//! The broker, in process: no socket, no runtime and no thread is needed for anything here.

mod access;
mod alter;
mod append;
mod describe;
mod gone;
mod groups;
mod hooks;
mod lend;
mod live;
mod maintain;
mod positions;
mod search_turn;
mod stop;
mod topics;

use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use hermit_log::disk::Disk;
use hermit_log::{Clock, LogEnv, LogTimes};
use hermit_proto::{PartitionId, TopicId, TopicName};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::{Semaphore, watch};

pub(crate) use describe::PROGRAM;
use gone::Gone;
use live::Live;
pub use positions::Position;
pub(crate) use positions::Stored;
pub(crate) use positions::offsets_settings;
pub use search_turn::SearchTurn;
pub use stop::StopHold;
pub(crate) use stop::{Phase, reached};
pub(crate) use topics::refuse_internal;

use crate::access::Access;
use crate::config::BrokerConfig;
use crate::error::BrokerError;
use crate::events::Events;
use crate::groups::Groups;
use crate::ids::Ids;
use crate::limits::Limits;
use crate::manifest::Manifest;
use crate::memory::Budget;
use crate::metrics::{Counters, LagCache};
use crate::offsets::Offsets;
use crate::partition::Partition;
use crate::producers::ProducerIds;
use crate::registry::Registry;
use crate::reserve::Reserve;
use crate::roster::Roster;
use crate::scrub::Scrubber;
use crate::server::{ConnectionCounts, Door, Lines, Warmer};
use crate::start::{self, OpenReport, Started};
use crate::tls::Tls;
use crate::topic::Topic;

/// A broker on a data directory. Cheap to clone; all clones are the same broker.
///
/// ```no_run
/// use hermit_broker::{Broker, BrokerConfig};
///
/// let broker = Broker::open(BrokerConfig::new("./hermit-data"))?;
/// let topic = broker.create_topic("orders", 8, &Default::default())?;
/// println!("{} has {} partitions", topic.meta.name, topic.meta.partitions);
/// broker.close()?;
/// # Ok::<(), hermit_broker::BrokerError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Broker {
    inner: Arc<Inner>,
    /// As they were when this handle was made.
    limits: Arc<Limits>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    /// As at the start.
    config: BrokerConfig,
    /// What can be changed.
    live: RwLock<Arc<Live>>,
    env: LogEnv,
    broker_id: u128,
    instance: u64,
    /// By the broker's clock, in ns since the Unix epoch.
    started_at: u64,
    ids: Ids,
    registry: Arc<Registry>,
    access: Arc<Access>,
    groups: Arc<Groups>,
    offsets: RwLock<Option<Arc<Offsets>>>,
    /// All that changes topics holds this.
    manifest: Mutex<Manifest>,
    producers: Mutex<ProducerIds>,
    /// The first producer id that was not given out; read without waiting for the manifest.
    producers_end: AtomicI64,
    reserve: Reserve,
    /// The embedder's hooks, if there are any.
    events: Option<Arc<Events>>,
    /// Whether somebody was told that the broker stops.
    stop_told: AtomicBool,
    low_space: AtomicBool,
    /// Whether it was told that a flush does not end.
    flush_hangs: AtomicBool,
    /// Whether the free space could not be told at the last look.
    space_unknown: AtomicBool,
    report: OpenReport,
    phase: watch::Sender<Phase>,
    budget: Arc<Budget>,
    tls: Tls,
    connections: watch::Sender<usize>,
    /// What others do with the broker, and a graceful stop waits for.
    held: watch::Sender<usize>,
    door: Arc<Door>,
    roster: Arc<Roster>,
    /// Lets requests through that take computing time, or search in logs.
    searches: Arc<Semaphore>,
    /// The same, of those that come by other protocols.
    foreign_searches: Arc<Semaphore>,
    lines: Lines,
    warmer: OnceLock<Warmer>,
    scrubber: Scrubber,
    counters: Counters,
    lag_cache: LagCache,
    /// Of topics that were deleted.
    gone: Mutex<Gone>,
    /// Held until the broker is closed.
    lock: Mutex<Option<Box<dyn hermit_log::disk::DirLock>>>,
}

impl Broker {
    /// Opens a data directory with real files, clocks and threads.
    ///
    /// # Errors
    /// What keeps the broker as a whole from starting: the directory is in use, cannot be written, or was written by a newer release. A
    /// damaged partition does not.
    pub fn open(config: BrokerConfig) -> Result<Self, BrokerError> {
        let env = crate::env::real(&config)?;
        let broker = Self::open_with(config, env)?;
        // The thread looks after its first second; producers may come before.
        broker.check_space();
        crate::maintenance::spawn(&broker);
        crate::scrub::spawn(&broker);
        Ok(broker)
    }

    /// Opens a data directory on a disk, a clock and a flusher of the caller's. Starts no thread: with a manual flusher and
    /// [`BrokerConfig::recovery_threads`] 1, everything happens in the calls that ask for it. Call [`Broker::maintain`] from time to time.
    ///
    /// A disk is a [`Disk`](hermit_log::disk::Disk), of which there is one in memory that fails as it is told; a clock is a
    /// [`Clock`](hermit_log::Clock).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::Duration;
    /// use hermit_broker::log::{Flusher, LogEnv, ManualClock, disk::sim::SimDisk};
    /// use hermit_broker::{Broker, BrokerConfig};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let disk = SimDisk::new(7);
    /// let clock = Arc::new(ManualClock::new(1_700_000_000_000_000_000));
    /// let open = || {
    ///     let flusher = Flusher::manual(clock.clone());
    ///     let env = LogEnv::new(Arc::new(disk.clone()), clock.clone(), flusher, 64);
    ///     Broker::open_with(BrokerConfig { recovery_threads: 1, ..BrokerConfig::new("/data") }, env)
    /// };
    /// let broker = open()?;
    /// broker.create_topic("orders", 1, &Default::default())?;
    /// clock.advance(Duration::from_secs(3600));
    /// broker.maintain();
    ///
    /// // The power goes, and comes back.
    /// drop(broker);
    /// disk.crash(1);
    /// let broker = open()?;
    /// assert!(!broker.report().clean);
    /// assert!(broker.topic(&"orders".parse()?).is_ok());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Broker::open`].
    pub fn open_with(config: BrokerConfig, env: LogEnv) -> Result<Self, BrokerError> {
        config.check()?;
        let tls = Tls::open(config.tls.as_ref(), wall_clock(&env))?;
        let ids = Ids::new(config.id_seed);
        let events = config.hooks.clone().map(|hooks| Arc::new(Events::new(hooks)));
        let Started { lock, manifest, reserve, topics, mut report } = start::start(&config, &env, events.as_ref(), &ids)?;
        let (access, damage) = access::open(&config, &env)?;
        report.access = damage;
        if !report.clean {
            access.write_anew();
        }
        let registry = Arc::new(Registry::new());
        topics.iter().for_each(|topic| registry.insert(topic));
        let groups = Arc::new(Groups::new(
            Arc::clone(&registry),
            Arc::clone(&access),
            Arc::clone(&env.clock),
            config.limits.clone(),
            events.clone(),
        ));
        let listener: std::sync::Weak<Groups> = Arc::downgrade(&groups);
        registry.set_listener(listener);
        #[expect(clippy::cast_possible_truncation, reason = "any 64 of the random bits do")]
        let instance = ids.next()? as u64;
        let state = manifest.state();
        let (broker_id, producers) = (state.broker_id, ProducerIds::new(state.next_producer));
        let budget = Budget::new(&config.limits);
        let searches = std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2));
        let inner = Inner {
            broker_id,
            instance,
            started_at: env.clock.now(),
            ids,
            registry,
            access,
            groups,
            offsets: RwLock::new(None),
            manifest: Mutex::new(manifest),
            producers_end: AtomicI64::new(producers.end().0),
            producers: Mutex::new(producers),
            reserve,
            events,
            stop_told: AtomicBool::new(false),
            low_space: AtomicBool::new(false),
            flush_hangs: AtomicBool::new(false),
            space_unknown: AtomicBool::new(false),
            report,
            phase: watch::Sender::new(Phase::Running),
            budget,
            tls,
            connections: watch::Sender::new(0),
            held: watch::Sender::new(0),
            door: Door::new(&config.limits),
            roster: Arc::default(),
            searches: Arc::new(Semaphore::new(searches)),
            foreign_searches: Arc::new(Semaphore::new((searches / 2).max(1))),
            lines: Lines::default(),
            warmer: OnceLock::new(),
            scrubber: Scrubber::new(config.scrub_bytes_per_second),
            counters: Counters::default(),
            lag_cache: LagCache::default(),
            gone: Mutex::default(),
            lock: Mutex::new(Some(lock)),
            live: RwLock::new(Arc::new(Live::new(&config))),
            config,
            env,
        };
        let limits = Arc::clone(&inner.live.read().limits);
        let broker = Self { inner: Arc::new(inner), limits };
        let broker = broker.with_positions();
        broker.tell_start();
        Ok(broker)
    }

    fn with_positions(mut self) -> Self {
        let (positions, down) = self.open_positions();
        // Nobody else has this broker yet.
        if let Some(inner) = Arc::get_mut(&mut self.inner) {
            inner.report.positions = positions;
            inner.report.positions_down = down;
        }
        self
    }

    /// What the start found and did.
    #[must_use]
    pub fn report(&self) -> &OpenReport {
        &self.inner.report
    }

    /// Names the data directory: the same for its whole life.
    #[must_use]
    pub fn broker_id(&self) -> u128 {
        self.inner.broker_id
    }

    /// Another one after each start.
    #[must_use]
    pub fn instance(&self) -> u64 {
        self.inner.instance
    }

    /// The settings, as they were at the start; see [`Broker::reconfigure`].
    #[must_use]
    pub fn config(&self) -> &BrokerConfig {
        &self.inner.config
    }

    /// The limits, as they were at the start, or, of a handle that belongs to a connection, when that began.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A topic by its name.
    ///
    /// # Errors
    /// [`BrokerError::UnknownTopic`].
    pub fn topic(&self, name: &TopicName) -> Result<Arc<Topic>, BrokerError> {
        self.inner.registry.by_name(name).ok_or_else(|| BrokerError::unknown_topic(name))
    }

    /// A topic by its id.
    ///
    /// # Errors
    /// [`BrokerError::UnknownTopic`].
    pub fn topic_by_id(&self, id: TopicId) -> Result<Arc<Topic>, BrokerError> {
        self.inner.registry.by_id(id).ok_or_else(|| BrokerError::unknown_topic(id))
    }

    /// All topics, in the order of their names.
    #[must_use]
    pub fn topics(&self) -> Vec<Arc<Topic>> {
        self.inner.registry.all()
    }

    /// A partition, for reading.
    ///
    /// # Errors
    /// [`BrokerError::UnknownTopic`], [`BrokerError::UnknownPartition`].
    pub fn partition(&self, topic: TopicId, partition: PartitionId) -> Result<Arc<Partition>, BrokerError> {
        self.topic_by_id(topic)?.partition(partition).cloned()
    }

    /// A partition that clients may write.
    ///
    /// # Errors
    /// As [`Broker::partition`], and [`BrokerError::InternalTopic`].
    pub fn writable(&self, topic: TopicId, partition: PartitionId) -> Result<Arc<Partition>, BrokerError> {
        let topic = self.topic_by_id(topic)?;
        topics::refuse_internal(&topic.meta.name)?;
        topic.partition(partition).cloned()
    }

    /// The manifest, to be changed; not any more once the broker was closed, as another one may have the directory then.
    fn manifest(&self) -> Result<MutexGuard<'_, Manifest>, BrokerError> {
        let manifest = self.inner.manifest.lock();
        if *self.inner.phase.borrow() >= Phase::Closed {
            return Err(BrokerError::ShuttingDown);
        }
        Ok(manifest)
    }

    /// Bytes that were received and not yet handed on.
    #[must_use]
    pub fn inflight_bytes(&self) -> u64 {
        self.inner.budget.used_bytes()
    }

    /// Client connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        *self.inner.connections.borrow()
    }

    /// Client connections, by how far they are, and what became of those that were too many.
    #[must_use]
    pub fn connection_counts(&self) -> ConnectionCounts {
        self.inner.door.counts()
    }

    /// Counts a connection in that begins its handshake.
    pub(crate) fn connect(&self) -> Connected {
        self.inner.connections.send_modify(|count| *count += 1);
        Connected { broker: self.clone() }
    }

    /// Who is let in.
    pub(crate) fn door(&self) -> &Arc<Door> {
        &self.inner.door
    }

    /// Which connections there are.
    pub(crate) fn roster(&self) -> &Arc<Roster> {
        &self.inner.roster
    }

    /// Lets few requests at a time through that take computing time, or search in logs.
    pub(crate) fn searches(&self) -> &Arc<Semaphore> {
        &self.inner.searches
    }

    /// Lets through fewer of those that come by other protocols, before they ask there.
    pub(crate) fn foreign_searches(&self) -> &Arc<Semaphore> {
        &self.inner.foreign_searches
    }

    /// What is written about connections, and how often.
    pub(crate) fn lines(&self) -> &Lines {
        &self.inner.lines
    }

    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.inner.budget
    }

    pub(crate) fn tls(&self) -> &Tls {
        &self.inner.tls
    }

    pub(crate) fn wall_clock(&self) -> SystemTime {
        wall_clock(&self.inner.env)
    }

    /// Changes with every connection that comes or goes.
    pub(crate) fn connection_count(&self) -> watch::Receiver<usize> {
        self.inner.connections.subscribe()
    }

    /// The threads that read cold ranges; started when they are first needed.
    pub(crate) fn warmer(&self) -> &Warmer {
        self.inner.warmer.get_or_init(Warmer::start)
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    pub(crate) fn lag_cache(&self) -> &LagCache {
        &self.inner.lag_cache
    }

    /// How long appends and flushes took, of all logs of this broker.
    pub(crate) fn log_times(&self) -> &LogTimes {
        &self.inner.env.times
    }

    /// Writes to the logs, for who has to tell a disk that takes for ever from a broker that does not get on.
    #[must_use]
    pub fn writes(&self) -> &hermit_log::Writes {
        &self.log_times().writes
    }

    /// How long the oldest flush is under way that has not ended; zero where none is.
    pub(crate) fn oldest_flush(&self) -> Duration {
        self.log_times().flushing.oldest(self.inner.env.clock.monotonic())
    }

    /// In ns since the Unix epoch, by the broker's clock.
    pub(crate) fn started_at(&self) -> u64 {
        self.inner.started_at
    }

    pub(crate) fn scrubber(&self) -> &Scrubber {
        &self.inner.scrubber
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.env.clock
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.inner.env.disk
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    pub(crate) fn downgrade(&self) -> WeakBroker {
        WeakBroker(Arc::downgrade(&self.inner))
    }
}

/// By the broker's clock.
fn wall_clock(env: &LogEnv) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(env.clock.now())
}

/// A broker that lives only as long as somebody else has it.
#[derive(Debug, Clone)]
pub(crate) struct WeakBroker(std::sync::Weak<Inner>);

impl WeakBroker {
    pub(crate) fn upgrade(&self) -> Option<Broker> {
        let inner = self.0.upgrade()?;
        let limits = Arc::clone(&inner.live.read().limits);
        Some(Broker { inner, limits })
    }
}

/// One counted connection.
#[derive(Debug)]
pub(crate) struct Connected {
    broker: Broker,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.broker.inner.connections.send_modify(|count| *count = count.saturating_sub(1));
    }
}
