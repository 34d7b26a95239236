//! A segment's file as the scrub reads it: what it brings into the page cache goes out again, and what was there stays.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{DiskFile, Mapping};

/// The page cache is looked at, and given back, in pieces of this size, that of [`DiskFile::cached`]'s probes.
const PIECE_BYTES: u64 = 64 << 10;
/// Where reading fails, it is tried in pieces of this size: what a disk cannot read is a sector, which the system widens to a page.
const PAGE_BYTES: usize = 4096;

/// A file with a note of what was not in the page cache before.
#[derive(Debug)]
pub(crate) struct ScrubFile {
    file: Arc<dyn DiskFile>,
    len_bytes: u64,
    notes: Mutex<Notes>,
    /// What cannot be read shows as zeros, which no checksum holds for.
    reads_past_errors: bool,
}

#[derive(Debug, Default)]
struct Notes {
    /// Numbers of pieces that were read, in order of first reading, and whether they were cold.
    seen: Vec<(u64, bool)>,
}

impl ScrubFile {
    /// A handle that is nobody else's, on a segment of that size.
    pub(crate) fn new(file: Arc<dyn DiskFile>, len_bytes: u64) -> Self {
        // Else the very look at whether a piece is in the page cache would bring it there, with its neighbours, which then seem to have been there.
        file.no_read_ahead();
        Self { file, len_bytes, notes: Mutex::default(), reads_past_errors: false }
    }

    /// The same file, of which what cannot be read shows as zeros.
    pub(crate) fn past_errors(&self) -> Self {
        Self { file: Arc::clone(&self.file), len_bytes: self.len_bytes, notes: Mutex::default(), reads_past_errors: true }
    }

    /// Gives back what reading has brought into the page cache.
    pub(crate) fn give_back(&self) {
        for (piece, was_cold) in std::mem::take(&mut *self.notes.lock()).seen {
            if was_cold {
                self.file.drop_cached(piece.saturating_mul(PIECE_BYTES), PIECE_BYTES);
            }
        }
    }

    /// Notes which pieces are cold, and has those read that are: exactly those, so that nothing else comes with them.
    fn note(&self, position: u64, len: usize) {
        let Some(last) = (len as u64).checked_sub(1).and_then(|last| position.checked_add(last)) else { return };
        let mut notes = self.notes.lock();
        for piece in position / PIECE_BYTES..=last / PIECE_BYTES {
            if notes.seen.iter().rev().any(|(seen, _)| *seen == piece) {
                continue;
            }
            let at = piece.saturating_mul(PIECE_BYTES);
            let was_cold = !self.file.cached(at, PIECE_BYTES.min(self.len_bytes.saturating_sub(at)));
            if was_cold {
                // No more than is read now: what is still on its way cannot be given back.
                let from = at.max(position);
                self.file.will_need(from, at.saturating_add(PIECE_BYTES).min(last.saturating_add(1)).saturating_sub(from));
            }
            notes.seen.push((piece, was_cold));
        }
    }

    fn read_pieces(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        let end = self.file.len()?;
        let readable = usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX).min(buf.len());
        let mut done = 0;
        while done < readable {
            let at = position.saturating_add(done as u64);
            let in_page = usize::try_from(at % PAGE_BYTES as u64).unwrap_or(0);
            let size = (PAGE_BYTES - in_page).min(readable - done);
            let Some(piece) = buf.get_mut(done..done + size) else { break };
            match self.file.read_full_at(piece, at) {
                Ok(read) if read == size => {}
                Ok(_) | Err(_) => piece.fill(0),
            }
            done += size;
        }
        Ok(readable)
    }
}

impl DiskFile for ScrubFile {
    fn read_at(&self, buf: &mut [u8], position: u64) -> io::Result<usize> {
        self.note(position, buf.len());
        match self.file.read_at(buf, position) {
            Err(_) if self.reads_past_errors => self.read_pieces(buf, position),
            read => read,
        }
    }

    fn write_at(&self, buf: &[u8], position: u64) -> io::Result<usize> {
        self.file.write_at(buf, position)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    fn map(&self, len: usize) -> io::Result<Mapping> {
        self.file.map(len)
    }

    fn cached(&self, position: u64, len: u64) -> bool {
        self.file.cached(position, len)
    }

    fn will_need(&self, position: u64, len: u64) {
        self.file.will_need(position, len);
    }

    fn drop_cached(&self, position: u64, len: u64) {
        self.file.drop_cached(position, len);
    }
}
