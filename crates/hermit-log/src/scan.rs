//! Reading a segment frame by frame, and past damage.
//!
//! Behind damage, reading goes on where the frame CRC vouches for the size, else at an index entry whose frame proves itself. Payload
//! bytes are never searched: a client may have planted a frame there.

use std::io;
use std::sync::Arc;

use hermit_proto::{FramePrefix, FrameSalt, FrameView, Offset, PREFIX_SIZE};

use crate::disk::DiskFile;
use crate::index::IndexEntry;
use crate::room::Extent;

/// Read at once; frames that are larger are read whole.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// The file of a reader.
#[derive(Debug)]
enum Source<'a> {
    Borrowed(&'a dyn DiskFile),
    Shared(Arc<dyn DiskFile>),
}

/// Reads a file front to back through one buffer.
#[derive(Debug)]
pub(crate) struct FrameReader<'a> {
    file: Source<'a>,
    /// Bytes from its end on are not part of the segment.
    extent: Extent,
    buffer: Vec<u8>,
    buffer_at: u64,
    chunk_bytes: usize,
}

/// What stands at a position.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A whole frame, both checksums right.
    Frame(FrameView<'a>),
    /// A frame whose prefix is right and whose body is not.
    BadBody(FramePrefix),
    /// Nothing whose size could be believed, or a frame that the end cuts.
    Unreadable,
    /// The end of the segment, or room that no frame has taken.
    End,
}

impl<'a> FrameReader<'a> {
    pub(crate) fn new(file: &'a dyn DiskFile, end: u64) -> Self {
        Self::with_room(file, Extent::exact(end))
    }

    /// Of a file that may end in room.
    pub(crate) fn with_room(file: &'a dyn DiskFile, extent: Extent) -> Self {
        Self { file: Source::Borrowed(file), extent, buffer: Vec::new(), buffer_at: 0, chunk_bytes: CHUNK_BYTES }
    }

    /// The same; keeps the file open by itself, and reads at least so much at once.
    pub(crate) fn shared(file: Arc<dyn DiskFile>, extent: Extent, chunk_bytes: usize) -> FrameReader<'static> {
        FrameReader { file: Source::Shared(file), extent, buffer: Vec::new(), buffer_at: 0, chunk_bytes }
    }

    /// For a short look: reads less at once.
    pub(crate) fn short(file: &'a dyn DiskFile, end: u64) -> Self {
        Self { chunk_bytes: 8 << 10, ..Self::new(file, end) }
    }

    /// For single prefixes far apart: reads nothing else.
    pub(crate) fn prefixes(file: &'a dyn DiskFile, end: u64) -> Self {
        Self { chunk_bytes: PREFIX_SIZE, ..Self::new(file, end) }
    }

    /// `size` bytes at `position`, or `None` where the segment ends before.
    pub(crate) fn bytes(&mut self, position: u64, size: u64) -> io::Result<Option<&[u8]>> {
        if position.checked_add(size).is_none_or(|behind| behind > self.extent.file_bytes) {
            return Ok(None);
        }
        let Ok(size) = usize::try_from(size) else { return Ok(None) };
        let held = |buffer: &Vec<u8>, buffer_at: u64| {
            let start = usize::try_from(position.checked_sub(buffer_at)?).ok()?;
            (start.checked_add(size)? <= buffer.len()).then_some(start)
        };
        let start = match held(&self.buffer, self.buffer_at) {
            Some(start) => start,
            None => {
                let rest = usize::try_from(self.extent.file_bytes - position).unwrap_or(usize::MAX);
                self.buffer.resize(size.max(self.chunk_bytes).min(rest), 0);
                let file = match &self.file {
                    Source::Borrowed(file) => *file,
                    Source::Shared(file) => &**file,
                };
                let read = file.read_full_at(&mut self.buffer, position)?;
                self.buffer.truncate(read);
                self.buffer_at = position;
                if read < size {
                    return Ok(None);
                }
                0
            }
        };
        Ok(self.buffer.get(start..start + size))
    }

    /// The prefix at `position`, if the frame CRC vouches for it.
    pub(crate) fn prefix(&mut self, position: u64, salt: &FrameSalt) -> io::Result<Option<FramePrefix>> {
        let bytes = self.bytes(position, PREFIX_SIZE as u64)?;
        Ok(bytes.and_then(<[u8]>::first_chunk).and_then(|prefix| FramePrefix::verify(prefix, salt).ok()))
    }

    /// The frame at `position`, all checks done.
    pub(crate) fn frame(&mut self, position: u64, salt: &FrameSalt) -> io::Result<Found<'_>> {
        if self.extent.ends_at(position) {
            return Ok(Found::End);
        }
        let Some(prefix) = self.prefix(position, salt)? else { return Ok(Found::Unreadable) };
        // The frame CRC covers the sizes, so that they can be believed.
        let Some(bytes) = self.bytes(position, prefix.frame_bytes())? else { return Ok(Found::Unreadable) };
        match FrameView::trusted(bytes) {
            Some(view) if view.verify_body().is_ok() => Ok(Found::Frame(view)),
            _ => Ok(Found::BadBody(prefix)),
        }
    }
}

