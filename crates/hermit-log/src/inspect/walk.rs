//! Frame by frame through one segment's file, and past damage.

use std::io;
use std::sync::Arc;

use hermit_proto::{FramePrefix, FrameSalt, FrameView, Offset};

use super::{Check, DamageKind};
use crate::disk::{Disk, DiskFile};
use crate::error::LogError;
use crate::index::IndexEntry;
use crate::names::FileName;
use crate::recovery::read_hints;
use crate::room::Extent;
use crate::scan::{self, Damage, Found, FrameReader, ScanJob};

/// What stands at a place.
pub(crate) enum Step<'a> {
    /// The view is there where every byte is read.
    Frame {
        position: u64,
        prefix: FramePrefix,
        view: Option<FrameView<'a>>,
    },
    Damage(Damage, DamageKind),
    End,
}

/// A walk through one segment.
#[derive(Debug)]
pub(crate) struct SegmentWalk {
    reader: FrameReader<'static>,
    salt: FrameSalt,
    base: Offset,
    next_base: Option<Offset>,
    pub(crate) extent: Extent,
    check: Check,
    hints: Vec<IndexEntry>,
    /// Behind what was met last.
    pub(crate) position: u64,
    pub(crate) end: Offset,
}

enum Seen {
    Frame(FramePrefix),
    BadBody(FramePrefix),
    Unreadable,
    End,
}

impl SegmentWalk {
    pub(crate) fn open(
        disk: &dyn Disk,
        dir: &std::path::Path,
        salt: &FrameSalt,
        (base, file_bytes): (Offset, u64),
        next_base: Option<Offset>,
        check: Check,
    ) -> Result<Self, LogError> {
        let path = dir.join(FileName::Wal(base).build());
        let file: Arc<dyn DiskFile> =
            disk.open(&path, crate::disk::Open::Read).map_err(|source| LogError::io("read", &path, source))?;
        let extent = Extent::read(&*file, file_bytes).map_err(|source| LogError::io("read", &path, source))?;
        let reader = match check {
            Check::Headers => FrameReader::shared(file, extent, hermit_proto::PREFIX_SIZE),
            Check::Everything => FrameReader::shared(file, extent, scan::CHUNK_BYTES),
        };
        let hints = read_hints(disk, dir, base);
        Ok(Self { reader, salt: *salt, base, next_base, extent, check, hints, position: 0, end: base })
    }

    fn see(&mut self) -> io::Result<Seen> {
        if self.extent.ends_at(self.position) {
            return Ok(Seen::End);
        }
        if self.check == Check::Headers {
            let prefix = self.reader.prefix(self.position, &self.salt)?;
            let fits = |prefix: &FramePrefix| self.position.saturating_add(prefix.frame_bytes()) <= self.extent.file_bytes;
            return Ok(prefix.filter(fits).map_or(Seen::Unreadable, Seen::Frame));
        }
        Ok(match self.reader.frame(self.position, &self.salt)? {
            Found::Frame(view) => Seen::Frame(view.prefix),
            Found::BadBody(prefix) => Seen::BadBody(prefix),
            Found::Unreadable => Seen::Unreadable,
            Found::End => Seen::End,
        })
    }

    /// Goes on by one frame, or one damaged range.
    pub(crate) fn step(&mut self) -> io::Result<Step<'_>> {
        if self.next_base.is_some_and(|next| self.end >= next) {
            return Ok(Step::End);
        }
        let (position, expected, next_base) = (self.position, self.end, self.next_base);
        let belongs = |prefix: &FramePrefix| scan::belongs(prefix, expected, next_base);
        let kind = match self.see()? {
            Seen::End => return Ok(Step::End),
            Seen::Frame(prefix) | Seen::BadBody(prefix) if scan::is_behind(&prefix, next_base) => return Ok(Step::End),
            Seen::Frame(prefix) if belongs(&prefix) => {
                self.position = position.saturating_add(prefix.frame_bytes());
                self.end = prefix.next_offset();
                let view = match self.check {
                    Check::Headers => None,
                    Check::Everything => self.reader.bytes(position, prefix.frame_bytes())?.and_then(FrameView::trusted),
                };
                return Ok(Step::Frame { position, prefix, view });
            }
            Seen::BadBody(prefix) if belongs(&prefix) => {
                let next_position = position.saturating_add(prefix.frame_bytes());
                let damage = Damage { position, next_position, from: expected, next: Some(prefix.next_offset()) };
                return Ok(self.pass(damage, DamageKind::Body));
            }
            Seen::Frame(_) | Seen::BadBody(_) => DamageKind::OutOfPlace,
            Seen::Unreadable => DamageKind::Header,
        };
        let job = ScanJob {
            base: self.base,
            salt: &self.salt,
            position,
            expected,
            next_base: self.next_base,
            index_interval_bytes: 0,
            hints: &self.hints,
        };
        let damage = scan::unreadable(&mut self.reader, position, expected, &job)?;
        Ok(self.pass(damage, kind))
    }

    fn pass(&mut self, damage: Damage, kind: DamageKind) -> Step<'static> {
        self.position = damage.next_position;
        self.end = damage.next.unwrap_or(self.end);
        Step::Damage(damage, kind)
    }
}
