//! Turns of the connections that share a thread.
//!
//! A task whose socket is always ready never waits, and so never ends by itself: the runtime interrupts it after 128 operations only, which with reads
//! of 128 KiB took more than 100 ms. Meanwhile those that it has woken stand still, as the runtime keeps the last one woken on the thread that woke it:
//! the consumer of the very partition that is written to.

/// What a connection has moved since others last had their turn.
#[derive(Debug)]
pub(super) struct Turn {
    moved_bytes: u64,
    most_bytes: u64,
}

impl Turn {
    /// A turn that is over after so many bytes.
    pub(super) const fn of(most_bytes: u64) -> Self {
        Self { moved_bytes: 0, most_bytes }
    }

    /// Counts bytes that were read or sent.
    pub(super) const fn moved(&mut self, bytes: u64) {
        self.moved_bytes = self.moved_bytes.saturating_add(bytes);
    }

    /// Begins anew: the connection has come to wait, and others have their turn anyway.
    pub(super) const fn begin(&mut self) {
        self.moved_bytes = 0;
    }

    /// Gives others on this thread their turn where this one is over. By bytes, as each time costs a round through the reactor, and wakes another thread.
    pub(super) async fn pass(&mut self) {
        if self.moved_bytes >= self.most_bytes {
            self.moved_bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}
