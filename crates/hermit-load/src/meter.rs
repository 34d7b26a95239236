//! What a running load tells, and how it is stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;

/// Counts what a load did so far, and stops it. Cheap to clone; all clones share their counts. One for each run.
#[derive(Clone, Debug)]
pub struct Meter {
    counts: Arc<Progress>,
    stop: Arc<watch::Sender<bool>>,
}

#[derive(Debug, Default)]
struct Progress {
    records: AtomicU64,
    bytes: AtomicU64,
}

impl Default for Meter {
    fn default() -> Self {
        Self { counts: Arc::default(), stop: Arc::new(watch::Sender::new(false)) }
    }
}

impl Meter {
    /// Records so far: acknowledged ones of a producer, received ones of a consumer.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.counts.records.load(Ordering::Relaxed)
    }

    /// Bytes of their values.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::Relaxed)
    }

    /// Ends the load before its time; its report comes all the same.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn add(&self, records: u64, bytes: u64) {
        self.counts.records.fetch_add(records, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// One that counts from 0, and stops with this one.
    pub(crate) fn fresh(&self) -> Self {
        Self { counts: Arc::default(), stop: self.stop.clone() }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits for [`Meter::stop`].
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // The sender lives as long as `self`.
        drop(stop.wait_for(|stop| *stop).await);
    }
}
