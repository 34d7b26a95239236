//! Recovery's steps, in order.

use std::io;
use std::path::Path;
use std::sync::Arc;

use hermit_proto::{LeaderEpoch, Offset};

use super::decide::{Decision, FlushedFacts, Placed, decide};
use super::facts::{self, Facts};
use super::part::{Part, scan_part, trust_part};
use super::place::{Expected, compacted_end, is_missing_head, missing_head, place_damages};
use super::{CutTail, Recovered, RecoveryReport, rewrite};
use crate::checkpoint::{Checkpoint, CheckpointWriter};
use crate::disk::{Disk, Joining, Open};
use crate::error::LogError;
use crate::fenced::{Fenced, FencedRange};
use crate::names::{self, FileName};
use crate::scan::Damage;
use crate::segment::SegmentEnv;
use crate::start;

/// How the log is opened.
#[derive(Debug)]
pub(crate) struct Opening<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) dir: &'a Path,
    pub(crate) env: &'a SegmentEnv,
    /// Where others are opened at the same time.
    pub(crate) joining: Joining<'a>,
    /// Before this, offsets may have gaps that are no damage; `None` where the log was never compacted.
    pub(crate) compacted_end: Option<Offset>,
    /// The last stop was clean: everything is flushed.
    pub(crate) clean: bool,
    pub(crate) leader_epoch: LeaderEpoch,
}

impl Opening<'_> {
    /// Makes durable what `own` would, perhaps together with what others want to be.
    pub(super) fn sync(&self, own: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.joining.sync(own)
    }
}

/// Opens what is in the directory: afterwards all that is left of the log is flushed.
pub(crate) fn recover(opening: &Opening<'_>) -> Result<Recovered, LogError> {
    let Opening { disk, dir, clean, .. } = *opening;
    let mut facts = facts::read(disk, dir, &opening.env.salt)?;
    drop_trimmed(opening, &mut facts)?;
    settle_state(opening, &facts)?;
    let mut report = RecoveryReport { damaged_state: std::mem::take(&mut facts.damaged_state), ..RecoveryReport::default() };
    let mut parts = read_parts(opening, &facts, &mut report)?;
    drop_left_over(opening, &mut facts, &mut parts);
    parts.iter().for_each(|part| facts.fenced.shorten(part.base, part.len_bytes));
    let first_unflushed = first_unflushed(opening, &facts);
    let floor = known_flushed(opening, &facts);

    let is_end_known = |part: &Part, damage: &Damage| {
        let covers = |range: &FencedRange| {
            (range.segment, range.position) == (part.base, damage.position) && damage.next_position <= range.next_position
        };
        let ends_there =
            |checkpoint: Checkpoint| clean || (checkpoint.segment, checkpoint.position) == (part.base, damage.next_position);
        facts.checkpoint.is_some_and(ends_there) || facts.fenced.ranges().iter().any(covers)
    };
    let compacted_end = compacted_end(opening, &facts);
    let expected =
        Expected { first_unflushed, fenced: &facts.fenced, log_start: facts.start.unwrap_or(Offset::ZERO), floor, compacted_end };
    let mut damages = place_damages(&mut parts, &expected, is_end_known);
    damages.splice(0..0, missing_head(opening, &facts, &report));
    let (settled, mut open): (Vec<_>, Vec<_>) =
        damages.into_iter().partition(|placed| placed.segment < first_unflushed && placed.damage.from < floor);
    // Behind all that is known to be flushed a whole segment is missing, the one that the checkpoint names: nothing of it need have been flushed.
    for missing in open.iter_mut().filter(|placed| placed.segment < first_unflushed) {
        missing.log_position = 0;
    }
    let proven = proven_flushed(&parts, first_unflushed);
    let Decision { fenced: mut rot, cut } = decide(&open, FlushedFacts { clean, offset: floor, proven });
    rot.splice(0..0, settled);

    let mut fenced = facts.fenced.clone();
    for placed in &rot {
        let Some(part) = parts.get(placed.segment) else { continue };
        let range = fenced_range(part.base, placed);
        // What is missing before the first segment lies before the log start: there is nothing to keep readers from.
        if is_missing_head(placed, part) || fenced.add(range) {
            report.fenced.push(range);
        }
    }
    let lost_from = facts.start.unwrap_or(Offset::ZERO);
    let is_start_known = !report.damaged_state.iter().any(|name| name == names::START);
    if parts.is_empty() && is_start_known && lost_from < floor {
        // No segment is there to keep the range.
        report.fenced.push(FencedRange { segment: lost_from, position: 0, next_position: 0, from: lost_from, next: floor });
    }
    if let Some(cut) = &cut {
        report.cut = Some(cut_tail(opening, &mut parts, cut)?);
    }
    give_back_room(opening, &mut parts)?;
    if !clean {
        let checkpointed = checkpointed_position(&facts, parts.get(first_unflushed));
        // What was flushed and is damaged now had all before it flushed as well.
        let unflushed_rot = rot.iter().filter(|placed| placed.segment >= first_unflushed);
        let rotten = unflushed_rot.map(Placed::log_end).max().unwrap_or(0);
        let known =
            rewrite::Known { first_part: first_unflushed, log_position: proven.max(checkpointed).max(rotten), damages: &rot };
        report.rewritten_bytes = rewrite::unflushed_tail(opening, &mut parts, &known)?;
    }
    finish(opening, facts, parts, fenced, floor, report)
}

