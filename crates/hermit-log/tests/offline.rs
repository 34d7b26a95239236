//! Looking at a directory offline, and repairing it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the test's failure")]

#[path = "incidents/hooked.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod hooked;
#[path = "incidents/rig.rs"]
#[expect(dead_code, reason = "shared with other tests")]
mod rig;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hermit_log::disk::Disk;
use hermit_log::disk::sim::{SimDisk, Survival};
use hermit_log::inspect::{Check, DamageKind, IndexReport, Inspected, frames, inspect};
use hermit_log::repair::{Action, RepairOptions, Repaired, repair};
use hermit_log::{CompactionConfig, Log, LogConfig, LogIdentity};
use hermit_proto::Offset;

use crate::rig::{Bench, FRAME_BYTES, append, append_many, consume, dir, idx, keyed, numbers, payload, stamped, wal};

const DROP: RepairOptions = RepairOptions { index_interval_bytes: 200, drop_damage: true, dry_run: false };

fn look(disk: &SimDisk) -> Inspected {
    let before = disk.mutations();
    let found = inspect(disk, dir(), LogIdentity::default(), Check::Everything).unwrap();
    let headers = inspect(disk, dir(), LogIdentity::default(), Check::Headers).unwrap();
    assert_eq!(disk.mutations(), before, "looking changes nothing");
    if found.is_sound() {
        assert_eq!(headers, found);
    }
    found
}

fn mend(disk: &SimDisk, options: &RepairOptions) -> Repaired {
    let before = disk.mutations();
    let planned = repair(disk, dir(), LogIdentity::default(), &RepairOptions { dry_run: true, ..*options }).unwrap();
    assert_eq!(disk.mutations(), before, "a dry run changes nothing");
    let done = repair(disk, dir(), LogIdentity::default(), options).unwrap();
    assert_eq!(done, planned);
    done
}

fn config() -> LogConfig {
    LogConfig { segment_bytes: 1000, index_interval_bytes: 200, ..LogConfig::default() }
}

fn filled(bench: &Bench, clean: bool) -> Log {
    let (log, _) = bench.open(&config(), false, 3);
    append_many(&log, 20);
    stamped(&log, 0).unwrap();
    append_many(&log, 24);
    log.flush().unwrap();
    if clean {
        log.close().unwrap();
    }
    log
}

fn stored_frames(disk: &SimDisk, from: u64) -> (Vec<u64>, usize) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut damages = 0;
    let mut offsets = Vec::new();
    for item in frames(shared, dir(), LogIdentity::default(), Offset(from)).unwrap() {
        match item.unwrap() {
            Ok(frame) => {
                assert!(frame.view().unwrap().payload().len() == 31);
                offsets.push(frame.prefix.offset().0);
            }
            Err(_) => damages += 1,
        }
    }
    (offsets, damages)
}

#[test]
fn a_sound_log_is_told_in_numbers() {
    for clean in [false, true] {
        let bench = Bench::new();
        drop(filled(&bench, clean));
        let found = look(&bench.disk);
        assert!(found.is_sound(), "{found:#?}");
        let bases: Vec<_> = found.segments.iter().map(|segment| segment.base.0).collect();
        assert_eq!(bases, [0, 10, 20, 30, 40]);
        assert_eq!((found.frames(), found.records(), found.log_bytes()), (45, 45, 45 * FRAME_BYTES));
        assert_eq!((found.log_start, found.log_end), (Offset(0), Offset(45)));
        let last = found.segments.last().unwrap();
        assert_eq!(matches!(last.index, IndexReport::Sealed { .. }), clean);
        assert!(found.segments.iter().all(|segment| segment.leader_epochs.iter().map(|epoch| epoch.0).eq([3])));
        assert!(found.checkpoint.unwrap().offset.0 <= 45);
        assert!(found.snapshots.iter().all(|snapshot| snapshot.producers == Some(1)) && !found.snapshots.is_empty());
        assert_eq!(stored_frames(&bench.disk, 0), ((0..45).collect(), 0));
        assert_eq!(stored_frames(&bench.disk, 33), ((33..45).collect(), 0));
        assert_eq!(mend(&bench.disk, &DROP), Repaired::default());
        let other = LogIdentity { partition: hermit_proto::PartitionId(1), ..LogIdentity::default() };
        assert!(!inspect(&bench.disk, dir(), other, Check::Headers).unwrap().is_sound());
    }
}

