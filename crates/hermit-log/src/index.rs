//! The sparse index of a segment: an entry for about every 4 KiB of log, to find an offset, a position or a time.
//!
//! `<base>.idx` holds 16-byte entries — relative offset u32, position u32, append time u64, big-endian — and, once the segment is sealed, a
//! [`Footer`]. It is derived from the log and never the truth: what it leads to is checked, and it is rebuilt when it does not hold.

use std::io;

use hermit_proto::{Crc32c, FrameSalt, Offset, crc32c};

use crate::disk::DiskFile;
use crate::state_file::tied_crc;

pub(crate) const ENTRY_SIZE: usize = 16;
/// Entries that gather in memory before they are written: one page of the file.
const TAIL_ENTRIES: usize = 256;
const PAGE_BYTES: usize = TAIL_ENTRIES * ENTRY_SIZE;

/// Where one frame begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    /// The frame's offset less the segment's base offset.
    pub(crate) relative_offset: u32,
    /// The frame's position in the segment.
    pub(crate) position: u32,
    /// The frame's append time.
    pub(crate) append_time: u64,
}

impl IndexEntry {
    pub(crate) fn encode(self) -> [u8; ENTRY_SIZE] {
        let packed = u128::from(self.relative_offset) << 96 | u128::from(self.position) << 64 | u128::from(self.append_time);
        packed.to_be_bytes()
    }

    #[expect(clippy::cast_possible_truncation, reason = "each field is cut out of the packed number at its width")]
    pub(crate) const fn decode(bytes: [u8; ENTRY_SIZE]) -> Self {
        let packed = u128::from_be_bytes(bytes);
        Self { relative_offset: (packed >> 96) as u32, position: (packed >> 64) as u32, append_time: packed as u64 }
    }

    pub(crate) const fn offset(self, base: Offset) -> Offset {
        Offset(base.0.saturating_add(self.relative_offset as u64))
    }
}

/// Decodes entries that lie back to back; a rest shorter than an entry is ignored.
pub(crate) fn decode_entries(bytes: &[u8]) -> Vec<IndexEntry> {
    bytes.as_chunks::<ENTRY_SIZE>().0.iter().map(|entry| IndexEntry::decode(*entry)).collect()
}

pub(crate) fn encode_entries(entries: &[IndexEntry]) -> Vec<u8> {
    entries.iter().flat_map(|entry| entry.encode()).collect()
}

/// What a sealed segment's index says about the segment, at the end of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) base: Offset,
    /// The offset behind the segment's last frame.
    pub(crate) end: Offset,
    /// The segment's logical size in bytes.
    pub(crate) wal_bytes: u64,
    /// The size of the segment's file. Where the file has another size, this index is an older one that a power cut brought back, or a
    /// newer one whose segment it took.
    pub(crate) file_bytes: u64,
    pub(crate) last_append_time: u64,
    pub(crate) entry_count: u32,
    pub(crate) entries_crc: u32,
}

pub(crate) const FOOTER_SIZE: usize = 60;
const FOOTER_MAGIC: [u8; 4] = *b"HIDX";
/// Version 1 was the same, and its checksum was not tied to the partition.
const FOOTER_VERSION: u32 = 2;
const FOOTER_CRC_AT: usize = FOOTER_SIZE - 4;

