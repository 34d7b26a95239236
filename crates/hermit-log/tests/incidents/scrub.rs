//! What the scrub finds, and what it leaves alone.

use std::path::Path;
use std::sync::Arc;

use hermit_log::disk::sim::{Fault, Op};
use hermit_log::disk::{Disk, Open, RealDisk};
use hermit_log::{FencedRange, Flusher, Log, LogConfig, LogEnv, LogError, LogIdentity, ManualClock, ScrubVerdict, Start};
use hermit_proto::{LeaderEpoch, Offset};
use rustix::io::Errno;

use crate::hooked::On;
use crate::rig::{Bench, Deaf, FRAME_BYTES, append_many, consume, idx, keyed, numbers, wal};

fn config() -> LogConfig {
    LogConfig { segment_bytes: 1000, index_interval_bytes: 200, ..LogConfig::default() }
}

/// Five segments of ten frames; the last is still written to.
fn filled(bench: &Bench) -> Log {
    let (log, _) = bench.open(&config(), false, 3);
    // What later frames prove to have been flushed is no torn tail after a power cut.
    for _ in 0..10 {
        append_many(&log, 5);
        log.flush().unwrap();
    }
    log
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Pass {
    segments: Vec<u64>,
    bytes: u64,
    damaged: Vec<(u64, u64)>,
    rebuilt: Vec<u64>,
}

/// One pass over all closed segments, in steps of a few frames.
fn scrub(log: &Log) -> Pass {
    let mut pass = Pass::default();
    let mut from = Offset::ZERO;
    while let Some(mut scrub) = log.scrub(from).unwrap() {
        pass.segments.push(scrub.base().0);
        from = Offset(scrub.base().0 + 1);
        loop {
            let step = scrub.step(3 * FRAME_BYTES).unwrap();
            assert!(step.bytes <= 1000, "a step reads what it was asked for, and a frame");
            pass.bytes += step.bytes;
            pass.damaged.extend(step.damaged.iter().map(|FencedRange { from, next, .. }| (from.0, next.0)));
            match step.verdict {
                ScrubVerdict::More => {}
                ScrubVerdict::Done { rebuilt_index } => {
                    pass.rebuilt.extend(rebuilt_index.then_some(scrub.base().0));
                    break;
                }
                ScrubVerdict::Gone => break,
            }
        }
    }
    pass
}

#[test]
fn what_is_closed_is_verified_and_nothing_is_written_where_it_is_sound() {
    let bench = Bench::new();
    let log = filled(&bench);
    let before = bench.disk.mutations();
    assert_eq!(scrub(&log), Pass { segments: vec![0, 10, 20, 30], bytes: 4000, ..Pass::default() });
    assert_eq!(bench.disk.mutations(), before);
}

#[test]
fn rot_is_fenced_before_anybody_reads_it_and_stays_so() {
    let bench = Bench::new();
    let log = filled(&bench);
    // A body, a header, and the end of a segment.
    bench.disk.flip_bit(&wal(0), (3 * FRAME_BYTES + 90) * 8);
    bench.rot(10, 5 * FRAME_BYTES);
    bench.disk.truncate(&wal(20), usize::try_from(8 * FRAME_BYTES).unwrap());
    let found = vec![(3, 4), (15, 16), (28, 30)];
    assert_eq!(scrub(&log).damaged, found);
    let told: Vec<_> = log.fenced().iter().map(|range| (range.from.0, range.next.0)).collect();
    assert_eq!(told, found);
    // Known damage is not told of again.
    assert_eq!(scrub(&log).damaged, []);
    let expected = numbers(&[0..3, 4..15, 16..28, 30..50]);
    assert_eq!(consume(&log, 0, 500).frames, expected);
    drop(log);
    bench.disk.crash(7);
    let (log, report) = bench.open(&config(), false, 4);
    assert_eq!(report.cut, None);
    assert_eq!(log.fenced().iter().map(|range| (range.from.0, range.next.0)).collect::<Vec<_>>(), found);
    assert_eq!(consume(&log, 0, 500).frames, expected);
}

#[test]
fn wherever_the_power_goes_while_a_range_is_fenced_the_rest_is_served() {
    let bench = Bench::new();
    let log = filled(&bench);
    bench.rot(10, 5 * FRAME_BYTES);
    bench.disk.remove(&idx(20));
    bench.disk.keep_images();
    assert_eq!((scrub(&log).damaged, log.fenced().len()), (vec![(15, 16)], 1));
    drop(log);
    let fenced_at = bench.disk.mutations() - 4;
    let images = bench.disk.take_images();
    assert!(images.len() > 5, "{}", images.len());
    for (at, disk) in images {
        for seed in 0..8 {
            let bench = Bench { disk: disk.fork(), clock: Arc::clone(&bench.clock) };
            bench.disk.crash(seed);
            let (log, report) = bench.open(&config(), false, 4);
            assert_eq!(report.cut, None, "cut at {at}");
            let seen = consume(&log, 0, 500);
            // Before the range is durable, where it ends is known by the index alone, which a power cut may take.
            let end = seen.corrupt.first().map_or(16, |(_, next)| *next);
            assert!(end == 16 || (end == 20 && at < fenced_at), "cut at {at}, seed {seed}: {seen:?}");
            assert_eq!((seen.frames, seen.corrupt), (numbers(&[0..15, end..50]), vec![(15, end)]), "cut at {at}, seed {seed}");
        }
    }
}

#[test]
fn an_index_that_is_damaged_or_gone_is_made_again() {
    let bench = Bench::new();
    let log = filled(&bench);
    bench.disk.remove(&idx(0));
    bench.disk.flip_bit(&idx(10), 40);
    bench.disk.put(&idx(20), b"");
    // Sound in itself, and of another segment.
    bench.disk.put(&idx(30), &bench.disk.bytes(&idx(10)).unwrap());
    let pass = scrub(&log);
    assert_eq!((pass.rebuilt, pass.damaged), (vec![0, 10, 20, 30], vec![]));
    assert_eq!(scrub(&log).rebuilt, []);
    for offset in 0..50 {
        assert_eq!(consume(&log, offset, 300).frames, (offset..50).collect::<Vec<_>>());
    }
    log.close().unwrap();
    drop(log);
    bench.disk.kill();
    let (log, report) = bench.open(&config(), true, 3);
    assert_eq!(report.rebuilt_indexes, 0, "they are trusted at the next start");
    assert_eq!(consume(&log, 0, 300).frames, (0..50).collect::<Vec<_>>());
}

#[test]
fn an_index_whose_checksum_holds_and_whose_entries_lead_astray_is_made_again() {
    let bench = Bench::new();
    let log = filled(&bench);
    // As if a page had rotted before the segment was closed: one entry with another time, under checksums that hold.
    let mut bytes = bench.disk.bytes(&idx(10)).unwrap();
    let footer_at = bytes.len() - 60;
    bytes[16 + 15] ^= 1;
    let entries_crc = hermit_proto::crc32c(&bytes[..footer_at]);
    bytes[footer_at + 52..footer_at + 56].copy_from_slice(&entries_crc.to_be_bytes());
    // In the first version, whose checksum is not tied to the partition.
    bytes[footer_at + 7] = 1;
    let crc = hermit_proto::crc32c(&bytes[footer_at..footer_at + 56]);
    bytes[footer_at + 56..].copy_from_slice(&crc.to_be_bytes());
    bench.disk.put(&idx(10), &bytes);
    log.close().unwrap();
    drop(log);
    bench.disk.kill();
    let (log, _) = bench.open(&config(), true, 3);
    assert_eq!(scrub(&log).rebuilt, [10]);
    assert_eq!(scrub(&log).rebuilt, []);
}

#[test]
fn what_cannot_be_read_is_told_and_fenced_only_where_somebody_gives_it_up() {
    let bench = Bench::new();
    let log = filled(&bench);
    bench.disk.fail(Fault::error(Op::Read, Errno::IO).on("00000000000000000010.wal").after(1).times(3));
    let mut scrub = log.scrub(Offset(10)).unwrap().unwrap();
    assert_eq!(scrub.step(3 * FRAME_BYTES).unwrap().bytes, 3 * FRAME_BYTES);
    for _ in 0..3 {
        assert!(matches!(scrub.step(3 * FRAME_BYTES), Err(LogError::Io { .. })));
    }
    assert_eq!(log.fenced(), []);
    // The disk has come to itself.
    assert_eq!(scrub.step(1000).unwrap().verdict, ScrubVerdict::Done { rebuilt_index: false });
    let mut scrub = log.scrub(Offset(10)).unwrap().unwrap();
    scrub.step(3 * FRAME_BYTES).unwrap();
    bench.disk.fail(Fault::error(Op::Read, Errno::IO).on("00000000000000000010.wal").forever());
    scrub.step(1).unwrap_err();
    let given_up = scrub.give_up().unwrap().unwrap();
    bench.disk.heal();
    // All of it is in one page, and what leads on behind is not readable either.
    assert_eq!((given_up.from, given_up.next, log.fenced()), (Offset(13), Offset(20), vec![given_up]));
    assert_eq!(scrub.step(1000).unwrap().verdict, ScrubVerdict::Done { rebuilt_index: false });
    assert_eq!(consume(&log, 0, 500).frames, numbers(&[0..13, 20..50]));
}

/// Three segments of some 400 frames of 100 bytes; the last is still written to.
fn long(bench: &Bench) -> (Log, crate::hooked::Hooks) {
    let config = LogConfig { segment_bytes: 40_000, index_interval_bytes: 1000, ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 3);
    for _ in 0..100 {
        append_many(&log, 10);
        log.flush().unwrap();
    }
    drop(log);
    bench.disk.kill();
    bench.open_hooked(&config, false, 4)
}

#[test]
fn where_a_sector_cannot_be_read_the_frames_in_it_are_given_up_and_none_before() {
    let bench = Bench::new();
    let (log, hooks) = long(&bench);
    let all = consume(&log, 0, 500).frames;
    hooks.set_bad_sector(Some((wal(0), 8192..12288)));
    let mut scrub = log.scrub(Offset(0)).unwrap().unwrap();
    let (mut ranges, mut tries) = (Vec::new(), 0);
    loop {
        match scrub.step(512 << 10) {
            Ok(step) if step.verdict == ScrubVerdict::More => {}
            Ok(_) => break,
            Err(LogError::Io { .. }) => ranges.extend(scrub.give_up().unwrap()),
            Err(other) => panic!("{other}"),
        }
        tries += 1;
        assert!(tries < 100, "it goes on");
    }
    // Frames of 100 bytes, of which the sector holds those from the 82nd to the 123rd in whole or in part.
    let (first, behind) = (8192 / FRAME_BYTES, 12288_u64.div_ceil(FRAME_BYTES));
    assert_eq!(ranges.first().map(|range| range.from.0), Some(first), "what lies before is good: {ranges:?}");
    let lost_until = log.fenced().last().unwrap().next.0;
    assert!(lost_until >= behind && lost_until <= behind + 10, "the next index entry leads on: {:?}", log.fenced());
    // In the next pass, nothing is tried there again.
    let mut again = log.scrub(Offset(0)).unwrap().unwrap();
    assert!(matches!(again.step(512 << 10).unwrap().verdict, ScrubVerdict::Done { .. }));
    hooks.set_bad_sector(None);
    let expected: Vec<_> = all.into_iter().filter(|offset| *offset < first || *offset >= lost_until).collect();
    assert_eq!(consume(&log, 0, 500).frames, expected);
}

#[test]
fn what_can_be_read_again_when_it_is_given_up_is_not_lost() {
    let bench = Bench::new();
    let (log, hooks) = long(&bench);
    hooks.set_bad_sector(Some((wal(0), 8192..12288)));
    let mut scrub = log.scrub(Offset(0)).unwrap().unwrap();
    scrub.step(512 << 10).unwrap_err();
    hooks.set_bad_sector(None);
    assert_eq!((scrub.give_up().unwrap(), log.fenced()), (None, vec![]));
    assert_eq!(scrub.step(512 << 10).unwrap().verdict, ScrubVerdict::Done { rebuilt_index: false });
}

#[test]
fn an_index_that_cannot_be_read_is_made_again_and_its_segment_verified() {
    let bench = Bench::new();
    let (log, hooks) = long(&bench);
    hooks.set_bad_sector(Some((idx(0), 0..512)));
    let mut scrub = log.scrub(Offset(0)).unwrap().unwrap();
    // The file that is made anew lies elsewhere.
    hooks.set_bad_sector(None);
    assert_eq!(scrub.step(512 << 10).unwrap().verdict, ScrubVerdict::Done { rebuilt_index: true });
    assert_eq!(
        log.scrub(Offset(0)).unwrap().unwrap().step(512 << 10).unwrap().verdict,
        ScrubVerdict::Done { rebuilt_index: false }
    );
}

#[test]
fn a_frame_that_is_read_wrongly_once_is_not_lost() {
    let bench = Bench::new();
    drop(filled(&bench));
    bench.disk.kill();
    let (log, hooks) = bench.open_hooked(&config(), false, 4);
    let bit = (3 * FRAME_BYTES + 90) * 8;
    let mut scrub = log.scrub(Offset(0)).unwrap().unwrap();
    bench.disk.flip_bit(&wal(0), bit);
    let disk = bench.disk.clone();
    hooks.once(On::Read, wal(0), move || assert!(disk.flip_bit(&wal(0), bit)));
    let step = scrub.step(1000).unwrap();
    assert!(!hooks.is_waiting());
    assert_eq!((step.damaged, step.verdict), (vec![], ScrubVerdict::Done { rebuilt_index: false }));
    assert_eq!(log.fenced(), []);
}

#[test]
fn segments_that_go_meanwhile_are_left_alone() {
    let bench = Bench::new();
    let log = filled(&bench);
    let mut scrub = log.scrub(Offset(0)).unwrap().unwrap();
    scrub.step(1).unwrap();
    log.trim(Offset(15)).unwrap();
    bench.disk.fail(Fault::error(Op::Read, Errno::IO).forever());
    assert_eq!(scrub.step(1000).unwrap().verdict, ScrubVerdict::Gone);
    bench.disk.heal();
    assert_eq!(super::scrub::scrub(&log).segments, [10, 20, 30]);
    // Its index is damaged, and the segment goes before that is made again.
    bench.disk.remove(&idx(10));
    let mut scrub = log.scrub(Offset(0)).unwrap().unwrap();
    scrub.step(1).unwrap();
    log.trim(Offset(25)).unwrap();
    assert_eq!(scrub.step(1000).unwrap().verdict, ScrubVerdict::Gone);
    assert!(!bench.disk.exists(&idx(10)).unwrap());
    log.close().unwrap();
    assert!(matches!(log.scrub(Offset(0)), Err(LogError::Closed)));
}

#[test]
fn what_is_compacted_has_gaps_that_are_no_damage() {
    let bench = Bench::new();
    let config = LogConfig { compaction: Some(hermit_log::CompactionConfig::default()), ..config() };
    let (log, _) = bench.open(&config, false, 3);
    for i in 0..60 {
        keyed(&log, &if i % 2 == 0 { format!("{i:04}") } else { "same".into() }, &"x".repeat(27));
    }
    log.flush().unwrap();
    let mut under_way = log.scrub(Offset(0)).unwrap().unwrap();
    under_way.step(1).unwrap();
    log.compact().unwrap();
    assert_eq!(under_way.step(1000).unwrap().verdict, ScrubVerdict::Gone);
    let pass = scrub(&log);
    assert!(!pass.segments.is_empty());
    assert_eq!((pass.damaged, pass.rebuilt), (vec![], vec![]));
}

#[test]
fn the_page_cache_is_left_as_it_was() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let clock = Arc::new(ManualClock::new(1));
    let env = LogEnv::new(Arc::new(RealDisk), Arc::clone(&clock) as _, Flusher::manual(clock), 16);
    let config = LogConfig { segment_bytes: 2 << 20, ..LogConfig::default() };
    let start = Start { clean: true, leader_epoch: LeaderEpoch(1) };
    let (log, _) = Log::open_in(&env, &dir.path().join("p"), LogIdentity::default(), config, start, Arc::new(Deaf)).unwrap();
    let payload = vec![7; 10_000];
    for _ in 0..220 {
        log.append(&mut crate::rig::batch(&[hermit_proto::ProducedFrame::message(1, None, &payload)])).unwrap();
    }
    log.flush().unwrap();
    let path = log.dir().join(Path::new("00000000000000000000.wal"));
    RealDisk.open(&path, Open::Read).unwrap().sync_data().unwrap();
    // On a busy machine the system cannot drop every page just then. Without being asked to it drops none.
    let outcomes: Vec<_> = (0..20).filter_map(|_| cache_around_a_scrub(&log, &path)).collect();
    let mostly_left = |(before, after): &(Vec<u64>, Vec<u64>)| after.len() < before.len() + PIECES_READ / 2;
    assert!(outcomes.is_empty() || outcomes.iter().any(mostly_left), "{outcomes:?}");
}

