//! Crash safety, shown on the simulated disk: power cuts at every change, failures, rot.
//!
//! `HERMIT_SEED=n` runs the cases of that seed alone, `HERMIT_CASES=n` that many seeds; a failure prints its seed.
#![expect(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "a test")]

mod cuts;
mod faults;
mod many;
mod model;
mod reading;
mod rig;
mod rot;

/// Runs `case` with each seed, and tells which one failed.
fn for_seeds(default_cases: u64, case: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match number("HERMIT_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HERMIT_CASES").unwrap_or(default_cases),
    };
    for seed in seeds {
        if let Err(panic) = std::panic::catch_unwind(|| case(seed)) {
            eprintln!("to repeat: HERMIT_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}
