//! One subscription: a cursor, its credit, and what it waits for. No I/O but what the log does to find the next range.

use std::sync::Arc;
use std::task::Poll;

use hermit_log::{Cursor, LogError, Range};
use hermit_proto::Offset;
use hermit_proto::session::{DeliveryError, DeliveryHead};
use parking_lot::Mutex;

use crate::error::{BrokerError, to_wire};
use crate::limits::TURN_BYTES;
use crate::partition::Partition;
use crate::server::Warmer;
use crate::signal::Signal;

/// What a cold read came to, once it has.
type Warmed = Arc<Mutex<Option<Result<(), LogError>>>>;

#[derive(Debug)]
pub(super) struct Subscription {
    partition: Arc<Partition>,
    token: u64,
    /// The first offset that the client has not been sent.
    next: Offset,
    cursor: Option<Cursor>,
    credit_bytes: u64,
    /// A range that others are reading, or have read.
    cold: Option<(Range, Warmed)>,
}

/// What a subscription has to say.
#[derive(Debug)]
pub(super) enum Turn {
    /// Nothing until its token is woken, or credit comes.
    Waits,
    /// Frames.
    Delivers(DeliveryHead, Range),
    /// The log begins further on now.
    Tells(DeliveryHead),
    /// It is over.
    Ends(DeliveryError),
}

impl Subscription {
    pub(super) const fn new(partition: Arc<Partition>, token: u64, next: Offset, credit_bytes: u64) -> Self {
        Self { partition, token, next, cursor: None, credit_bytes, cold: None }
    }

    pub(super) const fn add_credit(&mut self, bytes: u64) {
        self.credit_bytes = self.credit_bytes.saturating_add(bytes);
    }

    /// What comes next. `Waits` has registered whatever will wake it.
    pub(super) fn turn(&mut self, warmer: &Warmer, signal: &Arc<Signal>) -> Turn {
        loop {
            if self.credit_bytes == 0 {
                return Turn::Waits;
            }
            let found = match self.take_warmed() {
                Poll::Pending => return Turn::Waits,
                Poll::Ready(Some(found)) => found,
                Poll::Ready(None) => match self.find() {
                    Ok(Some(range)) if !range.file().cached(range.position(), range.len_bytes()) => {
                        self.warm(range, warmer, signal);
                        continue;
                    }
                    found => found,
                },
            };
            match found {
                Ok(Some(range)) => {
                    self.next = self.next.max(range.next_offset());
                    self.credit_bytes = self.credit_bytes.saturating_sub(range.len_bytes());
                    return Turn::Delivers(self.head(), range);
                }
                Ok(None) => match self.partition.progress().wait(Offset(self.next.0.saturating_add(1)), signal, self.token) {
                    // The high watermark moved between the look and the wait.
                    Poll::Ready(Ok(())) => {}
                    // What is there of a log that takes no more writes can still be read, and was: wait for the restart.
                    Poll::Pending | Poll::Ready(Err(BrokerError::Log(_))) => return Turn::Waits,
                    Poll::Ready(Err(error)) => return ends(&error),
                },
                Err(BrokerError::Log(LogError::OutOfRange { log_start, .. })) if self.next < log_start => {
                    self.cursor = None;
                    self.next = log_start;
                    return Turn::Tells(self.head());
                }
                Err(error) => return ends(&error),
            }
        }
    }

    fn find(&mut self) -> Result<Option<Range>, BrokerError> {
        let log = self.partition.log()?;
        let cursor = match &mut self.cursor {
            Some(cursor) => cursor,
            None => self.cursor.insert(log.cursor(self.next)?),
        };
        Ok(cursor.next(self.credit_bytes.min(TURN_BYTES))?)
    }

    /// Has a cold range read by others, and checked.
    fn warm(&mut self, range: Range, warmer: &Warmer, signal: &Arc<Signal>) {
        let warmed = Warmed::default();
        let (done, signal, token) = (Arc::clone(&warmed), Arc::clone(signal), self.token);
        self.cold = Some((range.clone(), warmed));
        warmer.warm(range, move |result| {
            *done.lock() = Some(result);
            signal.wake(token);
        });
    }

    /// The range that was cold, if it has been read by now.
    fn take_warmed(&mut self) -> Poll<Option<Result<Option<Range>, BrokerError>>> {
        let Some((_, warmed)) = &self.cold else { return Poll::Ready(None) };
        let Some(result) = warmed.lock().take() else { return Poll::Pending };
        let range = self.cold.take().map(|(range, _)| range);
        Poll::Ready(Some(result.map(|()| range).map_err(BrokerError::Log)))
    }

    fn head(&self) -> DeliveryHead {
        let progress = self.partition.progress();
        DeliveryHead { high_watermark: progress.high_watermark(), log_start: progress.log_start(), next_offset: self.next }
    }

    /// Waits no longer.
    pub(super) fn forget(&self, signal: &Signal) {
        self.partition.progress().forget(signal, self.token);
    }

    pub(super) const fn token(&self) -> u64 {
        self.token
    }
}

fn ends(error: &BrokerError) -> Turn {
    Turn::Ends(DeliveryError { ended: true, error: to_wire(error) })
}
