//! Verifying closed segments while all else goes on: rot is found while there is still a copy elsewhere, not when somebody reads it.
//!
//! What a step reads it reads through the page cache, as readers do, and gives back what was not there before. So pages that are in the cache are
//! verified as readers get them, and those that are not as the disk has them.

use std::io;
use std::sync::Arc;

use hermit_proto::{FramePrefix, Offset};
use rustix::io::Errno;

use super::fence::Hints;
use super::{Inner, Log};
use crate::disk::{DiskFile, Open};
use crate::error::LogError;
use crate::fenced::FencedRange;
use crate::index::IndexEntry;
use crate::scan::{self, Found, FrameReader};
use crate::scrub_file::ScrubFile;
use crate::segment::{Sealed, Segment};

/// A closed segment that is being verified, step by step: both checksums of every frame, their offsets, and the index against them.
#[derive(Debug)]
pub struct Scrub {
    log: Log,
    segment: Arc<Segment>,
    sealed: Sealed,
    file: ScrubFile,
    /// A frame's position, or the end.
    position: u64,
    /// No frame from here on has a lower offset.
    expected: Offset,
    index: IndexWalk,
}

/// What a step has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStep {
    /// Log bytes that were read.
    pub bytes: u64,
    /// Damage that was not known before. It is fenced: readers are told of it, and what follows can be read.
    pub damaged: Vec<FencedRange>,
    /// Whether there is more to do.
    pub verdict: ScrubVerdict,
}

/// How far the verifying of a segment has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScrubVerdict {
    /// There is more.
    #[default]
    More,
    /// All of it was read.
    Done {
        /// The index was damaged or missing, and was made again.
        rebuilt_index: bool,
    },
    /// Retention or compaction took it meanwhile.
    Gone,
}

/// The stored index while its segment is walked, and the one that takes its place if it is wrong.
#[derive(Debug)]
struct IndexWalk {
    stored: Vec<IndexEntry>,
    /// The first stored entry that was not compared yet.
    at: usize,
    is_wrong: bool,
    made: Vec<IndexEntry>,
    interval_bytes: u64,
}

impl IndexWalk {
    fn frame(&mut self, prefix: &FramePrefix, position: u64, base: Offset) {
        while let Some(entry) = self.stored.get(self.at).filter(|entry| u64::from(entry.position) <= position) {
            self.is_wrong |= scan::entry_of(prefix, position, base) != Some(*entry);
            self.at += 1;
        }
        let due = self.made.last().is_none_or(|last| position.saturating_sub(u64::from(last.position)) >= self.interval_bytes);
        if due && let Some(entry) = scan::entry_of(prefix, position, base) {
            self.made.push(entry);
        }
    }

    /// What lies before cannot be read: nothing tells whether entries are right.
    fn pass(&mut self, position: u64) {
        while let Some(entry) = self.stored.get(self.at).filter(|entry| u64::from(entry.position) < position) {
            self.made.push(*entry);
            self.at += 1;
        }
    }
}

