//! One subscription: a cursor, its credit, and what it waits for. No I/O but what the log does to find the next range.

use std::sync::{Arc, Weak};
use std::task::Poll;

use bytes::BytesMut;
use hermit_log::{LogError, Range};
use hermit_proto::session::{DeliveryError, DeliveryHead};
use hermit_proto::{CorrelationId, Offset, TopicId};
use parking_lot::Mutex;

use crate::error::{BrokerError, to_wire};
use crate::limits::{SHORT_DELIVERY_BYTES, TURN_BYTES};
use crate::partition::Partition;
use crate::server::reader::{Cold, Reader, Step, StepInto, Warmed};
use crate::server::warmer::{Awaits, Warmer};
use crate::signal::Signal;

/// What a cold read came to, once it has.
type Slot = Mutex<Option<Warmed>>;

/// A subscription that waits for a cold read, if it is still there.
struct Waiter {
    slot: Weak<Slot>,
    signal: Arc<Signal>,
    token: u64,
}

impl Awaits for Waiter {
    fn is_wanted(&self) -> bool {
        self.slot.strong_count() > 0
    }

    fn done(self: Box<Self>, warmed: Warmed) {
        if let Some(slot) = self.slot.upgrade() {
            *slot.lock() = Some(warmed);
            self.signal.wake(self.token);
        }
    }
}

#[derive(Debug)]
pub(super) struct Subscription {
    reader: Reader,
    token: u64,
    credit_bytes: u64,
    /// The client knows that nothing below comes any more.
    told: Offset,
    /// What others are reading, or have read.
    cold: Option<Arc<Slot>>,
}

/// What a subscription has to say.
#[derive(Debug)]
pub(super) enum Turn {
    /// Nothing until its token is woken, or credit comes.
    Waits,
    /// Frames. Their head was written.
    Delivers(Range),
    /// What it had to say was written: a short delivery, or how far reading has got.
    Wrote,
    /// It is over.
    Ends(DeliveryError),
}

impl Subscription {
    pub(super) const fn new(partition: Arc<Partition>, token: u64, next: Offset, credit_bytes: u64) -> Self {
        Self { reader: Reader::new(partition, next), token, credit_bytes, told: next, cold: None }
    }

    pub(super) const fn add_credit(&mut self, bytes: u64) {
        self.credit_bytes = self.credit_bytes.saturating_add(bytes);
    }

    /// What comes next, written to `out` as far as it is short. `Waits` has registered whatever will wake it.
    pub(super) fn turn(&mut self, id: CorrelationId, warmer: &Warmer, signal: &Arc<Signal>, out: &mut BytesMut) -> Turn {
        loop {
            if self.credit_bytes == 0 {
                return Turn::Waits;
            }
            let found = match self.take_warmed() {
                Poll::Pending => return Turn::Waits,
                Poll::Ready(Some(Ok(Some(range)))) => Ok(StepInto::Other(Step::Found(range))),
                Poll::Ready(Some(Ok(None))) => continue,
                Poll::Ready(Some(Err(error))) => Err(error),
                Poll::Ready(None) => self.step(id, out),
            };
            match found {
                Ok(StepInto::Other(Step::Found(range))) => {
                    let head = self.delivered(id, &range);
                    out.extend_from_slice(&head);
                    return Turn::Delivers(range);
                }
                Ok(StepInto::Read(_)) => return Turn::Wrote,
                Ok(StepInto::Other(Step::Cold(cold))) => self.warm(cold, warmer, signal),
                // Whoever reads up to there has to know that nothing is left.
                Ok(StepInto::Other(Step::AtEnd)) if self.told < self.reader.next() => return self.tell(id, out),
                Ok(StepInto::Other(Step::AtEnd)) => {
                    let until = Offset(self.reader.next().0.saturating_add(1));
                    match self.reader.partition().progress().wait(until, signal, self.token) {
                        // The high watermark moved between the look and the wait.
                        Poll::Ready(Ok(())) => {}
                        // What is there of a log that takes no more writes can still be read, and was: wait for the restart.
                        Poll::Pending | Poll::Ready(Err(BrokerError::Log(_))) => return Turn::Waits,
                        Poll::Ready(Err(error)) => return ends(&error),
                    }
                }
                Err(BrokerError::Log(LogError::OutOfRange { log_start, .. })) if self.reader.next() < log_start => {
                    self.reader.seek(log_start);
                    return self.tell(id, out);
                }
                Err(error) => return ends(&error),
            }
        }
    }

    /// The next range; where it is short, the whole delivery is written.
    fn step(&mut self, id: CorrelationId, out: &mut BytesMut) -> Result<StepInto, BrokerError> {
        let start = out.len();
        let frames_at = start.saturating_add(DeliveryHead::HEAD_SIZE);
        out.resize(frames_at, 0);
        let step = self.reader.step_into(self.credit_bytes.min(TURN_BYTES), SHORT_DELIVERY_BYTES, out);
        if let Ok(StepInto::Read(range)) = &step {
            let head = self.delivered(id, range);
            if let Some(space) = out.get_mut(start..frames_at) {
                space.copy_from_slice(&head);
            }
        } else {
            out.truncate(start);
        }
        step
    }

    /// Takes the credit for a range, and says what stands before it.
    fn delivered(&mut self, id: CorrelationId, range: &Range) -> [u8; DeliveryHead::HEAD_SIZE] {
        self.credit_bytes = self.credit_bytes.saturating_sub(range.len_bytes());
        // A range is one turn, or one frame: both fit.
        self.head().encode(id, u32::try_from(range.len_bytes()).unwrap_or(u32::MAX))
    }

    /// Tells how far reading has got: the log begins there now, or has no records before.
    fn tell(&mut self, id: CorrelationId, out: &mut BytesMut) -> Turn {
        out.extend_from_slice(&self.head().encode(id, 0));
        Turn::Wrote
    }

    fn warm(&mut self, cold: Cold, warmer: &Warmer, signal: &Arc<Signal>) {
        let slot = Arc::<Slot>::default();
        let waiter = Waiter { slot: Arc::downgrade(&slot), signal: Arc::clone(signal), token: self.token };
        self.cold = Some(slot);
        warmer.warm(cold, waiter);
    }

    /// What was cold, if it has been read by now.
    fn take_warmed(&mut self) -> Poll<Option<Result<Option<Range>, BrokerError>>> {
        let Some(slot) = &self.cold else { return Poll::Ready(None) };
        let Some(warmed) = slot.lock().take() else { return Poll::Pending };
        self.cold = None;
        Poll::Ready(Some(self.reader.take(warmed)))
    }

    fn head(&mut self) -> DeliveryHead {
        self.told = self.reader.next();
        let progress = self.reader.partition().progress();
        let (high_watermark, log_start) = (progress.high_watermark(), progress.log_start());
        DeliveryHead { high_watermark, log_start, next_offset: self.told }
    }

    pub(super) fn topic(&self) -> TopicId {
        self.reader.partition().topic()
    }

    /// Waits no longer.
    pub(super) fn forget(&self, signal: &Signal) {
        self.reader.partition().progress().forget(signal, self.token);
    }

    pub(super) const fn token(&self) -> u64 {
        self.token
    }
}

fn ends(error: &BrokerError) -> Turn {
    Turn::Ends(DeliveryError { ended: true, error: to_wire(error) })
}
