//! Builds a partition's directory, sound, damaged or senseless, as the fuzzer says.

use std::path::Path;

use hermit_proto::{
    Attributes, BrokerStamp, FramePrefix, FrameSalt, LeaderEpoch, Offset, ProducedFrame, ProducerEpoch, ProducerId, ProducerStamp,
    Sequence,
};

use super::steps::Steps;
use crate::disk::Disk as _;
use crate::disk::sim::SimDisk;
use crate::index::{Footer, IndexEntry, encode_entries};
use crate::log::LogIdentity;
use crate::names::{self, FileName};
use crate::{checkpoint, compacted, fenced, producers, start};

/// An input describes so many steps at most, so that it ends soon.
const MAX_STEPS: usize = 60;
const MAX_WAL_BYTES: usize = 64 << 10;

/// The segment that is being made.
#[derive(Debug, Default)]
struct Segment {
    base: u64,
    wal: Vec<u8>,
    entries: Vec<IndexEntry>,
    index: Option<Vec<u8>>,
}

#[derive(Debug)]
pub(super) struct Builder<'a> {
    steps: Steps<'a>,
    disk: SimDisk,
    dir: &'a Path,
    salt: FrameSalt,
    segment: Segment,
    next: u64,
    time: u64,
    epoch: u32,
}

impl<'a> Builder<'a> {
    pub(super) fn new(steps: Steps<'a>, dir: &'a Path, identity: LogIdentity) -> Self {
        let disk = SimDisk::new(0);
        disk.create_dir_all(dir).expect("the disk has no faults");
        let salt = FrameSalt::new(identity.topic, identity.partition);
        Self { steps, disk, dir, salt, segment: Segment::default(), next: 0, time: 1 << 60, epoch: 1 }
    }

    /// Takes all steps.
    pub(super) fn run(mut self) -> SimDisk {
        for _ in 0..MAX_STEPS {
            if self.steps.is_empty() {
                break;
            }
            self.step();
        }
        self.put_segment();
        self.disk
    }

    fn step(&mut self) {
        match self.steps.u8() % 14 {
            0..=2 => self.frames(),
            3 => self.begin_segment(),
            4 => {
                let bytes = self.steps.bytes();
                self.segment.wal.extend_from_slice(bytes);
            }
            5 => {
                let (at, mask) = (self.steps.below(self.segment.wal.len()), self.steps.u8());
                if let Some(byte) = self.segment.wal.get_mut(at) {
                    *byte ^= mask;
                }
            }
            6 => {
                let len = self.steps.below(self.segment.wal.len());
                self.segment.wal.truncate(len);
            }
            7 => self.seal(),
            8 => self.segment.index = Some(self.steps.bytes().to_vec()),
            9 => self.checkpoint(),
            10 => self.state_file(),
            11 => self.next = self.next.saturating_add(u64::from(self.steps.u8())),
            12 => match self.steps.u8() % 4 {
                0 => self.epoch = self.epoch.wrapping_add(1),
                1 => self.next = u64::MAX - u64::from(self.steps.u16()),
                2 => self.time = self.steps.u64(),
                _ => self.segment.wal.extend_from_slice(&[0; 512]),
            },
            _ => self.other_file(),
        }
        self.segment.wal.truncate(MAX_WAL_BYTES);
    }

    fn frames(&mut self) {
        let (repeat, flags) = (1 + self.steps.u8() % 12, self.steps.u8());
        let (key, payload) = (self.steps.bytes(), self.steps.bytes());
        // No control frames, which take no offset: nobody can write one yet.
        let record_count = if flags & 1 == 0 { 1 } else { u32::from(self.steps.u8()).max(1) };
        let stamp = ProducerStamp {
            id: ProducerId((flags >> 6).into()),
            epoch: ProducerEpoch(i16::from(flags >> 5 & 1)),
            first_sequence: Sequence(i32::from(self.steps.u8())),
        };
        let padding = if flags & 16 == 0 { 0 } else { 1500 };
        let payload = [payload, &vec![0; padding]].concat();
        for _ in 0..repeat {
            let frame = ProducedFrame {
                timestamp: 5,
                attributes: Attributes(0),
                record_count,
                producer: (flags & 2 != 0).then_some(stamp),
                key: (flags & 4 != 0).then_some(key),
                payload: &payload,
            };
            let Ok(mut bytes) = frame.to_vec() else { return };
            // All of the segment is claimed to have been flushed, or nothing, or who knows.
            let flushed_distance = match flags >> 3 & 1 {
                0 => 0,
                _ => u32::try_from(self.segment.wal.len()).unwrap_or(u32::MAX),
            };
            let (offset, leader_epoch) = (Offset(self.next), LeaderEpoch(self.epoch));
            let stamp = BrokerStamp { offset, leader_epoch, append_time: self.time, flushed_distance };
            if let Some(prefix) = bytes.first_chunk_mut() {
                FramePrefix::stamp(prefix, &stamp, &self.salt);
            }
            self.segment.entries.push(IndexEntry {
                relative_offset: u32::try_from(self.next.saturating_sub(self.segment.base)).unwrap_or(u32::MAX),
                position: u32::try_from(self.segment.wal.len()).unwrap_or(u32::MAX),
                append_time: self.time,
            });
            self.segment.wal.extend_from_slice(&bytes);
            self.next = self.next.saturating_add(record_count.into());
            self.time = self.time.saturating_add(1);
        }
    }

