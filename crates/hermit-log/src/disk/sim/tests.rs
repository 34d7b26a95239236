//! The simulated disk keeps its promises, and breaks all others.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use super::{Effect, Fault, Op, SimDisk, Survival, is_power_cut};
use crate::disk::{Disk, DiskFile, Open, write_atomically};

fn root() -> &'static Path {
    Path::new("/")
}

fn path(name: &str) -> std::path::PathBuf {
    root().join(name)
}

fn durable(disk: &SimDisk, name: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.open(&path(name), Open::CreateNew).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(root()).unwrap();
    file
}

fn bytes(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    disk.bytes(&path(name))
}

/// What a file holds after each of many crashes of the same state.
fn outcomes(disk: &SimDisk, name: &str) -> BTreeSet<Option<Vec<u8>>> {
    (0..400)
        .map(|seed| {
            let fork = disk.fork();
            fork.crash(seed);
            bytes(&fork, name)
        })
        .collect()
}

#[test]
fn what_was_synced_survives_and_the_rest_may_go() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "a", &[1; 2000]);
    assert_eq!(outcomes(&disk, "a"), BTreeSet::from([Some(vec![1; 2000])]));
    file.write_all_at(&[2; 3000], 2000).unwrap();
    let outcomes = outcomes(&disk, "a");
    assert!(outcomes.iter().flatten().all(|bytes| bytes[..2000] == [1; 2000] && bytes.len() <= 5000));
    let full: Vec<u8> = [vec![1; 2000], vec![2; 3000]].concat();
    assert!(outcomes.contains(&Some(full)), "all of it may survive");
    assert!(outcomes.contains(&Some(vec![1; 2000])), "none of it may survive");
    assert!(outcomes.contains(&Some([vec![1; 2000], vec![0; 3000]].concat())), "only its size may survive");
    let hole = |bytes: &Vec<u8>| bytes.len() == 5000 && bytes[2048..2560] == [0; 512] && bytes[2560..3072] == [2; 512];
    assert!(outcomes.iter().flatten().any(hole), "a later part may survive without an earlier one");
}

#[test]
fn a_sector_never_forgets_an_earlier_write_for_a_later_one() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "a", &[]);
    file.write_all_at(&[1; 100], 0).unwrap();
    file.write_all_at(&[2; 100], 100).unwrap();
    for outcome in outcomes(&disk, "a").into_iter().flatten() {
        // The second write in place, the first one not: the page that was written had both.
        let second = outcome.get(100..200) == Some(&[2; 100]);
        assert!(!second || outcome[..100] == [1; 100]);
    }
}

#[test]
fn a_file_is_there_only_once_its_directory_was_synced() {
    let disk = SimDisk::new(1);
    let file = disk.open(&path("a"), Open::CreateNew).unwrap();
    file.write_all_at(b"abc", 0).unwrap();
    file.sync_data().unwrap();
    let unsynced = outcomes(&disk, "a");
    assert_eq!(unsynced, BTreeSet::from([None, Some(b"abc".to_vec())]));
    disk.sync_dir(root()).unwrap();
    disk.remove_file(&path("a")).unwrap();
    assert_eq!(outcomes(&disk, "a"), unsynced, "a removal may be lost as well");
}

#[test]
fn a_directory_that_was_not_synced_takes_its_files_with_it() {
    let disk = SimDisk::new(1);
    disk.create_dir_all(&path("d")).unwrap();
    let file = disk.open(&path("d/a"), Open::CreateNew).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(&path("d")).unwrap();
    assert_eq!(outcomes(&disk, "d/a"), BTreeSet::from([None, Some(Vec::new())]));
    disk.sync_dir(root()).unwrap();
    assert_eq!(outcomes(&disk, "d/a"), BTreeSet::from([Some(Vec::new())]));
}

