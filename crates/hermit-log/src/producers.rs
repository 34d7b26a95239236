//! What an idempotent producer has appended last, so that a batch that comes again is known again.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::io;
use std::path::Path;

use hermit_proto::{FrameSalt, Offset, ProducerEpoch, ProducerId, ProducerStamp, Sequence};

use crate::config::ProducerConfig;
use crate::disk::{Disk, write_atomically};
use crate::error::ProducerError;
use crate::names::FileName;
use crate::state_file::{Kind, Reader};

pub(crate) const KIND: Kind = Kind { magic: *b"HPRD", version: 4 };
/// Without the offset up to which it holds, which its name alone told.
const UNNAMED: Kind = Kind { version: 3, ..KIND };
/// Runs that are remembered of each producer: as many as there may be batches in flight.
const REMEMBERED: usize = 5;
/// A run grows no longer: its sequences must not meet themselves when they wrap.
const MAX_RUN: u32 = 1 << 30;

/// Records that follow each other both in the producer's stream and in the log: one frame, or several without anybody's between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: Sequence,
    count: u32,
    offset: Offset,
}

impl Run {
    /// The offset that `count` records from `first` have, if all of them are in the run.
    fn find(&self, first: Sequence, count: u32) -> Option<Offset> {
        // Both are below 2³¹, and so is their distance, across the wrap.
        let skipped = (first.0.wrapping_sub(self.first.0).cast_unsigned()) & i32::MAX.cast_unsigned();
        let fits = skipped.checked_add(count).is_some_and(|end| end <= self.count);
        fits.then(|| Offset(self.offset.0.saturating_add(skipped.into())))
    }

    /// Takes a frame that follows on; answers whether it did.
    fn extend(&mut self, frame: &Sequenced) -> bool {
        let follows = self.first.advance(self.count) == frame.stamp.first_sequence
            && self.offset.checked_add(self.count.into()) == Some(frame.offset);
        match self.count.checked_add(frame.count).filter(|count| follows && *count <= MAX_RUN) {
            Some(count) => {
                self.count = count;
                true
            }
            None => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Producer {
    epoch: ProducerEpoch,
    /// The newest last; never empty.
    runs: VecDeque<Run>,
    last_append_time: u64,
    /// The offset of its last frame.
    last_offset: Offset,
}

impl Producer {
    fn expected(&self) -> Sequence {
        self.runs.back().map_or(Sequence(0), |last| last.first.advance(last.count))
    }
}

/// What was forgotten to make room.
#[derive(Debug, Default)]
pub(crate) struct Forgotten {
    /// The highest id that had been forgotten before.
    before: Option<ProducerId>,
    producers: Vec<(ProducerId, Producer)>,
}

/// A frame as the sequence check sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sequenced {
    pub(crate) stamp: ProducerStamp,
    pub(crate) count: u32,
    /// The offset that it gets if it is new.
    pub(crate) offset: Offset,
    pub(crate) append_time: u64,
}

/// What the sequence check says of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    New,
    /// Appended before, at that offset.
    Duplicate(Offset),
}

/// The producers of one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProducerTable {
    producers: HashMap<ProducerId, Producer>,
    /// The highest id that was forgotten. The broker gives out rising ids: whoever has a lower one, and is not known, may have been known, so
    /// that its first batch may be one that is here already.
    forgotten: Option<ProducerId>,
}

impl ProducerTable {
    /// Checks one frame and changes nothing. A producer whose idle time is over counts as unknown, and so does one that was forgotten to make room:
    /// also where it begins with sequence 0, as that may be a repetition.
    pub(crate) fn check(&self, frame: &Sequenced, config: &ProducerConfig) -> Result<Verdict, ProducerError> {
        let ProducerStamp { id, epoch, first_sequence: got } = frame.stamp;
        let expiry = u64::try_from(config.expiry.as_nanos()).unwrap_or(u64::MAX);
        let Some(producer) = self.producers.get(&id) else {
            let is_new = got == Sequence(0) && self.forgotten.is_none_or(|forgotten| forgotten < id);
            return if is_new { Ok(Verdict::New) } else { Err(ProducerError::Unknown { id }) };
        };
        if frame.append_time.saturating_sub(producer.last_append_time) > expiry {
            let is_new = got == Sequence(0) && producer.epoch < epoch;
            return if is_new { Ok(Verdict::New) } else { Err(ProducerError::Unknown { id }) };
        }
        if epoch < producer.epoch {
            return Err(ProducerError::Fenced { id, current: producer.epoch, got: epoch });
        }
        if epoch > producer.epoch {
            let expected = Sequence(0);
            return if got == expected { Ok(Verdict::New) } else { Err(ProducerError::OutOfSequence { id, expected, got }) };
        }
        if let Some(earlier) = producer.runs.iter().find_map(|run| run.find(got, frame.count)) {
            return Ok(Verdict::Duplicate(earlier));
        }
        let expected = producer.expected();
        if got == expected { Ok(Verdict::New) } else { Err(ProducerError::OutOfSequence { id, expected, got }) }
    }

