//! A file's bytes: what the process reads, what is on the platter, and what is between the two.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::rng::Rng;

/// A disk writes a sector wholly or not at all; nothing larger is atomic.
const SECTOR_BYTES: usize = 512;

/// What becomes of changes that were not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Lost,
    Kept,
    /// Those before this sequence number are kept, the one with it is torn, later ones are lost.
    Before(u64),
    /// The new size was written, the data was not: zeros.
    Holes,
    /// Each sector is that of some moment, and the size that of some other.
    Torn,
}

#[derive(Debug, Clone)]
pub(super) enum Change {
    Write { position: usize, bytes: Arc<[u8]> },
    SetLen(usize),
}

#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub(super) live: Arc<Vec<u8>>,
    pub(super) durable: Arc<Vec<u8>>,
    /// In order, with the sequence number of each.
    pub(super) pending: Vec<(u64, Change)>,
}

fn put(content: &mut Vec<u8>, position: usize, bytes: &[u8]) {
    let end = position.saturating_add(bytes.len());
    if content.len() < end {
        content.resize(end, 0);
    }
    if let Some(target) = content.get_mut(position..end) {
        target.copy_from_slice(bytes);
    }
}

fn apply(content: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { position, bytes } => put(content, *position, bytes),
        Change::SetLen(len) => content.resize(*len, 0),
    }
}

/// The parts of a range that lie in one sector each, with the sector's number.
fn sectors(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let first = range.start / SECTOR_BYTES;
    let end = range.end.div_ceil(SECTOR_BYTES).max(first);
    (first..end).map(move |sector| {
        let start = range.start.max(sector * SECTOR_BYTES);
        (sector, start..range.end.min((sector + 1) * SECTOR_BYTES))
    })
}

impl Content {
    pub(super) fn change(&mut self, sequence: u64, change: Change) {
        apply(Arc::make_mut(&mut self.live), &change);
        self.pending.push((sequence, change));
    }

    pub(super) fn sync(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        for (_, change) in self.pending.drain(..) {
            apply(durable, &change);
        }
    }

    /// The un-synced changes meet their fate; the process still sees what it wrote.
    pub(super) fn settle(&mut self, fate: Fate, rng: &mut Rng) {
        if self.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let durable = Arc::make_mut(&mut self.durable);
        match fate {
            Fate::Lost => {}
            Fate::Kept => pending.iter().for_each(|(_, change)| apply(durable, change)),
            Fate::Before(cut) => {
                for (sequence, change) in &pending {
                    if *sequence < cut {
                        apply(durable, change);
                    } else if *sequence == cut
                        && let Change::Write { position, bytes } = change
                    {
                        let kept = rng.below(bytes.len() / SECTOR_BYTES + 1) * SECTOR_BYTES;
                        // The first sector's boundary lies before the write's first byte.
                        let kept = kept.saturating_sub(position % SECTOR_BYTES);
                        put(durable, *position, bytes.get(..kept).unwrap_or_default());
                    }
                }
            }
            Fate::Holes => durable.resize(self.live.len(), 0),
            Fate::Torn => tear(durable, &pending, rng),
        }
    }

    /// After the power is back: what the process reads is what is on the disk.
    pub(super) fn reload(&mut self) {
        self.live = Arc::clone(&self.durable);
    }
}

/// Every sector gets the content that it had at some moment since the last sync: a sector that was written later holds what was
/// written to it earlier, as the page did. The size is chosen apart from the data.
fn tear(durable: &mut Vec<u8>, pending: &[(u64, Change)], rng: &mut Rng) {
    let mut sizes = vec![durable.len()];
    let mut size = durable.len();
    // Which bytes each change touched, and with what; a cut file's tail turns to zeros.
    let mut touched: Vec<(Range<usize>, Option<&[u8]>)> = Vec::new();
    for (_, change) in pending {
        match change {
            Change::Write { position, bytes } => {
                let end = position + bytes.len();
                touched.push((*position..end, Some(bytes)));
                size = size.max(end);
            }
            Change::SetLen(len) => {
                touched.push((*len..size.max(*len), None));
                size = *len;
            }
        }
        sizes.push(size);
    }
    let mut keep: BTreeMap<usize, usize> = BTreeMap::new();
    for (range, _) in &touched {
        for (sector, _) in sectors(range.clone()) {
            *keep.entry(sector).or_default() += 1;
        }
    }
    for changes in keep.values_mut() {
        *changes = rng.below(*changes + 1);
    }
    for (range, bytes) in touched {
        for (sector, part) in sectors(range.clone()) {
            let Some(left) = keep.get_mut(&sector).filter(|left| **left > 0) else {
                continue;
            };
            *left -= 1;
            match bytes.and_then(|bytes| bytes.get(part.start - range.start..part.end - range.start)) {
                Some(bytes) => put(durable, part.start, bytes),
                None => {
                    let end = part.end.min(durable.len());
                    if let Some(tail) = durable.get_mut(part.start..end) {
                        tail.fill(0);
                    }
                }
            }
        }
    }
    let moment = if rng.one_in(2) { sizes.len() - 1 } else { rng.below(sizes.len()) };
    durable.resize(sizes.get(moment).copied().unwrap_or(size), 0);
}