#[test]
fn a_rename_happens_or_does_not() {
    let disk = SimDisk::new(1);
    durable(&disk, "state", b"old");
    durable(&disk, "state.tmp", b"new");
    disk.rename(&path("state.tmp"), &path("state")).unwrap();
    let seen: BTreeSet<_> = (0..200)
        .map(|seed| {
            let fork = disk.fork();
            fork.crash(seed);
            (bytes(&fork, "state").unwrap(), bytes(&fork, "state.tmp").is_some())
        })
        .collect();
    assert_eq!(seen, BTreeSet::from([(b"old".to_vec(), true), (b"new".to_vec(), false)]));
}

#[test]
fn a_state_file_survives_a_cut_anywhere() {
    let disk = SimDisk::new(1);
    write_atomically(&disk, root(), "state", &[1; 1500]).unwrap();
    disk.keep_images();
    write_atomically(&disk, root(), "state", &[2; 1500]).unwrap();
    let images = disk.take_images();
    assert_eq!(images.len(), 5, "create, write, sync, rename, sync of the directory");
    for (_, image) in &images {
        for outcome in outcomes(image, "state") {
            let outcome = outcome.expect("one or the other is there");
            assert!(outcome == [1; 1500] || outcome == [2; 1500]);
        }
    }
    let (_, last) = images.last().unwrap();
    assert_eq!(outcomes(last, "state"), BTreeSet::from([Some(vec![2; 1500])]));
}

#[test]
fn independent_names_may_survive_in_any_order() {
    let disk = SimDisk::new(1);
    for name in ["a", "b"] {
        disk.open(&path(name), Open::CreateNew).unwrap();
    }
    let seen: BTreeSet<_> = (0..200)
        .map(|seed| {
            let fork = disk.fork();
            fork.crash(seed);
            (bytes(&fork, "a").is_some(), bytes(&fork, "b").is_some())
        })
        .collect();
    assert_eq!(seen.len(), 4);
}

#[test]
fn a_killed_process_leaves_everything_and_nothing_is_safer() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "a", b"safe");
    let lock = disk.lock(&path("lock")).unwrap();
    file.write_all_at(b", not", 4).unwrap();
    disk.kill();
    assert!(is_power_cut(&file.read_at(&mut [0], 0).unwrap_err()));
    assert_eq!(bytes(&disk, "a").unwrap(), b"safe, not");
    let again = disk.lock(&path("lock")).unwrap();
    drop(lock);
    assert!(disk.lock(&path("lock")).is_err(), "a dead process' lock does not release a living one's");
    drop(again);
    // A new process syncs through its own handle: the kernel's pages are everybody's.
    assert!(outcomes(&disk, "a").contains(&Some(b"safe".to_vec())));
    disk.open(&path("a"), Open::ReadWrite).unwrap().sync_data().unwrap();
    assert_eq!(outcomes(&disk, "a"), BTreeSet::from([Some(b"safe, not".to_vec())]));
}

#[test]
fn a_failed_sync_loses_data_though_the_next_one_succeeds() {
    let disk = SimDisk::new(5);
    let file = durable(&disk, "a", &[]);
    let mut lost = 0;
    for round in 0..40 {
        let mark = vec![round + 1; 512];
        file.write_all_at(&mark, 0).unwrap();
        disk.fail(Fault::error(Op::Sync, Errno::IO));
        assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
        file.sync_data().unwrap();
        assert_eq!(bytes(&disk, "a").unwrap(), mark, "the process sees what it wrote");
        let fork = disk.fork();
        fork.crash(1);
        lost += u32::from(bytes(&fork, "a").unwrap() != mark);
    }
    assert!((5..40).contains(&lost), "{lost} of 40");
}

