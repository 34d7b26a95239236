//! The power is cut at every change that a run makes to the disk, and again while the log recovers from that.

use hermit_log::disk::sim::{Rng, SimDisk};

use crate::for_seeds;
use crate::model::{Model, Promise};
use crate::reading::{check_lookups, read_all};
use crate::rig::{Rig, Stop, open};

/// What was done up to a mutation, one line each.
fn trace_until(disk: &SimDisk, mutations: u64) -> String {
    let trace = disk.trace();
    let number = |line: &str| line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok());
    let lines = trace.lines().filter(|line| number(line).is_some_and(|number| number <= mutations));
    lines.map(|line| format!("{line}\n")).collect()
}

/// One history of the disk that ends in a power cut.
struct Cut<'a> {
    rig: &'a Rig,
    model: &'a Model,
    disk: SimDisk,
    before: Promise,
    after: Promise,
    seed: u64,
    /// Cuts that follow this one.
    depth: usize,
    /// How it came to this.
    story: String,
}

impl Cut<'_> {
    /// Crashes, opens, checks, goes on writing, checks again, and cuts the power once more at some of the changes that this made.
    fn check(self) {
        let mut rng = Rng::new(self.seed);
        let crash_seed = rng.next_u64();
        self.disk.crash(crash_seed);
        let story = || format!("{}crash {crash_seed}, then\n", self.story);
        let left = self.disk.dump();
        // The counting begins again with the new process.
        let disk = self.disk.fork();
        disk.keep_images();
        let fail = |what: &str, why: String, disk: &SimDisk| -> ! {
            panic!("{what}: {why}\n--- what the crash left\n{left}\n--- how it came to this\n{}{}", story(), disk.trace())
        };
        let (log, report) = match open(&disk, &self.rig.clock, &self.rig.plan.config) {
            Ok(opened) => opened,
            Err(error) => fail("the log cannot be opened", format!("{error:?}"), &disk),
        };
        let opened_at = disk.mutations();
        let found = match read_all(&log, rng.below(3000) as u64) {
            Ok(found) => found,
            Err(error) => fail("the log cannot be read", format!("{error:?}"), &disk),
        };
        if !report.fenced.is_empty() {
            fail("nothing has rotted", format!("{report:?}\n{found:#?}"), &disk);
        }
        if let Err(why) = self.model.check(&found, self.before, self.after, self.rig.now()) {
            fail("after the crash", format!("{why}\n{report:?}"), &disk);
        }
        if let Err(stop) = check_lookups(&log, &found, &mut rng) {
            fail("after the crash", format!("{stop:?}"), &disk);
        }
        let model = self.model.resume(&found, self.before, self.after, opened_at);
        let mut rig = self.rig.resume(disk.clone(), log, model, rng.next_u64());
        if self.depth == 0 {
            return;
        }
        for _ in 0..4 {
            if let Err(stop) = rig.step() {
                fail("the log does not go on after the crash", format!("{stop:?}"), &disk);
            }
        }
        if let Err(stop) = rig.flush().and_then(|()| rig.read()) {
            fail("the log does not go on after the crash", format!("{stop:?}"), &disk);
        }
        rig.model.promise(disk.mutations());
        let mut images = disk.take_images();
        for _ in 0..3 {
            if images.is_empty() {
                break;
            }
            let (mutations, image) = images.swap_remove(rng.below(images.len()));
            let (before, after) = rig.model.around(mutations);
            let trace = trace_until(&disk, mutations);
            Cut {
                rig: &rig,
                model: &rig.model,
                disk: image,
                before,
                after,
                seed: rng.next_u64(),
                depth: self.depth - 1,
                story: format!("{}{trace}", story()),
            }
            .check();
        }
    }
}

/// Runs a workload once, keeping the disk as it was after each change, and cuts at each.
fn cut_everywhere(seed: u64) {
    let disk = SimDisk::new(seed);
    disk.keep_images();
    let mut rig = Rig::new(disk.clone(), seed).unwrap_or_else(|stop| panic!("cannot begin: {stop:?}"));
    if let Err(stop) = rig.run() {
        panic!("the run failed: {stop:?}\n{}", disk.trace());
    }
    for (mutations, image) in disk.take_images() {
        let (before, after) = rig.model.around(mutations);
        let trace = trace_until(&disk, mutations);
        Cut {
            rig: &rig,
            model: &rig.model,
            disk: image,
            before,
            after,
            seed: seed.wrapping_mul(1_000_003).wrapping_add(mutations),
            depth: 1,
            story: trace,
        }
        .check();
    }
}

#[test]
fn what_was_answered_survives_a_power_cut_anywhere_and_another_one() {
    for_seeds(12, cut_everywhere);
}

/// The same with the errors that a dying machine gives: nothing that happens on the way out may do harm.
#[test]
fn a_log_that_sees_the_power_go_does_no_harm() {
    for_seeds(60, |seed| {
        let whole = SimDisk::new(seed);
        let mut rig = Rig::new(whole.clone(), seed).unwrap();
        rig.run().unwrap_or_else(|stop| panic!("the run failed: {stop:?}\n{}", whole.trace()));
        let mut rng = Rng::new(seed);
        for _ in 0..4 {
            let at = rng.next_u64() % whole.mutations();
            let disk = SimDisk::new(seed);
            disk.cut_after(at);
            let Ok(mut rig) = Rig::new(disk.clone(), seed) else { continue };
            match rig.run() {
                Ok(()) => {}
                Err(Stop::PowerCut) => {}
                Err(Stop::Failed(error)) => panic!("{error:?}\n{}", disk.trace()),
            }
            let before = rig.model.promises.last().copied().unwrap();
            // The step that failed may have done anything that the whole run's step would have.
            let sent_end = rig.sent_end();
            let client_sent = rig.model.client.len();
            let after = Promise { start: sent_end, end: sent_end.max(before.end), client_sent, ..before };
            let story = format!("{}\n", disk.trace());
            let model = rig.model.clone();
            Cut { rig: &rig, model: &model, disk, before, after, seed: rng.next_u64(), depth: 1, story }.check();
        }
    });
}
