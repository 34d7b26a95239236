//! Room ahead of the log's end, for logs that are flushed often: `room.rs` tells what it is made of.
//!
//! A sync of what was written behind the end of a file writes the data, then where they lie and how long the file is now, and empties the disk's cache. Where the bytes
//! were there before, the second is left out, which is a third to a half of the time. The room is paid for by the flush that it is written with, and is some flushes long.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{Active, Inner, State};
use crate::config::{Durability, LogConfig};
use crate::disk::DiskFile;
use crate::error::LogError;
use crate::room;
use crate::segment::Segment;
use crate::view::End;

/// Whoever flushes more rarely waits for more than the disk.
const OFTEN: Duration = Duration::from_millis(100);
/// Room that nothing was appended to for so long is given back.
const IDLE: Duration = Duration::from_secs(10);
/// Flushes of the present size for which there is to be room. With more of them, the flush that writes the room takes longer; with fewer there are more such.
const FLUSHES: u64 = 8;
/// The least room, as part of the most: that of flushes of a few bytes.
const LEAST_PART: u64 = 16;
const PAGE_BYTES: u64 = 4096;

/// The room in the active segment.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// The end of the file, where that lies behind the last frame.
    end: u64,
    /// When there was no space for more.
    refused_at: Option<Duration>,
    /// When the last flush of something in the segment had ended.
    flushed_at: Option<Duration>,
}

impl Room {
    /// Up to which position it is to be written with a flush of `flush_bytes`; `None` where what there is suffices, or none would help.
    fn wanted(&self, config: &LogConfig, position: u64, flush_bytes: u64) -> Option<u64> {
        let limit = config.preallocate_bytes;
        let bytes = flush_bytes.saturating_mul(FLUSHES);
        // With large flushes it is the data that takes the time, and they would be written twice.
        if bytes > limit || self.end.saturating_sub(position) >= flush_bytes {
            return None;
        }
        let end = position.saturating_add(bytes.max(limit / LEAST_PART)).next_multiple_of(PAGE_BYTES);
        let end = end.min(position.saturating_add(limit)).min(config.segment_bytes);
        (end > self.end.max(position)).then_some(end)
    }
}

impl Active {
    /// Cuts off the room, and answers the file: until that is synced, a power cut may leave anything in its place.
    pub(super) fn cut_room(&mut self) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.segment.wal.get()?;
        file.set_len(self.position)?;
        self.room_was_cut();
        Ok(file)
    }

    /// The file was cut behind the last frame.
    pub(super) const fn room_was_cut(&mut self) {
        self.room.end = self.position;
    }

    pub(super) const fn has_room(&self) -> bool {
        self.room.end > self.position
    }
}

/// Cuts off the room of a segment that was closed, once it is flushed: before that, what a power cut leaves in place of the room could hide that the log goes on in the next segment.
/// Not synced, as nobody reads there: where it fails or is lost, the next start does it.
pub(super) fn cut_room_of_sealed(segment: &Segment, file: &dyn DiskFile) {
    let Some(sealed) = segment.sealed() else { return };
    if file.len().is_ok_and(|len| len > sealed.len_bytes) {
        drop(file.set_len(sealed.len_bytes));
    }
}

impl State {
    /// A flush up to `end` has succeeded.
    pub(super) fn note_flushed(&mut self, end: End, now: Duration) {
        if let Some(active) = self.active.as_mut().filter(|active| active.segment.base == end.segment && end.position > 0) {
            active.room.flushed_at = Some(now);
        }
    }
}

impl Inner {
    /// Writes more room where a flush that is about to begin, of `flush_bytes`, leaves too little. Under the lock, so that nothing is appended meanwhile where filler is
    /// being written. The first flush of a segment leaves it alone: a file that begins with room is never to be found.
    pub(super) fn preallocate(&self, state: &mut State, flush_bytes: u64, now: Duration) {
        let State { config, active: Some(Active { file: Some(file), position, room, .. }), .. } = state else { return };
        let is_often = room.flushed_at.is_some_and(|at| now.saturating_sub(at) <= OFTEN);
        let is_refused = room.refused_at.is_some_and(|at| now.saturating_sub(at) < IDLE);
        if !self.overwrites_in_place || config.durability != Durability::Sync || !is_often || is_refused {
            return;
        }
        let Some(end) = room.wanted(config, *position, flush_bytes) else { return };
        let from = room.end.max(*position);
        room.end = end;
        if room::write(&***file, from, end).is_err() {
            // Appends need the space more. Where it is not given back, frames take its place.
            room.refused_at = Some(now);
            if file.set_len(from).is_ok() {
                room.end = from;
            }
        }
    }

    /// Has the file of the active segment end with the log, durably. The caller holds `flushing`, and all is flushed.
    pub(super) fn settle_end(&self, state: &mut State) -> Result<(), LogError> {
        let Some(active) = &mut state.active else { return Ok(()) };
        let failed = |source| LogError::io("cut off the room of a segment in", &self.dir, source);
        // Also where there is none now: an append that failed may have cut it off, and what is cut comes back with a power cut until a sync.
        let file = active.cut_room().map_err(failed)?;
        // A failed sync is final, whatever it was for.
        file.sync_data().map_err(failed).inspect_err(|error| self.fail(state, error.clone()))
    }

    /// Gives back the room of a log to which nothing was appended for a while. Not synced: a start finds where the frames end.
    pub(super) fn give_back_idle_room(&self) {
        let mut state = self.state.lock();
        if !state.is_flushed() || state.writable().is_err() {
            return;
        }
        let is_idle = |at: Duration| self.env.clock.monotonic().saturating_sub(at) >= IDLE;
        if let Some(active) = state.active.as_mut().filter(|active| active.has_room() && active.room.flushed_at.is_none_or(is_idle))
        {
            // Tried again at the next round.
            drop(active.cut_room());
        }
    }
}