#[test]
fn every_kind_of_damage_is_found_where_it_is() {
    let bench = Bench::new();
    drop(filled(&bench, true));
    // A body, a header, a whole segment, the tail of one, and the end of the last.
    bench.disk.flip_bit(&wal(0), (3 * FRAME_BYTES + 90) * 8);
    bench.rot(10, 4 * FRAME_BYTES);
    assert!(bench.disk.remove(&wal(20)));
    assert!(bench.disk.truncate(&wal(30), usize::try_from(7 * FRAME_BYTES).unwrap()));
    assert!(bench.disk.truncate(&wal(40), usize::try_from(3 * FRAME_BYTES + 5).unwrap()));
    let found = look(&bench.disk);
    let told: Vec<_> =
        found.damages.iter().map(|d| (d.segment.0, d.position / FRAME_BYTES, d.from.0, d.next.map(|n| n.0), d.kind)).collect();
    assert_eq!(
        told,
        [
            (0, 3, 3, Some(4), DamageKind::Body),
            (10, 4, 14, Some(16), DamageKind::Header),
            (10, 10, 20, Some(30), DamageKind::Missing),
            (30, 7, 37, Some(40), DamageKind::Missing),
            (40, 3, 43, None, DamageKind::Header),
        ]
    );
    assert!(found.damages.iter().all(|damage| !damage.fenced && !damage.unflushed));
    assert_eq!(found.log_end, Offset(45));
    assert_eq!(found.leftovers.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["00000000000000000020.idx"]);
    assert_eq!(stored_frames(&bench.disk, 0), (numbers(&[0..3, 4..14, 16..20, 30..37, 40..43]), 3));
    // What a start fences is what was told.
    let (log, report) = bench.open(&config(), false, 4);
    assert!(log.bounds().log_end >= Offset(45));
    assert!(!report.fenced.is_empty());
    assert_eq!(consume(&log, 0, 500).frames, numbers(&[0..3, 4..14, 16..20, 30..37, 40..43]));
    drop(log);
    let found = look(&bench.disk);
    assert!(found.damages.iter().all(|damage| damage.fenced), "{found:#?}");
}

#[test]
fn what_is_derived_is_made_again() {
    let bench = Bench::new();
    drop(filled(&bench, false));
    bench.disk.remove(&idx(0));
    bench.disk.flip_bit(&idx(10), 40);
    bench.disk.put(&idx(20), &bench.disk.bytes(&idx(30)).unwrap());
    let bytes = bench.disk.bytes(&idx(30)).unwrap();
    bench.disk.truncate(&idx(30), bytes.len() - 9);
    for name in ["fenced", "start", "checkpoint"] {
        bench.disk.put(&dir().join(name), b"rubbish");
    }
    bench.disk.put(&dir().join("00000000000000000070.idx"), b"");
    bench.disk.put(&dir().join("start.tmp"), b"half");
    let found = look(&bench.disk);
    assert!(
        found.segments.iter().take(4).all(|s| matches!(s.index, IndexReport::Missing | IndexReport::Wrong { .. })),
        "{found:#?}"
    );
    assert_eq!(found.damaged_state, ["checkpoint", "fenced", "start"]);
    assert_eq!(found.damages, vec![]);
    let done = mend(&bench.disk, &RepairOptions { index_interval_bytes: 200, ..RepairOptions::default() });
    let rebuilt = done.actions.iter().filter(|action| matches!(action, Action::RebuiltIndex { .. })).count();
    assert_eq!((rebuilt, done.actions.len(), done.left.len()), (4, 4 + 3 + 2, 0), "{done:#?}");
    let found = look(&bench.disk);
    assert!(found.is_sound() && found.leftovers.is_empty(), "{found:#?}");
    assert_eq!(found.kept.len(), 3);
    assert_eq!(mend(&bench.disk, &DROP), Repaired::default());
    bench.disk.crash_with(Survival::Everything, 0);
    let (log, report) = bench.open(&config(), false, 4);
    assert_eq!((&report.fenced, &report.cut), (&vec![], &None));
    assert_eq!(consume(&log, 0, 500).frames, (0..45).collect::<Vec<_>>());
}

