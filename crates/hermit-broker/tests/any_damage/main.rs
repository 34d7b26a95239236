//! Files of a data directory deleted, emptied, cut, flipped, swapped and extended, in any combination: what is served is right, what is lost is named, the rest goes on,
//! and an offline repair deals with what is left. `HERMIT_CASES` sets the number of random combinations, `HERMIT_SEED` the first.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test")]

mod check;
mod harm;
mod world;

use hermit_log::disk::sim::Rng;

use crate::check::check;
use crate::harm::{Harm, Kind};
use crate::world::{Stop, World};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

/// As many as a run of all tests has time for.
const FEW: u64 = 60;

#[test]
fn no_single_harm_to_any_file_costs_more_than_it_must() {
    // All of them where many cases are asked for, else each file and each kind some time.
    let step = if number("HERMIT_CASES", FEW) > FEW { 1 } else { 7 };
    for (first, stop) in [Stop::Clean, Stop::Killed].into_iter().enumerate() {
        let world = World::filled(stop);
        let files = world.files();
        for (at, path) in files.iter().enumerate() {
            for (turn, kind) in Kind::ALL.into_iter().enumerate() {
                if (at * Kind::ALL.len() + turn) % step != first % step {
                    continue;
                }
                let mut rng = Rng::new((at * Kind::ALL.len() + turn) as u64);
                check(&world, &[Harm::new(path, kind, &files, &mut rng)]);
            }
        }
    }
}

#[test]
fn torture_no_combination_of_harms_costs_more_than_it_must() {
    let (first, count) = (number("HERMIT_SEED", 0), number("HERMIT_CASES", FEW));
    let worlds = [Stop::Clean, Stop::Killed].map(World::filled);
    let threads = if count > FEW { std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64) } else { 1 };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let worlds = &worlds;
            scope.spawn(move || {
                (first + thread..first + count).step_by(usize::try_from(threads).unwrap()).for_each(|seed| combine(worlds, seed));
            });
        }
    });
}

/// Some harms, mostly within one partition, where one file stands in for another.
fn combine(worlds: &[World; 2], seed: u64) {
    let mut rng = Rng::new(seed);
    let world = &worlds[rng.below(worlds.len())];
    let files = world.files();
    let home = files[rng.below(files.len())].parent().unwrap().to_owned();
    let near: Vec<_> = files.iter().filter(|path| path.parent() == Some(&home)).cloned().collect();
    let harms: Vec<_> = (0..2 + rng.below(4))
        .map(|_| {
            let among = if rng.below(4) > 0 { &near } else { &files };
            let path = &among[rng.below(among.len())];
            Harm::new(path, Kind::ALL[rng.below(Kind::ALL.len())], &files, &mut rng)
        })
        .collect();
    println!("seed {seed}: {} harms", harms.len());
    check(world, &harms);
}