    /// The index of a sealed segment, as it should be, or with other numbers under right checksums.
    fn seal(&mut self) {
        let entries = encode_entries(&self.segment.entries);
        let (which, add) = (self.steps.u8() % 16, u64::from(self.steps.u8()));
        let off = |number, value: u64| if which == number { value.wrapping_add(add << 4) } else { value };
        let mut stored = entries.clone();
        if which == 6
            && let Some(byte) = stored.get_mut(usize::try_from(add).unwrap_or(0))
        {
            *byte ^= 1 << (add % 8);
        }
        let wal_bytes = self.segment.wal.len() as u64;
        let footer = Footer {
            base: Offset(off(1, self.segment.base)),
            end: Offset(off(2, self.next)),
            wal_bytes: off(3, wal_bytes),
            file_bytes: off(4, wal_bytes),
            last_append_time: off(5, self.time),
            entry_count: u32::try_from(self.segment.entries.len()).unwrap_or(u32::MAX),
            entries_crc: hermit_proto::crc32c(if which == 7 { &stored } else { &entries }),
        };
        stored.extend_from_slice(&footer.encode(&self.salt));
        self.segment.index = Some(stored);
    }

    fn put_segment(&mut self) {
        let segment = std::mem::take(&mut self.segment);
        let base = Offset(segment.base);
        if !segment.wal.is_empty() {
            self.put(&FileName::Wal(base).build(), &segment.wal);
        }
        if let Some(index) = segment.index {
            self.put(&FileName::Index(base).build(), &index);
        }
    }

    fn begin_segment(&mut self) {
        self.put_segment();
        let gap = u64::from(self.steps.u8());
        // Usually where the last one ends; now and then before, or behind a gap.
        self.segment.base = if gap < 200 { self.next } else { self.next.saturating_sub(210).saturating_add(gap - 200) };
    }

    fn checkpoint(&mut self) {
        let (back, sequence) = (u64::from(self.steps.u8()), u64::from(self.steps.u8()));
        let position = (self.segment.wal.len() as u64).wrapping_sub(self.steps.u8().into());
        let numbers = [sequence, self.next.wrapping_sub(back), self.segment.base, position];
        let slot = checkpoint::KIND.seal(&numbers.map(u64::to_be_bytes).concat(), &self.salt);
        let mut file = self.disk.bytes(&self.dir.join(names::CHECKPOINT)).unwrap_or_else(|| vec![0; 2 * 4096]);
        let at = if sequence % 2 == 0 { 0 } else { 4096 };
        if let Some(place) = file.get_mut(at..at + slot.len()) {
            place.copy_from_slice(&slot);
        }
        self.put(names::CHECKPOINT, &file);
    }

    fn state_file(&mut self) {
        let which = self.steps.u8();
        let near = self.next.wrapping_sub(u64::from(self.steps.u8())).to_be_bytes().to_vec();
        let far = self.steps.bytes().to_vec();
        let body = if which & 0x80 == 0 { near } else { far };
        let (name, kind) = match which % 4 {
            0 => (names::START.to_owned(), start::KIND),
            1 => (names::COMPACTED.to_owned(), compacted::KIND),
            2 => {
                let at = (self.segment.wal.len() as u64).wrapping_sub(self.steps.u16().into());
                let length = u64::from(self.steps.u8());
                let fields = [self.segment.base, at, at.wrapping_add(length), self.next, self.next.wrapping_add(length)];
                let body = [body, fields.map(u64::to_be_bytes).concat()].concat();
                let whole = body.len() - body.len() % 40;
                let from = body.len() - whole;
                let sealed = fenced::KIND.seal(body.get(from..).unwrap_or_default(), &self.salt);
                return self.put(names::FENCED, &sealed);
            }
            _ => {
                let body = [&self.next.to_be_bytes()[..], &body].concat();
                return self.put(&FileName::Producers(Offset(self.next)).build(), &producers::KIND.seal(&body, &self.salt));
            }
        };
        self.put(&name, &kind.seal(&body, &self.salt));
    }

    /// Damaged state, leftovers, and files of others.
    fn other_file(&mut self) {
        let base = Offset(self.segment.base);
        let name = match self.steps.u8() % 10 {
            0 => names::START.to_owned(),
            1 => names::COMPACTED.to_owned(),
            2 => names::FENCED.to_owned(),
            3 => names::CHECKPOINT.to_owned(),
            4 => FileName::Producers(base).build(),
            5 => format!("{}.tmp", FileName::Wal(base).build()),
            6 => names::cut_name(base, 5, 1),
            7 => "topic".to_owned(),
            8 => FileName::Index(Offset(self.next)).build(),
            _ => FileName::Wal(Offset(self.next)).build(),
        };
        let bytes = self.steps.bytes();
        self.put(&name, bytes);
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        assert!(self.disk.put(&self.dir.join(name), bytes), "the directory is there");
    }
}