fn ruin(bench: &Bench) {
    bench.disk.flip_bit(&wal(0), (3 * FRAME_BYTES + 90) * 8);
    bench.rot(10, 4 * FRAME_BYTES);
    assert!(bench.disk.remove(&wal(20)));
    assert!(bench.disk.remove(&idx(20)));
    bench.rot(40, 3 * FRAME_BYTES);
}

#[test]
fn dropped_damage_is_passed_without_a_word_and_nothing_else_is_lost() {
    for clean in [false, true] {
        for opened_between in [false, true] {
            let bench = Bench::new();
            drop(filled(&bench, clean));
            ruin(&bench);
            if opened_between {
                let (log, _) = bench.open(&config(), clean, 4);
                assert!(!consume(&log, 0, 500).corrupt.is_empty());
                drop(log);
            }
            // Without being asked to, nothing is dropped.
            let kept = mend(&bench.disk, &RepairOptions::default());
            assert!(kept.left.len() >= 4 && kept.actions.is_empty(), "{kept:#?}");
            let originals: Vec<_> = [0, 10].map(|base| bench.disk.bytes(&wal(base)).unwrap()).into();
            let expected = stored_frames(&bench.disk, 0).0;
            let lost_end = look(&bench.disk).log_end;
            let done = mend(&bench.disk, &DROP);
            assert_eq!(done.left, vec![]);
            for (base, original) in [0u64, 10].into_iter().zip(originals) {
                assert_eq!(bench.disk.bytes(&dir().join(format!("{base:020}.wal.replaced"))), Some(original));
            }
            let found = look(&bench.disk);
            assert!(found.is_sound() && found.fenced.is_empty(), "{found:#?}");
            assert_eq!(mend(&bench.disk, &DROP), Repaired::default());
            bench.disk.crash_with(Survival::Nothing, 0);
            for epoch in 5..8 {
                let (log, report) = bench.open(&config(), clean && epoch == 5, epoch);
                assert_eq!((&report.fenced, &report.cut), (&vec![], &None), "{clean} {opened_between} {epoch}");
                let seen = consume(&log, 0, 500);
                assert_eq!(seen.corrupt, vec![]);
                assert_eq!(seen.frames.iter().copied().filter(|offset| *offset < 45).collect::<Vec<_>>(), expected);
                assert!(log.bounds().log_end >= lost_end.max(Offset(45)), "offsets are given again: {:?}", log.bounds());
                append(&log);
                log.flush().unwrap();
                drop(log);
                bench.disk.crash_with(Survival::Nothing, 0);
            }
        }
    }
}

#[test]
fn a_repair_that_is_cut_short_loses_no_readable_frame() {
    for clean in [false, true] {
        let bench = Bench::new();
        drop(filled(&bench, clean));
        bench.disk.crash_with(Survival::Everything, 0);
        ruin(&bench);
        let before = stored_frames(&bench.disk, 0).0;
        bench.disk.keep_images();
        repair(&bench.disk, dir(), LogIdentity::default(), &DROP).unwrap();
        for (mutations, image) in bench.disk.take_images() {
            for seed in 0..3 {
                let bench = Bench { disk: image.fork(), clock: Arc::clone(&bench.clock) };
                bench.disk.crash(seed);
                assert_eq!(stored_frames(&bench.disk, 0).0, before, "cut at {mutations}");
                let again = Bench { disk: bench.disk.fork(), clock: Arc::clone(&bench.clock) };
                let (log, _) = again.open(&config(), false, 4);
                let seen = consume(&log, 0, 500);
                assert_eq!(seen.frames, before, "cut at {mutations}");
                repair(&bench.disk, dir(), LogIdentity::default(), &DROP).unwrap();
                assert!(look(&bench.disk).is_sound(), "cut at {mutations}");
                assert_eq!(stored_frames(&bench.disk, 0).0, before, "cut at {mutations}");
            }
        }
    }
}

/// An index may be all that leads on behind damage: the new one is there before the old one goes.
#[test]
fn an_index_that_is_made_again_still_leads_on_after_a_power_cut() {
    let bench = Bench::new();
    drop(filled(&bench, true));
    bench.disk.crash_with(Survival::Everything, 0);
    for base in [10, 40] {
        bench.rot(base, 2 * FRAME_BYTES);
        let len = bench.disk.bytes(&idx(base)).unwrap().len();
        assert!(bench.disk.truncate(&idx(base), len - 9));
    }
    let (before, damages) = stored_frames(&bench.disk, 0);
    assert_eq!((before.len(), damages), (45 - 2 - 2, 2));
    let done = mend(&bench.disk, &RepairOptions { index_interval_bytes: 200, ..RepairOptions::default() });
    assert_eq!((done.actions.len(), done.left.len()), (2, 2), "{done:?}");
    bench.disk.crash_with(Survival::Nothing, 0);
    assert_eq!(stored_frames(&bench.disk, 0).0, before);
}

