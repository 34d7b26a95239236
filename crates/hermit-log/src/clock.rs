//! Time, injected: nothing else in the log asks the system for it.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Where the log takes its time from.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Nanoseconds since the Unix epoch; may jump.
    fn now(&self) -> u64;

    /// Time since some fixed moment, sleep of the machine included; never falls.
    fn monotonic(&self) -> Duration;
}

/// The system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everybody else is told to use")]
    fn now(&self) -> u64 {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX)
    }

    fn monotonic(&self) -> Duration {
        let since_boot = clock_gettime(ClockId::Boottime);
        let seconds = u64::try_from(since_boot.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(since_boot.tv_nsec).unwrap_or(0))
    }
}

/// A clock that stands until it is set, for tests.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: AtomicU64,
    monotonic: AtomicU64,
}

impl ManualClock {
    /// A clock at `now` nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn new(now: u64) -> Self {
        Self { now: AtomicU64::new(now), monotonic: AtomicU64::new(0) }
    }

    /// Sets the wall clock alone, as an operator or a time server does.
    pub fn set(&self, now: u64) {
        self.now.store(now, Ordering::SeqCst);
    }

    /// Lets time pass.
    pub fn advance(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.now.fetch_add(nanos, Ordering::SeqCst);
        self.monotonic.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> u64 {
        self.now.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.monotonic.load(Ordering::SeqCst))
    }
}

/// The wall clock, which may not run ahead of the time that has passed by more than this. A clock that jumps a year ahead would
/// otherwise have retention remove a year of data, and would leave append times that never fall again.
const MAX_RUN_AHEAD: Duration = Duration::from_secs(3600);

/// Wall time that does not jump ahead: for append times and retention.
#[derive(Debug)]
pub(crate) struct SteadyTime {
    clock: Arc<dyn Clock>,
    anchor: (u64, Duration),
    reported: AtomicBool,
}

impl SteadyTime {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { anchor: (clock.now(), clock.monotonic()), clock, reported: AtomicBool::new(false) }
    }

    /// Nanoseconds since the Unix epoch: the wall clock's, or the latest that the time passed since the start allows.
    pub(crate) fn now(&self) -> u64 {
        self.now_and_monotonic().0
    }

    /// The same, with the monotonic clock, which had to be looked at for it.
    pub(crate) fn now_and_monotonic(&self) -> (u64, Duration) {
        let wall = self.clock.now();
        let monotonic = self.clock.monotonic();
        let passed = monotonic.saturating_sub(self.anchor.1) + MAX_RUN_AHEAD;
        let latest = self.anchor.0.saturating_add(u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX));
        if wall > latest && !self.reported.swap(true, Ordering::Relaxed) {
            let ahead_seconds = (wall - latest) / 1_000_000_000;
            tracing::error!(
                ahead_seconds,
                "the system clock has jumped ahead; append times and retention do not follow it until a restart"
            );
        }
        (wall.min(latest), monotonic)
    }
}