/// Of the segment that is verified there, in pieces of 64 KiB.
const PIECES_READ: usize = 32;

/// The pieces of 64 KiB that are in the page cache before and after a segment is verified; `None` where the file system keeps everything, as one in memory does.
fn cache_around_a_scrub(log: &Log, path: &Path) -> Option<(Vec<u64>, Vec<u64>)> {
    const PIECE: u64 = 64 << 10;
    let file = RealDisk.open(path, Open::Read).unwrap();
    let len = file.len().unwrap();
    // Looking brings the first and then the last page of a piece: nobody may look a third time.
    file.no_read_ahead();
    file.drop_cached(0, len);
    let warm =
        || (0..len.div_ceil(PIECE)).filter(|piece| file.cached(piece * PIECE, PIECE.min(len - piece * PIECE))).collect::<Vec<_>>();
    file.read_exact_at(&mut vec![0; 64 << 10], 5 * PIECE).unwrap();
    let before = warm();
    if before.len() as u64 == len.div_ceil(PIECE) {
        return None;
    }
    let mut scrub = log.scrub(Offset(0)).unwrap().unwrap();
    let mut read = 0;
    loop {
        let step = scrub.step(512 << 10).unwrap();
        read += step.bytes;
        if step.verdict != ScrubVerdict::More {
            break;
        }
    }
    assert!(read > (PIECES_READ as u64 - 1) * PIECE);
    Some((before, warm()))
}
