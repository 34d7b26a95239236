//! Compaction: of each key only the newest frame stays, byte for byte; offsets get gaps.
//!
//! Sealed segments are rewritten one by one, oldest first. A segment's rename is the one step that counts: before it the old frames are
//! there, after it the new ones, and each step is durable before the next, so that a value is gone before the tombstone that deleted it.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use hermit_proto::{Attributes, FrameView, Offset};

use super::{Inner, Log};
use crate::compacted;
use crate::config::CompactionConfig;
use crate::disk::{DiskFile, Open, TMP_SUFFIX};
use crate::error::LogError;
use crate::index::{Footer, IndexEntry};
use crate::names::FileName;
use crate::producers::ProducerTable;
use crate::recovery::store_index;
use crate::scan::{self, Found, FrameReader};
use crate::segment::{Sealed, Segment};
use crate::view::Until;

/// Survivors are written in pieces of this size.
const CHUNK_BYTES: usize = 1 << 20;
/// What an entry of the key map costs beside the key.
const KEY_OVERHEAD_BYTES: usize = 64;

/// What compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Segments that were rewritten or removed.
    pub segments: usize,
    /// Frames that are gone.
    pub frames: u64,
    /// Bytes that are gone.
    pub bytes: u64,
}

/// The newest frame of each key that was met in a part of the log.
struct Newest {
    by_key: HashMap<Box<[u8]>, NewestFrame>,
    /// Frames from here on were not looked at.
    end: Offset,
}

struct NewestFrame {
    offset: Offset,
    /// An older frame of the key was kept all the same: if this one is a tombstone, it must go on hiding that.
    hides: Cell<bool>,
}

/// What decides whether a frame stays.
struct Rules<'a> {
    newest: Newest,
    producers: Option<&'a ProducerTable>,
    /// Tombstones appended before this go, in nanoseconds since the Unix epoch; 0 keeps all.
    tombstones_before: u64,
}

impl Log {
    /// Compacts the sealed, flushed segments; nothing where the settings do not ask for it. Readers may be at work.
    ///
    /// # Errors
    /// [`LogError::Io`] and [`LogError::DiskFull`]; what is done by then stays done.
    pub fn compact(&self) -> Result<Compacted, LogError> {
        let inner = &self.inner;
        let mut maintaining = inner.maintaining.lock();
        let Some(config) = self.config().compaction else { return Ok(Compacted::default()) };
        let flushed = inner.view.read().flushed_end();
        let candidates = {
            let view = inner.view.read();
            let ends = [view.end(Until::LogEnd), view.end(Until::HighWatermark), view.flushed_end()];
            // A segment into which an end points keeps its positions; the ends only move on, to later ones.
            let sealed = view.segments.iter().filter(|segment| {
                segment.sealed().is_some_and(|sealed| sealed.end <= flushed.offset)
                    && ends.iter().all(|end| end.segment != segment.base)
            });
            sealed.cloned().collect::<Vec<_>>()
        };
        if candidates.is_empty() {
            return Ok(Compacted::default());
        }
        // Below the checkpoint a missing segment was compacted away; behind it, a power cut took it, with an answer to nobody.
        let disk = &*inner.env.disk;
        let settled = inner.flushing.lock().checkpoint.settle_both(disk, flushed.offset, flushed.segment, flushed.position);
        settled.map_err(|source| LogError::io("store the checkpoint of", &inner.dir, source))?;
        // Of frames that are gone only this remembers that they were appended.
        inner.keep_producers()?;
        let newest = self.newest(&config, maintaining.compact_from, flushed.offset)?;
        // Where the keys did not fit into memory, the next run begins with those that come then.
        maintaining.compact_from = if newest.end < self.bounds().high_watermark { newest.end } else { Offset::ZERO };
        let producers = {
            let mut state = inner.state.lock();
            inner.load_producers(&mut state)?;
            state.producers.clone()
        };
        let age = u64::try_from(config.tombstone_age.as_nanos()).unwrap_or(u64::MAX);
        let tombstones_before = inner.env.time.now().saturating_sub(age);
        let mut rules = Rules { newest, producers: producers.as_ref(), tombstones_before };
        let mut done = Compacted::default();
        let mut is_behind_damage = false;
        let end = candidates.iter().filter_map(|segment| segment.sealed()).map(|sealed| sealed.end).max().unwrap_or(Offset::ZERO);
        let mut note = || {
            if maintaining.compacted_end < end {
                let noted = compacted::write(disk, &inner.dir, &inner.segment_env.salt, end);
                noted.map_err(|source| LogError::io("note the compaction of", &inner.dir, source))?;
                maintaining.compacted_end = end;
            }
            Ok(())
        };
        for segment in candidates {
            let outcome = inner.compact_segment(&segment, &rules, is_behind_damage, &mut note)?;
            is_behind_damage = matches!(outcome, Outcome::Damaged);
            match outcome {
                Outcome::Unchanged => {}
                Outcome::Rewritten { frames, bytes } => {
                    done.segments += 1;
                    done.frames += frames;
                    done.bytes += bytes;
                }
                // Older values may be in there, which a tombstone behind it must go on hiding.
                Outcome::Damaged => rules.tombstones_before = 0,
            }
        }
        Ok(done)
    }

