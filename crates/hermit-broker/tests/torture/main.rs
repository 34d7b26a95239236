//! The whole broker on a disk that fails, fills up, and loses its power, against a model of what was answered.
//!
//! `HERMIT_SEED=n` replays one case, `HERMIT_CASES=n` runs so many, from that seed on if both are given. `cargo xtask torture --sim N` runs them at full speed.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a test"
)]

mod actions;
mod case;
mod check;
mod members;
mod model;
mod outcome;
mod positions;
mod records;
mod tally;
mod users;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use case::Case;
use tally::Tally;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds(default_cases: u64) -> Range<u64> {
    let (first, cases) = (number("HERMIT_SEED"), number("HERMIT_CASES"));
    let first_seed = first.unwrap_or(0);
    let cases = cases.unwrap_or(if first.is_some() { 1 } else { default_cases });
    first_seed..first_seed.saturating_add(cases)
}

/// Runs a case, and tells how it came to its failure, if it fails.
fn run(seed: u64) -> Tally {
    let mut case = Case::new(seed);
    if let Err(failure) = catch_unwind(AssertUnwindSafe(|| case.run())) {
        eprintln!("{}\nfailed with HERMIT_SEED={seed}", case.world.story());
        resume_unwind(failure);
    }
    case.tally
}

#[test]
fn torture() {
    let seeds = seeds(1500);
    let began = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let tally = Mutex::new(Tally::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return;
            }
            let of_case = run(seed);
            tally.lock().unwrap().add(of_case);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let tally = tally.into_inner().unwrap();
    tally.print(began.elapsed());
    assert_eq!(tally.cases, seeds.end - seeds.start);
}