impl Log {
    /// Begins to verify the first closed and flushed segment whose base offset is `from` or higher; `None` where there is none.
    ///
    /// # Errors
    /// [`LogError::Closed`]; [`LogError::Io`] where a file cannot be opened or read.
    pub fn scrub(&self, from: Offset) -> Result<Option<Scrub>, LogError> {
        let inner = &self.inner;
        loop {
            if inner.state.lock().closed {
                return Err(LogError::Closed);
            }
            let next = {
                let view = inner.view.read();
                let flushed = view.flushed_end().offset;
                let is_due =
                    |segment: &&Arc<Segment>| segment.base >= from && segment.sealed().is_some_and(|sealed| sealed.end <= flushed);
                view.segments.iter().find(is_due).cloned()
            };
            let Some((segment, sealed)) = next.and_then(|segment| segment.sealed().copied().map(|sealed| (segment, sealed))) else {
                return Ok(None);
            };
            let opened = inner.env.disk.open(&segment.wal.path(), Open::Read);
            if !inner.has(&segment) {
                // What was opened may be the file of another.
                continue;
            }
            let failed = |source| LogError::io("verify", &segment.wal.path(), source);
            let file = ScrubFile::new(opened.map_err(failed)?, sealed.len_bytes);
            let stored = match segment.read_stored(&*inner.env.disk) {
                // It is derived, and made again from what is read here: where it lies on a bad sector, the segment is verified all the same.
                Err(source) if source.raw_os_error() == Some(Errno::IO.raw_os_error()) => {
                    tracing::warn!(path = %segment.wal.path().display(), error = %source, "the index of this segment cannot be read, and is made again");
                    None
                }
                stored => stored.map_err(failed)?,
            };
            let index = IndexWalk {
                is_wrong: stored.is_none(),
                stored: stored.unwrap_or_default(),
                at: 0,
                made: Vec::new(),
                interval_bytes: inner.segment_env.index_interval_bytes.into(),
            };
            return Ok(Some(Scrub { log: self.clone(), expected: segment.base, segment, sealed, file, position: 0, index }));
        }
    }
}

impl Scrub {
    /// The base offset of the segment.
    #[must_use]
    pub fn base(&self) -> Offset {
        self.segment.base
    }

    /// Verifies about `max_bytes` more, at least one frame. Holds a frame in memory at a time.
    ///
    /// # Errors
    /// [`LogError::Closed`]; [`LogError::Io`] where the segment cannot be read at a place: the same call tries it again, and [`Scrub::give_up`] goes past it.
    pub fn step(&mut self, max_bytes: u64) -> Result<ScrubStep, LogError> {
        let stepped = self.verify(max_bytes);
        self.file.give_back();
        stepped
    }

    /// What cannot be read where the last step failed is fenced, as if it were damaged, and is gone past: the frame that holds it, not those before, which were
    /// to be read together with it. `None` where all can be read by now.
    ///
    /// # Errors
    /// Those of [`Scrub::step`].
    pub fn give_up(&mut self) -> Result<Option<FencedRange>, LogError> {
        let file = self.file.past_errors();
        let given_up = self.give_up_in(&file);
        file.give_back();
        given_up
    }

    fn give_up_in(&mut self, file: &ScrubFile) -> Result<Option<FencedRange>, LogError> {
        let inner = Arc::clone(&self.log.inner);
        // No read that failed went farther than this, or than the frame that is met first.
        let until = self.position.saturating_add(scan::CHUNK_BYTES as u64);
        if self.frames_until(until, Some(file)).map_err(|source| self.error(source))? {
            return Ok(None);
        }
        let range = inner.fence_in(&self.segment, self.position, Some(self.expected), file, Hints::GivenUp)?;
        if let Some(range) = &range {
            self.pass(range);
        }
        Ok(range)
    }

    fn verify(&mut self, max_bytes: u64) -> Result<ScrubStep, LogError> {
        let inner = Arc::clone(&self.log.inner);
        let mut step = ScrubStep::default();
        if inner.state.lock().closed {
            return Err(LogError::Closed);
        }
        if !inner.has(&self.segment) {
            step.verdict = ScrubVerdict::Gone;
            return Ok(step);
        }
        let begin = self.position;
        while self.position < self.sealed.len_bytes && self.position - begin < max_bytes.max(1) {
            let known = inner.view.read().fenced.next_in(self.segment.base, self.position);
            if let Some(range) = known.filter(|range| range.position <= self.position) {
                self.pass(&range);
                continue;
            }
            let until = begin.saturating_add(max_bytes.max(1));
            let is_good = self.frames_until(until, None).map_err(|source| self.error(source))?;
            if is_good || self.is_good_after_all().map_err(|source| self.error(source))? {
                continue;
            }
            // `None` where it is good now: the loop goes over it.
            let range = inner.fence_in(&self.segment, self.position, Some(self.expected), &self.file, Hints::Needed)?;
            if let Some(range) = range {
                self.pass(&range);
                step.damaged.push(range);
            }
        }
        step.bytes = self.position - begin;
        if self.position >= self.sealed.len_bytes {
            step.verdict = self.finish()?;
        }
        Ok(step)
    }

