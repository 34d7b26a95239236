//! The steps of a repair.

use std::path::Path;

use hermit_proto::{FrameSalt, Offset};

use super::{Action, RepairOptions, Repaired};
use crate::compacted;
use crate::disk::{Disk, Open, TMP_SUFFIX, write_synced};
use crate::error::LogError;
use crate::fenced::Fenced;
use crate::index::{IndexEntry, encode_entries};
use crate::inspect::walk::{SegmentWalk, Step};
use crate::inspect::{Check, DamageKind, FoundDamage, IndexReport, Inspected, Listing, SegmentReport};
use crate::log::LogIdentity;
use crate::names::{self, FileName};
use crate::recovery::{copy, store_index};
use crate::scan;
use crate::segment::Sealed;
use crate::start;

/// Frames are copied in pieces of this size.
const CHUNK_BYTES: usize = 1 << 20;

pub(super) struct Repairer<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    salt: FrameSalt,
    options: &'a RepairOptions,
    listing: Listing,
    found: Inspected,
    done: Repaired,
}

impl<'a> Repairer<'a> {
    pub(super) fn new(
        disk: &'a dyn Disk,
        dir: &'a Path,
        identity: LogIdentity,
        options: &'a RepairOptions,
        found: Inspected,
    ) -> Result<Self, LogError> {
        let salt = FrameSalt::new(identity.topic, identity.partition);
        let listing = Listing::read(disk, dir, &salt)?;
        Ok(Self { disk, dir, salt, options, listing, found, done: Repaired::default() })
    }

    pub(super) fn run(mut self) -> Result<Repaired, LogError> {
        self.state_files()?;
        let damages = std::mem::take(&mut self.found.damages);
        if self.options.drop_damage {
            self.drop_damages(&damages)?;
        } else {
            self.done.left = damages;
        }
        self.indexes()?;
        if !self.options.dry_run && !self.done.actions.is_empty() {
            self.sync_dir()?;
        }
        Ok(self.done)
    }

    fn state_files(&mut self) -> Result<(), LogError> {
        for file in std::mem::take(&mut self.found.leftovers) {
            self.remove(file.name)?;
        }
        for name in std::mem::take(&mut self.found.damaged_state) {
            let to = self.unused_name(&name)?;
            if name == names::COMPACTED {
                // It does not tell how far: what is kept in closed segments may have been compacted, and no more.
                let end = self.found.segments.last().map_or(Offset::ZERO, |last| last.base);
                self.keep_copy(&name, &to)?;
                self.note_compacted(end)?;
            } else {
                self.rename(&name, &to)?;
            }
            self.done.actions.push(Action::MovedAside { name, to });
        }
        // The name of a snapshot alone keeps the next offset from going back.
        let end = self.found.segments.iter().map(|segment| segment.end).max().unwrap_or(Offset::ZERO);
        for snapshot in std::mem::take(&mut self.found.snapshots) {
            if snapshot.producers.is_none() && snapshot.offset <= end {
                let name = FileName::Producers(snapshot.offset).build();
                let to = self.unused_name(&name)?;
                self.rename(&name, &to)?;
                self.done.actions.push(Action::MovedAside { name, to });
            }
        }
        Ok(())
    }