    /// Notes a frame that is in the log. Answers what had to be forgotten for it, for [`ProducerTable::restore`].
    pub(crate) fn note(&mut self, frame: &Sequenced, config: &ProducerConfig) -> Forgotten {
        let mut forgotten = Forgotten { before: self.forgotten, producers: Vec::new() };
        if self.producers.len() >= config.max && !self.producers.contains_key(&frame.stamp.id) {
            forgotten.producers = self.make_room(frame.append_time, config);
            self.forgotten = self.forgotten.max(forgotten.producers.iter().map(|(id, _)| *id).max());
        }
        let fresh = || Producer {
            epoch: frame.stamp.epoch,
            runs: VecDeque::with_capacity(REMEMBERED),
            last_append_time: 0,
            last_offset: Offset::ZERO,
        };
        let producer = self.producers.entry(frame.stamp.id).or_insert_with(fresh);
        // Sequence 0 that is no repetition begins a new life: a new epoch.
        if producer.epoch != frame.stamp.epoch || frame.stamp.first_sequence != producer.expected() {
            *producer = fresh();
        }
        producer.last_offset = frame.offset;
        if !producer.runs.back_mut().is_some_and(|last| last.extend(frame)) {
            if producer.runs.len() == REMEMBERED {
                producer.runs.pop_front();
            }
            producer.runs.push_back(Run { first: frame.stamp.first_sequence, count: frame.count, offset: frame.offset });
        }
        producer.last_append_time = producer.last_append_time.max(frame.append_time);
        forgotten
    }

    /// What is known of a producer, to be given back to [`ProducerTable::restore`] where an append comes to nothing.
    pub(crate) fn saved(&self, id: ProducerId) -> Option<Producer> {
        self.producers.get(&id).cloned()
    }

    pub(crate) fn restore(&mut self, id: ProducerId, saved: Option<Producer>, forgotten: Forgotten) {
        match saved {
            Some(producer) => self.producers.insert(id, producer),
            None => self.producers.remove(&id),
        };
        self.forgotten = forgotten.before;
        self.producers.extend(forgotten.producers);
    }

    /// Forgets the expired, or else the longest idle.
    fn make_room(&mut self, now: u64, config: &ProducerConfig) -> Vec<(ProducerId, Producer)> {
        let expiry = u64::try_from(config.expiry.as_nanos()).unwrap_or(u64::MAX);
        let is_expired = |producer: &Producer| now.saturating_sub(producer.last_append_time) > expiry;
        let mut forgotten: Vec<_> = self.producers.extract_if(|_, producer| is_expired(producer)).collect();
        while self.producers.len() >= config.max.max(1) {
            let Some(idle) =
                self.producers.iter().min_by_key(|(id, producer)| (producer.last_append_time, **id)).map(|(id, _)| *id)
            else {
                break;
            };
            forgotten.extend(self.producers.remove_entry(&idle));
        }
        forgotten
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.producers.is_empty() && self.forgotten.is_none()
    }

    /// Whether the frame at `offset` is the last of its producer: compaction keeps it, so that the state can be rebuilt.
    pub(crate) fn is_last_of(&self, id: ProducerId, offset: Offset) -> bool {
        self.producers.get(&id).is_some_and(|producer| producer.last_offset == offset)
    }