impl Footer {
    pub(crate) fn encode(&self, salt: &FrameSalt) -> [u8; FOOTER_SIZE] {
        let mut bytes = Vec::with_capacity(FOOTER_SIZE);
        bytes.extend_from_slice(&FOOTER_MAGIC);
        bytes.extend_from_slice(&FOOTER_VERSION.to_be_bytes());
        for number in [self.base.0, self.end.0, self.wal_bytes, self.file_bytes, self.last_append_time] {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        bytes.extend_from_slice(&self.entry_count.to_be_bytes());
        bytes.extend_from_slice(&self.entries_crc.to_be_bytes());
        let crc = tied_crc(&bytes, salt);
        bytes.extend_from_slice(&crc.to_be_bytes());
        let mut footer = [0; FOOTER_SIZE];
        footer.copy_from_slice(&bytes);
        footer
    }

    pub(crate) fn decode(bytes: &[u8; FOOTER_SIZE], salt: &FrameSalt) -> Option<Self> {
        let (covered, crc) = bytes.split_at(FOOTER_CRC_AT);
        let mut rest = covered;
        let take_u64 = |rest: &mut &[u8]| -> Option<u64> {
            let (head, tail) = rest.split_first_chunk::<8>()?;
            *rest = tail;
            Some(u64::from_be_bytes(*head))
        };
        let magic_and_version = take_u64(&mut rest)?;
        let of_version = |version: u32| u64::from(u32::from_be_bytes(FOOTER_MAGIC)) << 32 | u64::from(version);
        let expected = match magic_and_version {
            known if known == of_version(FOOTER_VERSION) => tied_crc(covered, salt),
            older if older == of_version(1) => crc32c(covered),
            _newer_or_none => return None,
        };
        if crc != expected.to_be_bytes() {
            return None;
        }
        let base = Offset(take_u64(&mut rest)?);
        let end = Offset(take_u64(&mut rest)?);
        let wal_bytes = take_u64(&mut rest)?;
        let file_bytes = take_u64(&mut rest)?;
        let last_append_time = take_u64(&mut rest)?;
        let counts = take_u64(&mut rest)?;
        let entry_count = u32::try_from(counts >> 32).ok()?;
        let entries_crc = u32::try_from(counts & u64::from(u32::MAX)).ok()?;
        Some(Self { base, end, wal_bytes, file_bytes, last_append_time, entry_count, entries_crc })
    }

    /// The footer at the end of an index file, if there is one that fits the file's size and `base`.
    pub(crate) fn read(file: &dyn DiskFile, base: Offset, salt: &FrameSalt) -> io::Result<Option<Self>> {
        let len = file.len()?;
        let Some(at) = len.checked_sub(FOOTER_SIZE as u64) else { return Ok(None) };
        let mut bytes = [0; FOOTER_SIZE];
        file.read_exact_at(&mut bytes, at)?;
        let footer = Self::decode(&bytes, salt);
        Ok(footer.filter(|footer| footer.base == base && footer.entries_bytes() == at))
    }

    pub(crate) const fn entries_bytes(&self) -> u64 {
        self.entry_count as u64 * ENTRY_SIZE as u64
    }

    /// Bytes of the whole index file.
    pub(crate) const fn file_bytes(&self) -> u64 {
        self.entries_bytes() + FOOTER_SIZE as u64
    }
}

/// The index of the segment that is being written: the newest entries in memory, the older ones in the file.
#[derive(Debug, Default)]
pub(crate) struct ActiveIndex {
    /// Entries in the file.
    stored: u32,
    /// The first of every [`TAIL_ENTRIES`] entries in the file, so that a search reads the file once: 16 bytes for a MiB of log.
    firsts: Vec<IndexEntry>,
    tail: Vec<IndexEntry>,
    crc: Crc32c,
    last_position: Option<u32>,
}

impl ActiveIndex {
    /// Goes on with an index whose entries are all in the file.
    pub(crate) fn resume(entries: &[u8]) -> Self {
        let mut crc = Crc32c::new();
        crc.update(entries);
        let decoded = decode_entries(entries);
        Self {
            stored: u32::try_from(decoded.len()).unwrap_or(u32::MAX),
            firsts: decoded.iter().step_by(TAIL_ENTRIES).copied().collect(),
            tail: Vec::new(),
            crc,
            last_position: decoded.last().map(|entry| entry.position),
        }
    }

    /// Whether a frame at `position` is due an entry.
    pub(crate) fn is_due(&self, position: u32, interval_bytes: u32) -> bool {
        self.last_position.is_none_or(|last| position.saturating_sub(last) >= interval_bytes)
    }

