//! One segment: a file of frames, and its index.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use hermit_proto::{FramePrefix, FrameSalt, LeaderEpoch, Offset, crc32c};
use parking_lot::RwLock;

use crate::disk::{Disk, DiskFile, Open, TMP_SUFFIX};
use crate::files::{CachedFile, FileCache};
use crate::index::{self, ActiveIndex, Footer, IndexEntry, SealFacts};
use crate::maps::{IndexMaps, MappedIndex, map_entries};
use crate::names::FileName;
use crate::recovery::store_index;
use crate::room::Extent;
use crate::scan::{self, FrameReader, ScanJob};

/// What is settled once a segment is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    /// The offset behind the last frame.
    pub(crate) end: Offset,
    /// The logical size; the file may be longer.
    pub(crate) len_bytes: u64,
    pub(crate) last_append_time: u64,
}

#[derive(Debug)]
enum Index {
    Active(Box<ActiveIndex>),
    Stored {
        footer: Footer,
        mapped: MappedIndex,
        verified: bool,
    },
    /// Could not be stored, or did not hold; complete, in memory.
    Memory(Vec<IndexEntry>),
}

/// A segment. Readers share it; after retention or compaction has removed its file, whoever has that open reads on.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base: Offset,
    pub(crate) salt: FrameSalt,
    pub(crate) wal: CachedFile,
    idx: CachedFile,
    maps: IndexMaps,
    index_interval_bytes: u32,
    index: RwLock<Index>,
    sealed: OnceLock<Sealed>,
    epoch: OnceLock<LeaderEpoch>,
}

/// Where segments find what they share.
#[derive(Clone, Debug)]
pub(crate) struct SegmentEnv {
    pub(crate) files: FileCache,
    pub(crate) maps: IndexMaps,
    pub(crate) salt: FrameSalt,
    pub(crate) index_interval_bytes: u32,
}

impl Segment {
    fn new(env: &SegmentEnv, dir: &Path, base: Offset, index: Index) -> Self {
        Self {
            base,
            salt: env.salt,
            wal: env.files.file(dir.join(FileName::Wal(base).build()), true),
            idx: env.files.file(dir.join(FileName::Index(base).build()), true),
            maps: env.maps.clone(),
            index_interval_bytes: env.index_interval_bytes,
            index: RwLock::new(index),
            sealed: OnceLock::new(),
            epoch: OnceLock::new(),
        }
    }

    /// The segment that is to be written; its files exist.
    pub(crate) fn active(env: &SegmentEnv, dir: &Path, base: Offset, index: ActiveIndex) -> Self {
        Self::new(env, dir, base, Index::Active(Box::new(index)))
    }

    /// A sealed segment whose index file ends in `footer`.
    pub(crate) fn stored(env: &SegmentEnv, dir: &Path, footer: Footer) -> Self {
        let index = Index::Stored { footer, mapped: MappedIndex::default(), verified: false };
        let segment = Self::new(env, dir, footer.base, index);
        segment.set_sealed(Sealed { end: footer.end, len_bytes: footer.wal_bytes, last_append_time: footer.last_append_time });
        segment
    }

    /// A sealed segment whose index was just made.
    pub(crate) fn rebuilt(env: &SegmentEnv, dir: &Path, base: Offset, sealed: Sealed, entries: Vec<IndexEntry>) -> Self {
        let segment = Self::new(env, dir, base, Index::Memory(entries));
        segment.set_sealed(sealed);
        segment
    }

    fn set_sealed(&self, sealed: Sealed) {
        // Only the append lock's holder seals, and only once.
        self.sealed.get_or_init(|| sealed);
    }

    pub(crate) fn sealed(&self) -> Option<&Sealed> {
        self.sealed.get()
    }

    /// Whether a frame, which is sound in itself, can be one of this segment: its checksum does not say so, as compaction moves frames as they are.
    pub(crate) fn admits(&self, prefix: &FramePrefix) -> bool {
        prefix.offset() >= self.base && self.sealed().is_none_or(|sealed| prefix.next_offset() <= sealed.end)
    }

    /// Notes frames that were appended, in order; those that are due get an index entry.
    pub(crate) fn note_appended(&self, frames: impl Iterator<Item = IndexEntry>) {
        let mut index = self.index.write();
        if let Index::Active(active) = &mut *index {
            for entry in frames {
                if active.is_due(entry.position, self.index_interval_bytes) {
                    active.push(entry, || self.idx.get());
                }
            }
        }
    }