#[test]
fn a_failed_directory_sync_loses_names_though_the_next_one_succeeds() {
    let seen: BTreeSet<bool> = (0..40)
        .map(|seed| {
            let disk = SimDisk::new(seed);
            disk.open(&path("a"), Open::CreateNew).unwrap();
            disk.fail(Fault::error(Op::SyncDir, Errno::IO));
            disk.sync_dir(root()).unwrap_err();
            disk.sync_dir(root()).unwrap();
            disk.crash(seed);
            bytes(&disk, "a").is_some()
        })
        .collect();
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_sync_of_the_whole_makes_contents_sizes_and_names_durable() {
    let disk = SimDisk::new(5);
    let (dir, file_system) = (path("dir"), disk.open_file_system(root()).unwrap());
    disk.create_dir_all(&dir).unwrap();
    let file = disk.open(&dir.join("a"), Open::CreateNew).unwrap();
    file.write_all_at(&[7; 2000], 0).unwrap();
    file_system.sync().unwrap();
    file.write_all_at(&[8; 2000], 0).unwrap();
    disk.crash_with(Survival::Nothing, 1);
    assert_eq!(disk.bytes(&dir.join("a")).unwrap(), [7; 2000]);
    assert!(file_system.sync().is_err_and(|error| is_power_cut(&error)), "the handle is as dead as others");
}

#[test]
fn a_failed_sync_of_the_whole_loses_what_the_next_one_does_not_bring_back() {
    let mut lost = 0;
    for seed in 0..40 {
        let disk = SimDisk::new(seed);
        let file = durable(&disk, "a", &[]);
        let file_system = disk.open_file_system(root()).unwrap();
        file.write_all_at(&[1; 512], 0).unwrap();
        disk.fail(Fault::error(Op::SyncAll, Errno::IO));
        file_system.sync().unwrap_err();
        file_system.sync().unwrap();
        disk.crash(seed);
        lost += u32::from(bytes(&disk, "a").unwrap() != [1; 512]);
    }
    assert!((5..40).contains(&lost), "{lost} of 40");
}

#[test]
fn faults_strike_where_they_were_ordered() {
    let disk = SimDisk::new(1);
    let log = durable(&disk, "log", b"");
    let index = durable(&disk, "index", b"");
    disk.fail(Fault::short_write(3).on("log").after(1));
    disk.fail(Fault::error(Op::Write, Errno::IO).on("log").times(2));
    assert_eq!(index.write_at(b"12345", 0).unwrap(), 5);
    assert!(log.write_at(b"12345", 0).is_err(), "the short write lets one pass, and the error takes it");
    assert_eq!(log.write_at(b"12345", 0).unwrap(), 3);
    assert!(log.write_at(b"45", 3).is_err());
    log.write_all_at(b"45", 3).expect("all faults are spent");
    disk.fail(Fault::short_write(2));
    log.write_all_at(b"abcdef", 0).expect("one short write is made up for");
    disk.fail(Fault::short_write(2));
    disk.fail(Fault::error(Op::Write, Errno::IO));
    let failed = log.write_all_at(b"ABCDEF", 0).unwrap_err();
    assert_eq!(failed.written, 2);
    assert_eq!(bytes(&disk, "log").unwrap(), b"ABcdef");
    disk.fail(Fault::error(Op::Open, Errno::MFILE).forever());
    for _ in 0..3 {
        assert!(disk.open(&path("log"), Open::Read).is_err());
    }
    disk.heal();
    disk.open(&path("log"), Open::Read).unwrap();
    disk.fail(Fault::short_read(1));
    let mut buf = [0; 4];
    assert_eq!(log.read_at(&mut buf, 0).unwrap(), 1);
    log.read_exact_at(&mut buf, 0).unwrap();
}

#[test]
fn a_full_disk_takes_what_fits_and_gives_space_back_with_the_last_handle() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "a", &[1; 1000]);
    disk.set_capacity(Some(1500));
    assert_eq!(disk.free_bytes(root()).unwrap(), 500);
    let failed = file.write_all_at(&[2; 600], 1000).unwrap_err();
    assert_eq!((failed.written, failed.source.kind()), (500, ErrorKind::StorageFull));
    file.write_all_at(&[3; 1500], 0).unwrap();
    assert_eq!(file.allocate(1501).unwrap_err().kind(), ErrorKind::StorageFull);
    let reader = disk.open(&path("a"), Open::Read).unwrap();
    drop(file);
    disk.remove_file(&path("a")).unwrap();
    assert_eq!(disk.free_bytes(root()).unwrap(), 0, "a reader has it open");
    drop(reader);
    assert_eq!(disk.free_bytes(root()).unwrap(), 1500);
}

