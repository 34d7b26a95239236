//! Room behind the end of a segment that is written to: filler, of which frames take the place (`log/preallocate.rs`).
//!
//! It is not the zeros of a file that was lengthened, which a file system also shows where it has lost what was written: those stay damage. Where filler is read,
//! nothing was ever written that a sync has made durable, as behind the end of a file.

use std::io;

use crate::disk::DiskFile;
use crate::index::Footer;

/// Filler, at positions that are multiples of its length. A frame begins with another byte than any of these.
const FILLER: [u8; 8] = *b"prealloc";
/// A run at the end of a file that is shorter than this may be the end of a frame as well, by chance.
const CREDIBLE_BYTES: u64 = FILLER.len() as u64;
/// Written and read in pieces of this size.
const PIECE_BYTES: usize = 64 << 10;

static PIECE: [[u8; FILLER.len()]; PIECE_BYTES / FILLER.len()] = [FILLER; _];

/// The filler for positions from `position` up to `end`, or as much of it as there is in one piece.
fn filler(position: u64, end: u64) -> &'static [u8] {
    let skipped = usize::try_from(position % CREDIBLE_BYTES).unwrap_or(0);
    let size = usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX).min(PIECE_BYTES - skipped);
    PIECE.as_flattened().get(skipped..skipped + size).unwrap_or_default()
}

/// Writes filler from `position` up to `end`.
///
/// # Errors
/// Those of writing. Part of it may be there then, and is filler as well.
pub(crate) fn write(file: &dyn DiskFile, position: u64, end: u64) -> io::Result<()> {
    let mut position = position;
    while position < end {
        let piece = filler(position, end);
        file.write_all_at(piece, position)?;
        position += piece.len() as u64;
    }
    Ok(())
}

/// How long the file of a segment is, and how much of that can be frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Size of the file.
    pub(crate) file_bytes: u64,
    /// From here on there is only filler. The last frame may reach beyond, where it happens to end in the same bytes: then it is whole, and decides.
    filler_from: u64,
}

impl Extent {
    /// Without room: all of the file is frames.
    pub(crate) const fn exact(file_bytes: u64) -> Self {
        Self { file_bytes, filler_from: file_bytes }
    }

    /// Looks for the room at the end of a file.
    ///
    /// # Errors
    /// Those of reading.
    pub(crate) fn read(file: &dyn DiskFile, file_bytes: u64) -> io::Result<Self> {
        let mut filler_from = file_bytes;
        let mut buffer = Vec::new();
        while let Some(last) = filler_from.checked_sub(1) {
            // Most files have none, which the last bytes tell.
            let position = if filler_from == file_bytes {
                last - last % CREDIBLE_BYTES
            } else {
                filler_from.saturating_sub(PIECE_BYTES as u64)
            };
            let expected = filler(position, filler_from);
            buffer.resize(expected.len(), 0);
            if file.read_full_at(&mut buffer, position)? < expected.len() {
                break;
            }
            // Mostly all of it is, and this way compared at once.
            let same = if buffer == expected {
                expected.len()
            } else {
                buffer.iter().rev().zip(expected.iter().rev()).take_while(|(found, filler)| found == filler).count()
            };
            filler_from -= same as u64;
            if filler_from > position {
                break;
            }
        }
        Ok(Self { file_bytes, filler_from })
    }

    /// Whether there is nothing but room, or nothing at all, from `position` on, where a frame could begin.
    pub(crate) const fn ends_at(&self, position: u64) -> bool {
        position >= self.filler_from
    }

    /// Whether an index was completed for this file, or would have been for it without its room.
    pub(crate) fn fits(&self, footer: &Footer) -> bool {
        let is_but_for_room = footer.file_bytes < self.file_bytes && self.ends_at(footer.file_bytes);
        footer.wal_bytes <= footer.file_bytes && (footer.file_bytes == self.file_bytes || is_but_for_room)
    }

    /// Where what is not room ends, as far as can be told without the frames.
    pub(crate) const fn content_bytes(&self) -> u64 {
        if self.file_bytes - self.filler_from < CREDIBLE_BYTES { self.file_bytes } else { self.filler_from }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::disk::{Disk, Open};

    fn file(content: &[u8]) -> Arc<dyn DiskFile> {
        let file = SimDisk::new(1).open(Path::new("/f"), Open::CreateNew).unwrap();
        file.write_all_at(content, 0).unwrap();
        file
    }

    #[test]
    fn room_is_found_whatever_it_begins_at_and_however_long_it_is() {
        for start in [0, 1, 7, 8, 9, 4095, 4096, 70_001] {
            for room in [0, 8, 9, 100, 65_528, 65_536, 65_537, 200_003] {
                let file = file(&vec![1; start]);
                let (start, end) = (start as u64, (start + room) as u64);
                write(&*file, start, end).unwrap();
                assert_eq!(file.len().unwrap(), end);
                let extent = Extent::read(&*file, end).unwrap();
                assert_eq!(extent, Extent { file_bytes: end, filler_from: start }, "{room} bytes from {start} on");
                assert_eq!(extent.content_bytes(), start);
                assert!(extent.ends_at(start) && (start == 0 || !extent.ends_at(start - 1)));
            }
        }
    }

    #[test]
    fn what_is_no_filler_ends_the_room() {
        let file = file(&[0; 300]);
        write(&*file, 300, 1000).unwrap();
        for at in [300, 301, 999] {
            file.write_all_at(&[0], at).unwrap();
            assert_eq!(Extent::read(&*file, 1000).unwrap().filler_from, at + 1);
        }
        // Zeros, which a lost write leaves, are none.
        assert_eq!(Extent::read(&*file, 300).unwrap(), Extent::exact(300));
    }

    /// A frame may end in the same bytes.
    #[test]
    fn a_short_run_is_not_cut_off_what_lies_before() {
        let file = file(b"00000000000a");
        let extent = Extent::read(&*file, 12).unwrap();
        assert_eq!(extent.filler_from, 11);
        assert!(extent.ends_at(12) && extent.content_bytes() == 12);
    }
}