    /// Closes the active segment: writes the rest of the index. A failure there leaves the index in memory and is no error.
    pub(crate) fn seal(&self, sealed: Sealed) {
        let facts = SealFacts {
            salt: self.salt,
            base: self.base,
            end: sealed.end,
            wal_bytes: sealed.len_bytes,
            file_bytes: sealed.len_bytes,
            last_append_time: sealed.last_append_time,
        };
        let mut index = self.index.write();
        if let Index::Active(active) = &mut *index {
            let stored = self.idx.get().and_then(|file| active.seal(&*file, facts));
            *index = match stored {
                Ok(footer) => Index::Stored { footer, mapped: MappedIndex::default(), verified: false },
                Err(_) => Index::Memory(active.entries(|| self.idx.get()).unwrap_or_default()),
            };
        }
        drop(index);
        self.set_sealed(sealed);
    }

    /// Writes the index and a footer, though the segment goes on: for a clean stop.
    pub(crate) fn store_index(&self, disk: &dyn Disk, facts: Sealed) -> io::Result<()> {
        let mut index = self.index.write();
        if let Index::Active(active) = &mut *index {
            let file = match self.idx.get() {
                // There was no space for it when the segment was made; all entries are in memory.
                Err(error) if error.kind() == io::ErrorKind::NotFound && active.is_in_memory() => {
                    drop(disk.open(&self.idx.path(), Open::CreateOrTruncate)?);
                    self.idx.get()?
                }
                file => file?,
            };
            active.seal(
                &*file,
                SealFacts {
                    salt: self.salt,
                    base: self.base,
                    end: facts.end,
                    wal_bytes: facts.len_bytes,
                    file_bytes: facts.len_bytes,
                    last_append_time: facts.last_append_time,
                },
            )?;
        }
        Ok(())
    }

    /// The last index entry for which `before` holds, where it holds for a prefix of the entries.
    fn last_where(&self, before: impl Fn(&IndexEntry) -> bool + Copy) -> io::Result<Option<IndexEntry>> {
        let index = self.index.read();
        match &*index {
            Index::Active(active) => active.last_where(|| self.idx.get(), before),
            Index::Memory(entries) => {
                let count = entries.partition_point(before);
                Ok(count.checked_sub(1).and_then(|last| entries.get(last)).copied())
            }
            Index::Stored { footer, mapped, verified } => {
                let mapping = mapped.get(&self.maps, || map_entries(&*self.idx.get()?, footer.entries_bytes()));
                let holds = |bytes: &[u8]| *verified || crc32c(bytes) == footer.entries_crc;
                match mapping {
                    Ok(bytes) if holds(&bytes) => {
                        let found = index::search_bytes(&bytes, before);
                        let first_use = !*verified;
                        drop(index);
                        if first_use && let Index::Stored { verified, .. } = &mut *self.index.write() {
                            *verified = true;
                        }
                        Ok(found)
                    }
                    _ => {
                        drop(index);
                        let entries = self.rebuild_index()?;
                        let count = entries.partition_point(before);
                        Ok(count.checked_sub(1).and_then(|last| entries.get(last)).copied())
                    }
                }
            }
        }
    }

    /// Reads the whole segment once for its index, and keeps that in memory.
    fn rebuild_index(&self) -> io::Result<Vec<IndexEntry>> {
        let Some(sealed) = self.sealed.get() else { return Ok(Vec::new()) };
        let file = self.wal.get()?;
        let job = ScanJob {
            base: self.base,
            salt: &self.salt,
            position: 0,
            expected: self.base,
            next_base: Some(sealed.end),
            index_interval_bytes: self.index_interval_bytes,
            hints: &[],
        };
        let entries = scan::scan(&*file, Extent::exact(sealed.len_bytes), &job)?.entries;
        tracing::warn!(path = %self.idx.path().display(), "the index was missing or damaged, and was made again from the log");
        *self.index.write() = Index::Memory(entries.clone());
        Ok(entries)
    }

    /// The frame from which a forward scan finds `offset`; the segment's first where there is no entry.
    pub(crate) fn floor_of_offset(&self, offset: Offset) -> io::Result<Option<IndexEntry>> {
        let base = self.base;
        self.last_where(move |entry| entry.offset(base) <= offset)
    }

