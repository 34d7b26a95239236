// Runs a target over its stored corpus, and over simple mutations of that, on the compiler at hand. Included by the tests of the crates.

use std::fs;
use std::path::Path;

/// What the mutations of one corpus may come to, in all.
const MAX_RUNS: usize = 200;

/// Every stored input as it is, and some of them cut, and with single bytes changed.
pub(super) fn run(name: &str, target: fn(&[u8])) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut seeds: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    seeds.sort();
    assert!(!seeds.is_empty(), "{} is empty", directory.display());
    let seeds: Vec<_> = seeds.iter().map(|path| fs::read(path).unwrap()).collect();
    let each = (MAX_RUNS / seeds.len()).max(1);
    for seed in &seeds {
        target(seed);
        let step = (seed.len() / each).max(1);
        for at in (0..seed.len()).step_by(step) {
            target(&seed[..at]);
            let mut mutated = seed.clone();
            mutated[at] = !mutated[at];
            target(&mutated);
        }
    }
}
