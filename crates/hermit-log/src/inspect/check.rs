//! The frames, the indexes and what lies between the segments, checked against each other.

use hermit_proto::{FramePrefix, FrameSalt, Offset};

use super::walk::{SegmentWalk, Step};
use super::{Check, DamageKind, FoundDamage, IndexReport, Inspected, Listing, SegmentReport};
use crate::disk::{Disk, Open, read_file};
use crate::error::LogError;
use crate::fenced::Fenced;
use crate::index::{self, ENTRY_SIZE, FOOTER_SIZE, Footer, IndexEntry};
use crate::names::FileName;
use crate::room::Extent;
use crate::scan::Damage;

/// No index is larger: 16 bytes for each 4 KiB of 4 GiB, at the least interval of one entry a frame.
const MAX_INDEX_BYTES: u64 = 1 << 30;

pub(super) fn run(disk: &dyn Disk, listing: &Listing, salt: &FrameSalt, check: Check) -> Result<Inspected, LogError> {
    let floor = listing.floor();
    let mut segments = Vec::with_capacity(listing.wals.len());
    let mut damages = Vec::new();
    let may_lack = |until: Offset| listing.compacted_end.is_some_and(|end| until <= end);
    let missing = |segment, position, from, next| {
        let damage = Damage { position, next_position: position, from, next: Some(next) };
        found(segment, damage, DamageKind::Missing, is_fenced(&listing.fenced, segment, &damage), floor)
    };
    let start = listing.stored_start.unwrap_or(Offset::ZERO);
    if let Some((first, _)) = listing.wals.first().filter(|(first, _)| start < *first && !may_lack(*first)) {
        damages.push(missing(*first, 0, start, *first));
    }
    for (at, wal) in listing.wals.iter().enumerate() {
        let next_base = listing.next_base(at);
        let (report, in_segment) = segment(disk, listing, salt, *wal, next_base, check)?;
        let ends_open = in_segment.last().is_some_and(|damage| damage.next.is_none());
        damages.extend(in_segment);
        // Behind the last segment, what is known to be flushed stands for the next one's base.
        let goes_on_at = next_base.unwrap_or(floor);
        let is_left_over = wal.1 == 0 && listing.next_base(at).is_some() && !listing.fenced.any_in(wal.0);
        if report.end < goes_on_at && start < goes_on_at && !ends_open && !is_left_over {
            let known = listing.fenced.missing_behind(wal.0, report.log_bytes).filter(|range| report.end < range.next);
            if let Some(range) = known {
                damages.push(missing(wal.0, report.log_bytes, range.from, range.next));
            }
            let from = known.map_or(report.end, |range| range.next);
            if from < goes_on_at && !may_lack(goes_on_at) {
                damages.push(missing(wal.0, report.log_bytes, from, goes_on_at));
            }
        }
        segments.push(report);
    }
    let first = listing.wals.first().map(|(base, _)| *base);
    let log_end = segments.iter().map(|segment: &SegmentReport| segment.end).max().max(Some(floor)).unwrap_or(floor);
    Ok(Inspected {
        dir: listing.dir.clone(),
        segments,
        log_start: start.max(first.filter(|_| listing.compacted_end.is_none()).unwrap_or(start)).min(log_end),
        log_end,
        damages,
        fenced: listing.fenced.ranges().to_vec(),
        checkpoint: listing.checkpoint,
        stored_start: listing.stored_start,
        compacted_end: listing.compacted_end,
        snapshots: listing.snapshots.clone(),
        kept: listing.kept.clone(),
        leftovers: listing.leftovers.clone(),
        damaged_state: listing.damaged_state.clone(),
        has_clean_marker: listing.has_clean_marker,
    })
}

pub(super) fn is_fenced(fenced: &Fenced, segment: Offset, damage: &Damage) -> bool {
    let covers = |range: &crate::FencedRange| {
        range.segment == segment && range.position <= damage.position && damage.next_position <= range.next_position
    };
    fenced.ranges().iter().any(covers)
}

pub(super) fn found(segment: Offset, damage: Damage, kind: DamageKind, fenced: bool, floor: Offset) -> FoundDamage {
    let Damage { position, next_position, from, next } = damage;
    FoundDamage { segment, position, next_position, from, next, kind, fenced, unflushed: from >= floor }
}