    /// Goes through good frames that begin before `until`. Whether that was reached.
    fn frames_until(&mut self, until: u64, file: Option<&ScrubFile>) -> io::Result<bool> {
        // What is known to be damaged may be unreadable, and is not to be read with what lies before it.
        let known = self.log.inner.view.read().fenced.next_in(self.segment.base, self.position);
        let end = known.map_or(self.sealed.len_bytes, |range| range.position).min(self.sealed.len_bytes);
        let mut reader = FrameReader::new(file.unwrap_or(&self.file), end);
        while self.position < until.min(end) {
            let Found::Frame(view) = reader.frame(self.position, &self.segment.salt)? else { return Ok(false) };
            let prefix = view.prefix;
            if !scan::belongs(&prefix, self.expected, Some(self.sealed.end)) {
                return Ok(false);
            }
            self.index.frame(&prefix, self.position, self.segment.base);
            self.position = self.position.saturating_add(prefix.frame_bytes());
            self.expected = prefix.next_offset();
        }
        Ok(true)
    }

    /// Reads the frame again, from the disk: what was read wrongly once, or has changed in memory, is not lost. Nothing here waits to be written.
    fn is_good_after_all(&mut self) -> io::Result<bool> {
        self.file.give_back();
        let begin = self.position;
        self.file.drop_cached(begin - begin % scan::CHUNK_BYTES as u64, self.sealed.len_bytes.saturating_sub(begin));
        let is_good = self.frames_until(begin.saturating_add(1), None)?;
        if is_good {
            tracing::warn!(path = %self.segment.wal.path().display(), position = begin, "a frame was damaged when it was read, and is not when read again");
        }
        Ok(is_good)
    }

    fn pass(&mut self, range: &FencedRange) {
        self.position = range.next_position.max(self.position.saturating_add(1)).min(self.sealed.len_bytes);
        self.expected = range.next.max(self.expected);
        self.index.pass(self.position);
    }

    fn error(&self, source: io::Error) -> LogError {
        LogError::io("verify", &self.segment.wal.path(), source)
    }

    fn finish(&mut self) -> Result<ScrubVerdict, LogError> {
        let inner = Arc::clone(&self.log.inner);
        if !self.index.is_wrong && self.index.at >= self.index.stored.len() {
            return Ok(ScrubVerdict::Done { rebuilt_index: false });
        }
        // Whoever removes or replaces segments takes their indexes with them. A compaction takes its time, and this can wait.
        let Some(_maintaining) = inner.maintaining.try_lock() else { return Ok(ScrubVerdict::More) };
        if !inner.has(&self.segment) {
            return Ok(ScrubVerdict::Gone);
        }
        let path = self.segment.wal.path();
        let stored = self.file.len().and_then(|len| self.segment.put_index(&*inner.env.disk, len, &self.index.made));
        match stored {
            Ok(()) => tracing::warn!(path = %path.display(), "the index of this segment was damaged, and was made again"),
            // It is derived: lookups make one in memory, and the next pass tries again.
            Err(error) => {
                tracing::warn!(path = %path.display(), error = %crate::error::error_line(&error), "the index of this segment is damaged, and cannot be stored anew");
                return Ok(ScrubVerdict::Done { rebuilt_index: false });
            }
        }
        Ok(ScrubVerdict::Done { rebuilt_index: true })
    }
}

impl Inner {
    /// Whether a segment is still part of the log.
    fn has(&self, segment: &Arc<Segment>) -> bool {
        self.view.read().segments.iter().any(|other| Arc::ptr_eq(other, segment))
    }
}
