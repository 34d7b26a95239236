//! The mapped indexes of sealed segments: a bounded number, of which the least recently used are unmapped.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::disk::{DiskFile, Mapping};

/// The mapped indexes of all partitions. Clones are the same set.
#[derive(Clone, Debug)]
pub(crate) struct IndexMaps(Arc<Mutex<Ring>>);

#[derive(Debug)]
struct Ring {
    capacity: usize,
    /// The oldest first; a slot that was used since it was last looked at goes round once more.
    slots: VecDeque<Arc<Slot>>,
}

#[derive(Debug, Default)]
struct Slot {
    mapping: Mutex<Option<Arc<Mapping>>>,
    used: AtomicBool,
}

/// One segment's place in the set.
#[derive(Debug, Default)]
pub(crate) struct MappedIndex(Arc<Slot>);

impl IndexMaps {
    pub(crate) fn new(capacity: usize) -> Self {
        Self(Arc::new(Mutex::new(Ring { capacity: capacity.max(1), slots: VecDeque::new() })))
    }
}

impl MappedIndex {
    /// Unmaps it, once whoever uses it is done.
    pub(crate) fn forget(&self) {
        self.0.mapping.lock().take();
    }

    /// The mapping; made by `map` where there is none.
    pub(crate) fn get(&self, maps: &IndexMaps, map: impl FnOnce() -> io::Result<Mapping>) -> io::Result<Arc<Mapping>> {
        self.0.used.store(true, Ordering::Relaxed);
        let mut mapping = self.0.mapping.lock();
        if let Some(mapping) = &*mapping {
            return Ok(Arc::clone(mapping));
        }
        let made = Arc::new(map()?);
        *mapping = Some(Arc::clone(&made));
        drop(mapping);
        let mut ring = maps.0.lock();
        // Slots of segments that are gone have no other owner.
        ring.slots.retain(|slot| Arc::strong_count(slot) > 1);
        ring.slots.push_back(Arc::clone(&self.0));
        let mut turns = ring.slots.len() * 2;
        while ring.slots.len() > ring.capacity && turns > 0 {
            turns -= 1;
            let Some(oldest) = ring.slots.pop_front() else { break };
            if oldest.used.swap(false, Ordering::Relaxed) || Arc::ptr_eq(&oldest, &self.0) {
                ring.slots.push_back(oldest);
            } else {
                oldest.mapping.lock().take();
            }
        }
        Ok(made)
    }
}

/// Maps the entries of a sealed index.
pub(crate) fn map_entries(file: &dyn DiskFile, entries_bytes: u64) -> io::Result<Mapping> {
    let len = usize::try_from(entries_bytes).map_err(|_over_usize| io::Error::from(io::ErrorKind::FileTooLarge))?;
    file.map(len)
}