    /// The last indexed frame at or before `position`.
    pub(crate) fn floor_of_position(&self, position: u64) -> io::Result<Option<IndexEntry>> {
        self.last_where(move |entry| u64::from(entry.position) <= position)
    }

    /// The frame from which a forward scan finds the first one appended at `time` or later; the segment's first where there is no entry.
    pub(crate) fn floor_of_time(&self, time: u64) -> io::Result<Option<IndexEntry>> {
        self.last_where(move |entry| entry.append_time < time)
    }

    /// All index entries, in order.
    pub(crate) fn entries(&self) -> io::Result<Vec<IndexEntry>> {
        // Makes a damaged index anew first.
        self.last_where(|_| false)?;
        let index = self.index.read();
        match &*index {
            Index::Active(active) => active.entries(|| self.idx.get()),
            Index::Memory(entries) => Ok(entries.clone()),
            Index::Stored { footer, mapped, .. } => {
                let bytes = mapped.get(&self.maps, || map_entries(&*self.idx.get()?, footer.entries_bytes()))?;
                Ok(index::decode_entries(&bytes))
            }
        }
    }

    /// The entries that the index file holds now, read anew; `None` where it is not whole, or not that of this segment.
    pub(crate) fn read_stored(&self, disk: &dyn Disk) -> io::Result<Option<Vec<IndexEntry>>> {
        let known = match &*self.index.read() {
            Index::Stored { footer, .. } => *footer,
            Index::Active(_) | Index::Memory(_) => return Ok(None),
        };
        let file = match disk.open(&self.idx.path(), Open::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if Footer::read(&*file, self.base, &self.salt)? != Some(known) {
            return Ok(None);
        }
        let mut bytes = vec![0; usize::try_from(known.entries_bytes()).unwrap_or(0)];
        file.read_exact_at(&mut bytes, 0)?;
        Ok((crc32c(&bytes) == known.entries_crc).then(|| index::decode_entries(&bytes)))
    }

    /// Puts another index in place of the one that is stored, or should be. The caller keeps the segment from being replaced or removed.
    pub(crate) fn put_index(&self, disk: &dyn Disk, file_bytes: u64, entries: &[IndexEntry]) -> io::Result<()> {
        let Some(sealed) = self.sealed.get().copied() else { return Ok(()) };
        let path = self.idx.path();
        let mut tmp = path.clone().into_os_string();
        tmp.push(TMP_SUFFIX);
        let tmp = std::path::PathBuf::from(tmp);
        let stored = store_index(disk, &tmp, (self.base, &self.salt), sealed, file_bytes, entries);
        let footer = stored.inspect_err(|_error| drop(disk.remove_file(&tmp)))?;
        // Whoever looks something up waits for this lock, and finds the new file with the new footer.
        let mut index = self.index.write();
        disk.rename(&tmp, &path)?;
        self.idx.close();
        *index = Index::Stored { footer, mapped: MappedIndex::default(), verified: false };
        Ok(())
    }

    /// The leader epoch of the segment's frames; `None` while it has none. All frames of a segment carry the same.
    pub(crate) fn epoch(&self, end_position: u64) -> io::Result<Option<LeaderEpoch>> {
        if let Some(epoch) = self.epoch.get() {
            return Ok(Some(*epoch));
        }
        let file = self.wal.get()?;
        let mut reader = FrameReader::prefixes(&*file, end_position);
        let mut prefix = reader.prefix(0, &self.salt)?;
        if prefix.is_none() && end_position > 0 {
            // The first frame is damaged: any other tells as well.
            for entry in self.entries()? {
                prefix = reader.prefix(u64::from(entry.position), &self.salt)?;
                if prefix.is_some() {
                    break;
                }
            }
        }
        Ok(prefix.map(|prefix| *self.epoch.get_or_init(|| prefix.extension.leader_epoch)))
    }

    /// The file of frames.
    pub(crate) fn file(&self) -> io::Result<Arc<dyn DiskFile>> {
        self.wal.get()
    }

    /// The index file's name is gone, to make room.
    pub(crate) fn index_removed(&self) {
        if let Index::Stored { mapped, .. } = &*self.index.read() {
            mapped.forget();
        }
        self.idx.unlinked();
    }

    /// Its names are gone, or belong to a newer segment.
    pub(crate) fn unlinked(&self) {
        self.wal.unlinked();
        self.idx.unlinked();
    }
}