    /// Begins with `end`: under the name of another snapshot it would leave out what was appended between the two, or have it twice.
    fn encode(&self, salt: &FrameSalt, end: Offset) -> Vec<u8> {
        let mut body = end.0.to_be_bytes().to_vec();
        body.extend_from_slice(&self.forgotten.unwrap_or(ProducerId(-1)).0.to_be_bytes());
        for (id, producer) in &self.producers {
            body.extend_from_slice(&id.0.to_be_bytes());
            body.extend_from_slice(&u32::from(producer.epoch.0.cast_unsigned()).to_be_bytes());
            body.extend_from_slice(&producer.last_append_time.to_be_bytes());
            body.extend_from_slice(&producer.last_offset.0.to_be_bytes());
            body.extend_from_slice(&u32::try_from(producer.runs.len()).unwrap_or(0).to_be_bytes());
            for run in &producer.runs {
                body.extend_from_slice(&run.first.0.to_be_bytes());
                body.extend_from_slice(&run.count.to_be_bytes());
                body.extend_from_slice(&run.offset.0.to_be_bytes());
            }
        }
        KIND.seal(&body, salt)
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let mut body = Reader(body);
        let mut producers = HashMap::new();
        let forgotten = Some(ProducerId(body.i64()?)).filter(|id| id.0 >= 0);
        while !body.0.is_empty() {
            let id = ProducerId(body.i64()?);
            let epoch = ProducerEpoch(u16::try_from(body.u32()?).ok()?.cast_signed());
            let last_append_time = body.u64()?;
            let last_offset = Offset(body.u64()?);
            let count = body.u32()?;
            let mut runs = VecDeque::with_capacity(REMEMBERED);
            for _ in 0..count {
                let first = Sequence(body.u32_signed()?);
                runs.push_back(Run { first, count: body.u32()?, offset: Offset(body.u64()?) });
            }
            producers.insert(id, Producer { epoch, runs, last_append_time, last_offset });
        }
        Some(Self { producers, forgotten })
    }

    /// Stores the state that holds up to `end`, which is flushed, and removes older snapshots but the last.
    pub(crate) fn store(&self, disk: &dyn Disk, dir: &Path, salt: &FrameSalt, end: Offset) -> io::Result<()> {
        write_atomically(disk, dir, &FileName::Producers(end).build(), &self.encode(salt, end))?;
        let mut older = snapshots(disk, dir)?;
        older.retain(|offset| *offset < end);
        // The one before is kept, in case this one rots.
        older.pop();
        for offset in older {
            disk.remove_file(&dir.join(FileName::Producers(offset).build()))?;
        }
        Ok(())
    }

    /// One snapshot; `None` where it is damaged, or another one's.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path, salt: &FrameSalt, end: Offset) -> io::Result<Option<Self>> {
        let path = dir.join(FileName::Producers(end).build());
        if let Some(body) = KIND.read(disk, &path, salt)?.flatten() {
            let named = body.split_first_chunk().filter(|(told, _)| u64::from_be_bytes(**told) == end.0);
            return Ok(named.and_then(|(_, producers)| Self::decode(producers)));
        }
        Ok(UNNAMED.read(disk, &path, salt)?.flatten().as_deref().and_then(Self::decode))
    }

    pub(crate) fn len(&self) -> usize {
        self.producers.len()
    }

    /// The newest whole snapshot, and up to where it holds.
    pub(crate) fn load(disk: &dyn Disk, dir: &Path, salt: &FrameSalt) -> io::Result<Option<(Self, Offset)>> {
        for end in snapshots(disk, dir)?.into_iter().rev() {
            match Self::read(disk, dir, salt, end)? {
                Some(table) => return Ok(Some((table, end))),
                None => {
                    let path = dir.join(FileName::Producers(end).build());
                    tracing::warn!(path = %path.display(), "the snapshot of producer state is damaged; an older one, or the log, takes its place");
                }
            }
        }
        Ok(None)
    }
}