    /// Adds an entry, and writes a page of them when there is one. A failure to write is no failure of the append: the entries stay
    /// in memory until a later call can write them.
    pub(crate) fn push(&mut self, entry: IndexEntry, file: impl FnOnce() -> io::Result<std::sync::Arc<dyn DiskFile>>) {
        self.crc.update(&entry.encode());
        self.last_position = Some(entry.position);
        self.tail.push(entry);
        if self.tail.len().is_multiple_of(TAIL_ENTRIES) {
            // Whatever the reason, the entries are still here.
            drop(file().and_then(|file| self.store(&*file)));
        }
    }

    fn store(&mut self, file: &dyn DiskFile) -> io::Result<()> {
        file.write_all_at(&encode_entries(&self.tail), self.stored_bytes())?;
        let first_due = (self.stored as usize).next_multiple_of(TAIL_ENTRIES) - self.stored as usize;
        self.firsts.extend(self.tail.iter().skip(first_due).step_by(TAIL_ENTRIES));
        self.stored = self.stored.saturating_add(u32::try_from(self.tail.len()).unwrap_or(u32::MAX));
        self.tail.clear();
        Ok(())
    }

    /// Whether none of the entries is in the file.
    pub(crate) const fn is_in_memory(&self) -> bool {
        self.stored == 0
    }

    const fn stored_bytes(&self) -> u64 {
        self.stored as u64 * ENTRY_SIZE as u64
    }

    /// Writes what is left and the footer, so that the file can be trusted. Not synced: the checksums tell whether it arrived.
    pub(crate) fn seal(&mut self, file: &dyn DiskFile, footer: SealFacts) -> io::Result<Footer> {
        let salt = footer.salt;
        self.store(file)?;
        let footer = Footer {
            base: footer.base,
            end: footer.end,
            wal_bytes: footer.wal_bytes,
            file_bytes: footer.file_bytes,
            last_append_time: footer.last_append_time,
            entry_count: self.stored,
            entries_crc: self.crc.finish(),
        };
        file.write_all_at(&footer.encode(&salt), self.stored_bytes())?;
        file.set_len(footer.file_bytes())?;
        Ok(footer)
    }

    /// All entries; reads those in the file.
    pub(crate) fn entries(&self, file: impl FnOnce() -> io::Result<std::sync::Arc<dyn DiskFile>>) -> io::Result<Vec<IndexEntry>> {
        if self.is_in_memory() {
            // There may be no file: none could be made.
            return Ok(self.tail.clone());
        }
        let mut stored = vec![0; usize::try_from(self.stored_bytes()).unwrap_or(usize::MAX)];
        file()?.read_exact_at(&mut stored, 0)?;
        let mut entries = decode_entries(&stored);
        entries.extend_from_slice(&self.tail);
        Ok(entries)
    }

    /// The last entry for which `before` holds, where it holds for a prefix of the entries.
    pub(crate) fn last_where(
        &self,
        file: impl FnOnce() -> io::Result<std::sync::Arc<dyn DiskFile>>,
        before: impl Fn(&IndexEntry) -> bool,
    ) -> io::Result<Option<IndexEntry>> {
        if self.tail.first().is_some_and(&before) {
            let count = self.tail.partition_point(before);
            return Ok(count.checked_sub(1).and_then(|last| self.tail.get(last)).copied());
        }
        let Some(page) = self.firsts.partition_point(&before).checked_sub(1) else { return Ok(None) };
        let mut bytes = [0; PAGE_BYTES];
        let count = (self.stored as usize - page * TAIL_ENTRIES).min(TAIL_ENTRIES);
        let entries = bytes.get_mut(..count * ENTRY_SIZE).unwrap_or_default();
        file()?.read_exact_at(entries, (page * PAGE_BYTES) as u64)?;
        Ok(search_bytes(entries, before))
    }
}

/// What sealing writes down about the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealFacts {
    pub(crate) salt: FrameSalt,
    pub(crate) base: Offset,
    pub(crate) end: Offset,
    pub(crate) wal_bytes: u64,
    pub(crate) file_bytes: u64,
    pub(crate) last_append_time: u64,
}

