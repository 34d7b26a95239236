//! Power cuts at every change of the disk, twice in a row, against a model of what was answered.
//!
//! `HERMIT_SEED=n` replays one case, `HERMIT_CASES=n` runs so many.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    unreachable_pub,
    reason = "a test"
)]

mod actions;
mod check;
mod model;
mod world;

use hermit_log::disk::sim::Rng;

use model::Model;
use world::World;

/// Actions of one case.
const ACTIONS: usize = 60;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs `case` for each seed, and tells the seed of the one that fails.
fn for_each_seed(default_cases: u64, case: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let seeds = match number("HERMIT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HERMIT_CASES").unwrap_or(default_cases),
    };
    for seed in seeds {
        if let Err(failure) = std::panic::catch_unwind(|| case(seed)) {
            eprintln!("failed with HERMIT_SEED={seed}");
            std::panic::resume_unwind(failure);
        }
    }
}

#[test]
fn nothing_answered_is_lost_and_nothing_is_invented_wherever_the_power_goes() {
    for_each_seed(2, |seed| {
        let mut rng = Rng::new(seed);
        let world = World::new(seed);
        let mut model = Model::default();
        let broker = world.open(1).unwrap();
        world.disk.keep_images();
        for _ in 0..ACTIONS {
            actions::act(&world, &broker, &mut model, &mut rng).unwrap();
        }
        drop(broker);
        for (mutations, disk) in world.disk.take_images() {
            let image = World::on(disk, &world.clock);
            image.disk.crash(seed ^ mutations);
            cut_again(&image, &model, mutations, &mut rng);
            let broker = image.open(2).unwrap_or_else(|error| panic!("cut at {mutations}: {error}"));
            check::check(&image, &broker, &model, mutations);
        }
    });
}

/// The power goes a second time, while the broker starts or soon after; what holds before must hold after.
fn cut_again(first: &World, model: &Model, mutations: u64, rng: &mut Rng) {
    let world = World::on(first.disk.fork(), &first.clock);
    let cut_at = rng.below(80) as u64;
    world.disk.cut_after(cut_at);
    let (mut after, mut until) = (model.clone(), mutations);
    let opened = world.open(3).ok();
    // A start gets by with a disk on which nothing works any more; there is nothing to be asked of it then.
    if let Some(broker) = opened.filter(|_| world.disk.mutations() <= cut_at) {
        after = check::survivors(&broker, model, mutations);
        until = u64::MAX;
        for _ in 0..ACTIONS {
            if actions::act(&world, &broker, &mut after, rng).is_err() {
                break;
            }
        }
    }
    world.disk.crash(rng.next_u64());
    let broker = world.open(4).unwrap_or_else(|error| panic!("cut at {mutations}, and again at {cut_at}: {error}"));
    check::check(&world, &broker, &after, until);
}

#[test]
fn a_failed_sync_answers_nothing_and_the_rest_goes_on() {
    use hermit_log::disk::sim::{Fault, Op};
    for_each_seed(20, |seed| {
        let mut rng = Rng::new(seed);
        let world = World::new(seed);
        let mut model = Model::default();
        let broker = world.open(1).unwrap();
        for _ in 0..ACTIONS / 2 {
            actions::act(&world, &broker, &mut model, &mut rng).unwrap();
        }
        world.disk.fail(Fault::error(Op::Sync, rustix::io::Errno::IO).after(rng.below(6) as u64));
        for _ in 0..ACTIONS {
            // What fails is told, and must not have been answered.
            let _told = actions::act(&world, &broker, &mut model, &mut rng);
        }
        drop(broker);
        world.disk.heal();
        world.disk.kill();
        world.disk.crash(seed);
        let broker = world.open(2).unwrap();
        check::check(&world, &broker, &model, u64::MAX);
    });
}