/// Damage within one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) position: u64,
    /// Where frames go on; the end of the segment where they do not.
    pub(crate) next_position: u64,
    pub(crate) from: Offset,
    /// The offset of the frame at `next_position`; `None` where there is none.
    pub(crate) next: Option<Offset>,
}

/// What to scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanJob<'a> {
    pub(crate) base: Offset,
    pub(crate) salt: &'a FrameSalt,
    /// A frame's position, or the end.
    pub(crate) position: u64,
    /// No frame from there on has a lower offset.
    pub(crate) expected: Offset,
    /// The base offset of the segment behind this one: frames from there on are not this one's.
    pub(crate) next_base: Option<Offset>,
    pub(crate) index_interval_bytes: u32,
    /// Where frames may begin, to go on behind damage. Each is checked.
    pub(crate) hints: &'a [IndexEntry],
}

/// What a scan found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) damages: Vec<Damage>,
    /// Behind the last good frame, or behind the damage where that comes last.
    pub(crate) end_position: u64,
    pub(crate) end: Offset,
    pub(crate) last_append_time: u64,
    pub(crate) entries: Vec<IndexEntry>,
    pub(crate) frames: u64,
    /// The largest flushed end that a good frame proves: its position less its flushed-end distance, where that is within this segment or before it
    /// (then negative).
    pub(crate) proven_flushed: Option<i64>,
}

/// Reads all frames from `job.position` to the end of the segment.
pub(crate) fn scan(file: &dyn DiskFile, extent: Extent, job: &ScanJob<'_>) -> io::Result<Scan> {
    let mut reader = FrameReader::with_room(file, extent);
    let mut found = Scan { end_position: job.position, end: job.expected, ..Scan::default() };
    let mut position = job.position;
    loop {
        if job.next_base.is_some_and(|next| found.end >= next) {
            break;
        }
        let damage = match reader.frame(position, job.salt)? {
            Found::End => break,
            Found::Frame(view) if belongs(&view.prefix, found.end, job.next_base) => {
                note(&mut found, &view.prefix, position, job);
                position = position.saturating_add(view.prefix.frame_bytes());
                found.end_position = position;
                continue;
            }
            // Behind the logical end, where a tail was written again into the next segment: what is missing up to its base was compacted away.
            Found::Frame(view) if is_behind(&view.prefix, job.next_base) => break,
            Found::BadBody(prefix) if is_behind(&prefix, job.next_base) => break,
            // A whole frame out of place ends what can be read in sequence.
            Found::Frame(_) | Found::Unreadable => unreadable(&mut reader, position, found.end, job)?,
            Found::BadBody(prefix) if belongs(&prefix, found.end, job.next_base) => Damage {
                position,
                next_position: position.saturating_add(prefix.frame_bytes()),
                from: found.end,
                next: Some(prefix.next_offset()),
            },
            Found::BadBody(_) => unreadable(&mut reader, position, found.end, job)?,
        };
        position = damage.next_position;
        found.end_position = position;
        found.end = damage.next.unwrap_or(found.end);
        found.damages.push(damage);
        if damage.next.is_none() {
            break;
        }
    }
    Ok(found)
}

pub(crate) fn is_behind(prefix: &FramePrefix, next_base: Option<Offset>) -> bool {
    next_base.is_some_and(|next| prefix.offset() >= next)
}

pub(crate) fn belongs(prefix: &FramePrefix, expected: Offset, next_base: Option<Offset>) -> bool {
    prefix.offset() >= expected && next_base.is_none_or(|next| prefix.next_offset() <= next)
}

fn note(found: &mut Scan, prefix: &FramePrefix, position: u64, job: &ScanJob<'_>) {
    let due = found
        .entries
        .last()
        .is_none_or(|last| position.saturating_sub(u64::from(last.position)) >= u64::from(job.index_interval_bytes));
    if due && let Some(entry) = entry_of(prefix, position, job.base) {
        found.entries.push(entry);
    }
    found.end = prefix.next_offset();
    found.last_append_time = found.last_append_time.max(prefix.extension.append_time);
    found.frames += 1;
    // A saturated distance proves nothing; positions are below 2³².
    if prefix.extension.flushed_distance != u32::MAX
        && let Ok(position) = i64::try_from(position)
    {
        let proven = position.saturating_sub(i64::from(prefix.extension.flushed_distance));
        found.proven_flushed = Some(found.proven_flushed.map_or(proven, |other| other.max(proven)));
    }
}

