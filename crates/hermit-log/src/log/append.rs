//! Appending: under the partition's lock only what must be there.

use std::io;
use std::path::Path;
use std::sync::Arc;

use hermit_proto::{Attributes, BrokerStamp, FramePrefix, Offset, ProducerId};

use super::{Active, Inner, Log, Room, State};
use crate::batch::{Batch, BatchFrame, prefix_at};
use crate::config::{Durability, LogConfig};
use crate::disk::{Disk, Open, WriteError};
use crate::error::LogError;
use crate::index::{ActiveIndex, IndexEntry};
use crate::names::FileName;
use crate::producers::{Forgotten, Producer, Sequenced, Verdict};
use crate::segment::{Sealed, Segment};
use crate::view::End;

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset of the first frame: new, or that of its first append. Those of all are in [`Batch::frames`].
    pub base_offset: Offset,
    /// The batch may be acknowledged once the high watermark reaches this.
    pub next_offset: Offset,
    /// When the new frames were appended, in nanoseconds since the Unix epoch.
    pub append_time: u64,
    /// Frames that had been appended before, and were not appended again: all, or the first ones where a power cut tore the batch. Then others' frames may
    /// lie between those and the rest.
    pub duplicates: usize,
}

/// Producers as they were before an append that may come to nothing.
type Undo = Vec<(ProducerId, Option<Producer>, Forgotten)>;

impl Log {
    /// Appends a batch: all of it, or, with an error, nothing. The frames are in the log but not acknowledged: that is when the high watermark has
    /// reached [`Appended::next_offset`], which [`Log::wait_flushed`] and the listener tell. The offsets are in [`Batch::frames`].
    ///
    /// # Errors
    /// [`LogError::DiskFull`] may be tried again; [`LogError::KeyRequired`], [`LogError::Producer`] and [`LogError::BatchTooLarge`] are the producer's;
    /// [`LogError::ReadOnly`], [`LogError::Closed`] and [`LogError::Io`] the log's.
    pub fn append(&self, batch: &mut Batch) -> Result<Appended, LogError> {
        let inner = &self.inner;
        let mut state = inner.state.lock();
        state.writable()?;
        let _write = inner.env.times.writes.begin();
        let (now, began) = inner.env.time.now_and_monotonic();
        let append_time = now.max(state.last_append_time);
        let (bytes, frames) = batch.parts_mut();
        let mut undo = Undo::new();
        let all_bytes = frames.iter().map(|frame| frame.size() as u64).sum();
        let all_offsets: u64 = frames.iter().map(|frame| u64::from(frame.prefix.header.record_count)).sum();
        // Before the sequence check notes anything, so that a snapshot at the roll holds nothing of this batch.
        inner.roll_if_full(&mut state, all_bytes, append_time, all_offsets)?;
        let appended = inner.assign(&mut state, frames, append_time, &mut undo).and_then(|next| {
            if state.config.compaction.is_some() {
                check_compactable(frames)?;
            }
            let new_bytes = frames.iter().filter(|frame| !frame.duplicate).map(|frame| frame.size() as u64).sum();
            if new_bytes > 0 {
                inner.write(&mut state, bytes, frames, new_bytes, append_time, next)?;
                inner.env.times.append.add(inner.env.clock.monotonic().saturating_sub(began));
            }
            Ok(())
        });
        if let Err(error) = appended {
            if let Some(producers) = &mut state.producers {
                for (id, saved, forgotten) in undo.into_iter().rev() {
                    producers.restore(id, saved, forgotten);
                }
            }
            return Err(error);
        }
        let base_offset = frames.first().map_or(state.log_end, |frame| frame.offset);
        let ends = frames.iter().map(|frame| Offset(frame.offset.0.saturating_add(u64::from(frame.prefix.header.record_count))));
        let next_offset = ends.max().unwrap_or(state.log_end);
        let duplicates = frames.iter().filter(|frame| frame.duplicate).count();
        state.turn.waiting_frames += (frames.len() - duplicates) as u64;
        inner.tell_flusher(state);
        Ok(Appended { base_offset, next_offset, append_time, duplicates })
    }
}

