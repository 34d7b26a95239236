//! Many logs that are flushed, or closed, with one sync.

use std::path::PathBuf;
use std::sync::Arc;

use hermit_log::disk::sim::{Fault, Op, SimDisk, Survival};
use hermit_log::{Flusher, Log, LogConfig, LogEnv, LogError, LogIdentity, ManualClock, Start};
use hermit_proto::{LeaderEpoch, Offset};
use rustix::io::Errno;

use crate::rig::{Deaf, append, append_many};

const LOGS: usize = 10;

fn open(disk: &SimDisk, clean: bool, epoch: u32) -> Vec<Log> {
    let clock = Arc::new(ManualClock::new(1_000_000_000_000));
    let env = LogEnv::new(Arc::new(disk.clone()), Arc::clone(&clock) as _, Flusher::manual(clock), 64);
    let start = Start { clean, leader_epoch: LeaderEpoch(epoch) };
    let dirs = (0..LOGS).map(|number| PathBuf::from(format!("/data/{number}")));
    let open =
        |dir: PathBuf| Log::open_in(&env, &dir, LogIdentity::default(), LogConfig::default(), start, Arc::new(Deaf)).unwrap().0;
    dirs.map(open).collect()
}

/// How often something that is called `op` in the trace was done.
fn count(disk: &SimDisk, op: &str) -> usize {
    disk.trace().lines().filter(|line| line.split_whitespace().any(|word| word == op)).count()
}

#[test]
fn one_sync_flushes_all_and_makes_their_names_durable() {
    let disk = SimDisk::new(1);
    let logs = open(&disk, false, 0);
    logs.iter().for_each(|log| append_many(log, 3));
    let (own, names, whole) = (count(&disk, "Sync"), count(&disk, "SyncDir"), count(&disk, "SyncAll"));
    Log::flush_all(&logs).unwrap();
    assert_eq!((count(&disk, "Sync"), count(&disk, "SyncDir"), count(&disk, "SyncAll")), (own, names, whole + 1));
    assert!(logs.iter().all(|log| log.bounds().high_watermark == Offset(3)));
    // Nothing is left for another.
    Log::flush_all(&logs).unwrap();
    assert_eq!(count(&disk, "SyncAll"), whole + 1);
    drop(logs);
    disk.crash_with(Survival::Nothing, 1);
    assert!(open(&disk, false, 1).iter().all(|log| log.bounds().log_end == Offset(3)));
}

#[test]
fn all_that_took_part_in_a_failed_sync_are_read_only() {
    let disk = SimDisk::new(1);
    let logs = open(&disk, false, 0);
    let (idle, busy) = logs.split_first().unwrap();
    busy.iter().for_each(|log| append_many(log, 1));
    disk.fail(Fault::error(Op::SyncAll, Errno::IO));
    assert!(matches!(Log::flush_all(&logs), Err(LogError::ReadOnly { .. })));
    for log in busy {
        assert!(log.failure().is_some());
        assert_eq!(log.bounds().high_watermark, Offset(0));
        // Nor does a sync that succeeds now say anything about them.
        assert!(matches!(log.flush(), Err(LogError::ReadOnly { .. })));
    }
    assert!(idle.failure().is_none(), "it had nothing to lose");
    append(idle);
    idle.flush().unwrap();
    assert!(Log::close_all(&logs).iter().filter(|closed| closed.is_ok()).count() == 1);
}

#[test]
fn a_close_of_all_takes_a_few_syncs_and_leaves_them_clean() {
    let disk = SimDisk::new(1);
    let logs = open(&disk, false, 0);
    logs.iter().for_each(|log| append_many(log, 2));
    let (own, names) = (count(&disk, "Sync"), count(&disk, "SyncDir"));
    assert!(Log::close_all(&logs).iter().all(Result::is_ok));
    assert_eq!((count(&disk, "Sync"), count(&disk, "SyncDir")), (own, names));
    drop(logs);
    disk.crash_with(Survival::Nothing, 1);
    // What a clean stop promises holds: without the last segment of a log the checkpoint alone tells that it is missing.
    assert!(disk.remove(&PathBuf::from("/data/7/00000000000000000000.wal")));
    let logs = open(&disk, true, 0);
    assert!(logs.iter().all(|log| log.bounds().log_end == Offset(2)));
}

#[test]
fn a_failed_sync_at_the_end_is_no_clean_close() {
    let disk = SimDisk::new(1);
    let logs = open(&disk, false, 0);
    append(&logs[0]);
    disk.fail(Fault::error(Op::SyncAll, Errno::IO).after(1));
    assert!(Log::close_all(&logs).iter().all(Result::is_err));
}

#[test]
fn what_a_failed_sync_of_others_took_is_never_answered() {
    type Again = fn(&[Log]);
    let again: [Again; 3] = [
        |logs| drop(Log::flush_all(logs)),
        |logs| logs.iter().for_each(|log| drop(log.flush())),
        |logs| assert!(Log::close_all(logs)[0].is_err(), "that was no clean stop"),
    ];
    for (seed, again) in (0..10).flat_map(|seed| again.map(|again| (seed, again))) {
        let disk = SimDisk::new(seed);
        let logs = open(&disk, false, 0);
        // The first is appended to while the flush of four others has begun, and comes behind it.
        logs[..5].iter().for_each(|log| append_many(log, 1));
        disk.fail(Fault::error(Op::SyncAll, Errno::IO));
        assert!(Log::flush_all(&logs[1..5]).is_err());
        logs[5..].iter().for_each(|log| append_many(log, 1));
        let (late, others) = ([&logs[..1], &logs[5..]].concat(), &logs[5..]);
        again(&late);
        assert!(logs[0].failure().is_some(), "nobody can say whether it is flushed");
        assert_eq!(logs[0].bounds().flushed_end, Offset(0));
        assert!(others.iter().all(|log| log.bounds().high_watermark == Offset(1)), "they had nothing to lose");
        drop((late, logs));
        disk.crash_with(Survival::Nothing, 1);
        assert!(open(&disk, false, 1)[5..].iter().all(|log| log.bounds().log_end == Offset(1)));
    }
}