pub(crate) fn entry_of(prefix: &FramePrefix, position: u64, base: Offset) -> Option<IndexEntry> {
    Some(IndexEntry {
        relative_offset: u32::try_from(prefix.offset().0.checked_sub(base.0)?).ok()?,
        position: u32::try_from(position).ok()?,
        append_time: prefix.extension.append_time,
    })
}

/// The prefix at `position` but for one flipped bit, which the frame CRC points out: among the 552 prefixes that differ in one bit, it
/// holds for one at most. Its sizes then tell where reading goes on; the frame itself stays damaged. A prefix that is random fits by
/// chance once in eight million times, so that what follows has to prove itself as well.
fn one_bit_off(
    reader: &mut FrameReader<'_>,
    position: u64,
    expected: Offset,
    job: &ScanJob<'_>,
) -> io::Result<Option<FramePrefix>> {
    let bytes = reader.bytes(position, PREFIX_SIZE as u64)?;
    let Some(mut bytes) = bytes.and_then(<[u8]>::first_chunk::<PREFIX_SIZE>).copied() else { return Ok(None) };
    for at in 0..PREFIX_SIZE {
        for bit in 0..8 {
            let flip = |bytes: &mut [u8; PREFIX_SIZE]| bytes.get_mut(at).map(|byte| *byte ^= 1 << bit);
            flip(&mut bytes);
            if let Ok(prefix) = FramePrefix::verify(&bytes, job.salt) {
                let next_position = position.saturating_add(prefix.frame_bytes());
                let is_followed = (reader.extent.ends_at(next_position) && next_position <= reader.extent.file_bytes)
                    || reader.prefix(next_position, job.salt)?.is_some_and(|next| next.offset() >= prefix.next_offset());
                return Ok(Some(prefix).filter(|prefix| is_followed && belongs(prefix, expected, job.next_base)));
            }
            flip(&mut bytes);
        }
    }
    Ok(None)
}

/// Damage of unknown size: it ends with the frame, where only one bit of its prefix is wrong, or at the next hint whose frame proves itself.
pub(crate) fn unreadable(reader: &mut FrameReader<'_>, position: u64, expected: Offset, job: &ScanJob<'_>) -> io::Result<Damage> {
    if let Some(prefix) = one_bit_off(reader, position, expected, job)? {
        let next_position = position.saturating_add(prefix.frame_bytes());
        return Ok(Damage { position, next_position, from: expected, next: Some(prefix.next_offset()) });
    }
    let first = job.hints.partition_point(|hint| u64::from(hint.position) <= position);
    for hint in job.hints.iter().skip(first) {
        let next_position = u64::from(hint.position);
        let Some(prefix) = reader.prefix(next_position, job.salt)? else { continue };
        if prefix.offset() == hint.offset(job.base) && belongs(&prefix, expected, job.next_base) {
            return Ok(Damage { position, next_position, from: expected, next: Some(prefix.offset()) });
        }
    }
    Ok(Damage { position, next_position: reader.extent.content_bytes(), from: expected, next: None })
}

/// The damage at `job.position`, where a frame should be and is not, or is not whole; `None` where it is there after all, and `admits` it.
pub(crate) fn first_damage(
    file: &dyn DiskFile,
    len_bytes: u64,
    job: &ScanJob<'_>,
    admits: impl FnOnce(&FramePrefix) -> bool,
) -> io::Result<Option<Damage>> {
    // Reads the frame and no more: what is unreadable behind it says nothing about it.
    let mut reader = FrameReader::prefixes(file, len_bytes);
    match reader.frame(job.position, job.salt)? {
        Found::Frame(view) if belongs(&view.prefix, job.expected, job.next_base) && admits(&view.prefix) => return Ok(None),
        Found::BadBody(prefix) if belongs(&prefix, job.expected, job.next_base) => {
            let next_position = job.position.saturating_add(prefix.frame_bytes());
            return Ok(Some(Damage {
                position: job.position,
                next_position,
                from: job.expected,
                next: Some(prefix.next_offset()),
            }));
        }
        _ => {}
    }
    unreadable(&mut reader, job.position, job.expected, job).map(Some)
}