fn snapshots(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<Offset>> {
    let entries = disk.list(dir)?;
    let mut ends: Vec<_> = entries
        .iter()
        .filter_map(|entry| match FileName::parse(&entry.name) {
            Some(FileName::Producers(end)) => Some(end),
            _ => None,
        })
        .collect();
    ends.sort_unstable();
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const CONFIG: ProducerConfig = ProducerConfig { expiry: Duration::from_nanos(1000), max: 3 };

    fn frame(id: i64, epoch: i16, sequence: i32, count: u32, offset: u64, time: u64) -> Sequenced {
        let stamp = ProducerStamp { id: ProducerId(id), epoch: ProducerEpoch(epoch), first_sequence: Sequence(sequence) };
        Sequenced { stamp, count, offset: Offset(offset), append_time: time }
    }

    #[test]
    fn a_batch_that_comes_again_gets_its_offset_again() {
        let mut table = ProducerTable::default();
        for i in 0..7u32 {
            let frame = frame(1, 0, i32::try_from(i).unwrap() * 2, 2, u64::from(i) * 10, 5);
            assert_eq!(table.check(&frame, &CONFIG), Ok(Verdict::New));
            table.note(&frame, &CONFIG);
        }
        for i in 2..7u32 {
            let again = frame(1, 0, i32::try_from(i).unwrap() * 2, 2, 999, 6);
            assert_eq!(table.check(&again, &CONFIG), Ok(Verdict::Duplicate(Offset(u64::from(i) * 10))));
        }
        // Older than what is remembered, a gap, and an overlap: refused, never appended a second time.
        for (sequence, count) in [(2, 2), (16, 2), (12, 3)] {
            let refused = table.check(&frame(1, 0, sequence, count, 999, 6), &CONFIG);
            assert!(matches!(refused, Err(ProducerError::OutOfSequence { expected: Sequence(14), .. })), "{sequence} × {count}");
        }
    }

    #[test]
    fn any_number_of_frames_in_a_row_is_remembered_as_one_run_also_across_the_wrap() {
        let mut table = ProducerTable::default();
        table.note(&frame(1, 0, i32::MAX - 1, 2, 100, 5), &CONFIG);
        for i in 0..1000u32 {
            let next = frame(1, 0, i32::try_from(i).unwrap(), 1, 102 + u64::from(i), 5);
            assert_eq!(table.check(&next, &CONFIG), Ok(Verdict::New));
            table.note(&next, &CONFIG);
        }
        for i in 0..1000u32 {
            let again = frame(1, 0, i32::try_from(i).unwrap(), 1, 9999, 6);
            assert_eq!(table.check(&again, &CONFIG), Ok(Verdict::Duplicate(Offset(102 + u64::from(i)))));
        }
        assert_eq!(table.check(&frame(1, 0, i32::MAX, 2, 9999, 6), &CONFIG), Ok(Verdict::Duplicate(Offset(101))));
        let overlap = table.check(&frame(1, 0, 999, 2, 9999, 6), &CONFIG);
        assert!(matches!(overlap, Err(ProducerError::OutOfSequence { .. })));
    }

    #[test]
    fn epochs_fence_and_sequences_wrap() {
        let mut table = ProducerTable::default();
        assert_eq!(table.check(&frame(1, 0, 3, 1, 0, 0), &CONFIG), Err(ProducerError::Unknown { id: ProducerId(1) }));
        table.note(&frame(1, 4, 0, 1, 0, 0), &CONFIG);
        assert!(matches!(table.check(&frame(1, 3, 1, 1, 1, 0), &CONFIG), Err(ProducerError::Fenced { .. })));
        assert!(matches!(table.check(&frame(1, 5, 1, 1, 1, 0), &CONFIG), Err(ProducerError::OutOfSequence { .. })));
        assert_eq!(table.check(&frame(1, 5, 0, 1, 1, 0), &CONFIG), Ok(Verdict::New));
        table.note(&frame(1, 5, i32::MAX, 2, 1, 0), &CONFIG);
        assert_eq!(table.check(&frame(1, 5, 1, 1, 3, 0), &CONFIG), Ok(Verdict::New));
    }

    #[test]
    fn the_idle_are_forgotten_and_the_number_is_bounded() {
        let mut table = ProducerTable::default();
        for id in 0..5 {
            table.note(&frame(id, 0, 0, 1, 0, 100 + id.cast_unsigned()), &CONFIG);
        }
        assert_eq!(table.producers.len(), 3);
        assert!(matches!(table.check(&frame(4, 0, 1, 1, 9, 200), &CONFIG), Ok(Verdict::New)));
        assert!(matches!(table.check(&frame(4, 0, 1, 1, 9, 2000), &CONFIG), Err(ProducerError::Unknown { .. })));
    }

    #[test]
    fn a_snapshot_holds_under_its_own_name_alone() {
        let disk = crate::disk::sim::SimDisk::new(1);
        let dir = Path::new("/p");
        disk.create_dir_all(dir).unwrap();
        let salt = FrameSalt::new(hermit_proto::TopicId(1), hermit_proto::PartitionId(2));
        let mut table = ProducerTable::default();
        table.note(&frame(1, 0, 0, 7, 0, 100), &CONFIG);
        let path = |end| dir.join(FileName::Producers(Offset(end)).build());
        table.store(&disk, dir, &salt, Offset(7)).unwrap();
        assert_eq!(ProducerTable::load(&disk, dir, &salt).unwrap(), Some((table.clone(), Offset(7))));
        // What was appended from 7 to 9 is not in it.
        disk.rename(&path(7), &path(9)).unwrap();
        assert_eq!(ProducerTable::load(&disk, dir, &salt).unwrap(), None);

        let body = table.encode(&salt, Offset(9));
        let unnamed = UNNAMED.seal(&KIND.open(&body, &salt).unwrap()[8..], &salt);
        write_atomically(&disk, dir, &FileName::Producers(Offset(9)).build(), &unnamed).unwrap();
        assert_eq!(ProducerTable::load(&disk, dir, &salt).unwrap(), Some((table, Offset(9))), "of the format before");
    }
}
