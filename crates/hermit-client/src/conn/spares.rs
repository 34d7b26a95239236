//! Memory of large deliveries that are used up, to read the next ones into: fresh pages cost more than what is read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};

/// One that is being read, one that is being handed out, and some between.
const MAX_COUNT: usize = 4;
/// The sizes that are kept. Larger deliveries hold a single large frame each, and are rare; smaller ones gain nothing.
pub(crate) const SPARE_BYTES: std::ops::RangeInclusive<usize> = (128 << 10)..=(2 << 20);

/// At most 8 MiB, all of which was received into before.
#[derive(Debug, Default)]
pub(crate) struct Spares(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    buffers: Vec<BytesMut>,
    /// Some was taken since the last look.
    used: bool,
}

impl Spares {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the memory behind these bytes, unless somebody else has them still.
    pub(crate) fn give(&self, bytes: Bytes) {
        if !SPARE_BYTES.contains(&bytes.len()) {
            return;
        }
        let Ok(mut buffer) = bytes.try_into_mut() else { return };
        buffer.clear();
        if !SPARE_BYTES.contains(&buffer.capacity()) {
            return;
        }
        let mut kept = self.kept();
        if kept.buffers.len() < MAX_COUNT {
            kept.buffers.push(buffer);
        }
    }

    /// An empty buffer with room for so many bytes.
    pub(crate) fn take(&self, bytes: usize) -> Option<BytesMut> {
        let mut kept = self.kept();
        // What stood before the bytes that were given counts as well.
        let at = kept.buffers.iter_mut().rposition(|buffer| buffer.try_reclaim(bytes))?;
        kept.used = true;
        Some(kept.buffers.swap_remove(at))
    }

    /// Called from time to time: what was not used since the last time is freed.
    pub(crate) fn rest(&self) {
        let mut kept = self.kept();
        if !std::mem::take(&mut kept.used) {
            kept.buffers = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: usize = 1 << 20;

    fn delivery(head_bytes: usize) -> Bytes {
        let mut unit = BytesMut::zeroed(head_bytes + SIZE);
        drop(unit.split_to(head_bytes));
        unit.freeze()
    }

    #[test]
    fn the_same_memory_is_used_again_and_again() {
        let spares = Spares::default();
        let (whole, head) = (SIZE + 53, 53);
        spares.give(delivery(head));
        for _ in 0..10 {
            let mut buffer = spares.take(whole).expect("the same memory, without what the head takes each time");
            buffer.resize(whole, 1);
            drop(buffer.split_to(head));
            spares.give(buffer.freeze());
        }
        assert!(spares.take(2 * SIZE).is_none(), "there is no larger one");
    }

    #[test]
    fn what_somebody_has_still_is_not_kept() {
        let spares = Spares::default();
        let bytes = delivery(53);
        let record = bytes.slice(100..200);
        spares.give(bytes);
        assert!(spares.take(1).is_none());
        assert_eq!(record[..], [0; 100]);
    }

    #[test]
    fn a_few_are_kept_for_as_long_as_they_are_used() {
        let spares = Spares::default();
        (0..9).for_each(|_| spares.give(delivery(53)));
        assert!(spares.take(SIZE).is_some());
        spares.rest();
        assert_eq!(spares.kept().buffers.len(), MAX_COUNT - 1);
        spares.rest();
        assert!(spares.take(1).is_none(), "nothing was read into them for a while");
    }
}
