//! The index, and the small files of a log.

use std::path::Path;
use std::time::Duration;

use hermit_proto::{FrameSalt, Offset, PartitionId, ProducerEpoch, ProducerId, ProducerStamp, Sequence, TopicId};

use super::steps::Steps;
use crate::checkpoint::Checkpoint;
use crate::config::ProducerConfig;
use crate::disk::sim::SimDisk;
use crate::disk::{Disk as _, Open};
use crate::fenced::Fenced;
use crate::index::{ActiveIndex, FOOTER_SIZE, Footer, decode_entries, encode_entries, search_bytes};
use crate::names::{self, FileName};
use crate::producers::{ProducerTable, Sequenced, Verdict};
use crate::state_file::tied_crc;
use crate::{checkpoint, compacted, fenced, producers, start};

const SALT: FrameSalt = FrameSalt::new(TopicId(7), PartitionId(3));

fn disk() -> SimDisk {
    let disk = SimDisk::new(0);
    disk.create_dir_all(Path::new("/p")).expect("the disk has no faults");
    disk
}

/// Entries and footers: what can be read is written again as it was, and a search never leaves the entries.
///
/// # Panics
/// Where that does not hold.
pub fn index(data: &[u8]) {
    let entries = decode_entries(data);
    assert_eq!(data.get(..entries.len() * crate::index::ENTRY_SIZE), Some(&*encode_entries(&entries)));
    for entry in entries.iter().take(8) {
        // In entries that do not rise a search finds something or nothing, but ends.
        let found = search_bytes(data, |other| other.position <= entry.position);
        assert!(found.is_none_or(|found| entries.contains(&found)));
    }
    let resumed = ActiveIndex::resume(data);
    assert!(!resumed.is_due(0, 1) || entries.is_empty());

    let disk = disk();
    let path = Path::new("/p/i");
    if let Some((body, tail)) = data.split_last_chunk::<{ FOOTER_SIZE - 4 }>() {
        let mut footer = [0; FOOTER_SIZE];
        footer[..FOOTER_SIZE - 4].copy_from_slice(tail);
        // With and without the marks of a footer.
        if tail[0] % 2 == 0 {
            footer[..8].copy_from_slice(b"HIDX\0\0\0\x02");
        }
        let crc = tied_crc(&footer[..FOOTER_SIZE - 4], &SALT);
        footer[FOOTER_SIZE - 4..].copy_from_slice(&crc.to_be_bytes());
        if let Some(footer_read) = Footer::decode(&footer, &SALT) {
            assert_eq!(footer_read.encode(&SALT), footer);
            disk.put(path, &[body, &footer].concat());
            let file = disk.open(path, Open::Read).expect("it is there");
            let fits = Footer::read(&*file, footer_read.base, &SALT).expect("the disk has no faults");
            assert_eq!(fits.is_some(), footer_read.entries_bytes() == body.len() as u64);
        }
    }
    disk.put(path, data);
    let file = disk.open(path, Open::Read).expect("it is there");
    let _found = Footer::read(&*file, Offset::ZERO, &SALT).expect("a short file is no error");
}

/// The small files of a log, raw and under a right checksum: damaged or sound, never an error, and a table of producers goes on from whatever it read.
///
/// # Panics
/// Where that does not hold.
pub fn state_files(data: &[u8]) {
    let Some((mode, body)) = data.split_first() else { return };
    let disk = disk();
    let dir = Path::new("/p");
    let put = |name: &str, kind: crate::state_file::Kind| {
        let sealed = kind.seal(body, &SALT);
        disk.put(&dir.join(name), if mode % 2 == 0 { &sealed } else { body });
    };
    put(names::CHECKPOINT, checkpoint::KIND);
    put(names::START, start::KIND);
    put(names::COMPACTED, compacted::KIND);
    put(names::FENCED, fenced::KIND);
    let told = body.first_chunk().map_or(7, |end| u64::from_be_bytes(*end));
    put(&FileName::Producers(Offset(told)).build(), producers::KIND);

    let _checkpoint = Checkpoint::read(&disk, dir, &SALT);
    let start = start::read(&disk, dir, &SALT).expect("damage is no error").expect("it is there");
    let end = compacted::read(&disk, dir, &SALT).expect("damage is no error").expect("it is there");
    if mode % 2 == 0 && body.len() >= 8 {
        assert!(start == Some(end));
    }
    let fenced = Fenced::read(&disk, dir, &SALT).expect("damage is no error");
    let mut joined = Fenced::default();
    for range in fenced.ranges() {
        joined.add(*range);
        assert!(joined.any_in(range.segment));
        let _next = joined.next_in(range.segment, range.position);
    }
    if let Some((table, _end)) = ProducerTable::load(&disk, dir, &SALT).expect("damage is no error") {
        go_on(table, body);
    }
}

fn go_on(mut table: ProducerTable, body: &[u8]) {
    let disk = disk();
    table.store(&disk, Path::new("/p"), &SALT, Offset(1)).expect("the disk has no faults");
    assert_eq!(ProducerTable::read(&disk, Path::new("/p"), &SALT, Offset(1)).expect("the disk has no faults"), Some(table.clone()));
    let config = ProducerConfig { expiry: Duration::from_secs(1), max: 4 };
    let mut steps = Steps(body);
    for _ in 0..8 {
        let id = ProducerId(steps.u64().cast_signed() & i64::MAX);
        let epoch = ProducerEpoch(steps.u16().cast_signed() & i16::MAX);
        let first = u32::from_be_bytes(std::array::from_fn(|_| steps.u8()));
        let stamp = ProducerStamp { id, epoch, first_sequence: Sequence(first.cast_signed() & i32::MAX) };
        let count = u32::from(steps.u8()) + 1;
        let frame = Sequenced { stamp, count, offset: Offset(steps.u64() >> 1), append_time: steps.u64() };
        if table.check(&frame, &config) == Ok(Verdict::New) {
            let (saved, before) = (table.saved(id), table.clone());
            let forgotten = table.note(&frame, &config);
            assert_eq!(table.check(&frame, &config), Ok(Verdict::Duplicate(frame.offset)), "what was noted is known again");
            let noted = table.clone();
            table.restore(id, saved, forgotten);
            assert_eq!(table, before, "what comes to nothing leaves nothing");
            table = noted;
        }
    }
}
