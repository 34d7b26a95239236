//! The names in a partition's directory, and the state files.

use std::path::{Path, PathBuf};

use hermit_proto::{FrameSalt, Offset};

use super::{CheckpointReport, FileReport, SnapshotReport};
use crate::checkpoint::Checkpoint;
use crate::compacted;
use crate::disk::{Disk, TMP_SUFFIX};
use crate::error::LogError;
use crate::fenced::Fenced;
use crate::names::{self, FileName};
use crate::producers::ProducerTable;
use crate::start;

/// What lies beside the frames.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) dir: PathBuf,
    /// Base offsets and sizes, in order.
    pub(crate) wals: Vec<(Offset, u64)>,
    pub(crate) indexes: Vec<Offset>,
    pub(crate) snapshots: Vec<SnapshotReport>,
    pub(crate) checkpoint: Option<CheckpointReport>,
    pub(crate) stored_start: Option<Offset>,
    pub(crate) fenced: Fenced,
    pub(crate) compacted_end: Option<Offset>,
    pub(crate) kept: Vec<FileReport>,
    pub(crate) leftovers: Vec<FileReport>,
    pub(crate) damaged_state: Vec<String>,
    pub(crate) has_clean_marker: bool,
}

impl Listing {
    pub(crate) fn read(disk: &dyn Disk, dir: &Path, salt: &FrameSalt) -> Result<Self, LogError> {
        let listed = disk.list(dir).map_err(|source| LogError::io("list", dir, source))?;
        let failed = |name: &str| {
            let path = dir.join(name);
            move |source| LogError::io("read", &path, source)
        };
        let mut listing = Self {
            dir: dir.to_owned(),
            wals: Vec::new(),
            indexes: Vec::new(),
            snapshots: Vec::new(),
            checkpoint: None,
            stored_start: None,
            fenced: Fenced::read(disk, dir, salt).map_err(failed(names::FENCED))?,
            compacted_end: compacted::read(disk, dir, salt).map_err(failed(names::COMPACTED))?,
            kept: Vec::new(),
            leftovers: Vec::new(),
            damaged_state: Vec::new(),
            has_clean_marker: false,
        };
        for entry in listed.iter().filter(|entry| !entry.is_dir) {
            let name = entry.name.to_string_lossy().into_owned();
            let bytes = entry.len_bytes;
            match FileName::parse(&entry.name) {
                Some(FileName::Wal(base)) => listing.wals.push((base, bytes)),
                Some(FileName::Index(base)) => listing.indexes.push(base),
                Some(FileName::Producers(offset)) => {
                    let table = ProducerTable::read(disk, dir, salt, offset).map_err(failed(&name))?;
                    listing.snapshots.push(SnapshotReport { offset, bytes, producers: table.map(|table| table.len()) });
                }
                None if name.ends_with(TMP_SUFFIX) => listing.leftovers.push(FileReport { name, bytes }),
                None if names::is_kept(&name) => listing.kept.push(FileReport { name, bytes }),
                None if name == names::CLEAN => listing.has_clean_marker = true,
                None if name == names::CHECKPOINT => match Checkpoint::read(disk, dir, salt) {
                    Some(Checkpoint { offset, segment, position, .. }) => {
                        listing.checkpoint = Some(CheckpointReport { offset, segment, position });
                    }
                    None => listing.damaged_state.push(name),
                },
                None if name == names::START => match start::read(disk, dir, salt).map_err(failed(&name))?.flatten() {
                    Some(start) => listing.stored_start = Some(start),
                    None => listing.damaged_state.push(name),
                },
                None if name == names::FENCED && !Fenced::is_whole(disk, dir, salt).map_err(failed(&name))? => {
                    listing.damaged_state.push(name);
                }
                None if name == names::COMPACTED && listing.compacted_end == Some(Offset(u64::MAX)) => {
                    listing.damaged_state.push(name);
                }
                None => {}
            }
        }
        let orphans = listing.indexes.iter().filter(|base| !listing.wals.iter().any(|(wal, _)| wal == *base));
        for base in orphans {
            let name = FileName::Index(*base).build();
            let bytes = disk.file_len(&dir.join(&name)).map_err(failed(&name))?;
            listing.leftovers.push(FileReport { name, bytes });
        }
        Ok(listing)
    }

    /// All before is known to have been flushed, and no offset before is given again.
    pub(crate) fn floor(&self) -> Offset {
        let checkpoint = self.checkpoint.map(|checkpoint| checkpoint.offset);
        let snapshot = self.snapshots.iter().map(|snapshot| snapshot.offset).max();
        let fenced = self.fenced.ranges().iter().map(|range| range.next).max();
        let compacted = self.compacted_end.filter(|end| *end != Offset(u64::MAX));
        checkpoint.max(snapshot).max(fenced).max(self.stored_start).max(compacted).unwrap_or(Offset::ZERO)
    }

    /// The base offset of the segment behind the one at `at`: an empty file that was left over does not count.
    pub(crate) fn next_base(&self, at: usize) -> Option<Offset> {
        let counts = |(base, bytes): &&(Offset, u64)| *bytes > 0 || self.fenced.any_in(*base);
        self.wals.iter().skip(at + 1).find(counts).map(|(base, _)| *base)
    }
}
