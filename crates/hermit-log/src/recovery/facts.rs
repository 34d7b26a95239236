//! What is in a partition's directory.

use std::collections::BTreeMap;
use std::path::Path;

use hermit_proto::{FrameSalt, LeaderEpoch, Offset};

use super::act::Opening;
use crate::checkpoint::Checkpoint;
use crate::disk::{Disk, Open, TMP_SUFFIX};
use crate::error::LogError;
use crate::fenced::Fenced;
use crate::index::{self, Footer, IndexEntry};
use crate::names::{self, FileName};
use crate::room::Extent;
use crate::scan::FrameReader;
use crate::start;

/// A segment's files, as found.
#[derive(Clone, Debug)]
pub(super) struct SegmentFacts {
    pub(super) base: Offset,
    pub(super) extent: Extent,
    /// The footer of its index, where that is whole and fits the file.
    pub(super) footer: Option<Footer>,
}

impl SegmentFacts {
    /// Bytes that are no room.
    pub(super) const fn wal_bytes(&self) -> u64 {
        self.extent.content_bytes()
    }
}

/// The directory, as found.
#[derive(Debug)]
pub(super) struct Facts {
    /// By base offset.
    pub(super) segments: Vec<SegmentFacts>,
    pub(super) checkpoint: Option<Checkpoint>,
    /// The log start that was set by a trim or by retention; damaged counts as none.
    pub(super) start: Option<Offset>,
    pub(super) fenced: Fenced,
    pub(super) damaged_state: Vec<String>,
    /// The newest offset that producer state was stored for.
    pub(super) newest_snapshot: Option<Offset>,
}

/// Reads the facts, and removes what an interrupted step left behind.
pub(super) fn read(disk: &dyn Disk, dir: &Path, salt: &FrameSalt) -> Result<Facts, LogError> {
    let listed = disk.list(dir).map_err(|source| LogError::io("list", dir, source))?;
    let mut wal_bytes = BTreeMap::new();
    let mut orphans = Vec::new();
    let mut newest_snapshot = None;
    let wals: Vec<_> = listed.iter().filter_map(|entry| FileName::parse(&entry.name)).collect();
    for entry in &listed {
        if entry.is_dir {
            continue;
        }
        match FileName::parse(&entry.name) {
            Some(FileName::Wal(base)) => {
                wal_bytes.insert(base, entry.len_bytes);
            }
            Some(FileName::Index(base)) if !wals.contains(&FileName::Wal(base)) => orphans.push(dir.join(&entry.name)),
            Some(FileName::Index(_)) => {}
            Some(FileName::Producers(end)) => newest_snapshot = newest_snapshot.max(Some(end)),
            None if entry.name.to_string_lossy().ends_with(TMP_SUFFIX) => orphans.push(dir.join(&entry.name)),
            None => {}
        }
    }
    for orphan in orphans {
        // Derived or never finished; a leftover that stays is met again at the next start.
        drop(disk.remove_file(&orphan));
    }
    let segments = wal_bytes.into_iter().map(|(base, wal_bytes)| {
        let footer = read_footer(disk, dir, base, salt);
        let extent = match &footer {
            Some(footer) if footer.file_bytes == wal_bytes => Extent::exact(wal_bytes),
            _ => read_extent(disk, dir, base, wal_bytes)?,
        };
        let footer = footer.filter(|footer| extent.fits(footer));
        Ok(SegmentFacts { base, extent, footer })
    });
    let mut damaged_state = Vec::new();
    let start = match start::read(disk, dir, salt).map_err(|source| LogError::io("read", &dir.join(names::START), source))? {
        Some(None) => {
            damaged_state.push(names::START.to_owned());
            None
        }
        Some(start) => start,
        None => None,
    };
    let fenced = Fenced::read(disk, dir, salt).map_err(|source| LogError::io("read", &dir.join(names::FENCED), source))?;
    let segments = segments.collect::<Result<_, LogError>>()?;
    Ok(Facts { segments, checkpoint: Checkpoint::read(disk, dir, salt), start, fenced, damaged_state, newest_snapshot })
}

fn read_extent(disk: &dyn Disk, dir: &Path, base: Offset, file_bytes: u64) -> Result<Extent, LogError> {
    let path = dir.join(FileName::Wal(base).build());
    let extent = disk.open(&path, Open::Read).and_then(|file| Extent::read(&*file, file_bytes));
    extent.map_err(|source| LogError::io("read", &path, source))
}

fn read_footer(disk: &dyn Disk, dir: &Path, base: Offset, salt: &FrameSalt) -> Option<Footer> {
    let file = disk.open(&dir.join(FileName::Index(base).build()), Open::Read).ok()?;
    Footer::read(&*file, base, salt).ok()?
}

/// The entries of an index that may lack its footer: hints only, each to be checked. Cut where they stop rising.
pub(crate) fn read_hints(disk: &dyn Disk, dir: &Path, base: Offset) -> Vec<IndexEntry> {
    let path = dir.join(FileName::Index(base).build());
    let bytes = crate::disk::read_file(disk, &path, 1 << 30).unwrap_or_default();
    let mut entries = index::decode_entries(&bytes);
    let rising = entries
        .windows(2)
        .take_while(|pair| matches!(pair, [a, b] if a.position < b.position && a.relative_offset < b.relative_offset));
    let count = rising.count() + 1;
    entries.truncate(count);
    entries
}

/// The highest leader epoch in the log: that of the newest segment that has a frame.
pub(super) fn newest_epoch(opening: &Opening<'_>) -> Result<Option<LeaderEpoch>, LogError> {
    let Opening { disk, dir, env, .. } = *opening;
    let listed = disk.list(dir).map_err(|source| LogError::io("list", dir, source))?;
    let mut unknown = 0_u32;
    for entry in listed.iter().rev() {
        let Some(FileName::Wal(base)) = FileName::parse(&entry.name) else { continue };
        let path = dir.join(&entry.name);
        let read_error = |source| LogError::io("read", &path, source);
        let file = disk.open(&path, Open::Read).map_err(read_error)?;
        let mut reader = FrameReader::prefixes(&*file, entry.len_bytes);
        let hints = read_hints(disk, dir, base).into_iter().map(|hint| u64::from(hint.position));
        for position in std::iter::once(0).chain(hints) {
            if let Some(prefix) = reader.prefix(position, &env.salt).map_err(read_error)? {
                return Ok(Some(LeaderEpoch(
                    prefix.extension.leader_epoch.0.saturating_add(unknown).min(LeaderEpoch::UNKNOWN.0 - 1),
                )));
            }
        }
        // Damaged: each segment may have begun an epoch of its own.
        unknown = unknown.saturating_add(u32::from(entry.len_bytes > 0));
    }
    Ok(unknown.checked_sub(1).map(LeaderEpoch))
}
