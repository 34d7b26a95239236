//! Many logs on one disk, of which any number is flushed together: a failure that comes of it, or that the kernel met by itself, is told once.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::BytesMut;
use hermit_log::disk::sim::{Fault, Op, Rng, SimDisk, Survival};
use hermit_log::{Batch, Durability, Flusher, Log, LogConfig, LogEnv, ManualClock, Start};
use hermit_proto::{FrameLimits, LeaderEpoch, ProducedFrame};
use rustix::io::Errno;

use crate::for_seeds;
use crate::rig::{Deaf, IDENTITY};

const LOGS: usize = 6;

fn open(disk: &SimDisk) -> Vec<Log> {
    let clock = Arc::new(ManualClock::new(1_000_000_000_000));
    let env = LogEnv::new(Arc::new(disk.clone()), Arc::clone(&clock) as _, Flusher::manual(clock), 64);
    let start = Start { clean: false, leader_epoch: LeaderEpoch::UNKNOWN };
    let open = |number: usize| {
        let durability = if number.is_multiple_of(3) { Durability::Os } else { Durability::Sync };
        let config = LogConfig { segment_bytes: 400, durability, ..LogConfig::default() };
        let dir = PathBuf::from(format!("/data/{number}"));
        Log::open_in(&env, &dir, IDENTITY, config, start, Arc::new(Deaf)).unwrap().0
    };
    (0..LOGS).map(open).collect()
}

fn append(log: &Log) {
    let frame = ProducedFrame::message(7, None, &[7; 100]).to_vec().unwrap();
    let mut batch = Batch::parse(BytesMut::from(&frame[..]), &FrameLimits::default()).unwrap();
    // Those that are read-only take nothing.
    drop(log.append(&mut batch));
}

fn fail_some_and_cut(seed: u64) {
    let mut rng = Rng::new(seed ^ 0x3a2);
    let disk = SimDisk::new(seed);
    let mut logs = open(&disk);
    for _ in 0..60 {
        match rng.below(12) {
            0..=5 => append(&logs[rng.below(LOGS)]),
            6..=8 => {
                let some: Vec<Log> = logs.iter().filter(|_| rng.one_in(2)).cloned().collect();
                if rng.one_in(4) {
                    disk.fail(Fault::error(Op::SyncAll, Errno::IO));
                }
                drop(Log::flush_all(&some));
                disk.heal();
            }
            9 => drop(logs[rng.below(LOGS)].flush()),
            10 if rng.one_in(4) => disk.fail_writeback(),
            _ => {}
        }
        if rng.one_in(20) {
            let flushed: Vec<_> = logs.iter().map(|log| log.bounds().flushed_end).collect();
            drop(logs);
            if rng.one_in(2) {
                disk.crash_with(Survival::Nothing, 0);
            } else {
                disk.crash(rng.next_u64());
            }
            logs = open(&disk);
            for (number, (log, flushed)) in logs.iter().zip(&flushed).enumerate() {
                let found = log.bounds().log_end;
                assert!(found >= *flushed, "{number} ends at {found}, and was flushed to {flushed}\n{}", disk.trace());
            }
        }
    }
}

#[test]
fn what_was_flushed_beside_failures_of_others_survives() {
    for_seeds(300, fail_some_and_cut);
}