/// The last of the entries that lie back to back for which `before` holds, where it holds for a prefix of them.
pub(crate) fn search_bytes(bytes: &[u8], before: impl Fn(&IndexEntry) -> bool) -> Option<IndexEntry> {
    let (entries, _rest) = bytes.as_chunks::<ENTRY_SIZE>();
    let count = entries.partition_point(|entry| before(&IndexEntry::decode(*entry)));
    count.checked_sub(1).and_then(|last| entries.get(last)).map(|entry| IndexEntry::decode(*entry))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::sim::SimDisk;
    use crate::disk::{Disk as _, Open};

    fn entry(i: u32) -> IndexEntry {
        IndexEntry { relative_offset: i * 10, position: i * 4096, append_time: u64::from(i) * 1000 }
    }

    #[test]
    fn entries_and_footers_survive_the_round_trip_and_bad_footers_do_not() {
        assert_eq!(IndexEntry::decode(entry(7).encode()), entry(7));
        let footer = Footer {
            base: Offset(5),
            end: Offset(99),
            wal_bytes: 12345,
            file_bytes: 12347,
            last_append_time: 77,
            entry_count: 3,
            entries_crc: 42,
        };
        let salt = FrameSalt::new(hermit_proto::TopicId(3), hermit_proto::PartitionId(4));
        let bytes = footer.encode(&salt);
        assert_eq!(Footer::decode(&bytes, &salt), Some(footer));
        let other = FrameSalt::new(hermit_proto::TopicId(3), hermit_proto::PartitionId(5));
        assert_eq!(Footer::decode(&bytes, &other), None, "that of another partition");
        for bit in 0..FOOTER_SIZE * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Footer::decode(&bad, &salt), None, "bit {bit}");
        }
    }

    #[test]
    fn a_search_in_the_index_of_a_segment_that_is_written_finds_the_last_entry_before_and_reads_the_file_once() {
        let disk = SimDisk::new(1);
        let file = disk.open(Path::new("/idx"), Open::CreateNew).unwrap();
        // Also of one that goes on with entries that end within a page.
        for resumed in [0, 1, 255, 256, 300, 600] {
            let bytes = encode_entries(&(0..resumed).map(entry).collect::<Vec<_>>());
            file.write_all_at(&bytes, 0).unwrap();
            let mut index = ActiveIndex::resume(&bytes);
            for count in resumed..1000 {
                for target in [0, 5, count * 5, count.saturating_sub(1) * 10, count * 10] {
                    let opened = std::cell::Cell::new(0);
                    let open = || {
                        opened.set(opened.get() + 1);
                        Ok(std::sync::Arc::clone(&file))
                    };
                    let found = index.last_where(open, |e| e.relative_offset <= target).unwrap();
                    let expected = (count > 0).then(|| entry((target / 10).min(count.saturating_sub(1))));
                    assert_eq!(found, expected, "{target} in {count} of which {resumed} were there");
                    assert!(opened.get() <= 1);
                }
                index.push(entry(count), || Ok(std::sync::Arc::clone(&file)));
            }
        }
    }

    #[test]
    fn a_search_finds_the_last_entry_before() {
        let bytes = encode_entries(&(0..1000).map(entry).collect::<Vec<_>>());
        for target in [0, 1, 9, 10, 11, 5555, 9990, 20000] {
            let expected = entry((target / 10).min(999));
            assert_eq!(search_bytes(&bytes, |e| e.relative_offset <= target), Some(expected));
        }
        assert_eq!(search_bytes(&bytes, |_| false), None);
        assert_eq!(search_bytes(&[], |_| true), None);
    }
}
