//! Files that fail: errors, short writes, failed syncs, a full disk. What was answered stays; what failed says so.

use hermit_log::disk::sim::{Fault, Op, Rng, SimDisk, Survival};
use rustix::io::Errno;

use crate::for_seeds;
use crate::model::Promise;
use crate::reading::read_all;
use crate::rig::{Rig, Stop, open};

fn some_fault(rng: &mut Rng) -> Fault {
    const OPS: [Op; 11] = [
        Op::Write,
        Op::Write,
        Op::Sync,
        Op::SyncDir,
        Op::SyncAll,
        Op::Create,
        Op::Open,
        Op::Rename,
        Op::RemoveFile,
        Op::SetLen,
        Op::Read,
    ];
    const PARTS: [&str; 5] = ["", "", ".wal", ".idx", ".tmp"];
    let op = OPS[rng.below(OPS.len())];
    let fault = match op {
        Op::Write if rng.one_in(2) => Fault::short_write(rng.below(200)),
        Op::Write => Fault::error(op, if rng.one_in(2) { Errno::NOSPC } else { Errno::IO }),
        Op::Create | Op::Open => Fault::error(op, if rng.one_in(2) { Errno::MFILE } else { Errno::IO }),
        _ => Fault::error(op, Errno::IO),
    };
    fault.on(PARTS[rng.below(PARTS.len())]).after(rng.below(4) as u64).times(1 + rng.below(3) as u64)
}

/// The process ends and begins again, with or without a power cut, and what it finds is checked. Then all it showed must last.
fn restart(rig: &mut Rig, rng: &mut Rng) {
    rig.disk.heal();
    rig.disk.set_capacity(None);
    let before = rig.model.promises.last().copied().unwrap_or_default();
    let end = rig.sent_end().max(before.end);
    let client_sent = rig.model.client.len();
    let after = Promise { start: rig.attempted_start.max(before.start), end, client_sent, ..before };
    let power_cut = rng.one_in(2);
    if power_cut {
        rig.disk.crash(rng.next_u64());
    } else {
        rig.disk.kill();
    }
    let left = rig.disk.dump();
    let fail = |what: &str| -> ! {
        panic!(
            "after a fault and a restart (power cut: {power_cut}): {what}\n--- found\n{left}\n--- what was done\n{}",
            rig.disk.trace()
        )
    };
    let (log, report) = open(&rig.disk, &rig.clock, &rig.plan.config).unwrap_or_else(|stop| fail(&format!("{stop:?}")));
    let found = read_all(&log, rng.below(2000) as u64).unwrap_or_else(|stop| fail(&format!("{stop:?}")));
    if !report.fenced.is_empty() {
        fail(&format!("nothing has rotted: {report:?}"));
    }
    if let Err(why) = rig.model.check(&found, before, after, rig.now()) {
        fail(&format!("{why}\n{report:?}"));
    }
    let model = rig.model.resume(&found, before, after, rig.disk.mutations());
    let disk = rig.disk.clone();
    *rig = rig.resume(disk, log, model, rng.next_u64());
    // A trim that failed may be seen after the process died, and be undone by a power cut after that: nobody was told that it is done.
    rig.acked_start = Some(before.start).filter(|start| !power_cut && *start < found.start);
    rig.note_bounds();
    rig.model.promise(rig.disk.mutations());

    // What has just been read was shown to consumers: from now on even the worst power cut must leave it.
    let image = rig.disk.fork();
    image.crash_with(Survival::Nothing, 0);
    let now = rig.model.now;
    let (log, report) = open(&image, &rig.clock, &rig.plan.config).unwrap();
    let found = read_all(&log, 1000).unwrap();
    let opened = Promise { start: rig.log.bounds().log_start.0, ..now };
    if let Err(why) = rig.model.check(&found, now, opened, rig.now()) {
        panic!("shown, and gone with the power: {why}\n{report:?}\n{left}\n{}\nthen\n{}", rig.disk.trace(), image.trace());
    }
}

fn fail_here_and_there(seed: u64) {
    let mut rng = Rng::new(seed ^ 0xfa17);
    let mut rig = Rig::new(SimDisk::new(seed), seed).unwrap();
    for _ in 0..25 {
        match rng.below(6) {
            0 => rig.disk.set_capacity(Some(rig.disk.used_bytes() + rng.below(600) as u64)),
            1..=3 => rig.disk.fail(some_fault(&mut rng)),
            _ => {}
        }
        let result = rig.step();
        rig.disk.heal();
        rig.disk.set_capacity(None);
        if let Err(stop) = result {
            assert!(matches!(stop, Stop::Failed(_)), "{stop:?}");
            if !rig.down {
                rig.note_bounds();
                rig.model.promise(rig.disk.mutations());
            }
        }
        if rig.down || rig.log.failure().is_some() || rng.one_in(6) {
            restart(&mut rig, &mut rng);
        }
        rig.read().unwrap_or_else(|stop| panic!("{stop:?}\n{}", rig.disk.trace()));
        // Whatever failed is over: the log takes more.
        rig.append().unwrap_or_else(|stop| panic!("{stop:?}\n{}", rig.disk.trace()));
        rig.model.promise(rig.disk.mutations());
    }
}

#[test]
fn what_was_answered_survives_failing_files() {
    for_seeds(150, fail_here_and_there);
}