#[test]
fn the_power_goes_at_the_chosen_mutation() {
    let run = |disk: &SimDisk| -> std::io::Result<()> {
        let file = disk.open(&path("a"), Open::CreateNew)?;
        file.write_all_at(b"abc", 0)?;
        file.sync_data()?;
        disk.sync_dir(root())?;
        disk.remove_file(&path("a"))
    };
    let whole = SimDisk::new(1);
    run(&whole).unwrap();
    assert_eq!(whole.mutations(), 5);
    for at in 0..5 {
        let disk = SimDisk::new(1);
        disk.cut_after(at);
        assert!(is_power_cut(&run(&disk).unwrap_err()));
        assert!(is_power_cut(&disk.list(root()).unwrap_err()), "off is off");
        let seen = outcomes(&disk, "a");
        assert!(seen.contains(&None) && seen.len() > 1, "cut in the middle, an operation may have happened: {at} {seen:?}");
        disk.crash(at);
        run(&disk).or_else(|error| if error.kind() == ErrorKind::AlreadyExists { Ok(()) } else { Err(error) }).unwrap();
    }
}

#[test]
fn the_same_seed_gives_the_same_crash() {
    let disk = SimDisk::new(1);
    let file = durable(&disk, "a", &[]);
    for n in 0..20 {
        file.write_all_at(&[n; 700], u64::from(n) * 650).unwrap();
    }
    file.set_len(9000).unwrap();
    for seed in 0..50 {
        let (one, two) = (disk.fork(), disk.fork());
        one.crash(seed);
        two.crash(seed);
        assert_eq!(bytes(&one, "a"), bytes(&two, "a"));
    }
    assert!(outcomes(&disk, "a").len() > 50);
}

#[test]
fn rot_is_durable() {
    let disk = SimDisk::new(1);
    durable(&disk, "a", &[0; 4]);
    assert!(disk.flip_bit(&path("a"), 9));
    assert!(!disk.flip_bit(&path("a"), 32));
    assert!(disk.overwrite(&path("a"), 2, &[7, 7]));
    assert!(!disk.overwrite(&path("a"), 3, &[7, 7]));
    assert!(disk.put(&path("b"), b"planted"));
    disk.crash_with(Survival::Nothing, 1);
    assert_eq!(bytes(&disk, "a").unwrap(), [0, 2, 7, 7]);
    assert_eq!(bytes(&disk, "b").unwrap(), b"planted");
    assert!(disk.truncate(&path("a"), 1));
    assert!(disk.remove(&path("b")));
    disk.crash_with(Survival::Everything, 1);
    assert_eq!(disk.files(), [(path("a"), 1)]);
    assert!(disk.unsynced().is_empty());
    assert!(disk.dump().contains("/a: 1 bytes, durable 1, 0 waiting"));
}

#[test]
fn whatever_comes_next_can_be_made_to_fail_and_is_told() {
    let disk = SimDisk::new(1);
    let act = |disk: &SimDisk| -> io::Result<()> {
        let file = disk.open(Path::new("/f"), Open::CreateOrOpen)?;
        file.write_all_at(b"abc", 0)?;
        file.sync_data()
    };
    act(&disk).unwrap();
    let calls = disk.calls();
    act(&disk).unwrap();
    assert_eq!(disk.calls() - calls, 3);
    for (after, op) in [(0, Op::Open), (1, Op::Write), (2, Op::Sync)] {
        disk.fail(Fault::any(u64::MAX - after).after(after));
        // A short write is gone on with.
        let failed = act(&disk).is_err();
        let struck = disk.take_struck();
        assert_eq!(struck.iter().map(|struck| struck.op).collect::<Vec<_>>(), [op]);
        assert_eq!(failed, matches!(struck[0].effect, Effect::Error(_)), "{struck:?}");
    }
    disk.fail(Fault::any_of(Op::Sync, 1).forever());
    act(&disk).unwrap_err();
    act(&disk).unwrap_err();
    assert_eq!(disk.take_struck().len(), 2);
    disk.cut_after(disk.mutations());
    assert!(!disk.is_off());
    act(&disk).unwrap_err();
    assert!(disk.is_off());
    disk.crash(1);
    assert!(!disk.is_off());
}