/// Segments that lie wholly before the log start: their removal had begun.
fn drop_trimmed(opening: &Opening<'_>, facts: &mut Facts) -> Result<(), LogError> {
    let Some(start) = facts.start else { return Ok(()) };
    let trimmed = facts.segments.windows(2).take_while(|pair| matches!(pair, [_, next] if next.base <= start)).count();
    if trimmed > 0 {
        // The start that was read may be page cache only, and its rename not synced: with the segments gone, an older one must not come back.
        let written = start::write(opening.disk, opening.dir, &opening.env.salt, start);
        written.map_err(|source| LogError::io("store the log start in", opening.dir, source))?;
    }
    for segment in facts.segments.drain(..trimmed) {
        for name in [FileName::Wal(segment.base), FileName::Index(segment.base)] {
            let path = opening.dir.join(name.build());
            match opening.disk.remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(LogError::io("remove", &path, error)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// State files that alone tell where the log goes on may be page cache only after a kill: readers are not to be shown an end that a power cut could
/// take back. Written anew, as a failed sync of their names leaves nothing to sync.
fn settle_state(opening: &Opening<'_>, facts: &Facts) -> Result<(), LogError> {
    let Opening { disk, dir, clean, .. } = *opening;
    if clean {
        return Ok(());
    }
    let fenced = if facts.fenced.ranges().is_empty() { Ok(()) } else { facts.fenced.write(disk, dir, &opening.env.salt) };
    let start =
        facts.start.filter(|_| facts.segments.is_empty()).map_or(Ok(()), |start| start::write(disk, dir, &opening.env.salt, start));
    match fenced.and(start).map_err(|source| LogError::io("store anew the state of", dir, source)) {
        // A full disk must not keep the log from opening.
        Err(error @ LogError::DiskFull { .. }) => {
            tracing::warn!(error = %crate::error::error_line(&error), "what is known of the log may not survive a power cut");
            Ok(())
        }
        settled => settled,
    }
}

/// The first segment of which not everything is known to be flushed.
fn first_unflushed(opening: &Opening<'_>, facts: &Facts) -> usize {
    if opening.clean {
        return facts.segments.len();
    }
    let Some(checkpoint) = facts.checkpoint else { return 0 };
    facts.segments.partition_point(|segment| segment.base < checkpoint.segment)
}

/// Offsets below are known to have been flushed; and no offset below is ever given again.
fn known_flushed(opening: &Opening<'_>, facts: &Facts) -> Offset {
    let checkpoint = facts.checkpoint.map(|checkpoint| checkpoint.offset);
    // Readers were told of this damage, and to go on behind it.
    let fenced = facts.fenced.ranges().iter().map(|range| range.next).max();
    // What is compacted, or dropped by a repair, was flushed.
    let compacted = opening.compacted_end.filter(|end| *end != Offset(u64::MAX));
    checkpoint.max(facts.newest_snapshot).max(facts.start).max(fenced).max(compacted).unwrap_or(Offset::ZERO)
}

fn read_parts(opening: &Opening<'_>, facts: &Facts, report: &mut RecoveryReport) -> Result<Vec<Part>, LogError> {
    let first_unflushed = first_unflushed(opening, facts);
    let mut parts = Vec::with_capacity(facts.segments.len());
    for (i, segment) in facts.segments.iter().enumerate() {
        // An empty file does not end the one before it, see `drop_left_over`, unless a range that is lost is kept with it.
        let counts = |next: &&facts::SegmentFacts| next.wal_bytes() > 0 || facts.fenced.any_in(next.base);
        let next_base = facts.segments.iter().skip(i + 1).find(counts).map(|next| next.base);
        if i < first_unflushed
            && let Some(part) = trust_part(opening, segment, next_base)
        {
            parts.push(part);
            continue;
        }
        let checkpoint = facts.checkpoint.filter(|checkpoint| !opening.clean && checkpoint.segment == segment.base);
        let part = scan_part(opening, segment, next_base, checkpoint, &facts.fenced)?;
        report.scanned_frames += part.scanned_frames;
        report.scanned_bytes += part.wal_bytes.saturating_sub(part.scanned_from);
        report.rebuilt_indexes += 1;
        parts.push(part);
    }
    Ok(parts)
}

/// An empty file before the end of the segment that it follows was left by a roll that failed: that segment went on instead.
fn drop_left_over(opening: &Opening<'_>, facts: &mut Facts, parts: &mut Vec<Part>) {
    let mut end = Offset::ZERO;
    let mut left_over = Vec::new();
    for part in parts.iter() {
        if part.wal_bytes == 0 && part.base < end {
            left_over.push(part.base);
        }
        end = end.max(part.end);
    }
    parts.retain(|part| !left_over.contains(&part.base));
    facts.segments.retain(|segment| !left_over.contains(&segment.base));
    for base in left_over {
        // Met again at the next start where this fails.
        drop(opening.disk.remove_file(&opening.dir.join(FileName::Wal(base).build())));
    }
}

fn proven_flushed(parts: &[Part], first_unflushed: usize) -> i64 {
    let proofs = parts.iter().skip(first_unflushed).filter_map(|part| Some(part.log_position.saturating_add(part.proven_flushed?)));
    proofs.max().unwrap_or(0)
}

/// The checkpoint as a log position, where its segment is the first that is not all flushed. A compaction since may have shortened that.
fn checkpointed_position(facts: &Facts, part: Option<&Part>) -> i64 {
    match (facts.checkpoint, part) {
        (Some(checkpoint), Some(part)) if checkpoint.segment == part.base => {
            i64::try_from(checkpoint.position.min(part.len_bytes)).unwrap_or(0)
        }
        _ => 0,
    }
}

fn fenced_range(base: Offset, placed: &Placed) -> FencedRange {
    let damage = placed.damage;
    FencedRange {
        segment: base,
        position: damage.position,
        next_position: damage.next_position,
        from: damage.from,
        next: damage.next.unwrap_or(damage.from),
    }
}

/// A name for cut bytes that no earlier start has used: what that kept stays too.
fn unused_cut_name(opening: &Opening<'_>, base: Offset, position: u64) -> Result<String, LogError> {
    let mut attempt = 1;
    loop {
        let name = names::cut_name(base, position, attempt);
        let path = opening.dir.join(&name);
        if !opening.disk.exists(&path).map_err(|source| LogError::io("look for", &path, source))? {
            return Ok(name);
        }
        attempt += 1;
    }
}

/// Ends the log where `cut` begins; what lies behind is kept in files of its own.
fn cut_tail(opening: &Opening<'_>, parts: &mut Vec<Part>, cut: &Placed) -> Result<CutTail, LogError> {
    let Opening { disk, dir, .. } = *opening;
    let mut tail = CutTail { end: cut.damage.from, bytes: 0, kept_in: Vec::new() };
    for part in parts.drain((cut.segment + 1).min(parts.len())..) {
        tail.bytes += part.wal_bytes;
        let kept = unused_cut_name(opening, part.base, 0)?;
        let path = dir.join(FileName::Wal(part.base).build());
        disk.rename(&path, &dir.join(&kept)).map_err(|source| LogError::io("move aside", &path, source))?;
        tail.kept_in.push(kept);
    }
    let Some(part) = parts.get_mut(cut.segment) else { return Ok(tail) };
    let path = dir.join(FileName::Wal(part.base).build());
    let torn_bytes = part.wal_bytes.saturating_sub(cut.damage.position);
    if torn_bytes > 0 {
        tail.bytes += torn_bytes;
        let kept = unused_cut_name(opening, part.base, cut.damage.position)?;
        match rewrite::copy(disk, &path, cut.damage.position..part.wal_bytes, &dir.join(&kept)) {
            Ok(()) => tail.kept_in.push(kept),
            // A full disk must not keep the log from opening; nothing of this was ever acknowledged.
            Err(error) => {
                tracing::warn!(path = %path.display(), error = %crate::error::error_line(&error), "cannot keep the torn tail aside");
            }
        }
        // Nobody was served these bytes, so that cutting them takes nothing from a socket's queue.
        let file = disk.open(&path, Open::ReadWrite).map_err(|source| LogError::io("open", &path, source))?;
        file.set_len(cut.damage.position).and_then(|()| file.sync_data()).map_err(|source| LogError::io("cut", &path, source))?;
        (part.wal_bytes, part.room_bytes) = (cut.damage.position, 0);
    }
    part.cut_at(cut.damage.position, cut.damage.from);
    disk.sync_dir(dir).map_err(|source| LogError::io("sync", dir, source))?;
    if is_missing_head(cut, part) {
        // From now on the log begins here, and nothing is missing before it.
        let written = start::write(disk, dir, &opening.env.salt, part.base);
        written.map_err(|source| LogError::io("store the log start in", dir, source))?;
    }
    Ok(tail)
}

/// Cuts off what no frame has taken. Where that fails nothing is lost: the next start finds it again.
fn give_back_room(opening: &Opening<'_>, parts: &mut [Part]) -> Result<(), LogError> {
    for part in parts.iter_mut().filter(|part| part.room_bytes > 0) {
        let path = opening.dir.join(FileName::Wal(part.base).build());
        let failed = |source| LogError::io("cut off the room of", &path, source);
        let file = opening.disk.open(&path, Open::ReadWrite).map_err(failed)?;
        file.set_len(part.wal_bytes).map_err(failed)?;
        // Until then a power cut may leave anything in its place.
        opening.sync(|| file.sync_data()).map_err(failed)?;
        part.room_bytes = 0;
    }
    Ok(())
}

/// Stores what was found, so that the next start need not find it again, and hands over the segments.
fn finish(
    opening: &Opening<'_>,
    facts: Facts,
    mut parts: Vec<Part>,
    mut fenced: Fenced,
    floor: Offset,
    report: RecoveryReport,
) -> Result<Recovered, LogError> {
    let Opening { disk, dir, .. } = *opening;
    let first_base = parts.first().map(|part| part.base);
    let end_of_parts = parts.last().map_or(Offset::ZERO, |part| part.end.max(part.base));
    // A cut below the floor is not possible: damage there is rot. Without any segment the floor is all that is known.
    let log_end = end_of_parts.max(floor);
    // A compaction may have taken whole segments at the front, which leaves a gap like any other. Otherwise what is not there was removed.
    let first_kept = match first_base {
        None => Some(log_end),
        Some(_) if opening.compacted_end.is_some() => Some(Offset::ZERO),
        first_base => first_base,
    };
    let log_start = facts.start.max(first_kept).unwrap_or(log_end).min(log_end);
    // Append times never fall, also not where damage hides them all.
    let mut last_append_time = 0;
    for part in &mut parts {
        last_append_time = part.last_append_time.max(last_append_time);
        part.last_append_time = last_append_time;
    }
    let changed = report.cut.is_some() || report.rewritten_bytes > 0;
    // What was cut may be followed by a new segment of the same name, to which old ranges mean nothing.
    let dropped = fenced.retain(|range| parts.iter().any(|part| part.base == range.segment && part.holds(range)));
    if (dropped || !report.fenced.is_empty())
        && let Err(error) = fenced.write(disk, dir, &opening.env.salt)
    {
        tracing::warn!(dir = %dir.display(), error = %crate::error::error_line(&error), "cannot store the damaged ranges; they will be found again");
    }
    if let (true, Some(last)) = (changed, parts.last()) {
        let mut checkpoint = CheckpointWriter::new(dir, opening.env.salt, facts.checkpoint, false);
        if let Err(error) = checkpoint.write(disk, log_end, last.base, last.len_bytes, false) {
            tracing::warn!(dir = %dir.display(), error = %crate::error::error_line(&error), "cannot store the checkpoint; the next start reads more");
        }
    }
    // Of the last one that becomes a segment.
    let last_len_bytes = parts.iter().rev().find(|part| part.is_segment()).map_or(0, |part| part.len_bytes);
    let last_end = parts.last().map(|part| part.end);
    let mut continues = false;
    let mut segments = Vec::with_capacity(parts.len());
    let count = parts.len();
    for (i, part) in parts.into_iter().enumerate() {
        if !part.is_segment() {
            // An empty file at the log end is taken by the next append.
            continue;
        }
        // A segment ends with what is missing behind it.
        if i + 1 == count
            && last_end == Some(log_end)
            && fenced.missing_behind(part.base, part.len_bytes).is_none()
            && let Some(segment) = part.resume(opening)?
        {
            continues = true;
            segments.push(Arc::new(segment));
            continue;
        }
        segments.push(Arc::new(part.into_sealed(opening)));
    }
    Ok(Recovered { segments, continues, last_len_bytes, log_start, log_end, last_append_time, fenced, report })
}