#[test]
fn what_was_left_out_on_purpose_may_be_dropped_too() {
    let bench = Bench::new();
    let (log, _) = bench.open(&config(), false, 0);
    append_many(&log, 15);
    log.skip_to(Offset(40)).unwrap();
    append_many(&log, 5);
    log.flush().unwrap();
    drop(log);
    let found = look(&bench.disk);
    assert_eq!(found.damages.len(), 1);
    assert!(found.damages[0].fenced && found.damages[0].kind == DamageKind::Missing);
    let done = mend(&bench.disk, &DROP);
    assert!(matches!(done.actions[..], [Action::Dropped { kept_in: None, next: Offset(40), .. }]), "{done:?}");
    bench.disk.crash_with(Survival::Nothing, 0);
    let (log, report) = bench.open(&config(), false, 1);
    assert_eq!(report.fenced, vec![]);
    let seen = consume(&log, 0, 500);
    assert_eq!((seen.frames, seen.corrupt), (numbers(&[0..15, 40..45]), vec![]));
}

#[test]
fn gaps_of_a_compaction_are_not_told_as_damage() {
    let bench = Bench::new();
    let config = LogConfig { segment_bytes: 300, compaction: Some(CompactionConfig::default()), ..LogConfig::default() };
    let (log, _) = bench.open(&config, false, 0);
    for i in 0..40 {
        keyed(&log, ["a", "b", "c"][usize::try_from(i % 3).unwrap()], &payload(i));
    }
    log.flush().unwrap();
    log.compact().unwrap();
    drop(log);
    let found = look(&bench.disk);
    assert!(found.is_sound() && found.compacted_end.is_some(), "{found:#?}");
    assert_eq!(mend(&bench.disk, &DROP), Repaired::default());
    let files: Vec<PathBuf> = bench.disk.files().into_iter().map(|(path, _)| path).collect();
    assert!(files.iter().any(|path| path == Path::new("/data/p/compacted")));
}

#[test]
fn what_lies_behind_a_segments_end_does_not_come_back_when_the_next_one_is_dropped() {
    let bench = Bench::new();
    drop(filled(&bench, true));
    // Garbage that the next segment's base keeps from being read, and nothing readable in that.
    let mut bytes = bench.disk.bytes(&wal(10)).unwrap();
    bytes.extend([7; 500]);
    bench.disk.put(&wal(10), &bytes);
    bench.disk.put(&wal(20), &[0; 1000]);
    mend(&bench.disk, &DROP);
    let found = look(&bench.disk);
    assert!(found.is_sound(), "{found:#?}");
    assert_eq!(mend(&bench.disk, &DROP), Repaired::default());
    let (log, report) = bench.open(&config(), true, 3);
    assert_eq!((report.fenced, report.cut), (vec![], None));
    assert_eq!(consume(&log, 0, 500).frames, numbers(&[0..20, 30..45]));
}

#[test]
fn state_of_another_partition_is_damaged_here_and_deletes_nothing() {
    let bench = Bench::new();
    drop(filled(&bench, true));
    let other = Bench::new();
    let (log, _) = other.open(&config(), false, 3);
    append_many(&log, 40);
    log.flush().unwrap();
    log.trim(Offset(35)).unwrap();
    log.close().unwrap();
    drop(log);
    // Tied to the same identity, it is believed; so the test is of the tie, and not of the place.
    let taken = bench.disk.fork();
    let start = other.disk.bytes(&dir().join("start")).unwrap();
    assert!(taken.put(&dir().join("start"), &start));
    assert_eq!(inspect(&taken, dir(), LogIdentity::default(), Check::Headers).unwrap().log_start, Offset(35));
    let elsewhere = LogIdentity { partition: hermit_proto::PartitionId(1), ..LogIdentity::default() };
    let found = inspect(&taken, dir(), elsewhere, Check::Headers).unwrap();
    assert!(found.damaged_state.iter().any(|name| name == "start") && found.log_start == Offset(0), "{:?}", found.damaged_state);
}
