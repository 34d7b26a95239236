//! Ranges that are known to be damaged. They are not served; what lies behind them is.

use std::io;
use std::path::Path;

use hermit_proto::{FrameSalt, Offset};

use crate::disk::{Disk, write_atomically};
use crate::names;
use crate::state_file::{Kind, Reader};

pub(crate) const KIND: Kind = Kind { magic: *b"HFNC", version: 2 };

/// A damaged range of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencedRange {
    /// The base offset of the segment.
    pub segment: Offset,
    /// The position of the first damaged byte; a frame begins, or should begin, there.
    pub position: u64,
    /// The position at which frames can be read again; the same as `position` where bytes are missing rather than damaged.
    pub next_position: u64,
    /// The first offset that is lost.
    pub from: Offset,
    /// The first offset behind the damage.
    pub next: Offset,
}

/// The fenced ranges of a log, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fenced(Vec<FencedRange>);

impl Fenced {
    pub(crate) fn ranges(&self) -> &[FencedRange] {
        &self.0
    }

    /// Adds a range, joining those that touch. Answers whether that changed anything.
    pub(crate) fn add(&mut self, mut range: FencedRange) -> bool {
        let covers = |outer: &FencedRange| {
            outer.segment == range.segment
                && outer.position <= range.position
                && range.next_position <= outer.next_position
                && outer.next >= range.next
        };
        if self.0.iter().any(covers) {
            return false;
        }
        self.0.retain(|other| {
            let touches =
                other.segment == range.segment && other.position <= range.next_position && range.position <= other.next_position;
            if touches {
                range.position = range.position.min(other.position);
                range.next_position = range.next_position.max(other.next_position);
                range.from = range.from.min(other.from);
                range.next = range.next.max(other.next);
            }
            !touches
        });
        let at = self.0.partition_point(|other| (other.segment, other.position) < (range.segment, range.position));
        self.0.insert(at, range);
        true
    }

    /// The first range of `segment` that ends behind `position`, or begins there.
    pub(crate) fn next_in(&self, segment: Offset, position: u64) -> Option<FencedRange> {
        self.0
            .iter()
            .copied()
            .find(|range| range.segment == segment && (range.next_position > position || range.position >= position))
    }

    /// The range that is missing at the end of a segment of that size.
    pub(crate) fn missing_behind(&self, segment: Offset, len_bytes: u64) -> Option<FencedRange> {
        let is_missing =
            |range: &FencedRange| (range.segment, range.position, range.next_position) == (segment, len_bytes, len_bytes);
        self.0.iter().copied().find(is_missing)
    }

    pub(crate) fn any_in(&self, segment: Offset) -> bool {
        self.0.iter().any(|range| range.segment == segment)
    }

    pub(crate) fn retain_segments(&mut self, exists: impl Fn(Offset) -> bool) {
        self.0.retain(|range| exists(range.segment));
    }

    /// Keeps the ranges for which `stays` holds; answers whether any went.
    pub(crate) fn retain(&mut self, stays: impl Fn(&FencedRange) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(stays);
        self.0.len() < before
    }

    /// The file of a segment has become shorter: what was damaged there is missing now.
    pub(crate) fn shorten(&mut self, segment: Offset, len_bytes: u64) {
        for range in self.0.iter_mut().filter(|range| range.segment == segment && range.position <= len_bytes) {
            range.next_position = range.next_position.min(len_bytes);
        }
    }

    /// Reads the file. A damaged one reads as empty: the ranges are found again when they are read.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path, salt: &FrameSalt) -> io::Result<Self> {
        let body = KIND.read(disk, &dir.join(names::FENCED), salt)?.flatten().unwrap_or_default();
        let mut fenced = Self::default();
        let mut body = Reader(&body);
        while let (Some(segment), Some(position), Some(next_position), Some(from), Some(next)) =
            (body.u64(), body.u64(), body.u64(), body.u64(), body.u64())
        {
            fenced.add(FencedRange { segment: Offset(segment), position, next_position, from: Offset(from), next: Offset(next) });
        }
        Ok(fenced)
    }

    /// Whether the file is sound, or there is none.
    pub(crate) fn is_whole(disk: &dyn Disk, dir: &Path, salt: &FrameSalt) -> io::Result<bool> {
        Ok(KIND.read(disk, &dir.join(names::FENCED), salt)?.is_none_or(|body| body.is_some()))
    }

    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path, salt: &FrameSalt) -> io::Result<()> {
        let body = self.0.iter().flat_map(|range| {
            [range.segment.0, range.position, range.next_position, range.from.0, range.next.0].map(u64::to_be_bytes).concat()
        });
        write_atomically(disk, dir, names::FENCED, &KIND.seal(&body.collect::<Vec<_>>(), salt))
    }
}