    fn indexes(&mut self) -> Result<(), LogError> {
        let mut last_append_time = 0;
        for at in 0..self.found.segments.len() {
            let Some(segment) = self.found.segments.get(at).cloned() else { break };
            // Append times never fall, also not where damage hides them all.
            last_append_time = segment.last_append_time.unwrap_or(0).max(last_append_time);
            match (segment.index, self.listing.next_base(at)) {
                (IndexReport::Sealed { .. } | IndexReport::Unsealed { .. }, _) => {}
                (IndexReport::Missing, None) if segment.file_bytes == 0 => {}
                (IndexReport::Missing | IndexReport::Wrong { .. }, None) => {
                    // Without a footer, as it may go on. A start makes it anew, but needs its entries to go on behind damage.
                    if !self.options.dry_run {
                        let entries = self.copy_frames(&segment, None)?;
                        self.put_index(segment.base, |tmp| write_synced(self.disk, tmp, &encode_entries(&entries)))?;
                    }
                    self.done.actions.push(Action::RebuiltIndex { segment: segment.base });
                }
                (IndexReport::Missing | IndexReport::Wrong { .. }, Some(_)) => {
                    if !self.options.dry_run {
                        let known = self.listing.fenced.missing_behind(segment.base, segment.log_bytes);
                        let end = known.map_or(segment.end, |range| range.next.max(segment.end));
                        let entries = self.copy_frames(&segment, None)?;
                        let sealed = Sealed { end, len_bytes: segment.log_bytes, last_append_time };
                        self.store_index(segment.base, sealed, segment.file_bytes, &entries)?;
                    }
                    self.done.actions.push(Action::RebuiltIndex { segment: segment.base });
                }
            }
        }
        Ok(())
    }

    fn drop_damages(&mut self, damages: &[FoundDamage]) -> Result<(), LogError> {
        let mut rest = damages;
        while let Some(first) = rest.first() {
            let count = rest.iter().take_while(|damage| damage.segment == first.segment).count();
            let (in_segment, behind) = rest.split_at(count);
            rest = behind;
            self.drop_in_segment(first.segment, in_segment)?;
        }
        Ok(())
    }

    fn drop_in_segment(&mut self, base: Offset, damages: &[FoundDamage]) -> Result<(), LogError> {
        let Some(at) = self.found.segments.iter().position(|segment| segment.base == base) else { return Ok(()) };
        let Some(segment) = self.found.segments.get(at).cloned() else { return Ok(()) };
        let next_base = self.listing.next_base(at);
        // As a start has it: at least one record was there, and none of the offsets that the bytes may have had is to be given again.
        let floor = self.listing.floor();
        let open_end = |damage: &FoundDamage| {
            let least = damage.from.0.saturating_add((damage.next_position - damage.position).max(1));
            next_base.unwrap_or_else(|| floor.max(Offset(least)))
        };
        let is_head = |damage: &FoundDamage| damage.kind == DamageKind::Missing && damage.next == Some(base) && damage.from < base;
        let ends = damages.iter().filter(|damage| !is_head(damage)).map(|damage| damage.next.unwrap_or_else(|| open_end(damage)));
        let end = ends.max();
        let has_bytes = damages.iter().any(|damage| damage.kind != DamageKind::Missing);
        if segment.frames == 0 && end.is_some() {
            self.drop_stale_tails(at)?;
        }
        let name = FileName::Wal(base).build();
        let kept_in = if has_bytes { Some(self.unused_name(&name)?) } else { None };
        if !self.options.dry_run {
            if damages.iter().any(is_head) {
                // From now on the log begins here.
                start::write(self.disk, self.dir, &self.salt, base)
                    .map_err(|source| self.error("store the log start in", source))?;
            }
            if let Some(end) = end {
                self.note_compacted(end)?;
                self.forget_fenced(base)?;
            }
            if let (Some(kept_in), Some(end)) = (&kept_in, end) {
                self.rewrite(at, end.max(segment.end), &name, kept_in)?;
            }
        }
        for damage in damages {
            let next = damage.next.unwrap_or_else(|| open_end(damage));
            let kept_in = kept_in.clone().filter(|_| damage.kind != DamageKind::Missing);
            self.done.actions.push(Action::Dropped { damage: *damage, next, kept_in });
        }
        if has_bytes && let Some(segment) = self.found.segments.get_mut(at) {
            segment.file_bytes = segment.log_bytes;
            segment.index = IndexReport::Sealed { entries: 0 };
        }
        Ok(())
    }

