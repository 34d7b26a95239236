//! Room in a producer's buffer: taken before a record goes into its batch, and given back when that is done. Whoever waits for room sees to it that no
//! batch that has some lingers.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, TryAcquireError};

#[derive(Debug)]
pub(super) struct Room {
    /// One permit for each byte that may be buffered.
    bytes: Semaphore,
    /// Callers that wait.
    waiting: AtomicUsize,
}

/// Room that no batch has: given back when dropped.
#[derive(Debug)]
pub(super) struct Reserved<'a> {
    room: &'a Room,
    pub(super) bytes: usize,
}

/// Counts a caller that waits.
struct Waiting<'a>(&'a AtomicUsize);

impl Room {
    pub(super) fn new(bytes: usize) -> Self {
        Self { bytes: Semaphore::new(bytes), waiting: AtomicUsize::new(0) }
    }

    pub(super) fn try_take(&self, bytes: u32) -> Result<(), TryAcquireError> {
        self.bytes.try_acquire_many(bytes).map(|permit| permit.forget())
    }

    /// Waits for it. `urge` tells the driver that somebody does; `closed` is what to say where there will be none.
    pub(super) async fn take<E>(
        &self,
        bytes: u32,
        urge: impl FnOnce() -> Result<(), E>,
        closed: impl FnOnce() -> E,
    ) -> Result<(), E> {
        // Before the driver is told: it looks once.
        let _waiting = Waiting::new(&self.waiting);
        urge()?;
        let permit = self.bytes.acquire_many(bytes).await.map_err(|_closed| closed())?;
        permit.forget();
        Ok(())
    }

    /// Of what was taken, so much may not go into a batch.
    pub(super) const fn reserved(&self, bytes: usize) -> Reserved<'_> {
        Reserved { room: self, bytes }
    }

    pub(super) fn give_back(&self, bytes: usize) {
        self.bytes.add_permits(bytes);
    }

    /// Nobody gets any more.
    pub(super) fn close(&self) {
        self.bytes.close();
    }

    /// Whether somebody waits: then batches must not linger.
    pub(super) fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    pub(super) fn free_bytes(&self) -> usize {
        self.bytes.available_permits()
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.room.give_back(self.bytes);
    }
}

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