    fn newest(&self, config: &CompactionConfig, from: Offset, flushed_end: Offset) -> Result<Newest, LogError> {
        let mut by_key: HashMap<Box<[u8]>, NewestFrame> = HashMap::new();
        let mut used_bytes = 0;
        let bounds = self.bounds();
        let from = if from < bounds.high_watermark { from.max(bounds.log_start) } else { bounds.log_start };
        let mut cursor = self.cursor_past_damage(from, Until::HighWatermark)?;
        while used_bytes < config.key_memory_bytes {
            let range = match cursor.next(CHUNK_BYTES as u64) {
                Ok(Some(range)) => range,
                Ok(None) => break,
                Err(LogError::Corrupt { next, .. }) if next > cursor.next_offset() => {
                    cursor = self.cursor_past_damage(next, Until::HighWatermark)?;
                    continue;
                }
                Err(LogError::Corrupt { .. }) => break,
                Err(error) => return Err(error),
            };
            // A rotten frame may show another's key: it must not stand for that.
            let intact = range.each_intact(|view| {
                // What a power cut could take back must not stand for what is flushed.
                if let Some(key) = compaction_key(view).filter(|_| view.prefix.offset() < flushed_end) {
                    match by_key.get_mut(key) {
                        Some(newest) => newest.offset = view.prefix.offset(),
                        None => {
                            used_bytes += key.len() + KEY_OVERHEAD_BYTES;
                            by_key.insert(key.into(), NewestFrame { offset: view.prefix.offset(), hides: Cell::new(false) });
                        }
                    }
                }
            });
            match intact {
                Ok(()) => {}
                Err(LogError::Corrupt { next, .. }) => cursor = self.cursor_past_damage(next, Until::HighWatermark)?,
                Err(error) => return Err(error),
            }
        }
        Ok(Newest { by_key, end: cursor.next_offset() })
    }
}

/// The key by which a frame is compacted; `None` for what always stays.
fn compaction_key<'a>(view: &FrameView<'a>) -> Option<&'a [u8]> {
    let single = view.prefix.header.record_count == 1 && !view.prefix.has(Attributes::RECORD_SET);
    view.key().filter(|_| single)
}