    /// A segment is about to be empty, whose base ends the one before: what lies behind the logical end of that, which nobody reads, must not be read from then on.
    fn drop_stale_tails(&mut self, before: usize) -> Result<(), LogError> {
        for at in (0..before).rev() {
            let Some(segment) = self.found.segments.get(at).cloned() else { break };
            if segment.file_bytes > segment.log_bytes {
                let name = FileName::Wal(segment.base).build();
                let to = self.unused_name(&name)?;
                if !self.options.dry_run {
                    let end = self.listing.next_base(at).unwrap_or(segment.end).max(segment.end);
                    self.rewrite(at, end, &name, &to)?;
                }
                if let Some(segment) = self.found.segments.get_mut(at) {
                    segment.file_bytes = segment.log_bytes;
                    segment.index = IndexReport::Sealed { entries: 0 };
                }
                self.done.actions.push(Action::MovedAside { name, to });
            }
            if segment.frames > 0 {
                break;
            }
        }
        Ok(())
    }

    /// Puts the readable frames of a segment in its place. What it was is kept first.
    fn rewrite(&mut self, at: usize, end: Offset, name: &str, kept_in: &str) -> Result<(), LogError> {
        let Some(segment) = self.found.segments.get(at).cloned() else { return Ok(()) };
        let segment = &segment;
        self.keep_copy(name, kept_in)?;
        let tmp = self.dir.join(format!("{name}{TMP_SUFFIX}"));
        let to = self.dir.join(name);
        let failed = |source| LogError::io("rewrite", &to, source);
        let mut out = Out { disk: self.disk, path: &tmp, buffer: Vec::new(), written: 0 };
        let written = self.copy_frames(segment, Some(&mut out)).and_then(|entries| {
            out.finish().map_err(failed)?;
            Ok(entries)
        });
        let entries = written.inspect_err(|_error| drop(self.disk.remove_file(&tmp)))?;
        self.disk.rename(&tmp, &to).map_err(failed)?;
        self.sync_dir()?;
        let earlier = self.found.segments.iter().take_while(|other| other.base <= segment.base);
        let last_append_time = earlier.filter_map(|segment| segment.last_append_time).max().unwrap_or(0);
        let written = out.written;
        self.store_index(segment.base, Sealed { end, len_bytes: written, last_append_time }, written, &entries)?;
        if let Some(segment) = self.found.segments.get_mut(at) {
            (segment.file_bytes, segment.log_bytes) = (written, written);
        }
        Ok(())
    }

    /// Walks the readable frames, to a file where there is one, and answers the index of what comes of it.
    fn copy_frames(&self, segment: &SegmentReport, mut out: Option<&mut Out<'_>>) -> Result<Vec<IndexEntry>, LogError> {
        let at = self.found.segments.iter().position(|other| other.base == segment.base).unwrap_or(0);
        let wal = (segment.base, segment.file_bytes);
        let next_base = self.listing.next_base(at);
        let mut walk = SegmentWalk::open(self.disk, self.dir, &self.salt, wal, next_base, Check::Everything)?;
        let path = self.dir.join(FileName::Wal(segment.base).build());
        let mut entries: Vec<IndexEntry> = Vec::new();
        let mut is_behind_damage = false;
        loop {
            match walk.step().map_err(|source| LogError::io("read", &path, source))? {
                Step::End => return Ok(entries),
                Step::Damage(..) => is_behind_damage = true,
                Step::Frame { position, prefix, view } => {
                    let position = out.as_ref().map_or(position, |out| out.position());
                    let interval = u64::from(self.options.index_interval_bytes);
                    // The old index may have been all that led on behind damage, which the new one must do.
                    let due = std::mem::take(&mut is_behind_damage)
                        || entries.last().is_none_or(|last| position - u64::from(last.position) >= interval);
                    if due && let Some(entry) = scan::entry_of(&prefix, position, segment.base) {
                        entries.push(entry);
                    }
                    if let (Some(out), Some(view)) = (&mut out, view) {
                        out.push(view.as_bytes()).map_err(|source| LogError::io("write", out.path, source))?;
                    }
                }
            }
        }
    }

    fn store_index(&self, base: Offset, sealed: Sealed, file_bytes: u64, entries: &[IndexEntry]) -> Result<(), LogError> {
        self.put_index(base, |tmp| {
            store_index(self.disk, tmp, (base, &self.salt), sealed, file_bytes, entries)?;
            self.disk.open(tmp, Open::ReadWrite)?.sync_data()
        })
    }