fn segment(
    disk: &dyn Disk,
    listing: &Listing,
    salt: &FrameSalt,
    (base, file_bytes): (Offset, u64),
    next_base: Option<Offset>,
    check: Check,
) -> Result<(SegmentReport, Vec<FoundDamage>), LogError> {
    let mut walk = SegmentWalk::open(disk, &listing.dir, salt, (base, file_bytes), next_base, check)?;
    let mut index = IndexCheck::open(disk, listing, salt, base, walk.extent, next_base)?;
    let mut report = SegmentReport {
        base,
        end: base,
        file_bytes,
        log_bytes: 0,
        frames: 0,
        records: 0,
        missing_offsets: 0,
        first_append_time: None,
        last_append_time: None,
        leader_epochs: Vec::new(),
        index: IndexReport::Missing,
    };
    let mut damages = Vec::new();
    let path = listing.dir.join(FileName::Wal(base).build());
    loop {
        match walk.step().map_err(|source| LogError::io("read", &path, source))? {
            Step::End => break,
            Step::Damage(damage, kind) => {
                index.pass(damage.next_position);
                report.end = damage.next.unwrap_or(report.end);
                let fenced = is_fenced(&listing.fenced, base, &damage);
                damages.push(found(base, damage, kind, fenced, listing.floor()));
            }
            Step::Frame { position, prefix, .. } => {
                index.frame(&prefix, position, base);
                note(&mut report, &prefix);
            }
        }
    }
    report.log_bytes = walk.position;
    report.index = index.finish(report.log_bytes);
    Ok((report, damages))
}

fn note(report: &mut SegmentReport, prefix: &FramePrefix) {
    report.frames += 1;
    report.records += u64::from(prefix.header.record_count);
    report.missing_offsets += prefix.offset().0.saturating_sub(report.end.0);
    report.end = prefix.next_offset();
    let time = prefix.extension.append_time;
    report.first_append_time.get_or_insert(time);
    report.last_append_time = Some(time);
    if report.leader_epochs.last() != Some(&prefix.extension.leader_epoch) {
        report.leader_epochs.push(prefix.extension.leader_epoch);
    }
}

/// One index while its segment is walked.
struct IndexCheck {
    entries: Vec<IndexEntry>,
    /// The first entry that was not compared yet.
    at: usize,
    footer: Option<Footer>,
    exists: bool,
    why: Option<&'static str>,
}

impl IndexCheck {
    fn open(
        disk: &dyn Disk,
        listing: &Listing,
        salt: &FrameSalt,
        base: Offset,
        extent: Extent,
        next_base: Option<Offset>,
    ) -> Result<Self, LogError> {
        let mut check = Self { entries: Vec::new(), at: 0, footer: None, exists: listing.indexes.contains(&base), why: None };
        if !check.exists {
            return Ok(check);
        }
        let path = listing.dir.join(FileName::Index(base).build());
        let failed = |source| LogError::io("read", &path, source);
        let file = disk.open(&path, Open::Read).map_err(failed)?;
        check.footer = Footer::read(&*file, base, salt).map_err(failed)?;
        let bytes = match read_file(disk, &path, MAX_INDEX_BYTES) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                check.why = Some("it is larger than any index");
                return Ok(check);
            }
            Err(source) => return Err(failed(source)),
        };
        match check.footer {
            Some(footer) => {
                let entries = bytes.get(..bytes.len().saturating_sub(FOOTER_SIZE)).unwrap_or_default();
                if hermit_proto::crc32c(entries) != footer.entries_crc {
                    check.why = Some("the checksum of its entries does not hold");
                } else if !extent.fits(&footer) {
                    check.why = Some("it is that of another state of the segment");
                } else if next_base.is_some_and(|next| footer.end > next) {
                    check.why = Some("it ends behind where the next segment begins");
                }
                check.entries = index::decode_entries(entries);
            }
            None => {
                check.entries = index::decode_entries(&bytes);
                if !bytes.len().is_multiple_of(ENTRY_SIZE) {
                    check.why = Some("it is cut, or its footer is damaged");
                } else if next_base.is_some() {
                    check.why = Some("it was never completed");
                }
            }
        }
        Ok(check)
    }

    fn frame(&mut self, prefix: &FramePrefix, position: u64, base: Offset) {
        while let Some(entry) = self.entries.get(self.at).filter(|entry| u64::from(entry.position) <= position) {
            let is_right = u64::from(entry.position) == position
                && entry.offset(base) == prefix.offset()
                && entry.append_time == prefix.extension.append_time;
            if !is_right {
                self.why.get_or_insert("an entry leads to no frame, or to another one");
            }
            self.at += 1;
        }
    }

    /// What lies before was damaged: nothing tells whether entries are right.
    fn pass(&mut self, position: u64) {
        while self.entries.get(self.at).is_some_and(|entry| u64::from(entry.position) < position) {
            self.at += 1;
        }
    }

    fn finish(self, log_bytes: u64) -> IndexReport {
        let entries = self.entries.len() as u64;
        let beyond = self.entries.get(self.at).is_some();
        let is_other_end = self.footer.is_some_and(|footer| footer.wal_bytes != log_bytes);
        match (self.exists, self.why, self.footer) {
            (false, ..) => IndexReport::Missing,
            (true, Some(why), _) => IndexReport::Wrong { why },
            (true, None, _) if beyond => IndexReport::Wrong { why: "an entry leads behind the end of the log" },
            (true, None, Some(_)) if is_other_end => IndexReport::Wrong { why: "it ends elsewhere than the segment" },
            (true, None, Some(_)) => IndexReport::Sealed { entries },
            (true, None, None) => IndexReport::Unsealed { entries },
        }
    }
}