/// Creates an empty file. What an earlier attempt, or a start that found it empty, left under that name goes: no frame there was ever
/// published. It is not emptied and used again: its name may be on no disk, after a directory sync that failed, and its old content
/// may come back with a power cut.
fn create_anew(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.open(path, Open::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove_file(path)?;
            disk.open(path, Open::CreateNew).map(|_file| ())
        }
        result => result.map(|_file| ()),
    }
}

/// What was appended before compaction was switched on may be sent again.
fn check_compactable(frames: &[BatchFrame]) -> Result<(), LogError> {
    let fits = |frame: &BatchFrame| {
        frame.prefix.has(Attributes::HAS_KEY) && !frame.prefix.has(Attributes::RECORD_SET) && frame.prefix.header.record_count == 1
    };
    match frames.iter().position(|frame| !frame.duplicate && !fits(frame)) {
        Some(index) => Err(LogError::KeyRequired { index }),
        None => Ok(()),
    }
}

impl Inner {
    /// Gives each frame its offset, or finds the one that it has. Answers the offset behind the new ones.
    fn assign(
        self: &Arc<Self>,
        state: &mut State,
        frames: &mut [BatchFrame],
        append_time: u64,
        undo: &mut Undo,
    ) -> Result<Offset, LogError> {
        if frames.iter().any(|frame| frame.prefix.producer().is_some()) {
            self.load_producers(state)?;
        }
        let config = state.config.producers;
        let mut next = state.log_end;
        for frame in frames {
            let count = frame.prefix.header.record_count;
            frame.offset = next;
            frame.duplicate = false;
            if let (Some(stamp), Some(producers)) = (frame.prefix.producer(), &mut state.producers) {
                let sequenced = Sequenced { stamp, count, offset: next, append_time };
                if let Verdict::Duplicate(offset) = producers.check(&sequenced, &config)? {
                    frame.offset = offset;
                    frame.duplicate = true;
                    continue;
                }
                let saved = producers.saved(stamp.id);
                undo.push((stamp.id, saved, producers.note(&sequenced, &config)));
            }
            next = next.checked_add(u64::from(count)).ok_or(LogError::OffsetsExhausted)?;
        }
        Ok(next)
    }

    /// Writes the new frames at the end of the active segment, and publishes them.
    fn write(
        &self,
        state: &mut State,
        bytes: &mut [u8],
        frames: &[BatchFrame],
        new_bytes: u64,
        append_time: u64,
        next: Offset,
    ) -> Result<(), LogError> {
        self.begin_writing(state);
        let State { leader_epoch, appended_bytes, flushed_bytes, .. } = *state;
        let Some(active) = &mut state.active else { return Err(LogError::Closed) };
        let position = active.position;

        let mut written = 0;
        let mut has_duplicates = false;
        for frame in frames {
            if frame.duplicate {
                has_duplicates = true;
                continue;
            }
            let distance = (appended_bytes - flushed_bytes).saturating_add(written);
            let stamp = BrokerStamp {
                offset: frame.offset,
                leader_epoch,
                append_time,
                flushed_distance: u32::try_from(distance).unwrap_or(u32::MAX),
            };
            if let Some(prefix) = prefix_at(bytes, frame.start) {
                FramePrefix::stamp(prefix, &stamp, &self.segment_env.salt);
            }
            written += frame.size() as u64;
        }
        let wal = &active.segment.wal;
        let file = match &active.file {
            Some(file) => file,
            None => active.file.insert(wal.get_pinned().map_err(|source| LogError::io("open", &wal.path(), source))?),
        };
        let result = if has_duplicates {
            let new = frames.iter().filter(|frame| !frame.duplicate);
            let gathered: Vec<_> = new.filter_map(|frame| bytes.get(frame.start..frame.start + frame.size())).collect();
            file.write_all_at(&gathered.concat(), position)
        } else {
            file.write_all_at(bytes, position)
        };
        if let Err(WriteError { source, .. }) = result {
            // What was written of the batch must not stay behind: whole frames of it would be taken for appended ones later.
            let cut = file.set_len(position);
            let path = wal.path();
            active.room_was_cut();
            let error = LogError::io("write", &path, source);
            if let Err(source) = cut {
                self.fail(state, LogError::io("cut back after a failed write", &path, source));
            }
            return Err(error);
        }
        let mut frame_position = position;
        active.segment.note_appended(frames.iter().filter(|frame| !frame.duplicate).filter_map(|frame| {
            let entry = IndexEntry {
                relative_offset: u32::try_from(frame.offset.0.checked_sub(active.segment.base.0)?).ok()?,
                position: u32::try_from(frame_position).ok()?,
                append_time,
            };
            frame_position += frame.size() as u64;
            Some(entry)
        }));
        active.position += new_bytes;
        active.first_append_time.get_or_insert(append_time);
        let end = End { offset: next, segment: active.segment.base, position: active.position };
        self.counts.batches.add_alone(1);
        self.counts.bytes.add_alone(new_bytes);
        self.counts.records.add_alone(next.0 - state.log_end.0);
        state.log_end = next;
        state.appended_bytes += new_bytes;
        state.last_append_time = append_time;
        self.publish_append(state.config.durability, end);
        Ok(())
    }

