//! One segment while the log is being recovered.

use hermit_proto::{FrameSalt, Offset};

use super::act::Opening;
use super::facts::{SegmentFacts, read_hints};
use crate::checkpoint::Checkpoint;
use crate::disk::{Disk, Open};
use crate::error::LogError;
use crate::fenced::{Fenced, FencedRange};
use crate::index::{ActiveIndex, Footer, IndexEntry, SealFacts, encode_entries};
use crate::names::FileName;
use crate::scan::{self, Damage, FrameReader, ScanJob};
use crate::segment::{Sealed, Segment};

/// A segment, its facts and what a scan found.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) base: Offset,
    /// Size of the file, without the room at its end.
    pub(super) wal_bytes: u64,
    pub(super) room_bytes: u64,
    /// Logical size.
    pub(super) len_bytes: u64,
    pub(super) end: Offset,
    pub(super) last_append_time: u64,
    pub(super) damages: Vec<Damage>,
    /// The footer, where the segment was trusted unread.
    footer: Option<Footer>,
    /// All entries, where it was scanned.
    pub(super) entries: Vec<IndexEntry>,
    pub(super) scanned_from: u64,
    pub(super) scanned_frames: u64,
    /// See [`scan::Scan::proven_flushed`].
    pub(super) proven_flushed: Option<i64>,
    /// Log position of the segment's first byte.
    pub(super) log_position: i64,
}

/// A flushed segment whose index tells all there is to know; `None` if it does not, and must be read.
pub(super) fn trust_part(opening: &Opening<'_>, facts: &SegmentFacts, next_base: Option<Offset>) -> Option<Part> {
    let footer = facts.footer?;
    let fits = match next_base {
        Some(next) => footer.end == next || (footer.end < next && opening.compacted_end.is_some_and(|end| next <= end)),
        // The last segment of a clean stop: nothing may stand behind what the footer knows.
        None => footer.wal_bytes == footer.file_bytes,
    };
    fits.then(|| Part {
        base: facts.base,
        wal_bytes: footer.file_bytes,
        room_bytes: facts.extent.file_bytes - footer.file_bytes,
        len_bytes: footer.wal_bytes,
        end: footer.end,
        last_append_time: footer.last_append_time,
        damages: Vec::new(),
        footer: Some(footer),
        entries: Vec::new(),
        scanned_from: footer.file_bytes,
        scanned_frames: 0,
        proven_flushed: None,
        log_position: 0,
    })
}

/// Reads a segment from its checkpoint, or from its start.
pub(super) fn scan_part(
    opening: &Opening<'_>,
    facts: &SegmentFacts,
    next_base: Option<Offset>,
    checkpoint: Option<Checkpoint>,
    fenced: &Fenced,
) -> Result<Part, LogError> {
    let Opening { disk, dir, env, .. } = *opening;
    let path = dir.join(FileName::Wal(facts.base).build());
    let read_error = |source| LogError::io("read", &path, source);
    let file = disk.open(&path, Open::Read).map_err(read_error)?;
    let mut hints = read_hints(disk, dir, facts.base);
    let as_hint = checkpoint.and_then(|checkpoint| {
        Some(IndexEntry {
            relative_offset: u32::try_from(checkpoint.offset.0.checked_sub(facts.base.0)?).ok()?,
            position: u32::try_from(checkpoint.position).ok()?,
            append_time: 0,
        })
    });
    let behind_damage = fenced.ranges().iter().filter(|range| range.segment == facts.base).filter_map(|range| {
        Some(IndexEntry {
            relative_offset: u32::try_from(range.next.0.checked_sub(facts.base.0)?).ok()?,
            position: u32::try_from(range.next_position).ok()?,
            append_time: 0,
        })
    });
    // A frame begins there, if there is any. The newest entries of the index that was being written are nowhere but in memory, and an index is never synced.
    for hint in as_hint.into_iter().chain(behind_damage) {
        let at = hints.partition_point(|other| other.position < hint.position);
        if hints.get(at).is_none_or(|other| other.position != hint.position) {
            hints.insert(at, hint);
        }
    }
    let mut job = ScanJob {
        base: facts.base,
        salt: &env.salt,
        position: 0,
        expected: facts.base,
        next_base,
        index_interval_bytes: env.index_interval_bytes,
        hints: &hints,
    };
    let mut earlier = Vec::new();
    if let Some(checkpoint) = checkpoint {
        // Not the checkpoint itself but the last entry before it, so that the index has no hole; the frame there must prove itself.
        let before = hints.partition_point(|hint| u64::from(hint.position) < checkpoint.position);
        if let Some(entry) = before.checked_sub(1).and_then(|last| hints.get(last)) {
            let position = u64::from(entry.position);
            let prefix = FrameReader::short(&*file, facts.extent.file_bytes).prefix(position, &env.salt).map_err(read_error)?;
            if prefix.is_some_and(|prefix| prefix.offset() == entry.offset(facts.base)) {
                job.position = position;
                job.expected = entry.offset(facts.base);
                // Those that are no entries of the index have no time.
                earlier.extend(hints.iter().take(before - 1).filter(|hint| hint.append_time > 0));
            }
        }
    }
    let found = scan::scan(&*file, facts.extent, &job).map_err(read_error)?;
    // Where the scan stopped before, the rest is a tail that was written again into the next segment, whose name may not be durable yet: nothing of it is room.
    let is_read_to_its_end = facts.extent.ends_at(found.end_position);
    let wal_bytes = if is_read_to_its_end { found.end_position.min(facts.extent.file_bytes) } else { facts.extent.file_bytes };
    earlier.extend(found.entries);
    let reached_next = next_base.is_some_and(|next| found.end >= next);
    Ok(Part {
        base: facts.base,
        wal_bytes,
        room_bytes: facts.extent.file_bytes - wal_bytes,
        len_bytes: if reached_next { found.end_position } else { found.end_position.min(wal_bytes) },
        end: found.end,
        last_append_time: found.last_append_time,
        damages: found.damages,
        footer: None,
        entries: earlier,
        scanned_from: job.position,
        scanned_frames: found.frames,
        proven_flushed: found.proven_flushed,
        log_position: 0,
    })
}

