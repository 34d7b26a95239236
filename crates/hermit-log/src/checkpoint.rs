//! Up to where a log is known to be flushed: a hint that spares recovery the reading of what lies before.
//!
//! Two slots of 64 bytes in one file are written in turn, after the flush that they report and without a sync of their own. A slot that is torn, lost or
//! old only means that more is read.

use std::io;
use std::path::{Path, PathBuf};

use hermit_proto::{FrameSalt, Offset};

use crate::disk::{Disk, Open, read_file};
use crate::names;
use crate::state_file::{Kind, Reader};

pub(crate) const KIND: Kind = Kind { magic: *b"HCKP", version: 2 };
const SLOT_SIZE: usize = 64;
/// The slots lie in different pages, so that one torn page cannot take both.
const SLOT_DISTANCE: u64 = 4096;
const BODY_SIZE: usize = 8 * 4;
const SEALED_SIZE: usize = 8 + BODY_SIZE + 4;
const _: () = assert!(SEALED_SIZE <= SLOT_SIZE);

/// Everything before this was flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Rises with each write; the higher of the two slots counts.
    pub(crate) sequence: u64,
    /// The offset behind the last flushed frame.
    pub(crate) offset: Offset,
    /// The base offset of the segment in which that is.
    pub(crate) segment: Offset,
    /// The position behind the last flushed frame in that segment.
    pub(crate) position: u64,
}

impl Checkpoint {
    fn encode(&self, salt: &FrameSalt) -> Vec<u8> {
        let numbers = [self.sequence, self.offset.0, self.segment.0, self.position];
        KIND.seal(&numbers.iter().flat_map(|number| number.to_be_bytes()).collect::<Vec<_>>(), salt)
    }

    fn decode(slot: &[u8], salt: &FrameSalt) -> Option<Self> {
        let mut body = Reader(KIND.open(slot.get(..SEALED_SIZE)?, salt)?);
        let (sequence, offset, segment, position) = (body.u64()?, body.u64()?, body.u64()?, body.u64()?);
        Some(Self { sequence, offset: Offset(offset), segment: Offset(segment), position })
    }

    fn slot_at(sequence: u64) -> u64 {
        (sequence % 2) * SLOT_DISTANCE
    }

    /// The newest slot that is whole.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path, salt: &FrameSalt) -> Option<Self> {
        let bytes = read_file(disk, &dir.join(names::CHECKPOINT), 2 * SLOT_DISTANCE).ok()?;
        let slots = [0, SLOT_DISTANCE].map(|at| {
            let at = usize::try_from(at).ok()?;
            Self::decode(bytes.get(at..)?, salt)
        });
        slots.into_iter().flatten().max_by_key(|checkpoint| checkpoint.sequence)
    }
}

/// Writes checkpoints of one log.
#[derive(Debug)]
pub(crate) struct CheckpointWriter {
    dir: PathBuf,
    salt: FrameSalt,
    path: PathBuf,
    sequence: u64,
    /// Offset, segment and position of the slot that is known to be on stable storage.
    durable: Option<(Offset, Offset, u64)>,
    /// The same, where it is in both slots.
    both: Option<(Offset, Offset, u64)>,
}

impl CheckpointWriter {
    /// After a clean stop `last` is what that stop made durable.
    pub(crate) fn new(dir: &Path, salt: FrameSalt, last: Option<Checkpoint>, clean: bool) -> Self {
        Self {
            dir: dir.to_owned(),
            salt,
            path: dir.join(names::CHECKPOINT),
            sequence: last.map_or(0, |checkpoint| checkpoint.sequence),
            both: None,
            durable: last.filter(|_| clean).map(|checkpoint| (checkpoint.offset, checkpoint.segment, checkpoint.position)),
        }
    }

    /// Makes durable where the log ends, for a clean stop: where its last file is damaged or gone at the next start, this alone tells
    /// that something is missing, and keeps its offsets from being given again. Costs nothing where nothing has changed since the last.
    pub(crate) fn settle(&mut self, disk: &dyn Disk, offset: Offset, segment: Offset, position: u64) -> io::Result<()> {
        if self.durable == Some((offset, segment, position)) {
            return Ok(());
        }
        self.write(disk, offset, segment, position, true)?;
        disk.sync_dir(&self.dir)?;
        self.durable = Some((offset, segment, position));
        Ok(())
    }

    /// Writes what [`CheckpointWriter::settle`] would make durable; the caller syncs file and directory.
    pub(crate) fn prepare(&mut self, disk: &dyn Disk, offset: Offset, segment: Offset, position: u64) -> io::Result<()> {
        if self.durable == Some((offset, segment, position)) {
            return Ok(());
        }
        self.write(disk, offset, segment, position, false)
    }

    /// As [`CheckpointWriter::settle`], in both slots: whichever of them rots, the other tells as much.
    pub(crate) fn settle_both(&mut self, disk: &dyn Disk, offset: Offset, segment: Offset, position: u64) -> io::Result<()> {
        if self.both == Some((offset, segment, position)) {
            return Ok(());
        }
        self.write(disk, offset, segment, position, true)?;
        self.settle(disk, offset, segment, position)?;
        self.both = self.durable;
        Ok(())
    }

    /// Writes the next slot; with `sync`, makes it durable too.
    pub(crate) fn write(&mut self, disk: &dyn Disk, offset: Offset, segment: Offset, position: u64, sync: bool) -> io::Result<()> {
        let sequence = self.sequence.wrapping_add(1);
        let file = disk.open(&self.path, Open::CreateOrOpen)?;
        let checkpoint = Checkpoint { sequence, offset, segment, position };
        file.write_all_at(&checkpoint.encode(&self.salt), Checkpoint::slot_at(sequence))?;
        self.sequence = sequence;
        (self.durable, self.both) = (None, None);
        if sync { file.sync_data() } else { Ok(()) }
    }
}