    fn publish_append(&self, durability: Durability, end: End) {
        let mut view = self.view.write();
        let visible = (durability == Durability::Os).then_some(end);
        view.move_ends(None, visible, None, Some(end));
        let bounds = view.bounds();
        drop(view);
        if visible.is_some() {
            self.listener.advanced(bounds);
        }
    }

    fn roll_if_full(&self, state: &mut State, new_bytes: u64, now: u64, new_offsets: u64) -> Result<(), LogError> {
        let limit_bytes = u64::from(u32::MAX) - LogConfig::MAX_SEGMENT_BYTES;
        let next = state.log_end.checked_add(new_offsets).ok_or(LogError::OffsetsExhausted)?;
        if new_bytes > limit_bytes || new_offsets > u64::from(u32::MAX) {
            return Err(LogError::BatchTooLarge { bytes: new_bytes, limit_bytes });
        }
        let config = &state.config;
        let is_full = state.active.as_ref().is_none_or(|active| {
            let segment_bytes = config.segment_bytes.min(LogConfig::MAX_SEGMENT_BYTES);
            let aged = config.segment_age.zip(active.first_append_time);
            let too_old = aged.is_some_and(|(age, first)| u128::from(now.saturating_sub(first)) >= age.as_nanos());
            let too_wide = next.0 - active.segment.base.0 > u64::from(u32::MAX);
            active.position > 0 && (active.position + new_bytes > segment_bytes || too_wide || too_old)
        });
        if is_full { self.roll(state) } else { Ok(()) }
    }

    /// Seals the active segment and begins the next, at the log end. Nothing changes where that fails.
    pub(super) fn roll(&self, state: &mut State) -> Result<(), LogError> {
        self.begin_writing(state);
        let base = state.log_end;
        let disk = &*self.env.disk;
        let wal = self.dir.join(FileName::Wal(base).build());
        create_anew(disk, &wal).map_err(|source| LogError::io("create", &wal, source))?;
        // The index is derived: without its file the entries stay in memory.
        drop(create_anew(disk, &self.dir.join(FileName::Index(base).build())));
        let segment = Arc::new(Segment::active(&self.segment_env, &self.dir, base, ActiveIndex::default()));
        let file = segment.wal.get_pinned().map_err(|source| {
            // The active segment may go on past this base: a start that finds this file all the same knows it by its being empty.
            drop(disk.remove_file(&wal));
            LogError::io("open", &wal, source)
        })?;
        if let Some(mut sealed) = state.active.take() {
            sealed.segment.seal(Sealed { end: base, len_bytes: sealed.position, last_append_time: state.last_append_time });
            // The flush gives back the room: where it cannot be opened for that, the next start does.
            let file = match sealed.file.take() {
                None if sealed.has_room() => sealed.segment.wal.get_pinned().ok(),
                file => file,
            };
            if let Some(file) = file {
                state.unsynced.push((sealed.segment, file));
            }
            if let Some(table) = state.producers.as_ref().filter(|table| !table.is_empty()) {
                state.snapshot = Some((base, table.clone()));
                state.snapshot_at_bytes = state.appended_bytes;
            }
        }
        state.unsynced_dir = true;
        state.active = Some(Active {
            segment: Arc::clone(&segment),
            file: Some(file),
            position: 0,
            first_append_time: None,
            room: Room::default(),
        });
        let mut view = self.view.write();
        view.segments.push(segment);
        view.enter_segment(base);
        Ok(())
    }
}