impl Part {
    /// Whether there is anything to read, or to tell of: of an empty file, what it is known to have held is lost.
    pub(super) fn is_segment(&self) -> bool {
        self.len_bytes > 0 || self.base < self.end
    }

    /// Whether a damaged range lies within the segment as it is now.
    pub(super) fn holds(&self, range: &FencedRange) -> bool {
        let is_missing_end = range.position == self.len_bytes && range.next_position == range.position && range.next <= self.end;
        range.position < self.len_bytes || is_missing_end
    }

    /// Ends the segment at a frame's position.
    pub(super) fn cut_at(&mut self, position: u64, end: Offset) {
        self.footer = None;
        self.len_bytes = position;
        self.end = end;
        self.entries.retain(|entry| u64::from(entry.position) < position);
        self.damages.retain(|damage| damage.position < position);
    }

    /// A new segment made of what lies from `position`, where `offset` begins.
    pub(super) fn split_off(&mut self, position: u64, offset: Offset) -> Self {
        let moved = self.entries.iter().filter(|entry| u64::from(entry.position) >= position);
        let entries = moved.filter_map(|entry| {
            Some(IndexEntry {
                relative_offset: u32::try_from(entry.offset(self.base).0.checked_sub(offset.0)?).ok()?,
                position: u32::try_from(u64::from(entry.position).checked_sub(position)?).ok()?,
                append_time: entry.append_time,
            })
        });
        let len_bytes = self.len_bytes.saturating_sub(position);
        let behind = Self {
            base: offset,
            wal_bytes: len_bytes,
            room_bytes: 0,
            len_bytes,
            end: self.end,
            last_append_time: self.last_append_time,
            damages: Vec::new(),
            footer: None,
            entries: entries.collect(),
            scanned_from: 0,
            scanned_frames: 0,
            proven_flushed: None,
            log_position: self.log_position.saturating_add_unsigned(position),
        };
        self.cut_at(position, offset);
        behind
    }

    fn sealed(&self) -> Sealed {
        Sealed { end: self.end, len_bytes: self.len_bytes, last_append_time: self.last_append_time }
    }

    /// The segment, to be gone on with: only the last one after a clean stop, in the same leader epoch.
    pub(super) fn resume(&self, opening: &Opening<'_>) -> Result<Option<Segment>, LogError> {
        let Opening { disk, dir, env, clean, leader_epoch, .. } = *opening;
        let Some(footer) = self.footer.filter(|_| clean) else { return Ok(None) };
        let path = dir.join(FileName::Index(self.base).build());
        let Ok(index) = disk.open(&path, Open::ReadWrite) else { return Ok(None) };
        let mut entries = vec![0; usize::try_from(footer.entries_bytes()).unwrap_or(0)];
        let whole = index.read_exact_at(&mut entries, 0).is_ok() && hermit_proto::crc32c(&entries) == footer.entries_crc;
        if !whole {
            return Ok(None);
        }
        let segment = Segment::active(env, dir, self.base, ActiveIndex::resume(&entries));
        let read_error = |source| LogError::io("read", &dir.join(FileName::Wal(self.base).build()), source);
        if segment.epoch(self.len_bytes).map_err(read_error)? != Some(leader_epoch) {
            return Ok(None);
        }
        // From here on the footer is out of date.
        match index.set_len(footer.entries_bytes()) {
            Ok(()) => Ok(Some(segment)),
            Err(_) => Ok(None),
        }
    }

    /// The segment, sealed. Its index is stored unless it was trusted; where that fails it stays in memory.
    pub(super) fn into_sealed(self, opening: &Opening<'_>) -> Segment {
        let Opening { disk, dir, env, .. } = *opening;
        if let Some(footer) = self.footer {
            return Segment::stored(env, dir, footer);
        }
        // Not `wal_bytes`: the file may have been cut or written again since.
        let file_bytes = disk.file_len(&dir.join(FileName::Wal(self.base).build()));
        let idx = dir.join(FileName::Index(self.base).build());
        match file_bytes
            .and_then(|file_bytes| store_index(disk, &idx, (self.base, &env.salt), self.sealed(), file_bytes, &self.entries))
        {
            Ok(footer) => Segment::stored(env, dir, footer),
            Err(_) => Segment::rebuilt(env, dir, self.base, self.sealed(), self.entries),
        }
    }
}

/// Writes a sealed segment's index to a file that nobody has mapped. Not synced: its checksums tell whether it arrived.
pub(crate) fn store_index(
    disk: &dyn Disk,
    path: &std::path::Path,
    (base, salt): (Offset, &FrameSalt),
    sealed: Sealed,
    file_bytes: u64,
    entries: &[IndexEntry],
) -> std::io::Result<Footer> {
    let bytes = encode_entries(entries);
    let file = disk.open(path, Open::CreateOrTruncate)?;
    file.write_all_at(&bytes, 0)?;
    let facts = SealFacts {
        salt: *salt,
        base,
        end: sealed.end,
        wal_bytes: sealed.len_bytes,
        file_bytes,
        last_append_time: sealed.last_append_time,
    };
    ActiveIndex::resume(&bytes).seal(&*file, facts)
}
