//! All frames of a directory, for printing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermit_proto::{FramePrefix, FrameSalt, FrameView, Offset};

use super::check::{found, is_fenced};
use super::walk::{SegmentWalk, Step};
use super::{Check, FoundDamage, Listing};
use crate::disk::Disk;
use crate::error::LogError;
use crate::log::LogIdentity;

/// A frame as it lies in its segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFrame {
    /// The base offset of its segment.
    pub segment: Offset,
    /// Its position in that.
    pub position: u64,
    /// Header and extension.
    pub prefix: FramePrefix,
    bytes: Vec<u8>,
}

impl StoredFrame {
    /// The whole frame.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The frame, to take apart.
    #[must_use]
    pub fn view(&self) -> Option<FrameView<'_>> {
        FrameView::trusted(&self.bytes)
    }
}

/// The frames of a directory in order, both checksums checked, and the damage between them. An error ends it.
#[derive(Debug)]
pub struct Frames {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    salt: FrameSalt,
    listing: Listing,
    /// The next segment.
    at: usize,
    walk: Option<(Offset, SegmentWalk)>,
    from: Offset,
    failed: bool,
}

/// The frames that reach behind `from`, without recovering or changing anything. Missing segments are told of by [`super::inspect`] alone.
///
/// # Errors
/// [`LogError::Io`] where the directory cannot be read.
pub fn frames(disk: Arc<dyn Disk>, dir: &Path, identity: LogIdentity, from: Offset) -> Result<Frames, LogError> {
    let salt = FrameSalt::new(identity.topic, identity.partition);
    let listing = Listing::read(&*disk, dir, &salt)?;
    let behind = listing.wals.partition_point(|(base, _)| *base <= from);
    Ok(Frames { disk, dir: dir.to_owned(), salt, listing, at: behind.saturating_sub(1), walk: None, from, failed: false })
}

/// When the first frame of the last segment was appended that can be read, in ns since the Unix epoch; `None` without one. No frame behind it is older, and this costs
/// one read, however much there is.
///
/// # Errors
/// As [`frames`].
pub fn last_segment_time(disk: Arc<dyn Disk>, dir: &Path, identity: LogIdentity) -> Result<Option<u64>, LogError> {
    let mut frames = frames(disk, dir, identity, Offset(u64::MAX))?;
    frames.from = Offset(0);
    for frame in frames {
        if let Ok(frame) = frame? {
            return Ok(Some(frame.prefix.extension.append_time));
        }
    }
    Ok(None)
}

impl Frames {
    fn advance(&mut self) -> Result<Option<Result<StoredFrame, FoundDamage>>, LogError> {
        loop {
            let (segment, walk) = match &mut self.walk {
                Some(walk) => walk,
                None => {
                    let Some(wal) = self.listing.wals.get(self.at).copied() else { return Ok(None) };
                    let next_base = self.listing.next_base(self.at);
                    let walk = SegmentWalk::open(&*self.disk, &self.dir, &self.salt, wal, next_base, Check::Everything)?;
                    self.at += 1;
                    self.walk.insert((wal.0, walk))
                }
            };
            let segment = *segment;
            let from = self.from;
            match walk.step().map_err(|source| LogError::io("read a segment of", &self.dir, source))? {
                Step::End => self.walk = None,
                Step::Damage(damage, kind) if damage.next.is_none_or(|next| next > from) => {
                    let fenced = is_fenced(&self.listing.fenced, segment, &damage);
                    return Ok(Some(Err(found(segment, damage, kind, fenced, self.listing.floor()))));
                }
                Step::Frame { position, prefix, view: Some(view) } if prefix.next_offset() > from => {
                    return Ok(Some(Ok(StoredFrame { segment, position, prefix, bytes: view.as_bytes().to_vec() })));
                }
                Step::Damage(..) | Step::Frame { .. } => {}
            }
        }
    }
}

impl Iterator for Frames {
    /// A frame, or damage in its place.
    type Item = Result<Result<StoredFrame, FoundDamage>, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance();
        self.failed = next.is_err();
        next.transpose()
    }
}
