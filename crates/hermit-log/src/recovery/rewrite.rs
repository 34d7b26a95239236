//! The accepted tail that is not known to be flushed is written again, into files of its own, before anybody relies on it: after a kill its pages may be
//! on no disk yet, and after a failed sync they look clean and are on no disk at all.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use hermit_proto::Offset;

use super::act::Opening;
use super::decide::Placed;
use super::part::Part;
use crate::disk::{Disk, DiskFile, Open, TMP_SUFFIX};
use crate::error::LogError;
use crate::names::FileName;
use crate::scan::FrameReader;

const CHUNK_BYTES: usize = 1 << 20;

/// Up to where the log is flushed.
#[derive(Debug)]
pub(super) struct Known<'a> {
    /// The first part of which not everything is.
    pub(super) first_part: usize,
    /// As a log position.
    pub(super) log_position: i64,
    /// Fenced damage; none of it lies behind `log_position`.
    pub(super) damages: &'a [Placed],
}

/// Writes the tail again; answers its bytes. A segment of which only the end is unflushed keeps its beginning, and the end becomes a
/// segment of its own: the bytes stay in the old file too, behind its logical end.
pub(super) fn unflushed_tail(opening: &Opening<'_>, parts: &mut Vec<Part>, known: &Known<'_>) -> Result<u64, LogError> {
    let mut rewritten_bytes = 0;
    let mut i = known.first_part;
    while let Some(part) = parts.get_mut(i) {
        let flushed = known.log_position.saturating_sub(part.log_position);
        let tail = tail_of(opening, part, i, u64::try_from(flushed).unwrap_or(0), known.damages)?;
        if let Some((position, offset)) = tail {
            rewritten_bytes += part.len_bytes - position;
            let moved = rewrite(opening, part, position, offset)?;
            if moved && position > 0 {
                let behind = part.split_off(position, offset);
                parts.insert(i + 1, behind);
                i += 1;
            }
        }
        i += 1;
    }
    if rewritten_bytes > 0 {
        opening.sync(|| opening.disk.sync_dir(opening.dir)).map_err(|source| LogError::io("sync", opening.dir, source))?;
    }
    Ok(rewritten_bytes)
}

/// The first frame of a part that begins at or behind position `flushed`.
fn tail_of(
    opening: &Opening<'_>,
    part: &Part,
    index: usize,
    flushed: u64,
    damages: &[Placed],
) -> Result<Option<(u64, Offset)>, LogError> {
    if flushed >= part.len_bytes {
        return Ok(None);
    }
    if flushed == 0 {
        return Ok(Some((0, part.base)));
    }
    let path = opening.dir.join(FileName::Wal(part.base).build());
    let read_error = |source| LogError::io("read", &path, source);
    let file = opening.disk.open(&path, Open::Read).map_err(read_error)?;
    let before = part.entries.partition_point(|entry| u64::from(entry.position) <= flushed);
    let mut position = before.checked_sub(1).and_then(|last| part.entries.get(last)).map_or(0, |entry| u64::from(entry.position));
    // Damage that is flushed is stepped over; the walk below reads only good frames.
    for placed in damages.iter().filter(|placed| placed.segment == index && placed.damage.position < flushed) {
        position = position.max(placed.damage.next_position);
    }
    let mut reader = FrameReader::short(&*file, part.len_bytes);
    loop {
        let Some(prefix) = reader.prefix(position, &opening.env.salt).map_err(read_error)? else { return Ok(None) };
        if position >= flushed {
            return Ok(Some((position, prefix.offset())));
        }
        position = position.saturating_add(prefix.frame_bytes());
    }
}

/// Answers whether the tail has a file of its own now. On a full disk it is written over itself instead, which needs no space: opening must go on.
fn rewrite(opening: &Opening<'_>, part: &Part, position: u64, offset: Offset) -> Result<bool, LogError> {
    let Opening { disk, dir, .. } = *opening;
    let from = dir.join(FileName::Wal(part.base).build());
    let name = FileName::Wal(offset).build();
    let tmp = dir.join(format!("{name}{TMP_SUFFIX}"));
    let to = dir.join(name);
    let range = position..part.len_bytes;
    let copied = copy_unsynced(disk, &from, range.clone(), &tmp).and_then(|file| opening.sync(|| file.sync_data()));
    match copied.inspect_err(|_error| drop(disk.remove_file(&tmp))).and_then(|()| disk.rename(&tmp, &to)) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            // What was written of it would take the space that is missing; a leftover is removed at the next start.
            drop(disk.remove_file(&tmp));
            in_place(disk, &from, range).map_err(|source| LogError::io("rewrite", &from, source))?;
            Ok(false)
        }
        Err(error) => Err(LogError::io("rewrite", &to, error)),
    }
}

/// Copies a range of a file into a new one, and syncs that. Nothing is left of a copy that fails.
pub(crate) fn copy(disk: &dyn Disk, from: &Path, range: Range<u64>, to: &Path) -> io::Result<()> {
    let copied = copy_unsynced(disk, from, range, to).and_then(|target| target.sync_data());
    copied.inspect_err(|_error| drop(disk.remove_file(to)))
}

fn copy_unsynced(disk: &dyn Disk, from: &Path, range: Range<u64>, to: &Path) -> io::Result<Arc<dyn DiskFile>> {
    let source = disk.open(from, Open::Read)?;
    let target = disk.open(to, Open::CreateOrTruncate)?;
    chunks(&*source, range.clone(), |bytes, position| Ok(target.write_all_at(bytes, position - range.start)?))?;
    Ok(target)
}

/// Writes the same bytes over themselves, which makes their pages dirty again and needs no space.
fn in_place(disk: &dyn Disk, path: &Path, range: Range<u64>) -> io::Result<()> {
    let file = disk.open(path, Open::ReadWrite)?;
    chunks(&*file, range, |bytes, position| Ok(file.write_all_at(bytes, position)?))?;
    file.sync_data()
}

fn chunks(file: &dyn DiskFile, range: Range<u64>, mut each: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
    let mut position = range.start;
    // Many tails are short, and many are copied at a time.
    let mut buffer = vec![0; usize::try_from(range.end.saturating_sub(position)).unwrap_or(usize::MAX).min(CHUNK_BYTES)];
    while position < range.end {
        let size = usize::try_from(range.end - position).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let Some(chunk) = buffer.get_mut(..size) else { break };
        file.read_exact_at(chunk, position)?;
        each(chunk, position)?;
        position += size as u64;
    }
    Ok(())
}