impl Rules<'_> {
    fn stays(&self, view: &FrameView<'_>) -> bool {
        let Some(key) = compaction_key(view) else { return true };
        let offset = view.prefix.offset();
        let is_last_of_producer = view
            .prefix
            .producer()
            .is_some_and(|stamp| self.producers.is_some_and(|producers| producers.is_last_of(stamp.id, offset)));
        // A key that did not fit into memory waits for another run. So does what was not looked at: a tombstone there has its value still before it.
        let Some(newest) = self.newest.by_key.get(key).filter(|_| offset < self.newest.end) else { return true };
        if newest.offset > offset {
            newest.hides.set(newest.hides.get() || is_last_of_producer);
            return is_last_of_producer;
        }
        if is_last_of_producer || newest.hides.get() {
            return true;
        }
        !(view.prefix.has(Attributes::TOMBSTONE) && view.prefix.extension.append_time < self.tombstones_before)
    }
}

enum Outcome {
    Unchanged,
    Rewritten {
        frames: u64,
        bytes: u64,
    },
    /// It has damage, and stays as it is.
    Damaged,
}

/// The survivors of a segment while they are written.
struct Survivors<'a> {
    file: Option<Arc<dyn DiskFile>>,
    open: &'a dyn Fn() -> std::io::Result<Arc<dyn DiskFile>>,
    written: u64,
    buffer: Vec<u8>,
    entries: Vec<IndexEntry>,
}