    /// Durable, unlike other indexes: it may be all that leads on behind damage.
    fn put_index(&self, base: Offset, write: impl FnOnce(&Path) -> std::io::Result<()>) -> Result<(), LogError> {
        let name = FileName::Index(base).build();
        let tmp = self.dir.join(format!("{name}{TMP_SUFFIX}"));
        let to = self.dir.join(&name);
        let stored = write(&tmp).and_then(|()| self.disk.rename(&tmp, &to));
        stored.map_err(|source| LogError::io("rebuild", &to, source))
    }

    /// Gaps before `end` are no damage from now on.
    fn note_compacted(&mut self, end: Offset) -> Result<(), LogError> {
        let known = self.listing.compacted_end.filter(|known| *known != Offset(u64::MAX));
        if self.options.dry_run || known.is_some_and(|known| known >= end) {
            return Ok(());
        }
        compacted::write(self.disk, self.dir, &self.salt, end).map_err(|source| self.error("note the gaps of", source))?;
        self.listing.compacted_end = Some(end);
        Ok(())
    }

    /// The ranges of a segment mean nothing to the one that takes its place.
    fn forget_fenced(&mut self, base: Offset) -> Result<(), LogError> {
        let mut fenced: Fenced = self.listing.fenced.clone();
        if fenced.retain(|range| range.segment != base) {
            fenced.write(self.disk, self.dir, &self.salt).map_err(|source| self.error("store the damaged ranges of", source))?;
        }
        self.listing.fenced = fenced;
        Ok(())
    }

    fn remove(&mut self, name: String) -> Result<(), LogError> {
        if !self.options.dry_run {
            let path = self.dir.join(&name);
            self.disk.remove_file(&path).map_err(|source| LogError::io("remove", &path, source))?;
        }
        self.done.actions.push(Action::Removed { name });
        Ok(())
    }

    fn rename(&self, name: &str, to: &str) -> Result<(), LogError> {
        if self.options.dry_run {
            return Ok(());
        }
        let path = self.dir.join(name);
        self.disk.rename(&path, &self.dir.join(to)).map_err(|source| LogError::io("move aside", &path, source))
    }

    fn keep_copy(&self, name: &str, to: &str) -> Result<(), LogError> {
        if self.options.dry_run {
            return Ok(());
        }
        let path = self.dir.join(name);
        let failed = |source| LogError::io("keep a copy of", &path, source);
        let bytes = self.disk.file_len(&path).map_err(failed)?;
        copy(self.disk, &path, 0..bytes, &self.dir.join(to)).map_err(failed)?;
        self.sync_dir()
    }

    /// A name that nothing has yet: what an earlier repair kept stays too.
    fn unused_name(&self, name: &str) -> Result<String, LogError> {
        let mut attempt = 1;
        loop {
            let to = names::replaced_name(name, attempt);
            let path = self.dir.join(&to);
            if !self.disk.exists(&path).map_err(|source| LogError::io("look for", &path, source))? {
                return Ok(to);
            }
            attempt += 1;
        }
    }

    fn sync_dir(&self) -> Result<(), LogError> {
        self.disk.sync_dir(self.dir).map_err(|source| self.error("sync", source))
    }

    fn error(&self, operation: &'static str, source: std::io::Error) -> LogError {
        LogError::io(operation, self.dir, source)
    }
}

/// The file that takes a segment's place, while it is written.
struct Out<'a> {
    disk: &'a dyn Disk,
    path: &'a Path,
    buffer: Vec<u8>,
    written: u64,
}

impl Out<'_> {
    fn position(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn push(&mut self, frame: &[u8]) -> std::io::Result<()> {
        self.buffer.extend_from_slice(frame);
        if self.buffer.len() >= CHUNK_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> std::io::Result<()> {
        let how = if self.written == 0 { Open::CreateOrTruncate } else { Open::ReadWrite };
        let file = self.disk.open(self.path, how)?;
        file.write_all_at(&self.buffer, self.written)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        file.sync_data()
    }

    fn finish(&mut self) -> std::io::Result<()> {
        self.write()
    }
}