impl Survivors<'_> {
    const fn len_bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn push(&mut self, view: &FrameView<'_>, base: Offset, interval_bytes: u32) -> std::io::Result<()> {
        let position = self.len_bytes();
        let due = self.entries.last().is_none_or(|last| position - u64::from(last.position) >= u64::from(interval_bytes));
        if due && let Some(entry) = scan::entry_of(&view.prefix, position, base) {
            self.entries.push(entry);
        }
        self.buffer.extend_from_slice(view.as_bytes());
        if self.buffer.len() >= CHUNK_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> std::io::Result<()> {
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert((self.open)()?),
        };
        file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Inner {
    /// `note` makes durable that gaps may come. A segment behind a damaged one is not removed as a whole: its base is where that one ends, which may have stale bytes behind its end.
    fn compact_segment(
        self: &Arc<Self>,
        segment: &Arc<Segment>,
        rules: &Rules<'_>,
        is_behind_damage: bool,
        note: &mut dyn FnMut() -> Result<(), LogError>,
    ) -> Result<Outcome, LogError> {
        let Some(sealed) = segment.sealed().copied() else { return Ok(Outcome::Unchanged) };
        if self.view.read().fenced.any_in(segment.base) {
            return Ok(Outcome::Damaged);
        }
        let disk = &*self.env.disk;
        let path = self.dir.join(FileName::Wal(segment.base).build());
        let tmp = self.dir.join(format!("{}{TMP_SUFFIX}", FileName::Wal(segment.base).build()));
        let failed = |source| LogError::io("compact", &path, source);
        let file = segment.file().map_err(failed)?;
        // Bytes behind the logical end, which the next segment holds as well, would be frames again once that is gone.
        let has_stale_tail = file.len().map_err(failed)? > sealed.len_bytes;
        let first_gone = match self.first_to_go(&*file, segment, sealed, rules).map_err(failed)? {
            Some(first_gone) => first_gone,
            None if has_stale_tail => sealed.len_bytes,
            None => return Ok(Outcome::Unchanged),
        };
        let open = || disk.open(&tmp, Open::CreateOrTruncate);
        let mut survivors = Survivors { file: None, open: &open, written: 0, buffer: Vec::new(), entries: Vec::new() };
        let mut reader = FrameReader::new(&*file, sealed.len_bytes);
        let (mut position, mut frames_gone) = (0, 0);
        while position < sealed.len_bytes {
            let Found::Frame(view) = reader.frame(position, &segment.salt).map_err(failed)? else {
                drop(disk.remove_file(&tmp));
                self.fence(segment, position)?;
                return Ok(Outcome::Damaged);
            };
            if position < first_gone || rules.stays(&view) {
                let pushed = survivors.push(&view, segment.base, self.segment_env.index_interval_bytes);
                pushed.inspect_err(|_| drop(disk.remove_file(&tmp))).map_err(failed)?;
            } else {
                frames_gone += 1;
            }
            position += view.prefix.frame_bytes();
        }
        let len_bytes = survivors.len_bytes();
        let replaced = if len_bytes == 0 {
            if is_behind_damage {
                return Ok(Outcome::Unchanged);
            }
            note()?;
            self.remove_compacted(segment)
        } else {
            let stored = survivors.write().and_then(|()| survivors.file.as_ref().map_or(Ok(()), |file| file.sync_data()));
            stored.inspect_err(|_| drop(disk.remove_file(&tmp))).map_err(failed)?;
            note()?;
            self.replace(segment, Sealed { len_bytes, ..sealed }, &survivors.entries)
        };
        replaced?;
        disk.sync_dir(&self.dir).map_err(|source| LogError::io("sync", &self.dir, source))?;
        Ok(Outcome::Rewritten { frames: frames_gone, bytes: sealed.len_bytes - len_bytes })
    }

    /// The position of the first frame that goes, or `None` where all stay.
    fn first_to_go(
        &self,
        file: &dyn DiskFile,
        segment: &Segment,
        sealed: Sealed,
        rules: &Rules<'_>,
    ) -> std::io::Result<Option<u64>> {
        let mut reader = FrameReader::new(file, sealed.len_bytes);
        let mut position = 0;
        while position < sealed.len_bytes {
            match reader.frame(position, &segment.salt)? {
                Found::Frame(view) if rules.stays(&view) => position += view.prefix.frame_bytes(),
                // Damage is for the second pass to find.
                _ => return Ok(Some(position)),
            }
        }
        Ok(None)
    }

    /// Puts the survivors, which are synced, in the segment's place.
    fn replace(&self, old: &Arc<Segment>, sealed: Sealed, entries: &[IndexEntry]) -> Result<(), LogError> {
        let disk = &*self.env.disk;
        let in_dir = |name: String| (self.dir.join(format!("{name}{TMP_SUFFIX}")), self.dir.join(name));
        let (wal_tmp, wal) = in_dir(FileName::Wal(old.base).build());
        let (idx_tmp, idx) = in_dir(FileName::Index(old.base).build());
        let footer: Option<Footer> = store_index(disk, &idx_tmp, (old.base, &old.salt), sealed, sealed.len_bytes, entries).ok();
        let mut view = self.view.write();
        // From here to the end of this lock nobody opens a file of the segment: whoever finds it unlinked looks at the view again.
        let Some(at) = view.segments.iter().position(|segment| Arc::ptr_eq(segment, old)) else { return Ok(()) };
        if view.fenced.any_in(old.base) {
            // Damage was met since: its range would mean other frames in the new segment.
            drop(view);
            [&wal_tmp, &idx_tmp].into_iter().for_each(|leftover| drop(disk.remove_file(leftover)));
            return Ok(());
        }
        disk.rename(&wal_tmp, &wal).map_err(|source| LogError::io("put the compacted segment in place of", &wal, source))?;
        old.unlinked();
        let footer = footer.filter(|_| disk.rename(&idx_tmp, &idx).is_ok());
        let new = match footer {
            Some(footer) => Segment::stored(&self.segment_env, &self.dir, footer),
            None => Segment::rebuilt(&self.segment_env, &self.dir, old.base, sealed, entries.to_vec()),
        };
        if let Some(slot) = view.segments.get_mut(at) {
            *slot = Arc::new(new);
        }
        Ok(())
    }

    /// Removes a segment of which nothing stays.
    fn remove_compacted(&self, segment: &Arc<Segment>) -> Result<(), LogError> {
        let mut view = self.view.write();
        // The one that holds an end stays: its name keeps the offset, and the ends point into it.
        let holds_end = [view.end(Until::LogEnd), view.end(Until::HighWatermark), view.flushed_end()]
            .iter()
            .any(|end| end.segment == segment.base);
        if holds_end {
            return Ok(());
        }
        view.segments.retain(|other| !Arc::ptr_eq(other, segment));
        drop(view);
        self.unlink(segment)
    }
}
